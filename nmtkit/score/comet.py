"""COMET (Rei et al., 2020), by unbabel-comet and a checkpoint that the user has.

The package is an extra, ``nmtkit[comet]``, and is only imported here, when it is needed.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import redirect_stdout
from importlib import metadata
from pathlib import Path
from typing import Any

from nmtkit.errors import UserError
from nmtkit.files import sha256
from nmtkit.score.text import Score, Texts

CHECKPOINT = Path("checkpoints", "model.ckpt")  # where published models have it
BATCH = 16  # sentences, as in comet-score


def comet_scores(texts: Texts, path: Path, gpus: int = 0) -> dict[str, Score]:
    """System -> its COMET score, the mean of its sentences'; ``texts`` must have the source.

    ``path`` is a checkpoint, or the folder of a published model. Raises UserError when it is not
    there or cannot be loaded, and when unbabel-comet is not installed.
    """
    assert texts.sources is not None
    comet = _package()
    checkpoint = path / CHECKPOINT if path.is_dir() else path
    if not checkpoint.is_file():
        raise UserError(
            f"{checkpoint}: no such COMET checkpoint: give its file, or the model's folder "
            f"with {CHECKPOINT}"
        )
    # What the package prints is talk; our stdout is for data.
    with redirect_stdout(sys.stderr):
        try:
            model = comet.load_from_checkpoint(str(checkpoint))
        except Exception as error:  # of any kind: it does not say which
            reason = " ".join(str(error).split())
            raise UserError(f"{checkpoint}: COMET cannot load it: {reason}") from error
        values = {name: _mean(model, texts, name, gpus) for name in texts.systems}
    signature = f"sha256:{sha256(checkpoint)[:16]}|version:{_version()}"
    return {name: Score("COMET", value, signature, decimals=4) for name, value in values.items()}


def _mean(model: Any, texts: Texts, system: str, gpus: int) -> float:
    columns = texts.sources or (), texts.systems[system], texts.references
    samples = [
        {"src": source.strip(), "mt": hypothesis.strip(), "ref": reference.strip()}
        for source, hypothesis, reference in zip(*columns, strict=True)
    ]
    found = model.predict(samples, batch_size=BATCH, gpus=gpus, progress_bar=False)
    return float(found.system_score)


def _package() -> Any:
    try:
        comet = importlib.import_module("comet")
    except ImportError:
        comet = None
    if not hasattr(comet, "load_from_checkpoint"):  # other packages have that name too
        raise UserError("COMET needs unbabel-comet: pip install 'nmtkit[comet]'")
    return comet


def _version() -> str:
    try:
        return metadata.version("unbabel-comet")
    except metadata.PackageNotFoundError:  # such as a copy on the path
        return "unknown"
