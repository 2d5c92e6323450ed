"""Ops with indices that are computed at import give what ONNX Runtime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from tests.frontends.onnx.models import model, node, ops_of
from tests.frontends.onnx.test_evaluation import compare

DTYPES = ("float32", "int64")


class Case:
    """An op and its constants, drawn."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
        self.dtype = draw(st.sampled_from(DTYPES))
        self.shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
        self.data = self.numbers(self.shape)

    def number(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def numbers(self, shape: tuple[int, ...]) -> NDArray[Any]:
        return self._random.integers(-9, 9, shape).astype(self.dtype)

    def indices(self, shape: tuple[int, ...], extent: int) -> NDArray[np.int64]:
        """Numbers, also negative ones, of elements of a dim."""
        return self._random.integers(-extent, extent, shape)

    def different(self, count: int, extents: tuple[int, ...]) -> NDArray[np.int64]:
        """Vectors of indices, no two of which are the same place."""
        places = self._random.permutation(int(np.prod(extents)))[:count]
        return np.stack(np.unravel_index(places, extents), -1) if extents else np.zeros((count, 0), np.int64)


@st.composite
def gathers(draw: st.DrawFn) -> tuple[list[Any], dict[str, Any]]:
    case = Case(draw)
    rank = len(case.shape)
    axis = case.number(-rank, rank - 1)
    op = draw(st.sampled_from(("Gather", "GatherElements", "GatherND")))
    if op == "Gather":
        indices = case.indices(tuple(draw(st.lists(st.integers(0, 3), max_size=2))), case.shape[axis])
        return [node(op, "a i", axis=axis)], {"a": case.data, "i": indices}
    if op == "GatherElements":
        shape = [case.number(1, extent) for extent in case.shape]
        shape[axis] = case.number(1, 5)
        indices = case.indices(tuple(shape), case.shape[axis])
        return [node(op, "a i", axis=axis)], {"a": case.data, "i": indices}
    batch = case.number(0, rank - 1)
    length = case.number(1, rank - batch)
    free = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    columns = [case.indices((*case.shape[:batch], *free), case.shape[batch + k]) for k in range(length)]
    return [node(op, "a i", batch_dims=batch)], {"a": case.data, "i": np.stack(columns, -1)}


@st.composite
def scatters(draw: st.DrawFn) -> tuple[list[Any], dict[str, Any]]:
    case = Case(draw)
    reduction = draw(st.sampled_from(("none", "add", "mul", "max", "min")))
    if draw(st.booleans()):
        length = case.number(1, len(case.shape))
        many = int(np.prod(case.shape[:length]))
        indices = case.different(case.number(1, many), case.shape[:length])
        updates = case.numbers((len(indices), *case.shape[length:]))
        return [node("ScatterND", "a i u", reduction=reduction)], {"a": case.data, "i": indices, "u": updates}
    axis = case.number(0, len(case.shape) - 1)
    shape = tuple(case.number(1, extent) for extent in case.shape)
    # Along the axis all different: a permutation, of which some are negative.
    indices = np.argsort(np.random.default_rng(case.number(0, 99)).random(case.shape), axis)
    indices = indices[tuple(map(slice, shape))]
    indices = np.where(indices % 2, indices, indices - case.shape[axis])
    constants = {"a": case.data, "i": indices, "u": case.numbers(shape)}
    return [node("ScatterElements", "a i u", axis=axis, reduction=reduction)], constants


@settings(max_examples=150, deadline=None)
@given(gathers())
def test_gathered_as_by_onnx_runtime(drawn: tuple[list[Any], dict[str, Any]]):
    assert compare(*drawn)


@settings(max_examples=150, deadline=None)
@given(scatters())
def test_scattered_as_by_onnx_runtime(drawn: tuple[list[Any], dict[str, Any]]):
    assert compare(*drawn)


def test_sums_at_the_same_place_take_all_updates():
    data, indices = np.zeros(3, np.float32), np.array([[1], [1], [-2]])
    constants = {"a": data, "i": indices, "u": np.array([1, 2, 4], np.float32)}
    assert compare([node("ScatterND", "a i u", reduction="add")], constants)


def test_a_table_of_positions_is_computed_at_import():
    # A table of the size that networks with relative positions have, in a time that needs no loop over elements.
    places = np.stack(np.meshgrid(*map(np.arange, (196, 196, 3)), indexing="ij"), -1)
    source = model(
        [node("ScatterND", "a i u", "y")],
        {},
        constants={
            "a": np.zeros((196, 196, 3), np.float32),
            "i": places,
            "u": np.ones((196, 196, 3), np.float32),
        },
    )
    assert "nn.opaque" not in [op.name for op in ops_of(source)]


@pytest.mark.parametrize(
    ("op", "indices", "updates", "attributes", "message"),
    [
        ("GatherND", [[[2]]], None, {}, r"index 2 is not in -2\.\.1, dim 0"),
        ("GatherND", [[0, 0, 0]], None, {}, r"shape 1x3 do not fit data of shape 2x3"),
        ("GatherND", [[0]], None, {"batch_dims": 1}, r"shape 1x1 do not fit data of shape 2x3"),
        ("GatherElements", [[3]], None, {"axis": 1}, r"index 3 is not in -3\.\.2, axis 1"),
        ("GatherElements", [[0], [0], [0]], None, {"axis": 1}, r"shape 3x1 do not fit data of shape 2x3"),
        ("ScatterElements", [[0, -3]], [[1, 2]], {}, r"index -3 is not in -2\.\.1, axis 0"),
        ("ScatterElements", [[0, 1]], [[1]], {}, r"shape 1x2 do not fit updates of shape 1x1"),
        ("ScatterND", [[5]], [[1, 2, 3]], {}, r"index 5 is not in -2\.\.1, dim 0"),
        ("ScatterND", [[1]], [[1, 2]], {}, r"updates have shape 1x2, expected 1x3"),
        ("ScatterND", [[1]], [[1, 2, 3]], {"reduction": "avg"}, r"reduction = 'avg' is none of none, add"),
    ],
)  # fmt: skip
def test_negative_indices_and_shapes_that_do_not_fit(
    op: str, indices: Any, updates: Any, attributes: dict[str, Any], message: str
):
    constants = {"a": np.zeros((2, 3), np.float32), "i": np.array(indices)}
    if updates is not None:
        constants["u"] = np.array(updates, np.float32)
    source = model([node(op, " ".join(constants), **attributes)], {}, constants=constants, opset=18)
    with pytest.raises(OnnxImportError, match=message):
        from_onnx(source)
