from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import layout_ir
from benchmarks.model_tools import TOOLS, ToolFailure, Worker
from benchmarks.moved_bytes import count_moves, largest_difference, random_feeds
from tests.benchmarks.small_models import load, picture, save


@pytest.fixture(name="worker", scope="module")
def _worker() -> Iterator[Worker]:
    with Worker(seconds=60, memory=4 << 30) as worker:
        yield worker


def test_a_worker_is_another_process(worker: Worker):
    assert worker.call(os.getpid) not in (os.getpid(), None)


def test_the_process_stays_from_one_call_to_the_next(worker: Worker):
    assert worker.call(os.getpid) == worker.call(os.getpid)


@pytest.mark.parametrize(
    "function, arguments, said",
    [
        (divmod, (1, 0), "ZeroDivisionError"),
        (os.abort, (), f"crash \\(-{int(signal.SIGABRT)}\\)"),
        (os._exit, (3,), "crash \\(3\\)"),
        (np.ones, (1 << 31,), "MemoryError"),
    ],
    ids=["error", "abort", "exit", "memory"],
)
def test_negative_what_fails_in_a_worker_is_said_and_the_next_call_works(
    worker: Worker, function: Callable[..., object], arguments: tuple[object, ...], said: str
):
    with pytest.raises(ToolFailure, match=said):
        worker.call(function, *arguments)
    assert worker.call(divmod, 7, 2) == (3, 1)


def test_negative_a_call_that_hangs_is_ended():
    with Worker(seconds=3, memory=4 << 30) as worker:
        with pytest.raises(ToolFailure, match="timeout after 3 s"):
            worker.call(time.sleep, 600)
        assert worker.call(divmod, 7, 2) == (3, 1)


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_writes_a_model_that_computes_the_same(name: str, tmp_path: Path):
    tool = TOOLS[name]
    if tool.missing():
        pytest.skip(tool.missing())
    if tool.package == "layout-ir" and not hasattr(layout_ir, "optimize_onnx"):
        pytest.skip("layout_ir.optimize_onnx is missing")
    before = picture()
    save(before, tmp_path / "before.onnx")
    tool.run(tmp_path / "before.onnx", tmp_path / "after.onnx")
    after: Any = load(tmp_path / "after.onnx")
    feeds = random_feeds(before.graph)
    moves, outputs = count_moves(after, feeds, 16)
    wanted, expected = count_moves(before, feeds, 16)
    assert largest_difference(outputs, expected) < 1e-5
    assert moves.transposes <= wanted.transposes
