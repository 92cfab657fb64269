"""Links of other word aligners, for comparison: recipes/align.mk makes an environment for them.

    python peer_links.py TOOL SOURCE TARGET OUT [--last N]

aligns the lines of two tokenised files, lowercased, and writes, for the last N pairs (all),
OUT.forward and OUT.backward in Pharaoh format, both source-target. A tool that only gives links of
both directions together writes OUT.both. Prints one JSON line: pairs, seconds, peak memory in GiB.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Lines = list[str]
Links = Iterable[tuple[int, int]]
Found = dict[str, list[Links]]


def eflomal(source: Lines, target: Lines, folder: Path) -> Found:
    """The HMM with fertilities, sampled (Östling and Tiedemann, 2016): model 3 of the package."""
    from eflomal import Aligner

    names = {way: folder / way for way in ("forward", "backward")}
    Aligner(model=3, n_samplers=3).align(
        [f"{line}\n" for line in source],
        [f"{line}\n" for line in target],
        links_filename_fwd=str(names["forward"]),
        links_filename_rev=str(names["backward"]),
    )
    return {way: [_parsed(line) for line in _lines(path)] for way, path in names.items()}


def systran(source: Lines, target: Lines, folder: Path) -> Found:
    """fast_align (Dyer et al., 2013) as the package systran-align has it, symmetrised by itself."""
    import systran_align

    pairs = folder / "pairs"
    joined = (f"{s} ||| {t}\n" for s, t in zip(source, target, strict=True))
    pairs.write_text("".join(joined), encoding="utf-8", newline="\n")
    tables = str(folder / "forward"), str(folder / "backward")
    systran_align.generate_alignment_probabilities(
        str(pairs), *tables, favor_diagonal=True, optimize_tension=True, variational_bayes=True
    )
    aligner = systran_align.Aligner(*tables)
    split = [[_tokens(line) for line in side] for side in (source, target)]
    return {"both": [one["alignments"] for one in aligner.align_batch(*split)]}


def thot(*stages: str) -> Callable[[Lines, Lines, Path], Found]:
    """Models of sil-thot by class, each started by the one before, five iterations each."""

    def links(source: Lines, target: Lines, folder: Path) -> Found:
        sides = [[_tokens(line) for line in side] for side in (source, target)]
        forward = _thot_direction(stages, sides[0], sides[1])
        turned = _thot_direction(stages, sides[1], sides[0])
        return {"forward": forward, "backward": [[(i, j) for j, i in one] for one in turned]}

    return links


def _thot_direction(stages: Iterable[str], source: list[Lines], target: list[Lines]) -> list[Links]:
    from thot import alignment

    model: Any = None
    for stage in stages:
        kind = getattr(alignment, stage)
        before, model = model, kind() if model is None else kind(model)
        if before is None:
            for pair in zip(source, target, strict=True):
                model.add_sentence_pair(*pair, 1)
        model.start_training()
        for _ in range(5):
            model.train()
        model.end_training()
    found = model.get_best_alignments(source, target)
    return [list(zip(*matrix.to_numpy().nonzero(), strict=True)) for _, matrix in found]


STAGES = tuple(f"{name}AlignmentModel" for name in ("Ibm1", "Hmm", "Ibm3", "Ibm4"))
TOOLS: dict[str, Callable[[Lines, Lines, Path], Found]] = {
    "eflomal": eflomal,
    "systran-fast_align": systran,
    "thot-fast_align": thot("FastAlignModel"),
    "thot-hmm": thot(*STAGES[:2]),
    "thot-ibm4": thot(*STAGES),
}


def _lines(path: Path) -> Lines:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def _tokens(line: str) -> list[str]:
    return [token for token in line.split(" ") if token]


def _parsed(line: str) -> Links:
    pairs = (token.split("-") for token in line.split())
    return [(int(source), int(target)) for source, target in pairs]


def main() -> None:
    """Align, write the links, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("out")
    parser.add_argument("--last", type=int, default=0)
    arguments = parser.parse_args()
    source, target = (
        [line.lower() for line in _lines(path)] for path in (arguments.source, arguments.target)
    )
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = TOOLS[arguments.tool](source, target, Path(folder))
    seconds = time.monotonic() - began
    for way, links in found.items():
        with Path(f"{arguments.out}.{way}").open("w", encoding="utf-8", newline="\n") as file:
            for one in links[-arguments.last :]:
                file.write(" ".join(f"{j}-{i}" for j, i in sorted(one)) + "\n")
    used = [
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    record = {"tool": arguments.tool, "pairs": len(source), "seconds": round(seconds, 1)}
    print(json.dumps({**record, "peak_gib": round(max(used) / 2**20, 2)}))


if __name__ == "__main__":
    main()
