"""Runs in pieces: every element, in powers of two, and long runs that end where they should."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from layout_ir.backends.llvm.emission.kernels.runs import pieces
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime.compiled_plan import load
from layout_ir.dialects.kernel.plan import Copy, Loop, Plan, Step
from layout_ir.elements.quantization import Conversion


@pytest.mark.parametrize("most", [1, 16, 64])
def test_pieces_are_powers_of_two_that_cover_a_run(most: int):
    for size in range(1, 200):
        found = list(pieces(size, most))
        assert {k for at, n in found for k in range(at, at + n)} == set(range(size))
        assert all(n & (n - 1) == 0 and n <= most for _, n in found)


def test_only_the_last_piece_overlaps_others():
    for size in range(1, 200):
        found = list(pieces(size, 32))
        assert all(at + n == behind for (at, n), (behind, _) in pairwise(found[:-1]))


@pytest.mark.parametrize("beta", [None, 1.0])
@pytest.mark.parametrize("parts", [1, 3])
def test_every_element_is_converted_once_or_as_often_as_does_no_harm(beta: float | None, parts: int):
    conversion = Conversion("f32", "f32", beta=beta, src_scale=2.0)
    for run in (1, 7, 64, 65, 200, 511, 1000):
        steps = (Step((), 0, 0, Copy(run, Loop(3, 4 * run, 4 * run + 4))),)
        plan = Plan(4, 12 * run, 12 * run + 8, steps, conversion)
        x = np.arange(3 * run, dtype=np.float32).reshape(3, run)
        y = np.full(3 * run + 2, 5, np.float32)
        for part in range(parts):
            load(plan, host()).run_part(x.ctypes.data, y.ctypes.data, part, parts)
        wanted = np.full(3 * run + 2, 5, np.float32)
        for k in range(3):
            wanted[k * (run + 1) : k * (run + 1) + run] = 2 * x[k] + (5 if beta else 0)
        assert np.array_equal(y, wanted)
