"""nmtkit: neural machine translation with attention, from raw parallel text to scores.

In Python: `nmtkit.load(folder)`, see docs/python.md. Importing nmtkit is quick: the names below are
looked up in nmtkit.api, which needs torch, when one is first asked for.
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = ["Aligned", "LogProbability", "Model", "Output", "UserError", "__version__", "load"]

if TYPE_CHECKING:
    from nmtkit.api import Aligned, LogProbability, Model, Output, UserError, load
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module("nmtkit.api"), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
