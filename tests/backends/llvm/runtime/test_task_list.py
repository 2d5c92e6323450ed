"""Lists of tasks: every one is run exactly once, with its own buffers and parameters."""

from __future__ import annotations

from gc import collect
from threading import Thread
from typing import Any
from weakref import ref

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import compile_reorder
from layout_ir.backends.llvm.runtime import task_list
from layout_ir.backends.llvm.runtime.task_list import Task, TaskList
from layout_ir.elements.quantization import Conversion

SOURCE, TARGET = Format.of("ab").bind((9, 20)), Format.of("ba").bind((9, 20))
Array = NDArray[Any]


def _data(count: int, seed: int = 0) -> tuple[list[Array], list[Array], list[int], list[int]]:
    """Sources, destinations, and where they begin."""
    rng = np.random.default_rng(seed)
    sources: list[Array] = [rng.normal(0, 30, (9, 20)).astype(np.float32) for _ in range(count)]
    targets: list[Array] = [np.zeros((20, 9), np.float32) for _ in range(count)]
    return sources, targets, [int(x.ctypes.data) for x in sources], [int(x.ctypes.data) for x in targets]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_task_is_run_once(threads: int):
    sources, targets, src, dst = _data(300)
    # Adding to what is there shows whoever is run twice.
    kernel = compile_reorder(SOURCE, TARGET, conversion=Conversion("f32", "f32", beta=1.0), threads=1)
    tasks = TaskList([Task(k, kernel, part=p, parts=3) for k in range(300) for p in range(3)], threads)
    for times in (1, 2):
        tasks.run(src, dst)
        assert all(np.array_equal(y, times * x.T) for x, y in zip(sources, targets, strict=True))


@pytest.mark.parametrize("threads", [1, 2])
def test_parameters_are_those_of_the_task(threads: int):
    sources, _, src, _ = _data(50)
    targets = [np.zeros((20, 9), np.int8) for _ in range(50)]
    conversion = Conversion("f32", "i8", dst_scale="channel", dim=0, channels=9)
    kernel = compile_reorder(SOURCE, TARGET, conversion=conversion, threads=1)
    scales = [np.random.default_rng(k).uniform(0.5, 2, 9).astype(np.float32) for k in range(50)]
    tasks = [Task(k, kernel, parameters={"dst_scale": scales[k]}) for k in range(50)]
    TaskList(tasks, threads).run(src, [int(x.ctypes.data) for x in targets])
    for x, y, scale in zip(sources, targets, scales, strict=True):
        assert np.array_equal(y, np.clip(np.rint(x / scale[:, None]), -128, 127).astype(np.int8).T)


def test_one_list_runs_in_several_threads_at_once():
    kernel = compile_reorder(SOURCE, TARGET, "f32", threads=1)
    tasks = TaskList([Task(k, kernel) for k in range(40)], 2)
    data = [_data(40, seed) for seed in range(4)]

    def run(number: int) -> None:
        for _ in range(20):
            tasks.run(*data[number][2:])

    threads = [Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(
        np.array_equal(y, x.T) for sources, targets, *_ in data for x, y in zip(sources, targets, strict=True)
    )


def test_a_list_runs_when_the_cache_no_longer_has_its_code():
    """As where two threads that come first both compile it, and the cache keeps that of the other."""
    sources, targets, src, dst = _data(3)
    kernel = compile_reorder(SOURCE, TARGET, "f32", threads=1)
    tasks = TaskList([Task(k, kernel) for k in range(3)], 1)
    code = ref(task_list._code())  # pyright: ignore[reportPrivateUsage]
    task_list._code.cache_clear()  # pyright: ignore[reportPrivateUsage]
    collect()
    assert code() is not None
    tasks.run(src, dst)
    assert all(np.array_equal(y, x.T) for x, y in zip(sources, targets, strict=True))


def test_no_tasks_do_nothing():
    TaskList([], 2).run([], [])
