"""Every product that is found is computed by NumPy, on operands that lie as its labels say."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from layout_ir.passes.onnx.node_models.product_labels import (
    Labels,
    Products,
    dim_labels,
    fused_products,
    is_swapped,
    plain_products,
)

SHAPES = [
    ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 6, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)), ((6, 5, 2, 3), (6, 5, 3, 4)), ((6, 5, 2, 3), (5, 3, 4)), ((5, 2, 3), (6, 5, 3, 4)),
]  # fmt: skip


def found_products(products: Products, x: int, w: int, rank: int) -> set[tuple[Labels, Labels, Labels]]:
    """The products that any order of any tensor leads to; each has that tensor in that order."""
    found: set[tuple[Labels, Labels, Labels]] = set()
    for number, labels in enumerate(dim_labels(x, w, rank, rank)):
        for given in permutations(labels):
            for each in products(number, given, x, w, rank):
                assert each[number] == given
                found.add(each)
    return found


@pytest.mark.parametrize(("x", "w"), SHAPES)
def test_products_without_flags_are_those_of_numpy(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    tensors = [random.integers(-9, 9, shape) for shape in (x, w)]
    tensors.append(np.matmul(*tensors))
    rank = tensors[2].ndim
    labels = dim_labels(len(x), len(w), rank, rank)
    found = found_products(plain_products, len(x), len(w), rank)
    for product in found:
        left, right, result = (
            tensor.transpose([own.index(label) for label in lies])
            for tensor, own, lies in zip(tensors, labels, product, strict=True)
        )
        if is_swapped(product[0], rank):
            left, right = right, left
        np.testing.assert_array_equal(np.matmul(left, right), result)
    assert {is_swapped(product[0], rank) for product in found} == {False, True}


@pytest.mark.parametrize(("x", "w"), SHAPES)
def test_products_with_flags_contain_those_without(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    rank = max(len(x), len(w))
    plain = found_products(plain_products, len(x), len(w), rank)
    assert plain < found_products(fused_products, len(x), len(w), rank)
