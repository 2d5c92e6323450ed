"""Executables under stress: many threads on one, and many that are compiled and dropped. Used by tests and by
benchmarks/stress.py."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np

import layout_ir as li
from layout_ir.dialects import nn
from tests.backends.llvm.stress import Outcome, resident
from tests.backends.onednn.small_programs import Program, numbers

SHAPE = (1, 24, 17, 19)


def network(seed: int = 0) -> Any:
    """A module in which steps of all kinds occur: convolutions in blocks with pads and without, a residual that is
    written over, parts of a concat, reorders, a loop."""
    program = Program(SHAPE)

    def convolved(x: Any, number: int, inputs: int, outputs: int, layout: str) -> Any:
        w = program.constant(numbers((outputs, inputs, 3, 3), seed * 100 + number, -0.07, 0.07))
        return program.add(nn.ConvOp, x, w, pads=(1, 1, 1, 1), format=layout)

    x = program.argument(0, "nChw8c")
    odd = convolved(x, 1, 24, 21, "nChw8c")
    first = program.add(nn.ReluOp, convolved(odd, 2, 21, 24, "nChw8c"), format="nChw8c")
    second = program.add(nn.AddOp, convolved(first, 3, 24, 24, "nChw8c"), first, format="nChw8c")
    joined = program.add(nn.ConcatOp, second, convolved(second, 4, 24, 8, "nChw8c"), axis=1, format="nChw8c")
    last = program.reordered(joined, "nhwc")
    z = program.add(
        nn.AddOp, convolved(last, 5, 32, 16, "nhwc"), program.constant(numbers((1,), 3)), format="nhwc"
    )
    return program.module(program.add(nn.SinOp, z, format="nhwc"), second)


def hammer(threads: int, seconds: float) -> Outcome:
    """`threads` threads call one executable, each on inputs of its own; memory holds NaN before each call, and what
    lies around the arenas is looked at behind it. Wrong is an output with another bit than that of the first call."""
    executable = li.compile(network(), threads=2, checked=True)
    inputs = [numbers(SHAPE, seed) for seed in range(threads)]
    expected = [executable([x]) for x in inputs]
    assert not any(np.isnan(array).any() for arrays in expected for array in arrays)
    outcome, lock = Outcome(), threading.Lock()
    end = perf_counter() + seconds

    def call(number: int) -> None:
        calls = wrong = 0
        while perf_counter() < end:
            found = executable([inputs[number]])
            calls += 1
            wrong += not all(np.array_equal(a, b) for a, b in zip(found, expected[number], strict=True))
        with lock:
            outcome.calls += calls
            outcome.wrong += wrong

    workers = [threading.Thread(target=call, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return outcome


def dropped(executables: int, times: int) -> Iterator[tuple[int, int]]:
    """Bytes of this process, and how many executables live, each time so many were compiled, called and dropped."""
    module, x = network(), numbers(SHAPE)
    for _ in range(times):
        gone: list[weakref.ref[Any]] = []
        for _ in range(executables):
            executable = li.compile(module)
            executable([x])
            gone.append(weakref.ref(executable))
            del executable
        gc.collect()
        yield resident(), sum(ref() is not None for ref in gone)
