"""Matrices of cubic interpolation, beside the reference of the onnx package."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.dialects.nn.interpolation import cubic_kernel, interpolation_matrix

onnx: Any = pytest.importorskip("onnx", reason="needs the extra 'onnx'")


def theirs(x: Any, size: int, coordinates: str, a: float, exclude: bool) -> Any:
    from onnx.reference import ReferenceEvaluator

    node = onnx.helper.make_node(
        "Resize", ["x", "", "", "sizes"], ["y"], mode="cubic", cubic_coeff_a=a,
        coordinate_transformation_mode=coordinates, exclude_outside=int(exclude),
    )  # fmt: skip
    return ReferenceEvaluator(node, opsets={"": 19}).run(None, {"x": x, "sizes": np.array([size])})[0]  # type: ignore[index]


@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize(("extent", "size"), [(7, 12), (12, 7), (5, 5), (1, 4), (4, 1), (2, 3)])
@pytest.mark.parametrize(("a", "exclude"), [(-0.75, False), (-0.5, True)])
def test_a_dim_is_resized(coordinates: str, extent: int, size: int, a: float, exclude: bool):
    x = np.random.default_rng(0).uniform(-1, 1, extent)
    matrix = interpolation_matrix(
        size, extent, size / extent, coordinates, cubic_kernel(a), exclude_outside=exclude
    )
    assert matrix.shape == (size, extent)
    # A result of one element stands for the first there, says the standard; the package takes another position.
    known = "asymmetric" if coordinates == "pytorch_half_pixel" and size == 1 else coordinates
    # Its positions are in single precision.
    np.testing.assert_allclose(matrix @ x, theirs(x, size, known, a, exclude), atol=1e-5)


def test_each_result_is_an_average():
    for exclude in (False, True):
        matrix = interpolation_matrix(17, 5, 3.4, "half_pixel", cubic_kernel(-0.75), exclude_outside=exclude)
        np.testing.assert_allclose(matrix.sum(axis=1), 1)


def test_negative_rows_reach_no_further_than_two_neighbours():
    matrix = interpolation_matrix(20, 10, 2.0, "half_pixel", cubic_kernel(-0.75))
    for row, position in zip(matrix, (np.arange(20) + 0.5) / 2 - 0.5, strict=True):
        far = np.abs(np.arange(10) - position) > 2
        assert not np.any(row[far])
