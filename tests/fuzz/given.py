"""Valid files of every kind, from which the hostile ones are made."""

from __future__ import annotations

import gzip
import html
import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from nmtkit.links import FORMATS, Gold, LinkedPair, parse_links, read_pairs, write_pairs
from tests.conftest import Pair, raw, toy_links, toy_pairs, worked, write

LANGUAGES = ("--source-lang", "aa", "--target-lang", "zz")
RNN = {"embedding": 8, "encoder_hidden": 8, "hidden": 8, "attention_units": 8, "maxout": 8}
#: A model of each family, and one of another kind of subwords.
MODELS = {
    "rnnsearch": [*(f"model.{name}={size}" for name, size in RNN.items())],
    "transformer": [
        *("model.embedding=8", "model.heads=2", "model.feed_forward=8"),
        *("model.encoder_layers=1", "model.decoder_layers=2"),
    ],
    "luong": ["model.embedding=8", "model.hidden=8", "model.layers=1"],
    "gnmt": [
        *(
            "model.embedding=8",
            "model.hidden=8",
            "model.encoder_hidden=8",
            "model.attention_units=8",
        ),
        *("model.encoder_layers=2", "model.layers=2"),
    ],
}
NETWORK = ["training.select=loss", "training.batch_sentences=32", "training.device=cpu"]


def make(folder: Path) -> Path:
    """All of them, in `folder`."""
    _texts(folder)
    _corpora(folder)
    _models(folder)
    _links(folder)
    _lists(folder)
    return folder


def _texts(folder: Path) -> None:
    for name, count, seed in (("train", 60, 5), ("valid", 5, 6), ("test", 3, 7)):
        pairs = toy_pairs(count, seed)
        sides = [[raw(pair[side]) for pair in pairs] for side in (0, 1)]
        write(folder / f"{name}.aa", sides[0])
        write(folder / f"{name}.zz", sides[1])
        write(folder / f"{name}.tokens.aa", (source for source, _ in pairs))
        write(folder / f"{name}.tokens.zz", (target for _, target in pairs))
        write(folder / f"{name}.links", (toy_links(source) for source, _ in pairs))
    write(folder / "gold", ["0-0"] * 5)  # of the words of valid.aa as they stand there
    few = list(zip(*(_lines(folder / f"train.{language}")[:12] for language in ("aa", "zz"))))
    write(folder / "few.tsv", ("\t".join(pair) for pair in few))
    (folder / "few.tmx").write_text(_tmx(few), encoding="utf-8")
    (folder / "pair").mkdir()
    write(folder / "pair" / "few.aa", (source for source, _ in few))
    write(folder / "pair" / "few.zz", (target for _, target in few))
    content = (folder / "few.tsv").read_bytes()
    (folder / "few.tsv.gz").write_bytes(gzip.compress(content, mtime=0))


def _tmx(pairs: Iterable[Pair]) -> str:
    units = []
    for source, target in pairs:
        one, other = html.escape(source), html.escape(target).replace(" ", " <bpt i='1'>x</bpt>", 1)
        units.append(
            f'<tu><tuv xml:lang="aa"><seg>{one}</seg></tuv>\n'
            f'<tuv lang="ZZ-x"><note>n</note><seg>{other}<ph/></seg></tuv></tu>\n'
        )
    head = '<header segtype="sentence" o-tmf="x"><prop type="x">y</prop></header>'
    return (
        f'<?xml version="1.0"?>\n<tmx version="1.4">{head}<body>\n{"".join(units)}</body></tmx>\n'
    )


def _corpora(folder: Path) -> None:
    files = ("--train", folder / "train", "--valid", folder / "valid", "--workers", 1)
    said = ("preprocess", *LANGUAGES, *files)
    worked(*said, "--merges", 60, "--case", "true", "--out", folder / "corpus")
    pieces = ("--subwords", "sentencepiece", "--merges", 60)
    worked(*said, *pieces, "--out", folder / "corpus.pieces")
    part = ("preprocess", *LANGUAGES, "--train", folder / "few.tsv", "--merges", 20, "--workers", 1)
    for number in (1, 2):
        worked(*part, "--shard", f"{number}/2", "--out", folder / "shards" / str(number))


def _models(folder: Path) -> None:
    models = folder / "models"
    for name, sizes in MODELS.items():
        _train(folder / "corpus", models / name, name, [*sizes, *NETWORK], "--updates", 2)
    _train(folder / "corpus", models / "hmm", "hmm", ["training.epochs=1"])
    pieces = [*MODELS["rnnsearch"], *NETWORK]
    _train(folder / "corpus.pieces", models / "pieces", "rnnsearch", pieces, "--updates", 1)
    for path in models.glob("*/checkpoint*"):
        if path.parent.name != "rnnsearch":
            shutil.rmtree(path)
    (models / "rnnsearch").rename(folder / "run")
    shutil.copytree(folder / "run", models / "rnnsearch")
    for path in models.glob("rnnsearch/checkpoint*"):
        shutil.rmtree(path)


def _train(data: Path, out: Path, arch: str, settings: list[str], *options: object) -> None:
    sets = (f"--set={setting}" for setting in settings)
    worked("train", data, "--out", out, "--arch", arch, *sets, *options)


def _links(folder: Path) -> None:
    """In every format, with words where it has them."""
    sides = [_lines(folder / f"test.tokens.{language}") for language in ("aa", "zz")]
    lines = _lines(folder / "test.links")
    (folder / "links").mkdir()
    for name, form in FORMATS.items():
        with (folder / "links" / name).open("w", encoding="utf-8") as file:
            for number, (source, target, line) in enumerate(zip(*sides, lines), 1):
                links = parse_links(line, "")
                one = sorted(links)[0]
                gold = Gold(links - {one}, links) if form.possible else Gold(links, links)
                known = {one: 0.5} if name in ("json", "naacl") else None
                both = (links, links) if form.directions else None
                words = source.split(" "), target.split(" ")
                file.write(form.lines(LinkedPair(gold, *words, known, both), number))
    with (folder / "links" / "giza.inverse").open("w", encoding="utf-8") as file:
        turned = (pair.swapped() for pair in read_pairs(folder / "links" / "giza", "giza"))
        write_pairs(file, turned, "giza")


def _lists(folder: Path) -> None:
    sources, targets = (_lines(folder / f"test.{language}") for language in ("aa", "zz"))
    nbest = [
        f"{number} ||| {target} ||| LogProb= -1.5 ||| {-0.5 - place}"
        for number, target in enumerate(targets)
        for place in range(2)
    ]
    write(folder / "nbest", nbest)
    words = [
        (source, target)
        for one, other in zip(sources, targets)
        for source, target in zip(one.split(" "), other.split(" "))
    ]
    unique = dict(words[:6])
    write(folder / "glossary.tsv", (f"{source}\t{target}" for source, target in unique.items()))
    write(folder / "dictionary.tsv", (f"{one}\t{other}\t0.5" for one, other in words))
    write(folder / "prefix.zz", (target.split(" ")[0] for target in targets))
    write(folder / "markup.aa", (_marked(source) for source in sources))
    table = [f"data = {json.dumps(str(folder / 'corpus'))}", "[model]", 'architecture = "ibm1"']
    write(folder / "settings.ibm1.toml", [*table, "null = 0.2", "[training]", "epochs = 1"])
    (folder / "settings.rnnsearch.toml").write_bytes((folder / "run" / "config.toml").read_bytes())


def _marked(line: str) -> str:
    words = line.split(" ")
    words[0] = f'<b x="1">{words[0]}</b>'
    return f"<i>{' '.join(words)}</i> &amp;<br/>"


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]
