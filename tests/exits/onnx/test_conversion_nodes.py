"""Reorders that convert elements go out as nodes that give the same stored elements, bit for bit."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.api.onnx_export import to_onnx
from tests.exits.onnx.models import check, counts, evaluate
from tests.programs import parse

FLOATS: dict[str, Any] = {"f32": np.float32, "f64": np.float64, "f16": np.float16}
INTEGERS: dict[str, Any] = {"i8": np.int8, "ui8": np.uint8, "i32": np.int32, "i64": np.int64, "i1": np.bool_}
DTYPES = FLOATS | INTEGERS
ROUNDED = {"Round", "Clip", "Cast", "IsNaN", "Where"}
"""What makes integers of floats."""


def program(source: str, result: str, options: str = "", shape: str = "4x3x5") -> Any:
    types = f"tensor<{shape}x{source}> -> tensor<{shape}x{result}>"
    return parse(
        f"func.func @main(%x: tensor<{shape}x{source}>) -> tensor<{shape}x{result}> "
        f"{{ %y = layout.reorder %x {options} : {types} func.return %y : tensor<{shape}x{result}> }}"
    )


def numbers(dtype: str) -> Any:
    """60 elements, among them the ends of the range, halves, and what is no number."""
    rng: Any = np.random.default_rng(5)
    kind: Any = np.dtype(DTYPES[dtype])
    if kind.kind == "b":
        values = rng.integers(0, 2, 60).astype(kind)
    elif kind.kind in "iu":
        info = np.iinfo(kind)
        values = rng.integers(info.min, info.max, 60, dtype=kind, endpoint=True)
        values[:3] = info.min, info.max, 3
    else:
        values = (rng.standard_normal(60) * 90).astype(kind)
        values[:14] = [
            np.nan,
            np.inf,
            -np.inf,
            0.5,
            1.5,
            -2.5,
            254.5,
            -128.5,
            1e4,
            -1e4,
            0.0,
            -0.0,
            127.5,
            128.0,
        ]
    return values.reshape(4, 3, 5)


LEFT_OUT = {*product(FLOATS, ["i64"]), *product(INTEGERS, ["f16"])}
"""No float has the bounds of i64; and f16 of a large integer is rounded twice by ONNX Runtime."""

PAIRS = [pair for pair in product(DTYPES, DTYPES) if pair[0] != pair[1] and pair not in LEFT_OUT]


@pytest.mark.parametrize(("source", "result"), PAIRS)
def test_a_conversion_rounds_and_saturates(source: str, result: str):
    module, x = program(source, result), numbers(source)
    with np.errstate(all="ignore"):
        (want,) = li.run(module, [x], reorders="reference")
    model = to_onnx(module)
    check(model)
    np.testing.assert_array_equal(evaluate(model, [x], optimized=False)[0], want)


@pytest.mark.parametrize(
    ("source", "result", "options", "op_types"),
    [
        ("i8", "f32", "scale = [0.05, 1.0]", {"DequantizeLinear"}),
        ("ui8", "f32", "scale = [0.05, 1.0] zero_point = [128, 0]", {"DequantizeLinear"}),
        ("i8", "f32", "scale = [[0.05, 0.1, 0.2], 1.0] dim = 1", {"DequantizeLinear"}),
        ("i8", "f32", "scale = [[0.05, 0.1, 0.2], 1.0] zero_point = [3, 0] dim = 1", {"DequantizeLinear"}),
        ("f32", "i8", "scale = [1.0, 0.7] zero_point = [0, 3]", {"Div", "Add"} | ROUNDED),
        ("f32", "ui8", "scale = [1.0, [0.7, 0.4, 0.9]] dim = 1", {"Div"} | ROUNDED),
        ("i8", "ui8", "scale = [0.5, 0.7] zero_point = [-3, 7]", {"Sub", "Mul", "Div", "Add"} | ROUNDED),
        ("f32", "f32", "scale = [0.5, 0.7]", {"Mul", "Div", "Cast"}),
    ],
)  # fmt: skip
def test_quantization_parameters(source: str, result: str, options: str, op_types: set[str]):
    module, x = program(source, result, options), numbers(source)
    with np.errstate(all="ignore"):
        (want,) = li.run(module, [x], reorders="reference")
    model = to_onnx(module)
    check(model)
    assert set(counts(model)) == op_types
    np.testing.assert_array_equal(evaluate(model, [x], optimized=False)[0], want)


def test_negative_bounds_that_no_float_has():
    with pytest.raises(
        li.LayoutError, match=r"layout\.reorder has no form in ONNX: the bounds of i64 are no numbers"
    ):
        to_onnx(program("f32", "i64"))
