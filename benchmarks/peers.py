"""The tools that are compared: how each is installed, trained and made to translate.

Every tool gets the same text, sizes as near as it has them, 80 sentences a batch, Adam, gradients
clipped to 1. Differences that stay: OpenNMT-py and JoeyNMT feed the attention vector to the next
step, instead of the context to the state, and have no maxout layer; OpenNMT-py's encoder and
decoder are of one size, so at `paper` its encoder has 500 units a direction; JoeyNMT does not sort
by length.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sizes import BATCH, Size
from text import LANGUAGES
from watch import Line

HERE = Path(__file__).resolve().parent
TORCH = "torch==2.13.0"


@dataclass(frozen=True)
class Run:
    """What to train, and where. `every`: updates between checkpoints, 0: none."""

    text: Path  # what text.py made
    folder: Path
    size: Size
    updates: int
    report: int = 10  # updates between two lines
    every: int = 0
    dropout: float = 0.0
    rate: float = 5e-4
    smoothing: float = 0.0  # of labels
    more: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # nmtkit's, by table


class Tool(ABC):
    """A toolkit in an environment of its own (`peers`/NAME)."""

    name: str
    requirements: tuple[tuple[str, ...], ...] = ()  # arguments of pip install, in turn

    def __init__(self, peers: Path) -> None:
        self.environment = peers / self.name

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.environment / "bin" / "python")

    def install(self) -> None:
        """Make the environment, unless it is there."""
        done = self.environment / ".installed"
        if done.exists():
            return
        subprocess.run([sys.executable, "-m", "venv", str(self.environment)], check=True)
        for arguments in self.requirements:
            subprocess.run([self.python, "-m", "pip", "install", "--quiet", *arguments], check=True)
        done.touch()

    @abstractmethod
    def train(self, run: Run) -> list[str]:
        """Write the configuration into `run.folder`; the command that trains."""

    @abstractmethod
    def updates(self, line: Line) -> int | None:
        """How many updates are done, if the line says it."""

    @abstractmethod
    def checkpoints(self, run: Run) -> dict[int, Path]:
        """What a training has left: updates -> checkpoint."""

    @abstractmethod
    def translate(
        self, run: Run, checkpoint: Path, source: Path, out: Path, beam: int
    ) -> list[str]:
        """The command that translates a file; `source` lies beside others of its kind (text.py)."""

    def output(self, out: Path) -> list[str]:
        """Its translations as tokens."""
        text = out.read_text(encoding="utf-8").removesuffix("\n")
        return [re.sub(r"@@( |$)", "", line) for line in text.split("\n")]


class Nmtkit(Tool):
    """The toolkit that this is, through its Python interface."""

    name = "nmtkit"

    @property
    def python(self) -> str:
        return sys.executable

    def install(self) -> None:
        """It runs this script."""

    def train(self, run: Run) -> list[str]:
        size = run.size
        model: dict[str, object] = {
            "architecture": "rnnsearch",
            "embedding": size.embedding,
            "encoder_hidden": size.encoder,
            "hidden": size.hidden,
            "attention_units": size.attention,
            "maxout": size.maxout,
            "initialisation": "glorot",
            "dropout_embedding": run.dropout,
            "dropout_readout": run.dropout,
        }
        training: dict[str, object] = {
            "updates": run.updates,
            "learning_rate": run.rate,
            "batch_sentences": BATCH,
            "label_smoothing": run.smoothing,
            "patience": 0,
            "valid_every": run.every or run.updates + 1,
            "average": 1000 if run.every else 1,  # keeps every model
        }
        lines = [f'data = "{run.text / "prepared"}"']
        for name, table in {"model": model, "training": training}.items():
            chosen = table | dict(run.more.get(name, {}))
            lines += [f"[{name}]", *(f"{key} = {json.dumps(chosen[key])}" for key in chosen)]
        (run.folder / "recipe.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        runner = str(HERE / "train_nmtkit.py")
        return [self.python, runner, str(run.folder), str(run.report)]

    def updates(self, line: Line) -> int | None:
        found = re.fullmatch(r"update (\d+)\n", line.text)
        return int(found[1]) if found else None

    def checkpoints(self, run: Run) -> dict[int, Path]:
        kept = (run.folder / "model" / "validated").glob("*.safetensors")
        return {int(path.stem): path for path in sorted(kept)}

    def translate(
        self, run: Run, checkpoint: Path, source: Path, out: Path, beam: int
    ) -> list[str]:
        model = out.with_suffix(".model")
        model.mkdir(exist_ok=True)
        for path in (run.folder / "model").iterdir():
            if path.is_file() and path.suffix != ".safetensors":
                (model / path.name).write_bytes(path.read_bytes())
        (model / "model.safetensors").write_bytes(checkpoint.read_bytes())
        command = [self.python, "-m", "nmtkit", "translate", str(model), "--beam", str(beam)]
        tokens = source.with_name(source.name.replace(".", ".tok.", 1))
        return [*command, "--tokenized", "--source", str(tokens), "--out", str(out)]


class OpenNMT(Tool):
    """OpenNMT-py 3.5.1: brnn of GRUs, mlp attention, input feeding."""

    name = "opennmt"
    requirements = (
        (TORCH,),
        ("--no-deps", "OpenNMT-py==3.5.1"),
        (
            *("configargparse", "ctranslate2", "tensorboard", "flask", "waitress", "pyyaml"),
            *("sacrebleu", "rapidfuzz", "pyahocorasick", "six", "pyonmttok", "psutil"),
            "setuptools<81",
        ),
    )

    def install(self) -> None:
        super().install()
        for path in (self.environment / "lib").glob("python*/site-packages"):
            for name in ("spacy", "fasttext"):  # imported for transforms that are not used
                (path / f"{name}.py").touch()

    def train(self, run: Run) -> list[str]:
        for language in LANGUAGES:
            words = (run.text / f"vocabulary.{language}").read_bytes()
            (run.folder / f"vocabulary.{language}").write_bytes(words)
        settings = {
            "src_vocab": run.folder / "vocabulary.en",
            "tgt_vocab": run.folder / "vocabulary.de",
            "src_vocab_size": 100000,
            "tgt_vocab_size": 100000,
            "save_model": run.folder / "model",
            "overwrite": "true",
            "num_workers": 0,
            "bucket_size": 29000,
            "batch_type": "sents",
            "batch_size": BATCH,
            "batch_size_multiple": 1,
            "normalization": "tokens",
            "accum_count": "[1]",
            "train_steps": run.updates,
            "valid_steps": 10**7,
            "save_checkpoint_steps": run.every or 10**7,
            "report_every": run.report,
            "encoder_type": "brnn",
            "decoder_type": "rnn",
            "rnn_type": "GRU",
            "enc_layers": 1,
            "dec_layers": 1,
            "word_vec_size": run.size.embedding,
            "hidden_size": run.size.hidden,
            "input_feed": 1,
            "bridge": "true",
            "global_attention": "mlp",
            "optim": "adam",
            "learning_rate": run.rate,
            "max_grad_norm": 1,
            "dropout": f"[{run.dropout}]",
            "dropout_steps": "[0]",
            "label_smoothing": run.smoothing,
            "param_init": 0.1,
            "seed": 1,
        }
        lines = ["data:", "    corpus_1:", f"        path_src: {run.text / 'train.en'}"]
        lines += [f"        path_tgt: {run.text / 'train.de'}"]
        lines += [f"{key}: {value}" for key, value in settings.items()]
        (run.folder / "config.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = str(self.environment / "bin" / "onmt_train")
        return [command, "-config", str(run.folder / "config.yaml")]

    def updates(self, line: Line) -> int | None:
        found = re.search(r"Step (\d+)/", line.text)
        return int(found[1]) if found else None

    def checkpoints(self, run: Run) -> dict[int, Path]:
        kept = run.folder.glob("model_step_*.pt")
        return {int(path.stem.rpartition("_")[2]): path for path in kept}

    def translate(
        self, run: Run, checkpoint: Path, source: Path, out: Path, beam: int
    ) -> list[str]:
        patched = "import torch; load = torch.load; "
        patched += "torch.load = lambda *a, **k: load(*a, **{**k, 'weights_only': False}); "
        patched += "from onmt.bin.translate import main; main()"  # its own checkpoints are pickles
        options = ["-model", str(checkpoint), "-src", str(source), "-output", str(out)]
        options += ["-beam_size", str(beam), "-batch_size", "100", "-batch_type", "sents"]
        options += ["-max_length", "80", "-length_penalty", "avg", "-gpu", "-1"]
        return [self.python, "-c", patched, *options]


class JoeyNMT(Tool):
    """JoeyNMT 2.3.0: GRUs, Bahdanau attention, input feeding."""

    name = "joeynmt"
    requirements = (
        (TORCH,),
        ("--no-deps", "joeynmt==2.3.0"),
        (
            *("tensorboard", "sacrebleu", "sacremoses", "sentencepiece", "subword-nmt", "pyyaml"),
            *("matplotlib", "seaborn", "datasets", "packaging", "pandas", "plotly"),
            *("importlib_metadata", "setuptools<81"),
        ),
    )
    # It hands the schedule an argument that torch has dropped, loads its own pickles, and asks the
    # wrong object for n_best.
    LAUNCH = """
