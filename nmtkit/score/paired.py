"""Is a difference between translations more than chance? sacrebleu's own paired tests.

Sentences are drawn with replacement (paired bootstrap: Koehn, 2004), or two systems' sentences are
exchanged at random (paired approximate randomisation: Riezler and Maxwell, 2005). The numbers are
those of ``sacrebleu --paired-bs`` and ``--paired-ar``; the first system is the baseline.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from sacrebleu.significance import PairedTest, Result

from nmtkit.errors import UserError
from nmtkit.score.significance import check_resamples
from nmtkit.score.text import METRICS, TextOptions, Texts

TESTS = {"bootstrap": "bs", "randomisation": "ar"}  # our names -> sacrebleu's
SEED, SEED_VARIABLE = 12345, "SACREBLEU_SEED"  # sacrebleu's own


@dataclass(frozen=True)
class Trials:
    """How often each test resamples; None: it is not made.

    Raises UserError for too few resamples, and for a seed below 1: sacrebleu takes 0 for no seed.
    """

    bootstrap: int | None = None
    randomisation: int | None = None
    seed: int = SEED

    def __post_init__(self) -> None:
        for resamples in self.asked().values():
            check_resamples(resamples)
        if self.seed < 1:
            raise UserError(f"seed must be 1 or more, got {self.seed}")

    def asked(self) -> dict[str, int]:
        """Test -> resamples, of the tests that are to be made."""
        found = {"bootstrap": self.bootstrap, "randomisation": self.randomisation}
        return {test: resamples for test, resamples in found.items() if resamples is not None}


@dataclass(frozen=True)
class Tested:
    """What a test says of a system.

    ``p``: how probable a difference from the baseline as large as this one is when both are equals
    (two-sided); None for the baseline. ``mean`` ± ``ci`` is the 95 % interval of the score, which
    only the bootstrap gives.
    """

    p: float | None
    mean: float | None
    ci: float | None
    signature: str

    def to_json(self) -> dict[str, Any]:
        """The fields that there are."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def paired_test(
    texts: Texts, options: TextOptions, test: str, resamples: int, seed: int
) -> dict[str, list[Tested]]:
    """System -> what ``test``, one of ``TESTS``, says of it, for every metric in order.

    With a single system the bootstrap gives its interval.
    """
    systems, references = texts.stripped()
    # New ones for every test: sacrebleu writes the resamples into the metrics' signatures.
    metrics = {name: METRICS[name](references, options) for name in options.metrics}
    with _seeded(seed):
        run = PairedTest(
            list(systems.items()), metrics, None, test_type=TESTS[test], n_samples=resamples
        )
    signatures, found = run()
    columns = {name: column for name, column in found.items() if name != "System"}
    return {
        system: [_tested(column[row], str(signatures[name])) for name, column in columns.items()]
        for row, system in enumerate(systems)
    }


def _tested(result: Any, signature: str) -> Tested:
    assert isinstance(result, Result)
    mean, ci = result.mean, result.ci
    return Tested(
        result.p_value,
        None if mean is None else float(mean),
        None if ci is None else float(ci),
        signature,
    )


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """sacrebleu takes its seed from the environment and nowhere else."""
    before = os.environ.get(SEED_VARIABLE)
    os.environ[SEED_VARIABLE] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ[SEED_VARIABLE]
        else:
            os.environ[SEED_VARIABLE] = before
