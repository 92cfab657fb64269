"""README.md and docs/*.md taken apart, and the invented files that their commands name."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import command, raw, toy_links, toy_pairs, worked, write

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# The one change to what a page says: a network is trained small, and for two updates; and as many
# processes as a page does not ask for only cost time here.
SMALL = [
    *(f"--set=model.{name}=8" for name in ("embedding", "encoder_hidden", "hidden", "maxout")),
    *("--set=model.initialisation=glorot", "--updates", "2", "--device", "cpu"),
]
ALIGNERS = ("hmm", "ibm1")


@dataclass(frozen=True)
class Command:
    """A line `nmtkit ARGUMENTS <STDIN >STDOUT` of a page."""

    page: str
    line: str
    arguments: list[str]
    stdin: str | None
    stdout: str | None

    @property
    def makes(self) -> str | None:
        """The new folder of a run."""
        name, *rest = self.arguments
        new = name == "train" and not {"--resume", "--curve"} & set(rest)
        return rest[rest.index("--out") + 1] if new else None

    @property
    def small(self) -> list[str]:
        """The arguments as the test runs them."""
        name, *rest = self.arguments
        if name == "preprocess":
            return [name, *rest, "--workers", "1"]
        trains = name == "train" and ("--config" in rest or not rest[0].startswith("-"))
        return [name, *rest, *SMALL] if trains and not set(ALIGNERS) & set(rest) else [name, *rest]

    def run(self, folder: Path) -> None:
        """In `folder`, which must be the working directory; the command must succeed."""
        given = (folder / self.stdin).read_bytes() if self.stdin else b""
        done = command(*self.small, stdin=given)
        assert done.code == 0, f"{self.page}: {self.line}\n{done.err}"
        if self.stdout:
            (folder / self.stdout).write_text(done.out, encoding="utf-8")


def blocks(page: Path, language: str = "") -> list[str]:
    """The fenced blocks of a page that name this language."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    return [block for named, block in found if named == language]


def commands(page: Path) -> list[Command]:
    """The commands in the blocks of a page, in their order."""
    found = []
    for block in blocks(page):
        for line in block.replace("\\\n", " ").split("\n"):
            if not line.startswith("nmtkit "):
                continue
            words = shlex.split(line, comments=True)[1:]
            streams = {word[0]: word[1:] for word in words if word[0] in "<>"}
            rest = [word for word in words if word[0] not in "<>"]
            name = page.name
            found.append(Command(name, line, rest, streams.get("<"), streams.get(">")))
    return found


def spans(page: Path) -> list[str]:
    """What stands in `code` on a page, and its plain blocks."""
    text = page.read_text(encoding="utf-8")
    inline = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", inline)] + blocks(page)


def invent(folder: Path) -> None:
    """The files and models that the pages take for granted, of the toy language under all names."""
    text = folder / "text"
    text.mkdir()
    for number, (name, count) in enumerate(
        (("train", 60), ("dev", 6), ("test", 6), ("all", 40)), 1
    ):
        pairs = toy_pairs(count, number)
        for language, side in (("en", 0), ("de", 1), ("fr", 1)):
            tokens = [pair[side] for pair in pairs]
            write(text / f"{name}.{language}", tokens if name == "all" else map(raw, tokens))
            if name == "test":
                write(text / f"test.tok.{language}", tokens)
                write(folder / f"test.{language}", tokens)
        links = [toy_links(source) for source, _ in pairs]
        if name == "test":
            # Links count tokens, and the lines of text/test.* are running text: only what is there.
            write(text / "test.gold", links)
            write(folder / "test.gold", links)
            write(folder / "links", ["0-0"] * count)
            write(folder / "eflomal.pharaoh", links)
            write(folder / "mine.pharaoh", ["0-0"] * count)
        _links_of_tools(folder, name, links)
    write(folder / "test.pharaoh", ["0-0"] * 6)
    write(folder / "terms.tsv", ["bamo\tpuro"])
    write(text / "test.html", ["<b>bamo</b> geda", "x &amp; <i>y</i>"])


def _links_of_tools(folder: Path, name: str, links: list[str]) -> None:
    """Files as other aligners leave them, of the test set or of all."""
    if name not in ("test", "all"):
        return
    plain = write(folder / f"{name}.links", links)
    for language in ("de", "fr"):
        sides = [str(folder / "text" / f"{name}.{side}") for side in ("en", language)]
        if name == "test":
            sides = [side.replace("test.", "test.tok.") for side in sides]
        words = ("--source", sides[0], "--target", sides[1])
        turned = ("--source", sides[1], "--target", sides[0])
        convert = ("align", "--convert", plain, "--format")
        if name == "test":
            worked(*convert, "giza", *words, "--out", folder / "giza.A3")
            first = write(folder / "first.links", ["0-0"] * len(links))
            given = ("align", "--convert", first, "--format", "giza", *words)
            worked(*given, "--out", folder / f"giza.en-{language}")
            _inverse(first, turned, folder / f"giza.{language}-en")
            for to in ("mine.naacl", "test.wa"):
                worked(*convert, "naacl", "--out", folder / to)
        else:
            write(folder / "forward.links", links)
            write(folder / "backward.links", links)
            worked(*convert, "giza", *words, "--out", folder / "giza.en-fr.A3")
            _inverse(plain, turned, folder / "giza.fr-en.A3")
        both = ("align", "--forward", plain, "--backward", plain, "--format", "symal", *words)
        worked(*both, "--out", folder / "both.bal")


def _inverse(links: Path, turned: tuple[str, ...], out: Path) -> None:
    """What GIZA++'s inverse training would write: the links and texts exchanged."""
    back = worked("align", "--convert", links, "--swap")
    inverse = write(out.with_name("inverse.links"), back.splitlines())
    worked("align", "--convert", inverse, "--format", "giza", *turned, "--out", out)


def make_models(folder: Path) -> None:
    """Models that a page names and does not make, where the commands of others would make them."""
    text = folder / "text"
    guide = write(folder / "guide.links", (toy_links(pair[0]) for pair in toy_pairs(60, 1)))
    for name, languages, options in (
        ("de-en", ("de", "en"), ()),
        ("en-fr", ("en", "fr"), ()),
        ("aligner", ("en", "de"), ("--preset", "aligner", "--guide", str(guide))),
    ):
        data = folder / "made" / name
        given = ("--source-lang", languages[0], "--target-lang", languages[1], "--out", data)
        worked("preprocess", *given, "--train", text / "train", "--workers", "1")
        worked("train", data, "--out", folder / "models" / name, *options, *SMALL)
