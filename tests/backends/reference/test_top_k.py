"""TopK beside PyTorch, and a stable sort of what it leaves open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.api.program_text import parse_program
from layout_ir.backends.reference.top_k import top_k

DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "uint64"]


def sorted_first(x: np.ndarray[Any, Any], k: int, axis: int, largest: bool) -> np.ndarray[Any, Any]:
    """The indices that a stable sort of Python puts first."""

    def first(row: np.ndarray[Any, Any]) -> list[int]:
        numbers = row.tolist()
        return sorted(range(len(numbers)), key=lambda at: -numbers[at] if largest else numbers[at])[:k]

    return np.apply_along_axis(first, axis, x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(("axis", "k"), [(-1, 3), (0, 1), (1, 5), (1, 0), (2, 9)])
def test_equal_elements_come_in_the_order_of_their_indices(dtype: str, largest: bool, axis: int, k: int):
    low = 0 if dtype.startswith("u") else -3
    x = np.random.default_rng(k).integers(low, 4, (4, 5, 9)).astype(dtype)
    values, indices = top_k(x, k, axis, largest)
    np.testing.assert_array_equal(indices, sorted_first(x, k, axis, largest).reshape(indices.shape))
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, axis))
    assert (values.dtype, indices.dtype) == (x.dtype, np.int64)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
@pytest.mark.parametrize("largest", [False, True])
def test_the_ends_of_a_type(dtype: str, largest: bool):
    if dtype.startswith("f"):
        of_floats = np.finfo(dtype)
        x = np.array([of_floats.min, of_floats.max, 0, 1, -np.inf, np.inf, of_floats.smallest_normal], dtype)
    else:
        of_integers = np.iinfo(dtype)
        x = np.array([of_integers.min, of_integers.max, 0, 1], dtype)
    values, _ = top_k(x, len(x), 0, largest)
    np.testing.assert_array_equal(values, np.sort(x)[:: -1 if largest else 1])


def test_what_is_no_number_is_the_largest_as_in_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    x = np.array([1.0, np.nan, np.inf, -np.nan, -np.inf, 2.0], np.float32)
    for largest in (False, True):
        found, _ = top_k(x, 4, 0, largest)
        np.testing.assert_array_equal(
            found, torch.topk(torch.from_numpy(x), 4, largest=largest).values.numpy()
        )


def test_zeros_of_both_signs_are_equal():
    _, indices = top_k(np.array([-0.0, 0.0, -0.0], np.float32), 3, 0, True)
    np.testing.assert_array_equal(indices, [0, 1, 2])


def test_a_node_takes_its_attributes():
    text = """func.func @main(%x: tensor<4x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xi64>) {
        %k = nn.constant dense<2> : tensor<1xi64>
        %v, %i = nn.opaque "TopK" opset 11 (%x, %k) {axis = 0 : i64, largest = 0 : i64}
            : (tensor<4x2xf32>, tensor<1xi64>) -> (tensor<2x2xf32>, tensor<2x2xi64>)
        func.return %v, %i : tensor<2x2xf32>, tensor<2x2xi64> }"""
    x = np.array([[3, 1], [2, 5], [9, 4], [0, 7]], np.float32)
    values, indices = li.run(parse_program(text, "text.mlir"), (x,))
    np.testing.assert_array_equal(values, [[0, 1], [2, 4]])
    np.testing.assert_array_equal(indices, [[3, 0], [1, 2]])


def test_before_opset_10_k_is_an_attribute():
    text = """func.func @main(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi64>) {
        %v, %i = nn.opaque "TopK" opset 9 (%x) {k = 2 : i64} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
        func.return %v, %i : tensor<2xf32>, tensor<2xi64> }"""
    values, indices = li.run(parse_program(text, "text.mlir"), (np.array([3, 1, 9, 4], np.float32),))
    np.testing.assert_array_equal(values, [9, 4])
    np.testing.assert_array_equal(indices, [2, 3])


def test_negative_more_elements_than_there_are():
    text = """func.func @main(%x: tensor<4xf32>) -> (tensor<5xf32>, tensor<5xi64>) {
        %k = nn.constant dense<5> : tensor<1xi64>
        %v, %i = nn.opaque "TopK" opset 11 (%x, %k)
            : (tensor<4xf32>, tensor<1xi64>) -> (tensor<5xf32>, tensor<5xi64>)
        func.return %v, %i : tensor<5xf32>, tensor<5xi64> }"""
    with pytest.raises(li.LayoutError, match="gives float32"):
        li.run(parse_program(text, "text.mlir"), (np.zeros(4, np.float32),))
