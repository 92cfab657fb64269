"""The scripts behind recipes/wmt14-enfr and recipes/iwslt14-deen: no network, invented text."""

from __future__ import annotations

import gzip
import importlib
import io
import os
import re
import subprocess
import sys
import tarfile
import urllib.error
from pathlib import Path

import pytest

from nmtkit.errors import UserError

FOLDER = Path(__file__).parent.parent / "recipes"
LANGUAGES = {"wmt14-enfr": ["en", "fr"], "iwslt14-deen": ["de", "en"]}
ADDRESS = "https://example.org/pub/news.tgz"


@pytest.fixture
def corpora(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("corpora")


def no_network(address, timeout):
    raise AssertionError(f"{address} was asked for")


class Answer(io.BytesIO):
    """What a server answers."""

    def __init__(self, data, announced=None):
        super().__init__(data)
        self.headers = {} if announced is None else {"Content-Length": str(announced)}


def packed(path, files):
    """A tar file, compressed where its name says so, of name -> bytes."""
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def row(corpora, name="news", source="dir/n.en", target="dir/n.fr", address=ADDRESS):
    return corpora.Row(name, address, (source, target))


def source_of(corpora, tmp_path, opener=no_network):
    """The folder tmp_path/given, and what is fetched into tmp_path/fetched."""
    return corpora.Source(tmp_path / "given", tmp_path / "fetched", opener)


@pytest.fixture
def given(tmp_path):
    folder = tmp_path / "given"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("recipe", LANGUAGES)
def test_the_table_names_every_file_once_and_in_the_right_language(corpora, recipe):
    rows = corpora.read_rows(FOLDER / recipe / "corpora.tsv")
    files = [(row.address, name) for row in rows for name in row.files]
    assert len(set(files)) == len(files)
    for one in rows:
        assert one.address.startswith(("http://", "https://"))
        for name, language in zip(one.files, LANGUAGES[recipe], strict=True):
            assert re.search(rf"\.{language}(\.gz|\.sgm|\.xml)?$", name)


def test_rows_of_some_names(corpora):
    table = FOLDER / "wmt14-enfr" / "corpora.tsv"
    rows = corpora.read_rows(table, ["dev", "giga-fren"])
    assert [row.name for row in rows] == ["giga-fren", "dev", "dev"]
    assert rows[0].archive == "training-giga-fren.tar"
    with pytest.raises(UserError, match="'gigafren': did you mean 'giga-fren'"):
        corpora.read_rows(table, ["gigafren"])


def test_segments(corpora):
    text = (
        '<srcset setid="x">\n<doc docid="1"><hl>\n<seg id="1">AT&amp;T &lt; 3&quot;</seg>\n</hl>'
        '<p><SEG ID=2> On\r\n dit\u00a0:  « non\u202f» </SEG ><seg id="3"></seg>\n'
        "<seg id='4'>R&D &eacute;</seg></p></doc></srcset>"
    )
    assert corpora.segments(text) == ['AT&T < 3"', "On dit\u00a0: « non\u202f»", "", "R&D &eacute;"]


def test_talks(corpora):
    lines = [
        "<url>http://example.org/1</url>",
        "<keywords>talks, water</keywords>",
        "<speaker>Kokoesco</speaker>",
        "<talkid>1</talkid>",
        "<title>Kokoesco: Wasser</title>",
        "<description>Ein Vortrag.</description>",
        " Guten Abend. ",
        "3 < 4, und <doch> nicht.",
        "",
        '<translator href="http://example.org/t">N. N.</translator>',
    ]
    expected = ["Kokoesco: Wasser", "Ein Vortrag.", "Guten Abend.", "3 < 4, und <doch> nicht.", ""]
    assert list(corpora.talk_lines(lines)) == expected


@pytest.mark.parametrize("announced", [None, 5])
def test_fetch(corpora, tmp_path, announced):
    asked = []

    def opener(address, timeout):
        asked.append(address)
        return Answer(b"12345", announced)

    target = tmp_path / "new" / "a.tgz"
    corpora.fetch(ADDRESS, target, opener)
    assert asked == [ADDRESS]
    assert target.read_bytes() == b"12345"


def test_fetch_keeps_nothing_of_a_download_that_broke_off(corpora, tmp_path):
    with pytest.raises(UserError, match=f"{ADDRESS} broke off after 5 of 9 bytes"):
        corpora.fetch(ADDRESS, tmp_path / "a.tgz", lambda address, timeout: Answer(b"12345", 9))
    assert list(tmp_path.iterdir()) == []


def test_fetch_names_what_it_could_not_have(corpora, tmp_path):
    def opener(address, timeout):
        raise urllib.error.URLError("no route to host")

    with pytest.raises(UserError) as caught:
        corpora.fetch(ADDRESS, tmp_path / "a.tgz", opener)
    assert str(caught.value) == f"could not fetch {ADDRESS} (no route to host)"
    assert list(tmp_path.iterdir()) == []


def test_an_archive_is_fetched_once(corpora, tmp_path, given):
    packed(tmp_path / "there.tgz", {"./dir/n.en": b"One.\nTwo.\n", "dir/n.fr": b"Un.\nDeux.\n"})
    asked = []

    def opener(address, timeout):
        asked.append(address)
        return Answer((tmp_path / "there.tgz").read_bytes())

    source = source_of(corpora, tmp_path, opener)
    for _ in range(2):
        pairs = list(source.pairs(row(corpora)))
        assert pairs == [("One.", "Un."), ("Two.", "Deux.")]
    assert asked == [ADDRESS]
    assert [path.name for path in (tmp_path / "fetched").iterdir()] == ["news.tgz"]


@pytest.mark.parametrize("form", ["archive", "place", "elsewhere", "gz", "gz in the table"])
def test_what_the_folder_has_is_not_fetched(corpora, tmp_path, given, form):
    wanted = row(corpora)
    files = {"dir/n.en": b"A\x85 B\n\nC\n", "dir/n.fr": b"a b\n\nc\n"}
    files = {name: data.replace(b"\x85", "\u2028".encode()) for name, data in files.items()}
    if form == "archive":
        packed(given / "news.tgz", files)
    elif form == "gz in the table":
        wanted = row(corpora, source="dir/n.en.gz", target="dir/n.fr.gz")
        packed(given / "news.tgz", {f"{n}.gz": gzip.compress(d) for n, d in files.items()})
    else:
        place = given / {"place": "dir", "elsewhere": "a/b", "gz": "."}[form]
        place.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            base = Path(name).name
            if form == "gz":
                (place / f"{base}.gz").write_bytes(gzip.compress(data))
            else:
                (place / base).write_bytes(data)
    pairs = list(source_of(corpora, tmp_path).pairs(wanted))
    assert pairs == [("A\u2028 B", "a b"), ("", ""), ("C", "c")]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"dir/n.en": b"A\nB\n", "dir/n.fr": b"a\n"}, r"dir/n\.en has more lines than dir/n\.fr"),
        ({"dir/n.en": b"A\n", "dir/n.fr": b"a\nb\n"}, r"dir/n\.fr has more lines than dir/n\.en"),
        ({"dir/n.en": b"A\n"}, r"there is no dir/n\.fr in .*news\.tgz"),
        ({"dir/n.en": b"", "dir/n.fr": b""}, r"dir/n\.en is empty"),
        ({"dir/n.en": b"A\n", "dir/n.fr": b"\xe9\n"}, r"is not UTF-8"),
        ({"dir/n.en.gz": b"A\n", "dir/n.fr": b"a\n"}, r"news\.tgz is damaged .* remove it"),
        (None, r"news\.tgz is damaged .* remove it"),
    ],
)
def test_bad_archives_are_named(corpora, tmp_path, given, files, message):
    if files is None:
        packed(given / "news.tgz", {"dir/n.en": b"A\n" * 10_000, "dir/n.fr": b"a\n" * 10_000})
        whole = (given / "news.tgz").read_bytes()
        (given / "news.tgz").write_bytes(whole[: len(whole) // 2])
    else:
        packed(given / "news.tgz", files)
    with pytest.raises(UserError, match=message) as caught:
        list(source_of(corpora, tmp_path).pairs(row(corpora)))
    assert "\n" not in str(caught.value)


def test_rows_of_one_name_follow_each_other(corpora, tmp_path, given):
    sgm = '<seg id="1">{}</seg>'
    files = {"d/1.en.sgm": "A", "d/1.fr.sgm": "a", "d/2.en.sgm": "B", "d/2.fr.sgm": "b"}
    packed(given / "news.tgz", {name: sgm.format(text).encode() for name, text in files.items()})
    rows = [row(corpora, "dev", f"d/{n}.en.sgm", f"d/{n}.fr.sgm") for n in (1, 2)]
    source = source_of(corpora, tmp_path)
    assert corpora.write("dev", rows, tmp_path / "out", ["en", "fr"], source)
    assert (tmp_path / "out" / "dev.en").read_text() == "A\nB\n"
    assert (tmp_path / "out" / "dev.fr").read_text() == "a\nb\n"
    (given / "news.tgz").unlink()
    assert not corpora.write("dev", rows, tmp_path / "out", ["en", "fr"], source)  # there already


def run(script, *arguments, stdin=None):
    """A script of the recipes in a process of its own."""
    command = [sys.executable, str(FOLDER / script), *map(str, arguments)]
    return subprocess.run(command, input=stdin, check=False, capture_output=True)


def test_all_that_is_missing_is_said_and_the_rest_is_done(tmp_path, given):
    table = tmp_path / "corpora.tsv"
    nowhere = (tmp_path / "nowhere").as_uri()
    table.write_text(
        f"one\t{nowhere}/a.tgz\ta.en\ta.fr\nnews\t{ADDRESS}\tdir/n.en\tdir/n.fr\n"
        f"two\t{nowhere}/b.tgz\tb.en\tb.fr\n"
    )
    packed(given / "news.tgz", {"dir/n.en": b"A\n", "dir/n.fr": b"a\n"})
    common = ["--languages", "en", "fr", "--from", given, "--archives", tmp_path / "fetched"]
    done = run("corpora.py", table, tmp_path / "out", *common)
    assert done.returncode == 1
    errors = [line for line in done.stderr.decode().split("\n") if line.startswith("corpora.py: ")]
    assert [line.split()[1] for line in errors] == ["one:", "two:", "put"]
    assert f"could not fetch {nowhere}/b.tgz" in errors[1]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["news.en", "news.fr"]
    done = run("corpora.py", table, tmp_path / "out", *common, "--only", "news")
    assert done.returncode == 0
    assert done.stderr.decode().endswith("news: already there\n")


@pytest.mark.parametrize("recipe", LANGUAGES)
def test_a_sample_comes_out_as_it_went_in(corpora, recipe, tmp_path):
    """Through every archive and format of the recipe's table."""
    table, languages = FOLDER / recipe / "corpora.tsv", LANGUAGES[recipe]
    rows = corpora.read_rows(table)
    text = tmp_path / "text"
    text.mkdir()
    sides = [[f"{lang} {n} & <b> «\u00a0x\u00a0»" for n in range(99)] for lang in languages]
    for lang, lines in zip(languages, sides, strict=True):
        data = "".join(f"{line}\n" for line in lines).encode()
        (text / f"train.all.{lang}.gz").write_bytes(gzip.compress(data))
    (text / f"train.a.{languages[0]}.gz").write_bytes(gzip.compress(b"has no other side\n"))
    done = run("sample.py", table, text, text, "--languages", *languages, "--pairs", 3)
    assert done.returncode == 0, done.stderr
    done = run("corpora.py", table, tmp_path, "--languages", *languages, "--from", text)
    assert done.returncode == 0, done.stderr
    # The sample is dealt out archive by archive.
    order = [
        r for name in dict.fromkeys(r.archive for r in rows) for r in rows if r.archive == name
    ]
    for lang, lines in zip(languages, sides, strict=True):
        for name in dict.fromkeys(one.name for one in rows):
            found = (tmp_path / f"{name}.{lang}").read_text(encoding="utf-8")
            places = [index for index, one in enumerate(order) if one.name == name]
            chosen = [line for place in places for line in lines[3 * place : 3 * place + 3]]
            assert found == "".join(f"{line}\n" for line in chosen)


def test_held_out_talks(tmp_path):
    good = [(f"Das ist Satz {n}.", f"This is line {n}.") for n in range(46)]
    bad = [
        ("", "Nothing."),
        ("eins " * 176, "one " * 176),
        ("a b c d", "a b c d e f g"),  # 7 > 1.5 · 4
        ("a b c d e f g", "a b c d"),
    ]
    edges = [("a b c d", "a b c d e f"), ("ja " * 175, "yes " * 175)]
    pairs = [*bad, *good, *edges]
    for side, lang in enumerate(("de", "en")):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        (tmp_path / f"talks.{lang}").write_text(lines)
    done = run("iwslt14-deen/hold_out.py", tmp_path / "talks", tmp_path, "--languages", "de", "en")
    assert done.returncode == 0, done.stderr
    assert done.stderr == b"46 pairs to train, 2 for dev\n"
    assert (tmp_path / "dev.en").read_text() == "This is line 22.\nThis is line 45.\n"
    train = (tmp_path / "train.de").read_text().split("\n")
    assert train[:22] == [pair[0] for pair in good[:22]]
    assert train[44:46] == [pair[0] for pair in edges]


@pytest.mark.parametrize("options", [[], ["--lowercase"]])
def test_tokens(options):
    text = "L'été n'est pas fini.\n\nA\u2028B \x0bC"
    done = run("tokens.py", "--language", "fr", *options, stdin=text.encode())
    assert done.returncode == 0, done.stderr
    expected = "L' été n' est pas fini .\n\nA B C\n"
    assert done.stdout.decode() == (expected.lower() if options else expected)


def dry_run(recipe, *settings):
    """What make would do."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--always-make", "--dry-run", "-C", str(FOLDER / recipe), *settings]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=outside)
    assert done.returncode == 0, done.stderr
    return done.stdout.replace("\\\n\t", "")


def test_the_papers_models():
    lines = dry_run("wmt14-enfr", "NMTKIT=nmtkit", "train").split("\n")
    trained = [line for line in lines if " train " in line]
    updates = {"rnnencdec-30": 846, "rnnsearch-30": 471, "rnnencdec-50": 600, "rnnsearch-50": 288}
    for line, (name, thousands) in zip(trained, updates.items(), strict=True):
        arch, _, length = name.partition("-")
        assert f'train "./prepared/{length}" --arch {arch} --config recipe.toml' in line
        assert f'--updates {thousands}000 --out "./models/{name}"' in line
    prepared = [line for line in lines if " preprocess " in line]
    for line, most in zip(prepared, (30, 50), strict=True):
        assert line.count(" --train ") == 5
        assert f"--subwords none --vocabulary-size 30000 --max-length {most}" in line


def test_other_training_text():
    text = dry_run("wmt14-enfr", "NMTKIT=nmtkit", "TRAIN_TEXT=mine/all", "preprocess")
    assert "--only  dev test" in text
    assert text.count('--train "mine/all" ') == 2
    text = dry_run("wmt14-enfr", "NMTKIT=nmtkit", "CORPORA=selected", "preprocess")
    assert "--only selected dev test" in text
    assert text.count('--train "./data/selected" ') == 2


@pytest.mark.parametrize("recipe", LANGUAGES)
def test_the_small_cut_takes_every_step(recipe, tmp_path):
    text = dry_run(recipe, "SMALL=1", "DATA=text", f"OUT={tmp_path}", "NMTKIT=nmtkit")
    for step in ("sample.py", "corpora.py", " preprocess ", " train ", " translate ", " score "):
        assert step in text
    assert f'--from "{tmp_path}/sample"' in text
