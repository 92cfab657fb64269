"""SentencePiece (Kudo and Richardson, 2018): subwords by a unigram or BPE model; an extra.

Every token is encoded by itself, which gives the same pieces as encoding the whole line, because
no piece crosses a space; so the map from pieces to tokens is known. The model normalises nothing,
so that pieces join to exactly the tokens they came from. A token begins with the piece that begins
with ``▁`` (U+2581); ``Text.fold`` therefore writes "_" for that character in the text.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from nmtkit.errors import UserError

MARK = "▁"
SAMPLE = 2_000_000  # lines a model is learned from; more are sampled, so that memory is bounded
THREADS = 4  # fixed: the sums of the unigram model depend on it
SEED = 1


def learn_sentencepiece(
    lines: Iterable[str], size: int, model_type: str = "unigram", sample: int = SAMPLE
) -> bytes:
    """A SentencePiece model of about ``size`` pieces ("unigram" or "bpe"), learned from ``lines``
    of folded tokens joined by single spaces.

    Raises UserError when the extra is not installed or there is too little text.
    """
    library = _library()
    library.set_random_generator_seed(SEED)
    model = io.BytesIO()
    try:
        library.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            vocab_size=size,
            model_type=model_type,
            character_coverage=1.0,
            normalization_rule_name="identity",
            hard_vocab_limit=False,
            input_sentence_size=sample,
            max_sentence_length=1 << 16,
            num_threads=THREADS,
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        raise UserError(
            f"SentencePiece cannot learn {size} pieces from this text: {_one_line(error)}"
        ) from error
    return model.getvalue()


class Pieces:
    """Tokens -> pieces by a given model."""

    def __init__(self, model: bytes, where: str = "the SentencePiece model") -> None:
        """Raises UserError when ``model`` is none or the extra is not installed."""
        library = _library()
        self._processor: Any = library.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
        except RuntimeError as error:
            raise UserError(f"{where}: not a SentencePiece model ({_one_line(error)})") from error

    def split(self, token: str) -> tuple[str, ...]:
        """The pieces of a non-empty ``token`` without ``▁``; the first begins with ``▁``."""
        pieces = tuple(self._processor.encode(token, out_type=str))
        # A model made elsewhere may normalise: what it would lose goes in as one unknown piece.
        return pieces if "".join(pieces) == MARK + token else (MARK + token,)


def join(pieces: list[str]) -> tuple[list[str], list[int]]:
    """Tokens, and for every piece the index of its token (-1: before the first, and empty)."""
    tokens: list[str] = []
    word_of: list[int] = []
    begun = False  # a lone mark has come: what follows begins a token, whatever it looks like
    for piece in pieces:
        begins = piece.startswith(MARK)
        text = piece[len(MARK) :] if begins else piece
        begun = begun or begins or not tokens
        if not text:
            word_of.append(len(tokens))
            continue
        if begun:
            tokens.append(text)
            begun = False
        else:
            tokens[-1] += text
        word_of.append(len(tokens) - 1)
    return tokens, [min(index, len(tokens) - 1) for index in word_of]


def _library() -> Any:
    try:
        import sentencepiece
    except ImportError as error:
        raise UserError(
            "SentencePiece is not installed: pip install 'nmtkit[sentencepiece]'"
        ) from error
    return sentencepiece


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
