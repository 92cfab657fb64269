import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.errors import UserError
from nmtkit.files import clean_line
from nmtkit.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary

HEAD = "<pad>\t0\n<unk>\t0\n<s>\t0\n</s>\t0\n"


def test_specials_have_the_first_ids():
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert Vocabulary.build({}).tokens([PAD, UNK, BOS, EOS]) == list(SPECIALS)
    assert len(Vocabulary.build({})) == 4


def test_order_is_by_count_then_token():
    counts = {"b": 2, "a": 2, "c": 5, "d": 1}
    vocabulary = Vocabulary.build(counts)
    assert list(vocabulary) == ["c", "a", "b", "d"]
    assert vocabulary.ids(["c", "a", "b", "d"]) == [4, 5, 6, 7]
    assert vocabulary == Vocabulary.build(dict(reversed(counts.items())))


def test_size_counts_ordinary_tokens_and_unknown_counts_the_rest():
    vocabulary = Vocabulary.build({"a": 3, "b": 2, "c": 1, "<s>": 7}, size=2)
    assert list(vocabulary) == ["a", "b"]
    assert vocabulary.counts == (0, 1 + 7, 0, 0, 3, 2)


def test_threshold():
    assert list(Vocabulary.build({"a": 3, "b": 2, "c": 1}, threshold=2)) == ["a", "b"]


def test_a_special_in_the_text_is_unknown():
    vocabulary = Vocabulary.build({"a": 1, "</s>": 9, "<pad>": 9})
    assert vocabulary.ids([*SPECIALS, "a", "z"]) == [UNK, UNK, UNK, UNK, 4, UNK]
    assert "</s>" not in vocabulary
    assert "a" in vocabulary


@pytest.mark.parametrize("i", [-1, 5])
def test_an_id_outside_is_an_error(i):
    with pytest.raises(IndexError):
        Vocabulary.build({"a": 1}).tokens([i])


@pytest.mark.parametrize("token", ["", "a\nb", "a\tb", "\u2028", "<unk>"])
def test_what_cannot_be_a_token(token):
    with pytest.raises(ValueError, match="cannot be a token"):
        Vocabulary([(token, 1)])
    with pytest.raises(ValueError, match="twice"):
        Vocabulary([("a", 1), ("a", 2)])


@given(st.dictionaries(st.text(min_size=1).map(clean_line), st.integers(1, 10**12)))
def test_saved_and_loaded(tmp_path_factory, counts):
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.en"
    vocabulary = Vocabulary.build(counts, size=5)
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary


def test_the_file_is_plain(tmp_path):
    Vocabulary.build({"ä b": 3, "\u00a0": 2}, size=1).save(tmp_path / "v")
    assert (tmp_path / "v").read_text("utf-8") == HEAD.replace("unk>\t0", "unk>\t2") + "ä b\t3\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must begin with <pad>"),
        ("a\t1\n", "must begin with <pad>"),
        (HEAD + "a\t1", "does not end with a newline"),
        (HEAD + "a\n", r"v:5: .*token TAB count"),
        (HEAD + "a\tb\t1\n", r"v:5: .*token TAB count"),
        (HEAD + "a\t-1\n", r"v:5: .*token TAB count"),
        (HEAD + "a\t²\n", r"v:5: .*token TAB count"),
        (HEAD + "a\t1\nb\t1\na\t1\n", r"v:7: 'a' is in the vocabulary twice"),
        (HEAD + "<s>\t1\n", r"v:5: '<s>' cannot be"),
        (HEAD + "\t1\n", r"v:5: '' cannot be"),
        (HEAD + "a\u2028\t1\n", r"v:5: .* cannot be"),
        (HEAD.replace("\n", "\r\n"), r"v:1: .*token TAB count"),
    ],
)
def test_broken_files(tmp_path, content, message):
    (tmp_path / "v").write_bytes(content.encode())
    with pytest.raises(UserError, match=message):
        Vocabulary.load(tmp_path / "v")


def test_missing_or_binary_file(tmp_path):
    with pytest.raises(UserError, match="cannot read vocabulary"):
        Vocabulary.load(tmp_path / "v")
    (tmp_path / "v").write_bytes(b"\xff\n")
    with pytest.raises(UserError, match="not UTF-8"):
        Vocabulary.load(tmp_path / "v")
