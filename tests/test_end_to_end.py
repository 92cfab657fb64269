"""The five commands on the toy task, each a process of its own: it is really learned."""

from __future__ import annotations

import json

import pytest

from tests.conftest import (
    COMMON,
    SMALL,
    SOURCE,
    TRANSLATION,
    Done,
    command,
    lines_of,
    process,
    raw,
    toy_links,
    toy_pairs,
    worked,
    write,
)


def fine(done: Done, talk: bool = False) -> str:
    """The stdout of a process that must succeed; without `talk` it says nothing on stderr."""
    assert done.code == 0, done.err
    assert talk or done.err == "", done.err
    return done.out


@pytest.mark.slow
def test_five_commands(tmp_path):
    train, test = toy_pairs(2000, 1, rare=0.0), toy_pairs(50, 3, rare=0.0)
    for name, pairs in (("train", train), ("valid", test[:20]), ("test", test)):
        for side, language in enumerate(("aa", "zz")):
            write(tmp_path / f"{name}.{language}", (raw(pair[side]) for pair in pairs))
            write(tmp_path / f"{name}.tokens.{language}", (pair[side] for pair in pairs))

    corpora = ("--train", "train", "--valid", "valid")
    languages = ("--source-lang", "aa", "--target-lang", "zz")
    prepared = fine(
        process("preprocess", *languages, *corpora, "--merges", 200, "--out", "data", cwd=tmp_path),
        talk=True,
    )
    assert "2000" in prepared
    assert fine(process("train", "data", "--out", "m", *SMALL, cwd=tmp_path), talk=True) == ""
    source = (tmp_path / "test.aa").read_bytes()
    translated = fine(process("translate", "m", stdin=source, cwd=tmp_path))
    (tmp_path / "out.zz").write_text(translated, encoding="utf-8")
    scores = ("score", "out.zz", "--reference", "test.zz", "--json")
    bleu = json.loads(fine(process(*scores, cwd=tmp_path)))["out.zz"][0]
    assert bleu["name"] == "BLEU"
    assert bleu["value"] > 95

    tokens = ("--source", "test.tokens.aa", "--target", "test.tokens.zz")
    (tmp_path / "links").write_text(fine(process("align", "m", *tokens, cwd=tmp_path)))
    write(tmp_path / "gold", (toy_links(source) for source, _ in test))
    done = process("score", "links", "--gold", "gold", "--json", cwd=tmp_path)
    assert json.loads(fine(done))["links"]["aer"] < 0.05


def test_unknown_words_too_by_copying_and_a_dictionary(toy, tmp_path):
    source = "".join(raw(source) + "\n" for source, _ in toy.test)
    rare = ((word, TRANSLATION[word]) for word in SOURCE[COMMON:])
    write(tmp_path / "words", (f"{source}\t{target}" for source, target in rare))
    looked_up = ("--replace-unknown", "--dictionary", tmp_path / "words")
    write(tmp_path / "out", lines_of(worked("translate", toy.model, *looked_up, stdin=source)))
    write(tmp_path / "reference", (raw(target) for _, target in toy.test))
    scores = worked("score", tmp_path / "out", "--reference", tmp_path / "reference", "--json")
    assert json.loads(scores)[str(tmp_path / "out")][0]["value"] > 95
    assert command("translate", toy.model, stdin=source).out.count("<unk>") > 10


@pytest.mark.parametrize("direction", ["model", "reverse"])
def test_links_of_both_models(toy, tmp_path, direction):
    sides = {side: [pair[side] for pair in toy.test] for side in (0, 1)}
    for side in (0, 1):
        write(tmp_path / str(side), sides[side])
    write(tmp_path / "gold", map(toy_links, sides[0]))
    first = 0 if direction == "model" else 1
    files = ("--source", tmp_path / str(first), "--target", tmp_path / str(1 - first))
    write(tmp_path / "links", lines_of(worked("align", getattr(toy, direction), *files)))
    swap = ["--swap"] if direction == "reverse" else []
    scores = worked("score", tmp_path / "links", "--gold", tmp_path / "gold", *swap, "--json")
    assert json.loads(scores)[str(tmp_path / "links")]["aer"] < 0.05
