"""TMX: by hand, as laws over invented memories, and what is refused."""

import gzip
import tracemalloc
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.corpus import read_pairs, streams
from nmtkit.errors import UserError

HEAD = '<tmx version="1.4"><header srclang="*all*"><note>a note</note></header><body>'
TAIL = "</body></tmx>"


def memory(*units):
    """A whole TMX file of units, each a list of (language, content of seg)."""
    rows = []
    for unit in units:
        variants = (
            f'<tuv xml:lang="{name}"><prop type="x">p</prop><seg>{seg}</seg></tuv>'
            for name, seg in unit
        )
        rows.append(f"<tu><note>n</note>\n{''.join(variants)}</tu>\n")
    return HEAD + "".join(rows) + TAIL


@pytest.fixture
def read(tmp_path):
    def read(content, source="en", target="fr", name="x.tmx"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(read_pairs(path, source, target))

    return read


@pytest.mark.parametrize(
    ("seg", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        ("a &amp; b &lt;c&gt; &#233;&#x2028;", "a & b <c> é\u2028"),
        ("<![CDATA[a < b]]> c", "a < b c"),
        ("a <hi>very <hi>big</hi></hi> house", "a very big house"),
        ('a <bpt i="1">&lt;b&gt;</bpt>bold<ept i="1">&lt;/b&gt;</ept> word', "a bold word"),
        ('x<ph type="image">alt <sub>inner <hi>deep</hi></sub></ph>y<it pos="begin">z</it>', "xy"),
        ("a<ut>{\\b</ut> b<!-- c --><?d e?>", "a b"),
        ("<bpt>1<sub>2<ph>3</ph>4</sub>5</bpt>6", "6"),
        ("\n   two\r\n\t lines  here\n", "two lines here"),
        ("a <other>b</other>", "a b"),
        ("non\u00a0breaking \u3000", "non\u00a0breaking \u3000"),
    ],
)
def test_the_text_of_a_segment(read, seg, text):
    assert read(memory([("en", seg), ("fr", "x")])) == [(text, "x")]


def test_languages(read):
    content = memory(
        [("EN-us", "1"), ("fr_CA", "2")],
        [("de", "3"), ("fr", "4")],
        [("enm", "5"), ("fr", "6")],
        [("FR", "7"), ("en", "8"), ("de", "9")],
    )
    assert read(content) == [("1", "2"), ("8", "7")]
    assert read(content, "en-US", "FR") == [("1", "2")]
    assert read(content, "de", "fr") == [("3", "4"), ("9", "7")]
    with pytest.raises(UserError, match=r"both en-GB and fr \(.*: EN-us, FR, de, en, enm, fr, fr_"):
        read(content, "en-GB")
    with pytest.raises(UserError, match=r"languages found: none"):
        read(HEAD + TAIL)


def test_several_variants(read):
    both = [("en", "a"), ("en-GB", "b"), ("fr", "x")]
    assert read(memory(both)) == [("a", "x"), ("b", "x")]
    assert read(memory(both), "fr", "en") == [("x", "a"), ("x", "b")]
    three = [("fr", "x"), ("en", "a"), ("fr", "y"), ("en", "b"), ("fr", "z"), ("en", "c")]
    assert read(memory(three)) == [("a", "x"), ("b", "y"), ("c", "z")]
    assert read(memory(three[:-1])) == [("a", "x"), ("b", "y"), ("b", "z")]
    assert read(memory([("en-GB", "a"), ("en-US", "b")]), "en-GB", "en") == [("a", "a"), ("a", "b")]


def test_the_attribute_of_before_1_4(read):
    unit = (
        '<tu><tuv lang="EN"><seg>a</seg></tuv><tuv lang="FR" xml:lang="fr"><seg>b</seg></tuv></tu>'
    )
    assert read(HEAD + unit + TAIL) == [("a", "b")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "cp1251"])
def test_encodings(read, encoding):
    word = "жук" if encoding == "cp1251" else "été"
    name = {"utf-8-sig": "utf-8", "cp1251": "windows-1251"}.get(encoding, encoding)
    head = f'<?xml version="1.0" encoding="{name}"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
    content = (head + memory([("en", "a"), ("fr", word)])).encode(encoding)
    assert read(content) == [("a", word)]
    assert read(gzip.compress(content), name="x.tmx.gz") == [("a", word)]
    assert read(gzip.compress(content)) == [("a", word)]


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))


