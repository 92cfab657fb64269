"""Text: the steps of one side put together, saved and loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from nmtkit.errors import UserError, unknown
from nmtkit.files import CONTROLS, atomic_writer, clean_line, read_json, sha256, write_json
from nmtkit.text import bpe, pieces
from nmtkit.text.bpe import BytePairs, Randomness, check_codes
from nmtkit.text.casing import Truecaser, detruecase
from nmtkit.text.moses import moses
from nmtkit.text.pieces import Pieces
from nmtkit.vocabulary import Vocabulary

Tokenizer = Literal["moses", "none"]
Case = Literal["keep", "lower", "true"]
Subwords = Literal["bpe", "none", "sentencepiece"]
Side = Literal["source", "target"]

TOKENIZERS: tuple[str, ...] = get_args(Tokenizer)
CASES: tuple[str, ...] = get_args(Case)
SUBWORDS: tuple[str, ...] = get_args(Subwords)
SIDES: tuple[Side, ...] = ("source", "target")
Part = TypeVar("Part")

CHOICES = {"tokenizer": TOKENIZERS, "case": CASES, "subwords": SUBWORDS}

FORMAT = 1  # of text.json
CACHED_TOKENS = 1 << 18  # tokens whose subwords are kept in memory


@dataclass(frozen=True)
class TextConfig:
    """How the text of one side is treated."""

    language: str  # a code such as "de": names files, and chooses Moses' rules
    tokenizer: Tokenizer = "moses"
    case: Case = "keep"
    subwords: Subwords = "bpe"
    normalise: bool = False  # Moses' punctuation normaliser; not undone on the way out
    joint: bool = True  # codes or SentencePiece model shared by both sides
    restrict: bool = False  # undo BPE merges whose result is not in the vocabulary

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.language):
            raise ValueError(
                f"language must be a code such as 'en' or 'de-AT' (it names files), "
                f"got {self.language!r}"
            )
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(str(unknown(name, str(getattr(self, name)), choices)))


@dataclass(frozen=True)
class Segmented:
    """A line cut up."""

    tokens: list[str]  # surface tokens, before casing: what copying into a translation copies
    subwords: list[str]
    word_of: list[int]  # for every subword the index of its token


class Text:
    """One side's text: raw line <-> tokens <-> subwords <-> ids."""

    def __init__(
        self,
        config: TextConfig,
        *,
        truecaser: Truecaser | None = None,
        codes: str | None = None,
        pieces: bytes | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        """Parts may be missing while a side is being fitted; a step that needs a missing part
        raises ValueError.

        ``truecaser``: for case "true". ``codes``: the text of a codes file, for subwords "bpe".
        ``pieces``: a SentencePiece model, for subwords "sentencepiece". Raises UserError when
        codes or model are broken.
        """
        self.config = config
        self.truecaser = truecaser
        self.codes = codes
        self.pieces = pieces
        if codes is not None:
            check_codes(codes, f"{config.language} codes")
        self._pieces = None if pieces is None else Pieces(pieces, f"{config.language} pieces")
        self.vocabulary = vocabulary

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary of ids; with ``config.restrict``, of the segmentation too."""
        return self._vocabulary

    @vocabulary.setter
    def vocabulary(self, vocabulary: Vocabulary | None) -> None:
        self._vocabulary = vocabulary
        self._cache: dict[str, tuple[str, ...]] = {}
        restricted = self.config.restrict and vocabulary is not None
        allowed = frozenset(vocabulary) if restricted and vocabulary is not None else None
        self._bpe = None if self.codes is None else BytePairs(self.codes, allowed)

    @property
    def parts(self) -> tuple[Any, ...]:
        """All that it is made of: texts with equal parts read and write alike."""
        return self.config, self.truecaser, self.codes, self.pieces, self.vocabulary

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, self.parts

    # The way in

    def tokenise(self, line: str) -> list[str]:
        """The surface tokens of a raw line: cleaned, normalised where configured, cut by Moses'
        rules or ("none") at ASCII spaces alone. No token is empty or holds a control character.
        """
        line = clean_line(line)
        if self.config.normalise:
            line = moses(self.config.language).normalise(line)
        if self.config.tokenizer == "moses":
            return moses(self.config.language).tokenise(line)
        return [token for token in line.split(" ") if token]

    def fold(self, tokens: Sequence[str]) -> list[str]:
        """``tokens`` as the model sees them, one for one: lowercased or truecased."""
        if self.config.case == "lower":
            folded = [token.lower() for token in tokens]
        elif self.config.case == "true":
            folded = _needed(self.truecaser, "a truecaser").apply(tokens)
        else:
            folded = list(tokens)
        if self.config.subwords == "sentencepiece":
            folded = [token.replace(pieces.MARK, "_") for token in folded]
        return folded

    def segment(self, line: str) -> Segmented:
        """A raw line cut into tokens and subwords; an empty line has none."""
        return self._segment(self.tokenise(line))

    def segment_tokens(self, tokens: Sequence[str]) -> Segmented:
        """Given tokens cut into subwords; the tokenizer is not asked.

        A token of nothing but spaces and controls has no subword; in others they are left out.
        ``word_of`` indexes ``tokens``, which come back as they are.
        """
        cleaned = [CONTROLS.sub("", token).replace(" ", "") for token in tokens]
        kept = [index for index, token in enumerate(cleaned) if token]
        cut = self._segment([cleaned[index] for index in kept])
        return Segmented(list(tokens), cut.subwords, [kept[word] for word in cut.word_of])

    def subwords_of(
        self, token: str, dropout: float = 0.0, random: Randomness | None = None
    ) -> tuple[str, ...]:
        """The subwords of a folded, non-empty token.

        ``dropout``: BPE-dropout (Provilkov et al., 2020): a possible merge is left out with this
        probability, drawn from ``random`` (``random.Random`` or a NumPy Generator) and nothing
        else. Results without dropout are cached. Raises ValueError for dropout without "bpe".
        """
        if dropout:
            if self.config.subwords != "bpe":
                raise ValueError(f"dropout needs subwords 'bpe', not {self.config.subwords!r}")
            return _needed(self._bpe, "BPE codes").split(token, dropout, random)
        subwords = self._cache.get(token)
        if subwords is None:
            subwords = self._split(token)
            if len(token) <= bpe.LONGEST:
                if len(self._cache) >= CACHED_TOKENS:
                    self._cache.clear()
                self._cache[token] = subwords
        return subwords

    def ids(self, line: str | Segmented) -> list[int]:
        """The ids of a line's subwords, without EOS."""
        cut = self.segment(line) if isinstance(line, str) else line
        return _needed(self.vocabulary, "a vocabulary").ids(cut.subwords)

    def numbers(self, line: str | Segmented) -> list[int]:
        """As `ids`, but a number below 0 for every unknown subword, which tells it from others."""
        cut = self.segment(line) if isinstance(line, str) else line
        return _needed(self.vocabulary, "a vocabulary").numbers(cut.subwords)

    # The way out

    def words(self, subwords: Sequence[str]) -> list[str]:
        """The (folded) tokens that ``subwords`` make."""
        return self.words_with_map(subwords)[0]

    def words_with_map(self, subwords: Sequence[str]) -> tuple[list[str], list[int]]:
        """The (folded) tokens that ``subwords`` make, and for every subword the index of its token.

        Takes whatever a model may write. -1 only when there is no token at all.
        """
        if self.config.subwords == "bpe":
            return bpe.join(list(subwords))
        if self.config.subwords == "sentencepiece":
            return pieces.join(list(subwords))
        return list(subwords), list(range(len(subwords)))

    def restore(self, tokens: Sequence[str]) -> str:
        """A line of running text from tokens: sentence starts in capitals (case "true"), no spaces
        before punctuation (tokenizer "moses"). It holds no newline or other control character.
        """
        words = [word for word in map(str.strip, map(clean_line, tokens)) if word]
        if self.config.case == "true":
            words = detruecase(words)
        if self.config.tokenizer == "moses":
            return clean_line(moses(self.config.language).detokenise(words)).strip()
        return " ".join(words)

    # On disk

    def save(self, folder: Path, side: Side) -> None:
        """Write this side's files into ``folder``; text.json then knows both sides."""
        folder = Path(folder)
        names = _file_names(self.config)
        if self.codes is not None:
            with atomic_writer(folder / names["codes"]) as file:
                file.write(self.codes)
        if self.pieces is not None:
            with atomic_writer(folder / names["pieces"], "wb") as file:
                file.write(self.pieces)
        if self.truecaser is not None:
            self.truecaser.save(folder / names["truecaser"])
        if self.vocabulary is not None:
            self.vocabulary.save(folder / names["vocabulary"])
        path = folder / "text.json"
        table: dict[str, Any] = {"format": FORMAT}
        if path.exists():
            table = read_json(path, "text settings")
        present = {
            names[part]: sha256(folder / names[part])
            for part in names
            if getattr(self, part) is not None
        }
        table[side] = {**asdict(self.config), "files": present}
        write_json(path, table)

    @classmethod
    def load(cls, folder: Path, side: Side) -> Text:
        """Read what ``save`` wrote.

        Raises UserError when a file is missing, broken, or not the one that was saved.
        """
        folder = Path(folder)
        config, files = _read_settings(folder / "text.json", side)
        names = _file_names(config)
        for name in files:
            if sha256(folder / name) != files[name]:
                raise UserError(
                    f"{folder / name} is not the file that text.json was saved with: "
                    f"it was changed or mixed up; preprocess again or restore it"
                )
        here = {part: folder / name for part, name in names.items() if name in files}
        codes = _read_codes(here["codes"]) if "codes" in here else None
        return cls(
            config,
            truecaser=Truecaser.load(here["truecaser"]) if "truecaser" in here else None,
            codes=codes,
            pieces=here["pieces"].read_bytes() if "pieces" in here else None,
            vocabulary=Vocabulary.load(here["vocabulary"]) if "vocabulary" in here else None,
        )

    def _segment(self, tokens: list[str]) -> Segmented:
        subwords: list[str] = []
        word_of: list[int] = []
        for index, token in enumerate(self.fold(tokens)):
            parts = self.subwords_of(token)
            subwords.extend(parts)
            word_of.extend([index] * len(parts))
        return Segmented(tokens, subwords, word_of)

    def _split(self, token: str) -> tuple[str, ...]:
        if self.config.subwords == "bpe":
            return _needed(self._bpe, "BPE codes").split(token)
        if self.config.subwords == "sentencepiece":
            return _needed(self._pieces, "a SentencePiece model").split(token)
        return (token,)


def _needed(part: Part | None, name: str) -> Part:
    if part is None:
        raise ValueError(f"this text has not got {name} yet")
    return part


def _rebuild(
    config: TextConfig,
    truecaser: Truecaser | None,
    codes: str | None,
    model: bytes | None,
    vocabulary: Vocabulary | None,
) -> Text:
    return Text(config, truecaser=truecaser, codes=codes, pieces=model, vocabulary=vocabulary)


def _file_names(config: TextConfig) -> dict[str, str]:
    """The file of every part (an attribute of Text) of a side."""
    language = config.language
    return {
        "codes": "codes.bpe" if config.joint else f"codes.{language}.bpe",
        "pieces": "sentencepiece.model" if config.joint else f"sentencepiece.{language}.model",
        "truecaser": f"truecase.{language}",
        "vocabulary": f"vocabulary.{language}",
    }


def _parts(config: TextConfig) -> list[str]:
    """The parts that segmenting needs."""
    parts = {"codes": config.subwords == "bpe", "pieces": config.subwords == "sentencepiece"}
    return [
        part for part, needed in {**parts, "truecaser": config.case == "true"}.items() if needed
    ]


def _read_codes(path: Path) -> str:
    try:
        codes = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise UserError(f"cannot read BPE codes {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: the BPE codes are not UTF-8 ({error})") from error
    check_codes(codes, str(path))
    return codes


def _read_settings(path: Path, side: Side) -> tuple[TextConfig, Mapping[str, str]]:
    """The settings of a side and the checksums of its files by name."""
    table = read_json(path, "text settings")
    if table.get("format") != FORMAT:
        raise UserError(
            f"{path}: format {table.get('format')!r} where this version reads {FORMAT}: "
            f"preprocess again"
        )
    settings = table.get(side)
    if not isinstance(settings, dict) or not isinstance(settings.get("files"), dict):
        raise UserError(f"{path}: has no settings for the {side} side")
    files = settings.pop("files")
    for field in fields(TextConfig):
        expected = bool if field.type == "bool" else str
        if not isinstance(settings.get(field.name), expected):
            raise UserError(f"{path}: [{side}] {field.name} must be a {expected.__name__}")
    extra = set(settings) - {field.name for field in fields(TextConfig)}
    if extra:
        raise UserError(f"{path}: [{side}] has an unknown setting {min(extra)!r}")
    try:
        config = TextConfig(**settings)
    except ValueError as error:
        raise UserError(f"{path}: [{side}] {error}") from error
    strange = set(files) - set(_file_names(config).values())
    if strange or not all(isinstance(value, str) for value in files.values()):
        raise UserError(f"{path}: [{side}] files must be names and checksums of this side")
    for part in _parts(config):
        if _file_names(config)[part] not in files:
            raise UserError(f"{path}: [{side}] files lacks {_file_names(config)[part]!r}")
    return config, files