import runpy, torch
from torch.optim import lr_scheduler
class Plateau(lr_scheduler.ReduceLROnPlateau):
    def __init__(self, optimizer, *more, verbose=None, **named):
        super().__init__(optimizer, *more, **named)
lr_scheduler.ReduceLROnPlateau = Plateau
load = torch.load
torch.load = lambda *more, **named: load(*more, **{**named, "weights_only": False})
import joeynmt.config
joeynmt.config.BaseConfig.n_best = property(lambda self: self.test.n_best)
runpy.run_module("joeynmt", run_name="__main__")
"""

    def train(self, run: Run) -> list[str]:
        for language in LANGUAGES:
            for part in ("train", "valid", "test"):
                text = (run.text / f"{part}.tok.{language}").read_bytes()
                (run.folder / f"{part}.{language}").write_bytes(text)
            words = (run.text / f"vocabulary.{language}").read_text(encoding="utf-8")
            specials = "<unk>\n<pad>\n<s>\n</s>\n"
            (run.folder / f"vocabulary.{language}").write_text(specials + words, encoding="utf-8")
        config = (HERE / "joeynmt.yaml").read_text(encoding="utf-8")
        size, folder = run.size, run.folder
        values = {
            "FOLDER": folder,
            "CODES": run.text / "prepared" / "codes.bpe",
            "UPDATES": run.updates,
            "EVERY": run.every or 10**7,
            "KEEP": 1000 if run.every else 1,
            "REPORT": run.report,
            "RATE": run.rate,
            "DROPOUT": run.dropout,
            "SMOOTHING": run.smoothing,
            "BATCH": BATCH,
            "EMBEDDING": size.embedding,
            "ENCODER": size.encoder,
            "HIDDEN": size.hidden,
        }
        for key, value in values.items():
            config = config.replace(f"${key}$", str(value))
        (folder / "config.yaml").write_text(config, encoding="utf-8")
        return [self.python, "-c", self.LAUNCH, "train", str(folder / "config.yaml"), "--skip-test"]

    def updates(self, line: Line) -> int | None:
        found = re.search(r"Step:\s*(\d+).*Tokens per Sec", line.text)
        return int(found[1]) if found else None

    def checkpoints(self, run: Run) -> dict[int, Path]:
        kept = (run.folder / "model").glob("*.ckpt")
        return {int(path.stem): path for path in kept if path.stem.isdigit()}

    def translate(
        self, run: Run, checkpoint: Path, source: Path, out: Path, beam: int
    ) -> list[str]:
        config = (run.folder / "config.yaml").read_text(encoding="utf-8")
        config = config.replace("testing:\n", f'testing:\n    load_model: "{checkpoint}"\n', 1)
        config = re.sub(r"beam_size: \d+", f"beam_size: {beam}", config)
        own = out.with_suffix(".yaml")
        own.write_text(config, encoding="utf-8")
        tokens = source.with_name(source.name.replace(".", ".tok.", 1))
        script = f'exec "$0" -c "$1" translate "$2" -o "$3" <"{tokens}"'
        return ["sh", "-c", script, self.python, self.LAUNCH, str(own), str(out)]


TOOLS: dict[str, type[Tool]] = {tool.name: tool for tool in (Nmtkit, OpenNMT, JoeyNMT)}
