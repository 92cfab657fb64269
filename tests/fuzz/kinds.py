"""The kinds of hostile files: which valid ones they are made of, how, and who reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.fuzz import entries
from tests.fuzz.mutations import BYTES, FIELDS, GZIP, LINES, Mutation, bomb
from tests.fuzz.structure import (
    XML,
    array,
    change_tensors,
    json_line,
    json_tree,
    tensors_header,
    toml_text,
    toml_tree,
)

TEXT = [*BYTES, *LINES, *LINES]
TABLE = [*TEXT, *FIELDS, *FIELDS]
JSON = [*BYTES, *LINES, *FIELDS, *([json_tree] * 60)]
JSON_LINES = [*TABLE, *([json_line] * 25)]
TOML = [*BYTES, *LINES, *FIELDS, *FIELDS, toml_text, toml_text, *([toml_tree] * 90)]
TENSORS = [*BYTES, *([tensors_header] * 15)]

PAIR = "--source {base}/test.tokens.aa --target {base}/test.tokens.zz"
LINES_IN = "--source {base}/test.aa"
TRANSLATE = "translate {it} --source {base}/test.aa --out {out}/text --beam 2"
ALIGN = f"align {{it}} {PAIR} --out {{out}}/links"
SCORE = "score --model {it} --source {base}/test.aa --target {base}/test.zz"
SIZES = ("embedding", "encoder_hidden", "hidden", "attention_units", "maxout")
TINY = " ".join([*(f"--set model.{name}=4" for name in SIZES), "--device cpu"])
LEARN = (
    "train {it} --out {out}/model --arch hmm --set training.epochs=1",
    "train {it} --out {out}/model --arch ibm1 --set training.epochs=1",
    f"train {{it}} --out {{out}}/model --updates 1 {TINY}",
    f"train {{it}} --out {{out}}/model --updates 1 --set training.bpe_dropout=0.2 {TINY}",
)
PREPARE = "preprocess --source-lang aa --target-lang zz --workers 1 --merges 20 --out {out}/data"
NETWORKS = ("models/rnnsearch", "models/transformer", "models/luong", "models/gnmt")


@dataclass(frozen=True)
class Kind:
    """Hostile files of one kind.

    `given`: one of these is taken. Where it is a folder, one of the `files` in it (patterns) is
    changed, then, mostly, checksums are made right again by `seal`. The `commands` read `{it}`.
    """

    name: str
    share: int  # of the inputs
    given: Sequence[str]
    commands: Sequence[str]
    mutations: Sequence[Mutation] = ()
    files: Sequence[str] = ()
    seal: Callable[[Path], None] | None = None
    whole: Sequence[entries.Entry] = ()  # changes of files as wholes, in place of `mutations`
    writes: bool = False  # a command may write into the folder itself
    rare: Sequence[Mutation] = field(default=())  # of one input in a hundred: they take their time

    def change(self, place: Path, draw: Random) -> None:
        """Make the valid file or folder a hostile one."""
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            if not self.files:
                self._change_file(place, draw)
                continue
            found = sorted({path for pattern in self.files for path in place.glob(pattern)})
            if found:
                self._change_file(draw.choice(found), draw)
        if draw.random() < 0.85:
            entries.sealed(place, self.seal)

    def _change_file(self, path: Path, draw: Random) -> None:
        if self.whole and (not self.mutations or draw.random() < 0.5):
            draw.choice(self.whole)(path, draw)
        elif not path.is_file():
            return
        elif path.suffix == ".safetensors" and draw.random() < 0.6:
            change_tensors(path, draw)
        else:
            rare = self.rare and draw.random() < 0.01
            mutation = draw.choice(self.rare if rare else self.mutations)
            path.write_bytes(mutation(path.read_bytes(), draw))


def _links(name: str, mutations: Sequence[Mutation] = TABLE) -> Kind:
    """Alignment files of a format."""
    read = f"--from {name}"
    commands = [
        f"align --convert {{it}} {read} --format json --out {{out}}/links",
        f"align --convert {{it}} {read} --format giza {PAIR} --out {{out}}/links",
        f"align --check {{it}} {read} {PAIR}",
    ]
    if name == "symal":
        commands = [f"{c} --symmetrize grow-diag" if "convert" in c else c for c in commands]
    else:
        other = "giza.inverse" if name == "giza" else name
        both = f"--forward {{it}} --backward {{base}}/links/{other} {read}"
        commands += [
            f"align {both} --symmetrize grow-diag --out {{out}}/links",
            f"score {{it}} --gold {{base}}/links/talp {read}",
            f"score {{base}}/links/pharaoh --gold {{it}} --gold-from {name} --errors {PAIR}",
        ]
    return Kind(f"links: {name}", 900, [f"links/{name}"], commands, mutations, rare=[*GZIP, bomb])


MODEL_COMMANDS = [ALIGN, TRANSLATE, SCORE]
RESUME = ["train --resume --out {it} --updates 3"]
SEARCH = f"translate {{base}}/models/rnnsearch {LINES_IN} --out {{out}}/text"

KINDS: list[Kind] = [
    Kind(
        "model: config.toml",
        1200,
        [*NETWORKS, "models/hmm"],
        MODEL_COMMANDS,
        mutations=TOML,
        files=["config.toml"],
    ),
    Kind(
        "model: safetensors",
        1500,
        [*NETWORKS, "models/hmm"],
        MODEL_COMMANDS,
        mutations=TENSORS,
        files=["model.safetensors"],
    ),
    Kind(
        "model: text.json",
        1000,
        ["models/rnnsearch", "models/pieces"],
        [*MODEL_COMMANDS, f"{ALIGN} --raw"],
        mutations=JSON,
        files=["text.json"],
        seal=entries.seal_text,
    ),
    Kind(
        "model: codes",
        700,
        ["models/rnnsearch"],
        [TRANSLATE, f"{ALIGN} --raw"],
        mutations=TABLE,
        files=["codes.bpe"],
        seal=entries.seal_text,
    ),
    Kind(
        "model: vocabulary",
        900,
        ["models/rnnsearch", "models/hmm"],
        MODEL_COMMANDS,
        mutations=TABLE,
        files=["vocabulary.*"],
        seal=entries.seal_text,
    ),
    Kind(
        "model: truecaser",
        700,
        ["models/rnnsearch"],
        [TRANSLATE, f"{ALIGN} --raw"],
        mutations=TABLE,
        files=["truecase.*"],
        seal=entries.seal_text,
    ),
    Kind(
        "model: SentencePiece",
        400,
        ["models/pieces"],
        [TRANSLATE],
        mutations=BYTES,
        files=["sentencepiece.model"],
        seal=entries.seal_text,
    ),
    Kind(
        "model: folder",
        700,
        [*NETWORKS, "models/hmm"],
        MODEL_COMMANDS,
        files=["*"],
        seal=entries.seal_text,
        whole=entries.ENTRIES,
    ),
    Kind(
        "checkpoint: files",
        900,
        ["run"],
        RESUME,
        mutations=[*JSON, *TENSORS],
        files=["checkpoint/*", "checkpoint/*", "*"],
        seal=entries.seal_checkpoint,
        whole=entries.ENTRIES,
        writes=True,
    ),
    Kind(
        "checkpoint: state.json",
        300,
        ["run"],
        RESUME,
        mutations=JSON,
        files=["checkpoint/state.json"],
        seal=entries.seal_checkpoint,
        writes=True,
    ),
    Kind(
        "checkpoint: tensors",
        300,
        ["run"],
        RESUME,
        mutations=TENSORS,
        files=["checkpoint/*.safetensors"],
        seal=entries.seal_checkpoint,
        writes=True,
    ),
    Kind(
        "corpus: JSON",
        1000,
        ["corpus"],
        LEARN,
        mutations=JSON,
        files=["manifest.json", "text.json"],
        seal=entries.seal_corpus,
    ),
    Kind(
        "corpus: ids",
        400,
        ["corpus"],
        LEARN,
        mutations=[*BYTES, *array("<i4") * 5],
        files=["*.ids"],
    ),
    Kind(
        "corpus: offsets",
        400,
        ["corpus"],
        LEARN,
        mutations=[*BYTES, *array("<i8") * 5],
        files=["*.offsets", "train.lines"],
    ),
    Kind(
        "corpus: texts",
        500,
        ["corpus"],
        LEARN,
        mutations=TABLE,
        files=["valid.*.txt", "valid.*.txt", "vocabulary.*", "codes.bpe", "truecase.*"],
        seal=entries.seal_corpus,
    ),
    Kind(
        "corpus: folder",
        400,
        ["corpus", "corpus.pieces"],
        LEARN[:3],
        files=["*"],
        seal=entries.seal_corpus,
        whole=entries.ENTRIES,
    ),
    Kind(
        "shards",
        600,
        ["shards"],
        [f"{PREPARE} --train {{base}}/few.tsv --merge {{it}}"],
        mutations=[*TABLE, *JSON],
        files=["*/*"],
        seal=entries.seal_shards,
        whole=entries.ENTRIES,
    ),
    *(_links(name) for name in ("pharaoh", "talp", "naacl", "giza", "symal")),
    _links("json", JSON_LINES),
    Kind(
        "links: guide",
        200,
        ["train.links"],
        [f"train {{base}}/corpus --out {{out}}/model --guide {{it}} --updates 1 {TINY}"],
        mutations=TABLE,
    ),
    Kind(
        "links: gold of dev",
        100,
        ["gold"],
        [
            f"train {{base}}/corpus --out {{out}}/model --updates 1 {TINY} "
            "--set training.valid_gold={it} --set training.select=aer"
        ],
        mutations=TABLE,
    ),
    Kind(
        "text: two files",
        600,
        ["pair"],
        [f"{PREPARE} --train {{it}}/few --case true"],
        mutations=[*TEXT, *GZIP],
        files=["few.*"],
        rare=[bomb],
    ),
    Kind(
        "text: tsv",
        500,
        ["few.tsv"],
        [f"{PREPARE} --train {{it}}", f"{PREPARE} --train {{it}} --deduplicate --subwords none"],
        mutations=[*TABLE, *GZIP],
        rare=[bomb],
    ),
    Kind(
        "text: gzip",
        300,
        ["few.tsv.gz"],
        [f"{PREPARE} --train {{it}}"],
        mutations=BYTES,
        rare=[bomb],
    ),
    Kind(
        "text: tmx",
        1400,
        ["few.tmx"],
        [f"{PREPARE} --train {{it}}"],
        mutations=[*TEXT, *FIELDS, *XML * 7],
        rare=[bomb],
    ),
    Kind(
        "text: markup",
        600,
        ["markup.aa"],
        ["translate {base}/models/rnnsearch --source {it} --markup --out {out}/text"],
        mutations=[*TABLE, *XML * 5],
    ),
    Kind(
        "text: to translate",
        400,
        ["test.aa"],
        [
            "translate {base}/models/rnnsearch --source {it} --alignments {out}/links "
            "--out {out}/text",
            "translate {base}/models/transformer {base}/models/transformer --source {it} --sample",
            "translate {base}/models/pieces --source {it} --n-best 2",
        ],
        mutations=TABLE,
        rare=[bomb],
    ),
    Kind(
        "text: to align, score",
        500,
        ["test.tokens.aa"],
        [
            "align {base}/models/hmm --source {it} --target {base}/test.tokens.zz --format giza",
            "align {base}/models/gnmt --source {it} --target {base}/test.tokens.zz --page {out}/p",
            "score --model {base}/models/luong --source {it} --target {base}/test.zz",
            "score {it} --reference {base}/test.tokens.aa",
            "score {base}/test.tokens.aa --reference {it} --metric bleu --bootstrap 100",
        ],
        mutations=TABLE,
        rare=[bomb],
    ),
    Kind(
        "lists: n-best",
        600,
        ["nbest"],
        [
            "score --model {base}/models/rnnsearch --source {base}/test.aa --n-best {it}",
            "score --model {base}/models/transformer --source {base}/test.aa --n-best {it} "
            "--keep-order",
        ],
        mutations=TABLE,
        rare=[bomb],
    ),
    Kind("lists: glossary", 400, ["glossary.tsv"], [f"{SEARCH} --glossary {{it}}"], TABLE),
    Kind(
        "lists: dictionary",
        300,
        ["dictionary.tsv"],
        [f"{SEARCH} --replace-unknown --dictionary {{it}}"],
        mutations=TABLE,
    ),
    Kind("lists: prefixes", 300, ["prefix.zz"], [f"{SEARCH} --prefix {{it}}"], TABLE),
    Kind(
        "settings: --config",
        500,
        ["settings.rnnsearch.toml"],
        ["train --config {it} --out {out}/model --updates 1 --device cpu"],
        mutations=TOML,
    ),
    Kind(
        "settings: of tables",
        200,
        ["settings.ibm1.toml"],
        ["train --config {it} --arch ibm1 --out {out}/model --epochs 1"],
        mutations=TOML,
    ),
    Kind(
        "metrics.jsonl",
        200,
        ["models/rnnsearch", "models/hmm"],
        ["train --out {it} --curve {out}/curve.svg"],
        mutations=JSON_LINES,
        files=["metrics.jsonl"],
    ),
]
