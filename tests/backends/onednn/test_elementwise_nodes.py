"""Rare elementwise nodes by loops, beside ONNX Runtime, or NumPy where it has no kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from tests.backends.onednn.node_models import compare_node, executed, node_model, onnx
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def result(op: str, inputs: dict[str, Any], opset: int = 22, **attributes: Any) -> Any:
    """The result of a node by a loop."""
    [found] = executed(node_model(op, inputs, opset=opset, **attributes), inputs)
    return found


def integers(dtype: str, seed: int, shape: tuple[int, ...] = (5, 7)) -> Any:
    low = 0 if dtype.startswith("u") else -100
    return np.random.default_rng(seed).integers(low, 100, shape).astype(dtype)


@pytest.mark.parametrize("op", ["Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan"])
def test_functions_of_floats(op: str):
    compare_node(op, {"x": np.clip(numbers((3, 40)), -0.99, 0.99) + (2 if op == "Acosh" else 0)})


@pytest.mark.parametrize(
    ("op", "attributes"),
    [("IsNaN", {}), ("IsInf", {}), ("IsInf", {"detect_positive": 0}), ("IsInf", {"detect_negative": 0}),
     ("Shrink", {"lambd": 1.0, "bias": 0.5})],
)  # fmt: skip
def test_what_is_exceptional(op: str, attributes: dict[str, Any]):
    x = np.array([0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan], np.float32)
    compare_node(op, {"x": x[: 4 if op == "Shrink" else None]}, **attributes)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits_of_integers(dtype: str):
    x, y = integers(dtype, 1), integers(dtype, 2, (7,))
    for op, function in (("And", np.bitwise_and), ("Or", np.bitwise_or), ("Xor", np.bitwise_xor)):
        np.testing.assert_array_equal(result(f"Bitwise{op}", {"x": x, "y": y}), function(x, y))
    np.testing.assert_array_equal(result("BitwiseNot", {"x": x}), ~x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_no_bit_and_by_all(dtype: str):
    x = integers(dtype, 1, (9, 5))
    y = np.array([0, 1, 3, x.dtype.itemsize * 8 - 1, x.dtype.itemsize * 8], dtype)
    for direction, function in (("LEFT", np.left_shift), ("RIGHT", np.right_shift)):
        found = result("BitShift", {"x": x, "y": y}, 22 if dtype[0] == "u" else 28, direction=direction)
        np.testing.assert_array_equal(found, function(x, y))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_remainders_of_integers(dtype: str):
    x, y = integers(dtype, 1), integers(dtype, 2) | 1
    np.testing.assert_array_equal(result("Mod", {"x": x, "y": y}), np.mod(x, y))
    np.testing.assert_array_equal(result("Mod", {"x": x, "y": y}, fmod=1), np.fmod(x, y))


def test_a_shift_by_fewer_than_no_bit_is_one_by_all():
    inputs = {"x": np.array([-1, 4, -8], np.int8), "y": np.array([-1, -3, -128], np.int8)}
    assert result("BitShift", inputs, 28, direction="RIGHT").tolist() == [-1, 0, -1]
    assert result("BitShift", inputs, 28, direction="LEFT").tolist() == [0, 0, 0]


def test_bits_as_elements_of_another_type():
    x = np.array([[0, 1.5, -np.inf], [np.nan, 3e38, 1e-45]], np.float32)
    found = result("BitCast", {"x": x}, 26, to=onnx.TensorProto.UINT32)
    np.testing.assert_array_equal(found, x.view(np.uint32))


def check_remainders(x: Any, y: Any) -> None:
    """Compares remainders with those of NumPy, which are those of C, bit by bit where they are numbers."""
    found = result("Mod", {"x": x, "y": y}, 13, fmod=1)
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found)[found == 0], np.signbit(expected)[expected == 0])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["f4", "f2", "f8"])
def test_remainders_of_all_kinds_of_floats(dtype: str):
    rng, kind = np.random.default_rng(0), np.dtype(dtype)
    x, y = (np.frombuffer(rng.bytes(5000 * kind.itemsize), kind) for _ in range(2))
    check_remainders(x, y)
    ends = np.array(
        [0, -0.0, 1, -1, 1.5, np.finfo(kind).max, np.finfo(kind).smallest_subnormal, np.inf, np.nan], kind
    )
    check_remainders(*(side.reshape(-1) for side in np.meshgrid(ends, ends)))
    multiples = (y[:500] * rng.integers(-99, 99, 500)).astype(kind)
    check_remainders(np.nextafter(multiples, kind.type(0)), y[:500])


def test_negative_floats_have_no_remainder_of_the_divisors_sign():
    made = node_model("Mod", {"x": numbers((3,)), "y": numbers((3,))}, opset=13, fmod=0)
    assert li.compile(made).fallbacks == {"Mod": 1}
