"""Calls of compiled loops: threads, sharing of code, errors."""

from __future__ import annotations

from threading import Thread

import numpy as np
import pytest

from layout_ir.backends.llvm.loops.compiled_loop import check_indices, compile_loop
from layout_ir.errors import LayoutError
from tests.backends.llvm.loops.loop_runs import Array, program_of


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [3, 100, 500_003])
def test_threads_compute_what_one_does(threads: int, count: int):
    x = np.random.default_rng(0).standard_normal(count).astype(np.float32)
    expected = np.maximum(x, 0) * 3
    kernel = compile_loop(program_of(lambda np, x: np.maximum(x, 0) * 3, count, "f32"), threads=threads)
    for _ in range(3):
        out = np.full(count, np.nan, np.float32)
        kernel.run(x, out)
        np.testing.assert_array_equal(out, expected)


def test_threads_of_python_may_call_one_kernel():
    x = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    kernel = compile_loop(program_of(lambda np, x: x * x, x.size, "f32"), threads=2)
    outs = [np.zeros_like(x) for _ in range(6)]

    def call(out: Array) -> None:
        for _ in range(20):
            kernel.run(x, out)

    callers = [Thread(target=call, args=(out,)) for out in outs]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for out in outs:
        np.testing.assert_array_equal(out, x * x)


def test_programs_of_one_text_share_their_code():
    first, second = (compile_loop(program_of(lambda np, x: x + 7, 321, "f32")) for _ in range(2))
    assert first.address == second.address


def test_negative_programs_of_other_sizes_do_not():
    first, second = (compile_loop(program_of(lambda np, x: x + 7, n, "f32")) for n in (321, 322))
    assert first.address != second.address


def test_an_index_that_was_outside_is_told_once():
    arguments = np.array([1, 1, 2**64 - 3], np.uint64)
    with pytest.raises(LayoutError, match=r"index -3 of nn\.gather is outside of its dim"):
        check_indices(arguments, "nn.gather")
    check_indices(arguments)


def test_a_place_that_was_made_of_several_indices_is_not_told():
    arguments = np.array([1, 1, 2**64 - 2**56 + 5], np.uint64)
    with pytest.raises(LayoutError, match=r"an index of node 'n' is outside of its dim$"):
        check_indices(arguments, "node 'n'")
