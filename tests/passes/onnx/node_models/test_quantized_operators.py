"""Operators on integers of ONNX Runtime's quantizer: Transposes go through them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from tests.passes.onnx.optimized import check_optimized, initializer, model_of, op_types, transpose, value

UINT8 = onnx.TensorProto.UINT8
PARAMETERS = {"s": np.float32(0.1), "z": np.uint8(3), "t": np.float32(0.2), "p": np.uint8(7)}


def _between(
    nodes: list[onnx.NodeProto], inputs: list[tuple[int, ...]], result: tuple[int, ...]
) -> onnx.ModelProto:
    """A model of these nodes on "x", "v" (bytes of these shapes, read with the channels last) to "y"."""
    names = "xv"[: len(inputs)]
    before = [oh.make_node("QuantizeLinear", [f"{name}f", "s", "z"], [name]) for name in names]
    given = [value(f"{name}f", *shape) for name, shape in zip(names, inputs, strict=True)]
    after = oh.make_node("DequantizeLinear", ["y", "t", "p"], ["out"])
    return model_of(
        [*before, *nodes, after], given, [value("out", *result)],
        [initializer(name, array) for name, array in PARAMETERS.items()],
    )  # fmt: skip


def _of_runtime(op_type: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return oh.make_node(op_type, inputs.split(), [output], domain="com.microsoft", **attributes)


def test_a_concat():
    nodes = [
        transpose("x", "a", 0, 3, 1, 2),
        transpose("v", "b", 0, 3, 1, 2),
        _of_runtime("QLinearConcat", "t p a s z b s z", "c", axis=1),
        transpose("c", "y", 0, 2, 3, 1),
    ]
    result = check_optimized(_between(nodes, [(2, 5, 4, 3), (2, 5, 4, 6)], (2, 5, 4, 9)))
    assert "Transpose" not in op_types(result.model)
    (concat,) = (node for node in result.model.graph.node if node.op_type == "QLinearConcat")
    assert oh.get_node_attr_value(concat, "axis") == 3


def test_negative_a_concat_of_several_orders_keeps_a_transpose():
    nodes = [
        transpose("x", "a", 0, 3, 1, 2),
        _of_runtime("QLinearConcat", "t p a s z v s z", "y", axis=1),
    ]
    result = check_optimized(_between(nodes, [(2, 5, 4, 3), (2, 6, 5, 4)], (2, 9, 5, 4)))
    assert op_types(result.model).count("Transpose") == 1


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("order", [(0, 3, 1, 2), (0, 2, 1, 3), (0, 3, 2, 1)])
def test_pools(order: tuple[int, ...], last: int):
    back = tuple(int(place) for place in np.argsort(order))
    shape = np.array((2, 7, 6, 5))[list(order)]
    channels = shape[-1] if last else shape[1]
    window = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "channels_last": last}
    space = list(shape[1:3] if last else shape[2:])
    pooled = [(space[0] - 1) // 2 + 1, space[1]]
    result = [2, *pooled, channels] if last else [2, channels, *pooled]
    result = tuple(int(result[place]) for place in back)
    nodes = [
        transpose("x", "a", *order),
        _of_runtime("QLinearAveragePool", "a s z t p", "b", **window),
        transpose("b", "y", *back),
    ]
    found = check_optimized(_between(nodes, [(2, 7, 6, 5)], result))
    # They vanish where the channels come to lie second or last.
    assert found.after.count == (0 if order[-1 if last else 1] in (1, 3) else 2)


@pytest.mark.parametrize("last", [0, 1])
def test_global_pools(last: int):
    order, back = ((0, 3, 1, 2), (0, 2, 3, 1)) if not last else ((0, 2, 3, 1), (0, 3, 1, 2))
    shape, result = ((2, 7, 6, 5), (2, 1, 1, 5)) if not last else ((2, 5, 7, 6), (2, 5, 1, 1))
    nodes = [
        transpose("x", "a", *order),
        _of_runtime("QLinearGlobalAveragePool", "a s z t p", "b", channels_last=last),
        transpose("b", "y", *back),
    ]
    found = check_optimized(_between(nodes, [shape], result))
    assert found.after.count == 0
    (pool,) = (node for node in found.model.graph.node if node.op_type == "QLinearGlobalAveragePool")
    assert oh.get_node_attr_value(pool, "channels_last") == 1 - last


def test_a_softmax_and_a_choice():
    choice = np.arange(2 * 3 * 5).reshape(2, 3, 5) % 2 > 0
    nodes = [
        transpose("x", "a", 0, 2, 1),
        _of_runtime("QLinearSoftmax", "a s z t p", "b", axis=2, opset=13),
        _of_runtime("QLinearWhere", "c b t p a s z t p", "d"),
        transpose("d", "y", 0, 2, 1),
    ]
    model = _between(nodes, [(2, 5, 3)], (2, 5, 3))
    model.graph.initializer.append(initializer("c", choice))
    assert "Transpose" not in op_types(check_optimized(model).model)


def _old_softmax(*order: int) -> onnx.ModelProto:
    """A QLinearSoftmax of opset 12 over dims 1 and 2 of a tensor that comes in another order, by itself inverse."""
    nodes = [
        transpose("x", "a", *order),
        _of_runtime("QLinearSoftmax", "a s z t p", "b", axis=1, opset=12),
        transpose("b", "y", *order),
    ]
    return _between(nodes, [(2, 5, 3)], (2, 5, 3))


def test_a_softmax_of_before_opset_13_takes_the_dims_behind_its_axis_in_any_order():
    assert check_optimized(_old_softmax(0, 2, 1)).after.count == 0


def test_negative_a_softmax_of_before_opset_13_keeps_its_dims_behind_the_others():
    assert check_optimized(_old_softmax(1, 0, 2)).after.count == 2


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_an_operand_of_lower_rank(op_type: str):
    nodes = [
        transpose("x", "a", 0, 3, 1, 2),
        _of_runtime(op_type, "c t p a s z t p", "b"),
        transpose("b", "y", 0, 2, 3, 1),
    ]
    model = _between(nodes, [(2, 5, 4, 3)], (2, 5, 4, 3))
    model.graph.initializer.append(initializer("c", np.arange(9, 12, dtype=np.uint8).reshape(3, 1, 1)))
    assert "Transpose" not in op_types(check_optimized(model).model)


def test_negative_a_sum_of_operands_in_two_orders_keeps_a_transpose():
    nodes = [transpose("x", "a", 0, 2, 1), _of_runtime("QLinearAdd", "v t p a s z t p", "y")]
    result = check_optimized(_between(nodes, [(2, 5, 3), (3, 5)], (2, 3, 5)))
    assert op_types(result.model).count("Transpose") == 1


def _convolution(rank: int, group: int, *, last: bool) -> tuple[onnx.NodeProto, list[onnx.TensorProto]]:
    """A QLinearConv of six channels into six, of windows of other extents per dim."""
    weights = np.random.default_rng(rank).integers(-60, 60, (6, 6 // group, *(3, 2, 1)[: rank - 2]), np.int8)
    constants = [
        initializer("w", weights),
        initializer("ws", np.float32(0.02)),
        initializer("wz", np.int8(0)),
    ]
    space = rank - 2
    window: dict[str, Any] = {"strides": [2, 1, 1][:space], "pads": [1, 0, 0][:space] * 2, "group": group}
    said: dict[str, Any] = {"channels_last": 1} if last else {}
    domain = "com.microsoft" if last else ""
    node = oh.make_node(
        "QLinearConv", ["a", "s", "z", "w", "ws", "wz", "t", "p"], ["b"], domain=domain, **window, **said
    )
    return node, constants


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("group", [1, 6])
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_a_convolution_takes_channels_where_they_are(rank: int, group: int, last: bool):
    channels_last, channels_second = (0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))
    order, back = (channels_last, channels_second) if last else (channels_second, channels_last)
    node, constants = _convolution(rank, group, last=last)
    space = (7, 6, 5)[: rank - 2]
    pooled = (4, 5, 5)[: rank - 2]
    shape, result = ((2, 6, *space), (2, 6, *pooled)) if last else ((2, *space, 6), (2, *pooled, 6))
    model = _between([transpose("x", "a", *order), node, transpose("b", "y", *back)], [shape], result)
    model.graph.initializer.extend(constants)
    found = check_optimized(model, target="ort-cpu")
    (made,) = (each for each in found.model.graph.node if each.op_type == "QLinearConv")
    assert (found.after.count, made.domain) == (0, "com.microsoft")
    # Without ONNX Runtime's own operators channels are second.
    plain = check_optimized(model, target="onnx")
    assert plain.after.count == (0 if last else 2)


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_a_pool_takes_channels_where_they_are(rank: int):
    channels_last, channels_second = (0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))
    window: dict[str, Any] = {"kernel_shape": [3, 2, 1][: rank - 2], "strides": [2, 1, 1][: rank - 2]}
    pool = oh.make_node("MaxPool", ["a"], ["b"], **window)
    nodes = [transpose("x", "a", *channels_second), pool, transpose("b", "y", *channels_last)]
    model = _between(nodes, [(2, *(7, 6, 5)[: rank - 2], 6)], (2, *(3, 5, 5)[: rank - 2], 6))
    found = check_optimized(model, target="ort-cpu")
    assert op_types(found.model).count("NhwcMaxPool") == 1 and found.after.count == 0
    assert check_optimized(model, target="onnx").after.count == 2


def test_a_pool_that_says_how_indices_are_counted_takes_channels_where_they_are():
    pool = oh.make_node("MaxPool", ["a"], ["b"], kernel_shape=[3, 2], storage_order=0, ceil_mode=1)
    nodes = [transpose("x", "a", 0, 3, 1, 2), pool, transpose("b", "y", 0, 2, 3, 1)]
    model = _between(nodes, [(2, 7, 6, 3)], (2, 5, 5, 3))
    assert op_types(check_optimized(model, target="ort-cpu").model).count("NhwcMaxPool") == 1


def test_negative_a_pool_that_gives_indices_has_its_channels_second():
    pool = oh.make_node("MaxPool", ["a"], ["b", "places"], kernel_shape=[3, 2], storage_order=0)
    nodes = [transpose("x", "a", 0, 3, 1, 2), pool, transpose("b", "y", 0, 2, 3, 1)]
    model = _between(nodes, [(2, 7, 6, 3)], (2, 5, 5, 3))
    assert check_optimized(model, target="ort-cpu").after.count == 2


def test_negative_a_pool_of_floats_has_its_channels_second():
    nodes = [
        transpose("x", "a", 0, 3, 1, 2),
        oh.make_node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2]),
        transpose("b", "y", 0, 2, 3, 1),
    ]
    model = model_of(nodes, [value("x", 2, 6, 5, 3)], [value("y", 2, 5, 4, 3)])
    assert check_optimized(model, target="ort-cpu").after.count == 2


# Products -------------------------------------------------------------------------------------------------------------


def _product(
    left: type, right: type, *, is_constant: bool = False, scales: tuple[int, ...] = ()
) -> onnx.ModelProto:
    """Transposed bytes of these types, their product, and that transposed back."""
    rng = np.random.default_rng(0)
    parameters: dict[str, Any] = {
        "s": np.float32(0.1), "z": left(3), "r": np.full(scales, 0.2, np.float32), "q": np.full(scales, 5, right),
        "t": np.float32(3), "p": left(7),
    }  # fmt: skip
    constants = [initializer(name, array) for name, array in parameters.items()]
    inputs = [value("xf", 2, 3, 5, 4)]
    nodes = [
        oh.make_node("QuantizeLinear", ["xf", "s", "z"], ["x"]),
        oh.make_node("QuantizeLinear", ["vf", "s", "zv"], ["v"]),
        transpose("x", "a", 0, 1, 3, 2),
        transpose("v", "b", 0, 1, 3, 2),
        oh.make_node("QLinearMatMul", ["a", "s", "z", "b", "r", "q", "t", "p"], ["c"]),
        transpose("c", "y", 0, 1, 3, 2),
        oh.make_node("DequantizeLinear", ["y", "t", "p"], ["out"]),
    ]
    if is_constant:
        del nodes[1]
        constants.append(initializer("v", rng.integers(0, 99, (2, 3, 6, 5)).astype(right)))
    else:
        inputs.append(value("vf", 2, 3, 6, 5))
        constants.append(initializer("zv", right(4)))
    return model_of(nodes, inputs, [value("out", 2, 3, 6, 4)], constants)


@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_a_product_has_its_operands_swapped_with_their_scales(dtype: type, target: str):
    result = check_optimized(_product(dtype, dtype), target=target)
    assert result.before.count == 3 and result.after.count == 0
    (product,) = [node for node in result.model.graph.node if node.op_type == "QLinearMatMul"]
    assert list(product.input) == ["v", "r", "q", "x", "s", "z", "t", "p"]


@pytest.mark.parametrize(
    ("right", "is_constant", "scales"),
    [(np.int8, False, ()), (np.uint8, True, ()), (np.uint8, False, (2, 3, 1, 6))],
    ids=["types", "constant", "scales per column"],
)
def test_negative_a_product_keeps_its_right_operand(right: type, is_constant: bool, scales: tuple[int, ...]):
    model = _product(np.uint8, right, is_constant=is_constant, scales=scales)
    result = check_optimized(model, target="ort-cpu")
    (product,) = [node for node in result.model.graph.node if node.op_type == "QLinearMatMul"]
    assert list(product.input[1:3]) == ["s", "z"] and result.after.count > 0


def test_a_product_has_its_stacks_in_any_order():
    nodes = [
        transpose("x", "a", 1, 0, 2, 3),
        transpose("v", "b", 1, 0, 2, 3),
        oh.make_node("QLinearMatMul", ["a", "s", "z", "b", "s", "z", "t", "p"], ["c"]),
        transpose("c", "y", 1, 0, 2, 3),
    ]
    result = check_optimized(_between(nodes, [(2, 3, 4, 5), (2, 3, 5, 6)], (2, 3, 4, 6)))
    assert "Transpose" not in op_types(result.model)
