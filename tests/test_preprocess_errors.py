"""`preprocess`: mistakes are told in one line, before the work, and leave everything as it was."""

import pytest

from nmtkit.errors import UserError
from nmtkit.preprocess import PreprocessOptions
from tests.test_preprocess import all_bytes, opened, run, subwords_of, write, write_pairs


def test_nothing_left(tmp_path):
    with pytest.raises(UserError, match=r"left of 2 read .*empty source: 1, too long: 1"):
        run(tmp_path, [("", "a"), ("a b", "a")], max_length=1)
    with pytest.raises(UserError, match=r"left of 1 read .*ratio: 1"):
        run(tmp_path, [("a b c", "a")], max_ratio=2)
    with pytest.raises(UserError, match="the training text is empty"):
        run(tmp_path, [])
    with pytest.raises(UserError, match="the validation text is empty"):
        run(tmp_path, [("a", "b")], valid=[])
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == []


def test_missing_files_are_told_before_the_work(tmp_path):
    with pytest.raises(UserError, match=r"nowhere\.en"):
        run(tmp_path, [("a", "b")], train=(f"{tmp_path}/nowhere",))
    broken = str(tmp_path / "broken.tsv")
    write(tmp_path / "broken.tsv", ["no tab"])
    with pytest.raises(UserError, match=r"nowhere\.tsv"):
        run(tmp_path, [], train=(broken, f"{tmp_path}/nowhere.tsv"))
    with pytest.raises(UserError, match=r"broken\.tsv:1"):
        run(tmp_path, [], train=(broken,))


def test_the_output_is_whole_or_as_before(tmp_path):
    run(tmp_path, [("a", "b")])
    before = all_bytes(tmp_path / "out")
    with pytest.raises(UserError, match="--overwrite"):
        run(tmp_path, [("c", "d")])
    broken = (f"{tmp_path}/train", f"{tmp_path}/broken.tsv")
    write(tmp_path / "broken.tsv", ["no tab"])
    with pytest.raises(UserError, match=r"broken\.tsv:1"):
        run(tmp_path, [("c", "d")], overwrite=True, train=broken)
    assert all_bytes(tmp_path / "out") == before
    run(tmp_path, [("c", "d")], overwrite=True)
    assert subwords_of(opened(tmp_path)) == [(["c"], ["d"])]
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_inputs_are_not_overwritten(tmp_path):
    (tmp_path / "in").mkdir()
    write_pairs(tmp_path / "in" / "train", [("a", "b")])
    write(tmp_path / "in" / "manifest.json", ["{}"])  # without it no folder is replaced at all
    with pytest.raises(UserError, match="choose another --out"):
        run(tmp_path, [], "in", overwrite=True, train=(f"{tmp_path}/in/train",))
    assert (tmp_path / "in" / "train.en").read_text() == "a\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merges": 0}, "merges must be at least 1"),
        ({"max_length": 0}, "max_length must be at least 1"),
        ({"vocabulary_size": 0}, "vocabulary_size must be at least 1"),
        ({"vocabulary_threshold": -1}, "vocabulary_threshold must be at least 1"),
        ({"max_ratio": 0.5}, "max_ratio must be at least 1"),
        ({"max_ratio": float("nan")}, "max_ratio must be at least 1"),
        ({"train": ()}, "train needs at least one file"),
        ({"subwords": "sentencepiece", "vocabulary_threshold": 2}, "has no meaning"),
    ],
)
def test_options_check_themselves(options, message):
    with pytest.raises(ValueError, match=message):
        PreprocessOptions(**{"source_lang": "en", "target_lang": "de", "train": ("x",), **options})


def test_workers_must_be_positive(tmp_path):
    with pytest.raises(UserError, match="--workers must be at least 1"):
        run(tmp_path, [("a", "b")], workers=0)
