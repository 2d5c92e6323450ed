"""A few seconds of every attack, and every input that ever failed.

The seed is 0 under CI=true and drawn elsewhere; a failure names it. `python -m tests.fuzz` goes on for as long as
one likes.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import SystemRandom

import pytest

from tests.fuzz.driver import Found, Run, Worker, attempt
from tests.fuzz.kinds import CORPUS, KINDS, kind

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

CASES = {
    "formats": 100, "ir": 25, "onnx": 60, "plans": 60, "certificates": 250, "commands": 20, "costs": 30,
    "reorders": 30, "dynamic-reorders": 6, "onednn": 30, "transposes": 10,
}  # fmt: skip
"""Inputs of each kind: two seconds' worth, or so."""


@pytest.mark.parametrize("name", KINDS)
def test_random_inputs_do_no_harm(name: str):
    seed = 0 if os.environ.get("CI") == "true" else SystemRandom().randrange(1 << 30)
    result = Run([name], seed, seconds=None, cases=CASES[name]).run()
    assert result.inputs[name] == -(-CASES[name] // kind(name).size)
    failures = [f"{f.title()}\n{f.failure.message}\n{f.data[:3000]!r}" for f in result.found.values()]
    assert not failures, (
        f"python -m tests.fuzz --only {name} --cases {CASES[name]} --seed {seed}:\n" + "\n".join(failures)
    )


@pytest.mark.parametrize("name", sorted(path.name for path in CORPUS.iterdir()))
def test_what_once_failed_passes(name: str, tmp_path: Path):
    worker: Worker | None = None
    failures: list[str] = []
    for path in sorted((CORPUS / name).iterdir()):
        data = path.read_bytes()
        failure, worker = attempt(name, data, tmp_path, worker)
        if failure is not None:
            failures.append(f"{path.name}: {Found(name, -1, data, failure).title()}\n{failure.message}")
    if worker is not None:
        worker.close()
    assert not failures, "\n".join(failures)


def test_inputs_follow_from_the_seed():
    for name in KINDS:
        made = [kind(name).make(5, number) for number in range(12)]
        assert made == [kind(name).make(5, number) for number in range(12)]
        assert made != [kind(name).make(6, number) for number in range(12)]
