"""Ops about shapes, in all their versions."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp
from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from tests.frontends.onnx.models import (
    ints,
    model,
    node,
    only,
    ops_of,
    shape_of,
)
from tests.frontends.onnx.onnxruntime_oracle import check_like_onnx_runtime
from tests.frontends.onnx.running import run

X = {"x": (1, 3, 8, 8)}


def test_dropout_vanishes():
    for opset, inputs in ((9, "x"), (12, "x r"), (13, "x r t")):
        constants = {"r": np.array(0.5, np.float32), "t": np.array(False)}
        assert ops_of(model([node("Dropout", inputs)], X, constants=constants, opset=opset)) == []


def test_negative_empty_tensors_that_do_not_fit_are_an_error():
    empty = {"e": np.zeros((1, 0, 8, 7), np.float32)}
    with pytest.raises(OnnxImportError, match="1x3x8x8 != 1x0x8x7"):
        from_onnx(model([node("Concat", "x e", axis=1)], X, constants=empty))


@pytest.mark.parametrize(
    ("opset", "source"),
    [
        (12, [node("Squeeze", "x", axes=[0, -1])]),
        (13, [node("Squeeze", "x ax")]),
        (13, [node("Squeeze", "x")]),
    ],
)
def test_squeeze(opset: int, source: list[onnx.NodeProto]):
    op = only(model(source, {"x": (1, 3, 1)}, constants={"ax": ints(0, 2)}, opset=opset))
    assert isinstance(op, ReshapeOp)
    assert shape_of(op) == (3,)


def test_unsqueeze():
    for opset, source in ((12, node("Unsqueeze", "x", axes=[0, -1])), (13, node("Unsqueeze", "x ax"))):
        op = only(model([source], {"x": (3, 4)}, constants={"ax": ints(-1, 0)}, opset=opset))
        assert shape_of(op) == (1, 3, 4, 1)


def test_reshape_copies_and_computes_dims():
    for target, allowzero, shape, wanted in (
        ((0, -1), 0, (2, 3, 4), (2, 12)),
        ((-1, 0, 2), 0, (2, 3, 4), (4, 3, 2)),
        ((0, 5), 1, (0, 7), (0, 5)),
        ((), 0, (1, 1), ()),
    ):
        constants = {"s": np.array(target, np.int64)}
        source = model([node("Reshape", "x s", allowzero=allowzero)], {"x": shape}, constants=constants)
        assert shape_of(only(source)) == wanted


def test_a_reshape_to_the_same_shape_vanishes():
    assert ops_of(model([node("Reshape", "x s")], {"x": (2, 3)}, constants={"s": ints(2, -1)})) == []


def test_flatten():
    for axis, wanted in ((0, (1, 24)), (1, (2, 12)), (-1, (6, 4)), (3, (24, 1))):
        assert shape_of(only(model([node("Flatten", "x", axis=axis)], {"x": (2, 3, 4)}))) == wanted


def test_transpose():
    op = only(model([node("Transpose", "x", perm=[2, 0, 1])], {"x": (2, 3, 4)}))
    assert isinstance(op, PermuteOp)
    assert shape_of(op) == (4, 2, 3)
    assert shape_of(only(model([node("Transpose", "x")], {"x": (2, 3, 4)}))) == (4, 3, 2)
    assert ops_of(model([node("Transpose", "x", perm=[0, 1])], {"x": (2, 3)})) == []


def test_slice_takes_attributes_then_inputs():
    by_attributes = only(model([node("Slice", "x", starts=[1], ends=[9], axes=[1])], {"x": (2, 5)}, opset=9))
    constants = {"s": ints(4), "e": ints(-9), "a": ints(-1), "st": ints(-2)}
    by_inputs = only(model([node("Slice", "x s e a st")], {"x": (2, 5)}, constants=constants, opset=10))
    assert (by_attributes.starts, by_attributes.sizes, by_attributes.steps) == ((0, 1), (2, 4), (1, 1))
    assert (by_inputs.starts, by_inputs.sizes, by_inputs.steps) == ((0, 4), (2, 3), (1, -2))


def test_a_slice_backwards_from_in_front_of_the_first_element_begins_there():
    constants = {"s": ints(-7), "e": ints(-(2**63) + 1), "a": ints(1), "st": ints(-2)}
    op = only(model([node("Slice", "x s e a st")], {"x": (2, 5)}, constants=constants, opset=13))
    assert (op.starts, op.sizes, op.steps) == ((0, 0), (2, 1), (1, -2))


def test_negative_a_slice_forwards_from_there_has_all():
    constants = {"s": ints(-7), "e": ints(2**31 - 1), "a": ints(1), "st": ints(2)}
    op = only(model([node("Slice", "x s e a st")], {"x": (2, 5)}, constants=constants, opset=13))
    assert (op.starts, op.sizes, op.steps) == ((0, 0), (2, 3), (1, 2))


def test_split():
    for opset, source in (
        (12, node("Split", "x", "a b", axis=1, split=[2, 3])),
        (13, node("Split", "x s", "a b", axis=1)),
    ):
        ops = ops_of(model([source], {"x": (2, 5)}, ["a", "b"], {"s": ints(2, 3)}, opset=opset))
        assert [op.starts for op in ops if isinstance(op, nn.SliceOp)] == [(0, 0), (0, 2)]
        assert [shape_of(op) for op in ops] == [(2, 2), (2, 3)]
    # From opset 18 on the last part may be smaller.
    ops = ops_of(
        model([node("Split", "x", "a b", axis=1, num_outputs=2)], {"x": (2, 5)}, ["a", "b"], opset=18)
    )
    assert [shape_of(op) for op in ops] == [(2, 3), (2, 2)]


def test_pad_takes_attributes_then_inputs():
    by_attributes = only(model([node("Pad", "x", pads=[0, 1, 0, 2], value=3.0)], {"x": (2, 5)}, opset=10))
    constants = {"p": ints(1, 2), "v": np.array(3, np.float32), "a": ints(-1)}
    by_inputs = only(model([node("Pad", "x p v a")], {"x": (2, 5)}, constants=constants, opset=18))
    for op in (by_attributes, by_inputs):
        assert (op.pads, op.value, op.mode) == ((0, 1, 0, 2), 3.0, "constant")


@pytest.mark.parametrize(
    "pads", [(-1, 0, 1, 2), (0, 1, 0, -2), (-2, 3, 2, -1), (3, -2, 0, 0), (-1, -2, 0, 0)]
)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pads_that_take_away_and_add_are_those_of_onnx_runtime(mode: str, pads: tuple[int, ...]):
    source = model([node("Pad", "x p", mode=mode)], {"x": (5, 6)}, constants={"p": ints(*pads)}, opset=19)
    check_like_onnx_runtime(source, {"x": numbers(5, 6)})


def numbers(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("indices", [[0, 2, -1], [[1, -3], [4, 0]], 3, [2]])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("at_run_time", [True, False])
def test_gather_is_that_of_onnx_runtime(indices: Any, axis: int, at_run_time: bool):
    given = np.array(indices, np.int64)
    source = model([node("Gather", "x i", axis=axis)], {"x": (5, 6, 7)}, opset=13)
    inputs: dict[str, Any] = {"x": numbers(5, 6, 7)}
    if at_run_time:
        source.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, given.shape))
        inputs["i"] = given
    else:
        source.graph.initializer.append(numpy_helper.from_array(given, "i"))
    assert isinstance(only(source), nn.GatherOp)
    check_like_onnx_runtime(source, inputs)


def test_negative_an_index_outside_of_the_dim():
    source = model([node("Gather", "x i")], {"x": (5, 6)}, constants={"i": ints(5)})
    with pytest.raises(LayoutError, match=r"index 5 of nn.gather is not in -5..4, dim 0"):
        run(from_onnx(source), [numbers(5, 6)])


@pytest.mark.parametrize("condition", [[True, False, True], [False], [], [False, True, True, True, True]])
@pytest.mark.parametrize("attributes", [{}, {"axis": 0}, {"axis": -1}])
def test_a_constant_condition_gathers(condition: list[bool], attributes: dict[str, Any]):
    constants = {"c": np.array(condition, np.bool_)}
    source = model([node("Compress", "x c", **attributes)], {"x": (5, 6)}, constants=constants, opset=13)
    check_like_onnx_runtime(source, {"x": numbers(5, 6)})


@pytest.mark.parametrize("shape", [(5, 6), (2, 3), (), (1, 0)])
@pytest.mark.parametrize("attributes", [{}, {"axis": 1}])
def test_a_constant_condition_of_any_shape_is_taken_flat(shape: tuple[int, ...], attributes: dict[str, Any]):
    if attributes and shape == (5, 6):
        shape = (3, 2)  # no longer than the dim
    constants = {"c": np.asarray(np.arange(prod(shape)).reshape(shape) % 3 == 0, np.bool_)}
    source = model([node("Compress", "x c", **attributes)], {"x": (5, 6)}, constants=constants, opset=13)
    check_like_onnx_runtime(source, {"x": numbers(5, 6)})


def test_negative_a_condition_that_has_no_truth_values():
    source = model([node("Compress", "x c")], {"x": (5, 6)}, constants={"c": np.ones(2, np.float32)})
    with pytest.raises(OnnxImportError, match="input 1 is no constant of truth values"):
        from_onnx(source)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("attributes", [{}, {"axis": -1, "keepdims": 0}, {"axis": 1, "select_last_index": 1}])
def test_arg_max_is_that_of_onnx_runtime(op: str, attributes: dict[str, Any]):
    source = model([node(op, "x", **attributes)], {"x": (2, 5, 6)}, opset=13)
    source.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    assert only(source).name.startswith("nn.arg_")
    check_like_onnx_runtime(source, {"x": np.round(numbers(2, 5, 6))})


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_is_views(mode: str):
    source = model([node("DepthToSpace", "x", blocksize=2, mode=mode)], {"x": (2, 12, 3, 5)}, opset=13)
    assert [op.name for op in ops_of(source)] == ["layout.reshape", "layout.permute", "layout.reshape"]
    check_like_onnx_runtime(source, {"x": numbers(2, 12, 3, 5)})


def test_space_to_depth_is_views():
    source = model([node("SpaceToDepth", "x", blocksize=3)], {"x": (2, 2, 6, 9)}, opset=13)
    assert [op.name for op in ops_of(source)] == ["layout.reshape", "layout.permute", "layout.reshape"]
    check_like_onnx_runtime(source, {"x": numbers(2, 2, 6, 9)})


@pytest.mark.parametrize(
    ("op", "shape", "attributes", "message"),
    [
        ("DepthToSpace", (1, 6, 2, 2), {"blocksize": 2}, r"2 \* 2 does not divide the 6 channels"),
        ("DepthToSpace", (1, 4, 2, 2), {"blocksize": 2, "mode": "RCD"}, "mode = RCD is unknown"),
        ("DepthToSpace", (1, 4, 2, 2), {"blocksize": 0}, "blocksize = 0 is below 1"),
        ("SpaceToDepth", (1, 4, 2, 3), {"blocksize": 2}, "2 does not divide the extents 2 and 3 of space"),
        ("SpaceToDepth", (4, 2, 2), {"blocksize": 2}, "input 0 has 3 dims, expected the 4 of N, C, H, W"),
    ],
)
def test_negative_blocks_of_space(op: str, shape: tuple[int, ...], attributes: dict[str, Any], message: str):
    with pytest.raises(OnnxImportError, match=message):
        from_onnx(model([node(op, "x", **attributes)], {"x": shape}))


@pytest.mark.parametrize(("shape", "wanted"), [((3, 1), (2, 1, 4)), ((3, 1), (3, 1)), ((2, 3), (1,))])
def test_expand_is_that_of_onnx_runtime(shape: tuple[int, ...], wanted: tuple[int, ...]):
    nodes = [node("Relu", "x", "r"), node("Expand", "r s")]
    source = model(nodes, {"x": shape}, constants={"s": ints(*wanted)}, opset=13)
    expanded = np.broadcast_shapes(shape, wanted) != shape
    assert [op.name for op in ops_of(source)] == ["nn.relu"] + ["nn.expand"] * expanded
    check_like_onnx_runtime(source, {"x": numbers(*shape)})


def test_tile_is_that_of_onnx_runtime():
    source = model([node("Tile", "x r")], {"x": (2, 3, 4)}, constants={"r": ints(2, 1, 3)}, opset=13)
    assert only(source).repeats == (2, 1, 3)
    check_like_onnx_runtime(source, {"x": numbers(2, 3, 4)})


@pytest.mark.parametrize("attributes", [{}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}])
@pytest.mark.parametrize("axis", [0, -1])
def test_cum_sum_is_that_of_onnx_runtime(axis: int, attributes: dict[str, Any]):
    constants = {"a": np.array(axis, np.int64)}
    source = model([node("CumSum", "x a", **attributes)], {"x": (2, 3, 4)}, constants=constants, opset=14)
    assert only(source).axis == axis % 3
    check_like_onnx_runtime(source, {"x": numbers(2, 3, 4)})


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, 0, -1, 2, -9, 9])
def test_trilu_is_that_of_onnx_runtime(upper: int, k: int | None):
    constants = {} if k is None else {"k": np.array(k, np.int64)}
    source = model(
        [node("Trilu", "x" if k is None else "x k", upper=upper)],
        {"x": (2, 3, 5)},
        constants=constants,
        opset=14,
    )
    assert only(source).name == "nn.where"
    check_like_onnx_runtime(source, {"x": numbers(2, 3, 5)})
