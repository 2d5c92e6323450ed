"""Definitions on vectors of every element type, on registers of any width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layout_ir.backends.llvm.loops.compiled_loop import compile_loop
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.elements.elementwise_formulas import divide
from layout_ir.elements.numpy_types import storage
from tests.backends.llvm.loops.loop_runs import Compute, program_of

INTEGERS: dict[str, Compute] = {
    "floor division": lambda np, x, y: x // y,
    "division": divide,
    "sum, difference, product": lambda np, x, y: (x + y) * (x - y),
    "bits": lambda np, x, y: (x & 12) | y,
    "the larger and the smaller": lambda np, x, y: np.maximum(x, y) - np.minimum(x, y),
    "sign": lambda np, x, y: np.sign(x) + np.abs(y),
    "choice": lambda np, x, y: np.where(x >= y, x, 3),
}


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("dtype", ["i8", "ui8", "i32", "i64"])
@pytest.mark.parametrize("width", [16, 64])
def test_integers_wrap_around_and_never_trap(name: str, dtype: str, width: int):
    rng = np.random.default_rng(0)
    info = np.iinfo(storage(dtype))
    x, y = (rng.integers(info.min, info.max, 203, storage(dtype), endpoint=True) for _ in range(2))
    edge = [info.min, info.max, 0, 1, info.max]
    x[:25], y[:25] = np.repeat(edge, 5), np.tile([*edge[:4], -1 if info.min else 2], 5)
    with np.errstate(all="ignore"):
        function: Callable[..., Any] = INTEGERS[name]
        expected = function(np, x, y)
    out = np.zeros_like(x)
    kernel = compile_loop(
        program_of(INTEGERS[name], 203, dtype, dtype, result=dtype), target=replace(host(), vector=width)
    )
    kernel.run(x, y, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("width", [16, 32, 64])
def test_nan_wins_against_every_number_and_zeros_are_equal(width: int):
    values = np.array([np.nan, 0.0, -0.0, np.inf, -np.inf, 2.5, -2.5], np.float32)
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(values, values))
    machine = replace(host(), vector=width)
    cases: list[tuple[Compute, Any]] = [
        (lambda np, x, y: np.maximum(x, y), np.maximum(x, y)),
        (lambda np, x, y: np.minimum(x, y), np.minimum(x, y)),
    ]
    for compute, expected in cases:
        out = np.zeros_like(x)
        compile_loop(program_of(compute, x.size, "f32", "f32"), target=machine).run(x, y, out)
        np.testing.assert_array_equal(out, expected)


def test_negative_a_comparison_with_nan_is_false_but_for_its_opposite():
    x = np.array([np.nan, 1.0], np.float32)
    cases: list[tuple[Compute, list[int]]] = [(lambda np, x: x == x, [0, 1]), (lambda np, x: x != x, [1, 0])]
    for compute, expected in cases:
        out = np.zeros(2, np.bool_)
        compile_loop(program_of(compute, 2, "f32", result="i1")).run(x, out)
        np.testing.assert_array_equal(out, expected)
