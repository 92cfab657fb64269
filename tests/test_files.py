import hashlib
import os

import pytest

from nmtkit.errors import UserError
from nmtkit.files import (
    atomic_writer,
    check_output_folder,
    clean_line,
    count_controls,
    output_folder,
    read_json,
    sha256,
    write_json,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_text_is_utf8_with_newlines_kept(tmp_path):
    path = tmp_path / "a.txt"
    with atomic_writer(path) as file:
        file.write("ä\u2028\r\n")
        assert not path.exists()
    assert path.read_bytes() == b"\xc3\xa4\xe2\x80\xa8\r\n"


def test_bytes(tmp_path):
    with atomic_writer(tmp_path / "a", "wb") as file:
        file.write(b"\x00\r\n")
    assert (tmp_path / "a").read_bytes() == b"\x00\r\n"


def test_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with atomic_writer(path) as file:
            file.write("new")
            raise KeyboardInterrupt  # no Exception

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_permissions_are_those_of_any_other_file(tmp_path):
    (tmp_path / "plain").write_text("")
    with atomic_writer(tmp_path / "ours"):
        pass
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "plain").chmod(0o600)
    with atomic_writer(tmp_path / "plain"):
        pass
    assert (tmp_path / "plain").stat().st_mode & 0o777 == 0o600


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    with atomic_writer(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("name", ["missing/a", ""])
def test_no_place_for_a_file(tmp_path, name):
    with pytest.raises(UserError, match=r"missing|folder"), atomic_writer(tmp_path / name):
        pass


def test_a_folder_appears_whole(tmp_path):
    out = tmp_path / "deep" / "out"
    with output_folder(out) as folder:
        (folder / "a").write_text("1")
        assert not out.exists()
    assert names(out) == ["a"]
    assert names(tmp_path / "deep") == ["out"]


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "out").mkdir()
    with output_folder(tmp_path / "out") as folder:
        (folder / "a").write_text("1")
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["a"]


def test_a_full_folder_is_kept_unless_overwrite_succeeds(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").write_text("1")
    message = "exists and is not empty: choose another folder or say --overwrite"
    with pytest.raises(UserError, match=message), output_folder(out):
        pass

    def fail():
        with output_folder(out, overwrite=True) as folder:
            (folder / "new").write_text("2")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert names(out) == ["old"]
    with output_folder(out, overwrite=True) as folder:
        (folder / "new").write_text("2")
        assert names(out) == ["old"]
    assert names(out) == ["new"]
    assert names(tmp_path) == ["out"]


def test_a_folder_filled_meanwhile_is_not_lost(tmp_path):
    out = tmp_path / "out"

    def fill():
        with output_folder(out) as folder:
            (folder / "ours").write_text("1")
            out.mkdir()
            (out / "theirs").write_text("2")

    with pytest.raises(UserError, match="not empty"):
        fill()
    assert names(out) == ["theirs"]
    assert names(tmp_path) == ["out"]


def test_folder_permissions(tmp_path):
    (tmp_path / "plain").mkdir()
    with output_folder(tmp_path / "out"):
        pass
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_file_or_a_broken_link_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match="not a folder"):
        check_output_folder(tmp_path / "file", overwrite=True)
    with pytest.raises(UserError, match="broken link"):
        check_output_folder(tmp_path / "link", overwrite=True)


def test_json_comes_back_in_order_and_readable(tmp_path):
    path = tmp_path / "a.json"
    value = {"b": [1, 2.5, None], "a": {"ä\u2028": "\r"}}
    write_json(path, value)
    assert list(read_json(path, "manifest")) == ["b", "a"]
    assert read_json(path, "manifest") == value
    assert "ä".encode() in path.read_bytes()
    with pytest.raises(ValueError):
        write_json(path, {"x": float("nan")})
    assert read_json(path, "manifest") == value


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b"3", b"\xff", b'{"a": NaN}', b'{"a": Infinity}', b"[" * 100_000],
)
def test_broken_json(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"a\.json: the manifest (is not valid|must be)") as caught:
        read_json(path, "manifest")
    assert "\n" not in str(caught.value)


def test_missing_json(tmp_path):
    with pytest.raises(UserError, match=r"cannot read manifest .*a\.json: No such file"):
        read_json(tmp_path / "a.json", "manifest")


def test_sha256(tmp_path):
    content = os.urandom(3 << 20)  # more than one block
    (tmp_path / "a").write_bytes(content)
    assert sha256(tmp_path / "a") == hashlib.sha256(content).hexdigest()
    (tmp_path / "b").write_bytes(b"abc")  # the example of FIPS 180-2, appendix B.1
    assert sha256(tmp_path / "b").startswith("ba7816bf8f01cfea414140de5dae2223")
    with pytest.raises(UserError, match="cannot read"):
        sha256(tmp_path / "none")


def test_clean_line_leaves_nothing_that_ends_a_line():
    everything = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x11000)]))
    cleaned = clean_line(everything)
    assert len(cleaned) == len(everything)
    assert len(cleaned.splitlines()) == 1
    changed = [ord(old) for old, new in zip(everything, cleaned) if old != new]
    assert changed == [*range(32), *range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF]
    assert count_controls(everything) == len(changed)
    assert clean_line("a\u00a0b\u200bc") == "a\u00a0b\u200bc"


def test_overwrite_spares_a_folder_of_another_kind(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    with (
        pytest.raises(
            UserError, match=r"has no manifest\.json\), so --overwrite does not touch it"
        ),
        output_folder(out, overwrite=True, marker="manifest.json"),
    ):
        pass
    assert (out / "thesis.tex").read_text() == "years of work"
    (out / "manifest.json").write_text("{}")
    with output_folder(out, overwrite=True, marker="manifest.json") as folder:
        (folder / "new").write_text("")
    assert [path.name for path in out.iterdir()] == ["new"]
