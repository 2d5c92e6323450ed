"""Products of a row of bytes with weights of i8, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layout_ir.backends.llvm.emission.llvm_builder import Builder
from layout_ir.backends.llvm.loops.compiled_loop import LOOP_SIGNATURE
from layout_ir.backends.llvm.loops.integer_convolution import panel_columns
from layout_ir.backends.llvm.loops.loop_calls import argument_row, loop_function
from layout_ir.backends.llvm.loops.nibble_product import NibbleProduct, has_nibble_product
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.dialects.nn.integer_lstm import IntegerLstm
from layout_ir.elements.numpy_types import Array

pytestmark = pytest.mark.skipif(not has_nibble_product(host()), reason="needs AVX2")


def found(levels: Array, weights: Array) -> Array:
    """The product of bytes (hidden) with weights (columns, hidden)."""
    columns, hidden = weights.shape
    lstm = IntegerLstm(hidden, panel_columns(host()), (False,), (), in_quads=True)
    assert lstm.columns == columns
    packed = lstm.packed(weights)
    np.testing.assert_array_equal(lstm.unpacked(packed), weights)
    b = Builder()
    pointers = [b.load("ptr", "%arguments", 8 * k) for k in range(4)]
    NibbleProduct(host(), lstm.quads, columns, lstm.panel).emit(b, *pointers)
    text = f'target triple = "{host().triple}"\n{loop_function("loops", b, host())}\n'
    code = Code(text, host(), ("loops",))
    # What is behind the last number may be anything.
    halves = [np.full(4 * lstm.quads, 255, np.uint8) for _ in range(2)]
    halves[0][:hidden], halves[1][:hidden] = levels >> 4, levels & 15
    memory = np.full(columns + 32, 77, np.int32)
    arguments = argument_row(4)
    arguments[:4] = [array.ctypes.data for array in (*halves, packed, memory[16:])]
    LOOP_SIGNATURE(code.address("loops"))(int(arguments.ctypes.data), 0, 0, 1)
    assert (memory[:16] == 77).all() and (memory[-16:] == 77).all()
    return memory[16:-16]


@settings(max_examples=20, deadline=None)
@given(hidden=st.integers(1, 90), seed=st.integers(0, 99))
def test_products_of_any_size_are_exact(hidden: int, seed: int):
    rng = np.random.default_rng(seed)
    levels = rng.integers(0, 256, hidden).astype(np.uint8)
    weights = rng.integers(-128, 128, (4 * hidden, hidden)).astype(np.int8)
    np.testing.assert_array_equal(found(levels, weights), weights.astype(int) @ levels)


@pytest.mark.parametrize("weight", [-128, 127])
def test_sums_of_the_largest_numbers_do_not_saturate(weight: int):
    levels, weights = np.full(64, 255, np.uint8), np.full((256, 64), weight, np.int8)
    np.testing.assert_array_equal(found(levels, weights), np.full(256, 64 * 255 * weight))
