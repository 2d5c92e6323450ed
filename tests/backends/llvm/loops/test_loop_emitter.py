"""Functions of loops: their parts, their code, and reductions along and across lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.backends.llvm.loops.compiled_loop import compile_loop
from layout_ir.backends.llvm.loops.expression import Symbolic, SymbolicNumPy
from layout_ir.backends.llvm.loops.loop_emitter import emit_loops
from layout_ir.backends.llvm.loops.loop_program import LoopProgram, LoopTensor
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime.jit import assembly
from layout_ir.backends.reference import array_ops
from tests.backends.llvm.loops.loop_runs import program_of, run_parts


def matrix(rows: int, columns: int, strides: tuple[int, int], start: int = 0) -> LoopTensor:
    offsets = [
        np.arange(extent, dtype=np.int64)[None] * s
        for extent, s in zip((rows, columns), strides, strict=True)
    ]
    return LoopTensor(tuple(offsets), start, "f32")


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [1, 15, 64, 1000])
def test_parts_together_are_the_whole(parts: int, count: int):
    x = np.arange(count, dtype=np.float32)
    out = np.full(count, np.nan, np.float32)
    kernel = compile_loop(program_of(lambda np, x: x + 1, count, "f32"))
    run_parts(kernel.address, [x, out], parts)
    np.testing.assert_array_equal(out, x + 1)


@pytest.mark.parametrize("shape", [(5, 70), (70, 5), (1, 300), (300, 1), (17, 33)])
@pytest.mark.parametrize("order", ["rows", "columns"])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_softmax_with_lanes_along_rows_and_across_them(shape: tuple[int, int], order: str, axis: int):
    rng = np.random.default_rng(0)
    x = rng.uniform(-20, 20, shape).astype(np.float32)
    strides = (shape[1], 1) if order == "rows" else (1, shape[0])
    held = np.ascontiguousarray(x if order == "rows" else x.T)
    tensor = matrix(*shape, strides)
    graph = array_ops.softmax(SymbolicNumPy(shape[axis]), Symbolic("f32", operand=0, shape=shape), axis)
    kernel = compile_loop(LoopProgram((tensor, tensor), graph, frozenset((axis,))))
    expected = array_ops.softmax(np, x.astype(np.float64), axis)
    for parts in (1, 2, 5):
        out = np.full(held.shape, np.nan, np.float32)
        run_parts(kernel.address, [held, out], parts)
        found = out if order == "rows" else out.T
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 15, 16, 63, 64, 65, 200])
def test_a_sum_of_any_length_leaves_nothing_out(count: int):
    x = 2.0 ** (np.arange(count) % 20)
    rows = np.ascontiguousarray(np.broadcast_to(x, (3, count)), np.float32)
    result = LoopTensor((np.arange(3)[None], np.zeros((1, count), np.int64)), 0, "f32")
    graph = SymbolicNumPy(count).sum(Symbolic("f32", operand=0))
    out = np.zeros(3, np.float32)
    compile_loop(LoopProgram((matrix(3, count, (count, 1)), result), graph, frozenset((1,)))).run(rows, out)
    np.testing.assert_array_equal(out, [x.sum()] * 3)


@pytest.mark.parametrize("name", ["exp", "erf", "tanh", "log", "sin", "log1p", "expm1"])
def test_functions_are_instructions_and_no_calls(name: str):
    program = program_of(lambda np, x: getattr(np, name)(x), 1000, "f32")
    code = assembly(f'target triple = "{host().triple}"\n{emit_loops("f", program, host())}\n', host())
    assert not [line for line in code.splitlines() if line.split()[:1] in (["call"], ["callq"], ["bl"])]


def test_an_operand_that_is_chosen_from_is_read_where_its_index_says():
    table: Any = np.arange(30, dtype=np.float32).reshape(6, 5)
    chosen = np.array([4, -1, 0], np.int64)
    columns, none = np.arange(5)[None], np.zeros((1, 3), np.int64)
    x = LoopTensor((none, columns), 0, "f32", gathered=(1, np.arange(0, 30, 5)))
    index = LoopTensor((np.arange(3)[None], np.zeros((1, 5), np.int64)), 0, "i64")
    out = np.zeros((3, 5), np.float32)
    program = LoopProgram((x, index, matrix(3, 5, (5, 1))), Symbolic("f32", operand=0))
    compile_loop(program).run(table, chosen, out)
    np.testing.assert_array_equal(out, table[chosen])


@pytest.mark.parametrize("adds", [False, True])
def test_one_element_that_is_chosen_is_the_one_that_the_index_says(adds: bool):
    """No loop is left then that would have lanes."""
    table: Any = np.arange(6, dtype=np.float32)
    x = LoopTensor((np.zeros((1, 1), np.int64),), 0, "f32", gathered=(1, np.arange(6)))
    index, result = (LoopTensor((np.zeros((1, 1), np.int64),), 0, dtype) for dtype in ("i64", "f32"))
    graph = Symbolic("f32", operand=0) + 1.0 if adds else Symbolic("f32", operand=0)
    kernel = compile_loop(LoopProgram((x, index, result), graph))
    for chosen in (0, 2, -1):
        kernel.run(table, np.array([chosen]), out := np.zeros(1, np.float32))
        assert out == table[chosen] + adds


@pytest.mark.parametrize("width", [1, 5, 70])
def test_a_result_that_is_chosen_from_is_written_where_the_index_says(width: int):
    updates: Any = np.arange(4 * width, dtype=np.float32).reshape(4, width)
    chosen, out = np.array([2, -1, 2, 0], np.int64), np.full((6, width), -1, np.float32)
    expected = out.copy()
    for row, update in zip(chosen, updates, strict=True):
        expected[row] += update
    columns, rows = np.arange(width)[None], np.arange(4)[None]
    none = np.zeros((1, 4), np.int64), np.zeros((1, width), np.int64)
    index = LoopTensor((rows, none[1]), 0, "i64")
    result = LoopTensor((none[0], columns), 0, "f32", gathered=(1, np.arange(0, 6 * width, width)))
    graph = Symbolic("f32", operand=0) + Symbolic("f32", operand=2)
    program = LoopProgram((matrix(4, width, (width, 1)), index, result, result), graph)
    compile_loop(program).run(updates, chosen, out, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("count", [1, 2, 32, 33, 64, 65, 97])
@pytest.mark.parametrize("reads", [True, False])
def test_offsets_without_any_order_are_followed_by_the_last_lane_too(count: int, reads: bool):
    places = np.random.default_rng(count).permutation(count).astype(np.int64)
    sides = [LoopTensor((places[None],), 0, "f32"), LoopTensor((np.arange(count)[None],), 0, "f32")]
    x, out = np.arange(count, dtype=np.float32), np.full(count, np.nan, np.float32)
    kernel = compile_loop(LoopProgram(tuple(sides if reads else sides[::-1]), Symbolic("f32", operand=0)))
    kernel.run(x, out)
    np.testing.assert_array_equal(out if reads else out[places], x[places] if reads else x)
