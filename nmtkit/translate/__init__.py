"""Raw lines in, translations out: one for every line, in order; a blank line stays blank."""

from nmtkit.translate.options import Output, TermCount, TranslateOptions
from nmtkit.translate.pipeline import translate

__all__ = ["Output", "TermCount", "TranslateOptions", "translate"]