@pytest.mark.parametrize(
    ("content", "where", "message"),
    [
        ("<tmx>\n<body>\n</tmx>", 3, "malformed XML (mismatched tag)"),
        (HEAD, 1, "malformed XML (no element found)"),
        ("", 1, "malformed XML (no element found)"),
        ("\n\nplain text", 3, "malformed XML (syntax error)"),
        (memory([("en", "a & b")]), 2, "malformed XML (not well-formed (invalid token))"),
        (memory([("en", "&#1;")]), 2, "malformed XML (reference to invalid character number)"),
        (memory([("en", "&nbsp;")]), 2, "malformed XML (undefined entity)"),
        ('<!DOCTYPE tmx SYSTEM "t.dtd">\n' + memory([("en", "&nbsp;")]), 3, "&nbsp; is not decl"),
        (b"<tmx>\n\xff</tmx>", 2, "malformed XML (not well-formed (invalid token))"),
        ("<html>\n</html>", 1, "not TMX: the root is <html>"),
        ("<tmx><tu>\n<tuv><seg/></tuv></tu></tmx>", 2, "a <tuv> has no xml:lang"),
        (f'<!DOCTYPE tmx [\n<!ENTITY l0 "ha">{LAUGHS}]><tmx>&l9;</tmx>', 2, "declares an entity"),
        ('<!DOCTYPE tmx [\n<!ENTITY e SYSTEM "/etc/passwd">]><tmx>&e;</tmx>', 2, "an entity ('e')"),
        ('<!DOCTYPE tmx [\n<!ENTITY % e "a">%e;]><tmx/>', 2, "declares an entity ('e')"),
        ('<?xml version="1.0" encoding="shift_jis"?><tmx/>', 1, "unusable encoding (multi-byte"),
        ('<?xml version="1.0" encoding="foo"?><tmx/>', 1, "unusable encoding (unknown encoding"),
    ],
)
def test_refused(read, tmp_path, content, where, message):
    with pytest.raises(UserError) as caught:
        read(content)
    assert f"{tmp_path}/x.tmx:{where}: " in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_are_found_or_told(read, tmp_path):
    with pytest.raises(UserError, match=r"y\.tmx\.gz does not exist: give a \.tsv or \.tmx"):
        read_pairs(tmp_path / "y.tmx.gz", "en", "fr")
    with pytest.raises(UserError, match="damaged or truncated gzip"):
        read(gzip.compress(memory([("en", "a"), ("fr", "b")]).encode())[:-9])


def test_what_a_dtd_sets_by_default_is_not_believed(read):
    head = '<!DOCTYPE tmx [<!ATTLIST tuv xml:lang CDATA "en">]>'
    with pytest.raises(UserError, match="has no xml:lang"):
        read(head + "<tmx><tu><tuv><seg>a</seg></tuv></tu></tmx>")


TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff")
)
PARTS = st.lists(
    st.one_of(
        st.tuples(st.just("text"), TEXT),
        st.tuples(st.sampled_from(["hi", "x:y"]), TEXT),
        st.tuples(st.sampled_from(["bpt", "ept", "ph", "it", "ut"]), TEXT),
    ),
    max_size=4,
)
LANGUAGES = st.sampled_from(["en", "fr", "EN-us", "de"])
UNITS = st.lists(st.lists(st.tuples(LANGUAGES, PARTS), max_size=4), max_size=6)


@given(UNITS, st.integers(2, 200))
def test_units_written_are_pairs_read(tmp_path_factory, units, block):
    """Whatever the units hold, and wherever the blocks that are read end."""
    units = [*units, [("en", [("text", "a")]), ("fr", [("text", "b")])]]
    content = memory(*[[(name, "".join(map(markup, parts))) for name, parts in u] for u in units])
    path = tmp_path_factory.mktemp("tmx") / "x.tmx"
    path.write_bytes(content.encode())
    expected = []
    for unit in units:
        sides = [
            [plain(parts) for name, parts in unit if name[:2].lower() == language]
            for language in ("en", "fr")
        ]
        if all(sides):
            for place in range(max(map(len, sides))):
                expected.append(tuple(side[min(place, len(side) - 1)] for side in sides))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "BUFFER", block)
        assert list(read_pairs(path, "en", "fr")) == expected


def markup(part):
    kind, text = part
    attribute = quoteattr(text)
    return escape(text) if kind == "text" else f"<{kind} x={attribute}>{escape(text)}</{kind}>"


def plain(parts):
    kept = "".join(text for kind, text in parts if kind in ("text", "hi", "x:y"))
    return " ".join(word for word in kept.split(" ") if word)


@given(st.binary(max_size=60), st.integers(0, 10**6))
def test_damaged_files_are_told_in_one_line(tmp_path_factory, junk, place):
    whole = memory([("en", "a <hi>b</hi>"), ("fr", "c")], [("en", "d"), ("fr", "&amp;")]).encode()
    place %= len(whole)
    path = tmp_path_factory.mktemp("tmx") / "x.tmx"
    path.write_bytes(whole[:place] + junk + whole[place + len(junk) :])
    told, pairs = "", []
    try:
        pairs = list(read_pairs(path, "en", "fr"))
    except UserError as error:
        told = str(error)
    assert "\n" not in told
    assert bool(told) != bool(pairs)
    assert all("\n" not in side for pair in pairs for side in pair)


def test_memory_does_not_grow_with_the_file(tmp_path):
    variants = (f'<tuv xml:lang="{name}"><seg>some words</seg></tuv>' for name in ("en", "fr"))
    unit = f"<tu>{''.join(variants)}</tu>"
    path = tmp_path / "long.tmx.gz"
    with gzip.open(path, "wt") as file:
        file.write(HEAD)
        for _ in range(300):
            file.write(unit * 100)
        file.write(TAIL)
    tracemalloc.start()
    assert sum(1 for _ in read_pairs(path, "en", "fr")) == 30_000
    worst = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert worst < 3 << 20  # the file is 3 MB long, and a block 256 KiB
