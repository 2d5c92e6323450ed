"""Convolutions between views that bring every n-th element together, as TensorFlow writes dilated ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from tests.passes.onnx.optimized import check_optimized, initializer, model_of, op_types, transpose, value

RANDOM = np.random.default_rng(11)
X = (2, 3, 12, 8)
"""Batch, channels, height, width."""
KERNEL = initializer("k", RANDOM.standard_normal((5, 3, 3, 3)))


def _reshape(source: str, target: str, *shape: int) -> tuple[onnx.NodeProto, onnx.TensorProto]:
    return oh.make_node("Reshape", [source, f"{target}_s"], [target]), initializer(f"{target}_s", list(shape))


def _model(
    *inner: onnx.NodeProto,
    block: tuple[int, int] = (3, 2),
    back: tuple[int, int] | None = None,
    weights: tuple[onnx.TensorProto, ...] = (),
    outputs: dict[str, tuple[int, ...]] | None = None,
) -> onnx.ModelProto:
    """Positions by `block` into the batch, `inner` from `b` to `c` with a kernel of 3x3, and back by `back`."""
    n, c, h, w = X
    high, wide = block
    first = [
        _reshape("x", "cut", n, c, h // high, high, w // wide, wide),
        _reshape("turned", "b", high * wide * n, c, h // high, w // wide),
    ]
    g, v = h // high - 2, w // wide - 2
    tall, broad = back or block
    second = [
        _reshape("c", "apart", tall, broad, n, 5, g, v),
        _reshape("together", "y", n, 5, g * tall, v * broad),
    ]
    nodes = [
        first[0][0], transpose("cut", "turned", 3, 5, 0, 1, 2, 4), first[1][0], *inner,
        second[0][0], transpose("apart", "together", 2, 3, 4, 0, 5, 1), second[1][0],
    ]  # fmt: skip
    constants = [KERNEL, *(shape for _, shape in (*first, *second)), *weights]
    made = [value(name, *shape) for name, shape in (outputs or {"y": (n, 5, g * tall, v * broad)}).items()]
    return model_of(nodes, [value("x", *X)], made, constants)


CONV = oh.make_node("Conv", ["b", "k"], ["c"])


def _dilations(model: onnx.ModelProto) -> list[list[int]]:
    nodes = [node for node in model.graph.node if node.op_type == "Conv"]
    return [list(a.ints) for node in nodes for a in node.attribute if a.name == "dilations"]


@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
def test_a_dilation_per_dim(target: str):
    result = check_optimized(_model(CONV), target=target)
    assert (result.before.count, result.after.count) == (2, 0)
    assert _dilations(result.model) == [[3, 2]] and set(op_types(result.model)) <= {"Conv", "Reshape"}


def test_pads_and_dilations_of_its_own_are_as_many_times_as_large():
    conv = oh.make_node("Conv", ["b", "k"], ["c"], pads=[1, 0, 1, 2], dilations=[2, 2])
    result = check_optimized(_model(conv))
    (node,) = (node for node in result.model.graph.node if node.op_type == "Conv")
    found: dict[str, Any] = {a.name: list(a.ints) for a in node.attribute}
    assert found["pads"] == [3, 0, 3, 4] and found["dilations"] == [6, 4]


def test_blocks_and_nodes_by_element_between_the_views():
    kernel = initializer("w", RANDOM.standard_normal((4, 1, 2, 2)))
    quantized = [initializer("scale", 0.05), initializer("zero", np.int8(3))]

    def integers(source: str, target: str) -> list[onnx.NodeProto]:
        return [
            oh.make_node("QuantizeLinear", [source, "scale", "zero"], [f"{target}_q"]),
            oh.make_node("DequantizeLinear", [f"{target}_q", "scale", "zero"], [target]),
        ]

    nodes = [
        transpose("x", "t", 1, 0, 2, 3),
        oh.make_node("SpaceToDepth", ["t"], ["d"], blocksize=2),
        *integers("d", "e"),
        transpose("e", "b", 1, 0, 2, 3),
        oh.make_node("Conv", ["b", "w"], ["c"], group=4),
        *integers("c", "f"),
        transpose("f", "s", 1, 0, 2, 3),
        oh.make_node("DepthToSpace", ["s"], ["u"], blocksize=2),
        transpose("u", "y", 1, 0, 2, 3),
    ]
    model = model_of(nodes, [value("x", 1, 4, 8, 6)], [value("y", 1, 4, 6, 4)], [kernel, *quantized])
    feeds = {"x": RANDOM.standard_normal((1, 4, 8, 6)).astype(np.float32)}
    result = check_optimized(model, feeds)
    assert result.after.count == 0 and _dilations(result.model) == [[2, 2]]


def test_two_convolutions_of_one_value():
    nodes = [CONV, oh.make_node("Conv", ["b", "k2"], ["c2"])]
    model = _model(*nodes, weights=(initializer("k2", RANDOM.standard_normal((5, 3, 3, 3))),))
    model.graph.output.append(value("y2", 12, 5, 2, 2))
    model.graph.node.append(oh.make_node("Relu", ["c2"], ["y2"]))
    assert _dilations(check_optimized(model).model) == [[3, 2]]


@pytest.mark.parametrize("captured", ["turned", "b"])
def test_views_that_a_subgraph_reads_stay(captured: str):
    negated = oh.make_node("Neg", [captured], ["n"])
    shape = {"turned": (3, 2, 2, 3, 4, 4), "b": (12, 3, 4, 4)}[captured]
    branch = oh.make_graph([negated], "branch", [], [value("n", *shape)])
    nodes = [
        oh.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        oh.make_node("Cast", ["sum"], ["which"], to=onnx.TensorProto.BOOL),
        oh.make_node("If", ["which"], ["z"], then_branch=branch, else_branch=branch),
    ]
    model = _model(CONV, *nodes, outputs={"y": (2, 5, 6, 4), "z": shape})
    assert _dilations(check_optimized(model).model) == [[3, 2]]


@pytest.mark.parametrize(("part", "extents"), [({}, 4), ({"start": 0}, 4), ({"start": 1, "end": 3}, 2)])
def test_the_shape_of_what_goes_is_a_constant(part: dict[str, Any], extents: int):
    shape = [
        oh.make_node("Shape", ["c"], ["cs"], **part),
        oh.make_node("Cast", ["cs"], ["z"], to=onnx.TensorProto.FLOAT),
    ]
    result = check_optimized(_model(CONV, *shape, outputs={"y": (2, 5, 6, 4), "z": (extents,)}))
    assert result.after.count == 0 and "Shape" not in op_types(result.model)


NEGATIVE = {
    "another block on the way back": _model(CONV, back=(2, 3)),
    "steps": _model(oh.make_node("Conv", ["b", "k"], ["c"], strides=[2, 1], pads=[1, 0, 0, 0])),
    "a value that others read": _model(
        CONV, oh.make_node("Relu", ["c"], ["r"]), outputs={"y": (2, 5, 6, 4), "r": (12, 5, 2, 2)}
    ),
    "sums over the batch": _model(
        oh.make_node("CumSum", ["b", "axis"], ["s"]),
        oh.make_node("Conv", ["s", "k"], ["c"]),
        weights=(initializer("axis", 0),),
    ),
}


@pytest.mark.parametrize("model", NEGATIVE.values(), ids=NEGATIVE)
def test_negative_where_it_is_no_dilation_it_stays(model: onnx.ModelProto):
    assert _dilations(check_optimized(model).model) == []
