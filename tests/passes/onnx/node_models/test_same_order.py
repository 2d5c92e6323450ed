"""Operators whose tensors lie in one order: operands that broadcast, and those that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from tests.passes.onnx.blocked_networks import left, moves, names
from tests.passes.onnx.optimized import check_optimized, initializer, model_of, op_types, transpose, value


def test_the_type_of_another_tensor_is_taken_whatever_its_rank():
    like = value("z", 2, 3, 4, dtype=onnx.TensorProto.INT32)
    nodes = [
        transpose("x", "a", 1, 0),
        oh.make_node("CastLike", ["a", "z"], ["c"]),
        transpose("c", "y", 1, 0),
    ]
    model = model_of(nodes, [value("x", 2, 3), like], [value("y", 2, 3, dtype=onnx.TensorProto.INT32)])
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "z": np.zeros((2, 3, 4), np.int32)}
    assert check_optimized(model, feeds).after.count == 0


@pytest.mark.parametrize("op_type", ["Relu", "ReduceSum", "Size"])
def test_scalars_have_one_order(op_type: str):
    nodes = [oh.make_node("Transpose", ["x"], ["t"]), oh.make_node(op_type, ["t"], ["y"])]
    model = model_of(nodes, [value("x")], [value("y", dtype=7 if op_type == "Size" else 1)])
    assert check_optimized(model, {"x": np.array(2, np.float32)}).after.count == 0


def test_negative_axes_and_pads_that_the_run_time_decides():
    integer = onnx.TensorProto.INT64
    axes = value("a", 1, dtype=integer)
    nodes = [
        transpose("x", "t", 0, 2, 1),
        oh.make_node("ReduceSum", ["t", "a"], ["r"]),
        transpose("r", "y", 0, 2, 1),
    ]
    model = model_of(nodes, [value("x", 2, 3, 4), axes], [value("y", "p", "q", "r")])
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axis in (0, 1, 2):
        check_optimized(model, {"x": x, "a": np.array([axis])}, compares_bytes=False)
    # Pads are a list with entries for every dim: a Gather puts them into the new order.
    nodes[1] = oh.make_node("Pad", ["t", "p"], ["r"])
    model = model_of(nodes, [value("x", 2, 3, 4), value("p", 6, dtype=integer)], [value("y", "p", "q", "r")])
    result = check_optimized(model, {"x": x, "p": np.array([0, 1, 2, 1, 0, 3])}, compares_bytes=False)
    assert result.after.count == 0


def test_pads_of_some_axes_are_moved_as_those_of_all():
    # ONNX Runtime takes the axes of a Pad in front of a Transpose for pads.
    nodes = [
        transpose("x", "t", 0, 3, 1, 2),
        oh.make_node("Pad", ["t", "p", "", "a"], ["r"]),
        transpose("r", "u", 0, 2, 3, 1),
        oh.make_node("Relu", ["u"], ["y"]),
    ]
    weights = [initializer("p", np.array([1, 0, 2, 3])), initializer("a", np.array([-2, 1]))]
    model = model_of(nodes, [value("x", 2, 4, 5, 3)], [value("y", "n", "h", "w", "c")], weights)
    result = check_optimized(model)
    assert op_types(result.model) == ["Pad", "Relu"] and len(result.model.graph.node[0].input) < 4


def test_negative_dropout_in_training_keeps_the_order_of_its_random_numbers():
    weights = [initializer("r", np.float32(0.5)), initializer("m", np.array(True))]
    nodes = [transpose("x", "t", 1, 0), oh.make_node("Dropout", ["t", "r", "m"], ["d"], seed=1)]
    nodes.append(transpose("d", "y", 1, 0))
    model = model_of(nodes, [value("x", 2, 3)], [value("y", 2, 3)], weights)
    assert li.optimize_onnx(model).after.count == 2


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool"])
def test_a_pool_over_all_of_space_is_a_reduction_where_channels_are_last(op_type: str, opset: int):
    nodes = [
        oh.make_node("MatMul", ["x", "w"], ["m"]),  # the channels are last, and stay there
        transpose("m", "t", 0, 3, 1, 2),
        oh.make_node(op_type, ["t"], ["y"]),
    ]
    weights = [initializer("w", np.random.default_rng(1).uniform(-1, 1, (6, 6)))]
    model = model_of(nodes, [value("x", 2, 4, 5, 6)], [value("y", 2, 6, 1, 1)], weights, opset=opset)
    result = check_optimized(model)
    assert result.after.count == 0
    reduction = "ReduceMean" if op_type == "GlobalAveragePool" else "ReduceMax"
    assert op_types(result.model) == ["MatMul", reduction, "Reshape"]


def _residual_blocks(blocks: int) -> onnx.ModelProto:
    """Blocks as those of a ConvNeXt in NHWC, a convolution in front of them and a pool behind."""
    nodes = [
        oh.make_node("Conv", ["x", "w"], ["s"]),
        transpose("s", "r0", 0, 2, 3, 1),
    ]
    for k in range(blocks):
        nodes += [
            transpose(f"r{k}", f"a{k}", 0, 3, 1, 2),
            oh.make_node("Conv", [f"a{k}", "w"], [f"c{k}"]),
            transpose(f"c{k}", f"b{k}", 0, 2, 3, 1),
            oh.make_node("LayerNormalization", [f"b{k}", "g"], [f"n{k}"]),
            oh.make_node("Add", [f"n{k}", f"r{k}"], [f"r{k + 1}"]),
        ]
    nodes += [
        transpose(f"r{blocks}", "t", 0, 3, 1, 2),
        oh.make_node("GlobalAveragePool", ["t"], ["p"]),
        transpose("p", "q", 0, 2, 3, 1),
        oh.make_node("LayerNormalization", ["q", "g"], ["y"]),
    ]
    weights = [
        initializer("w", np.random.default_rng(0).uniform(-1, 1, (32, 32, 1, 1))),
        initializer("g", np.ones(32, np.float32)),
    ]
    return model_of(nodes, [value("x", 1, 32, 4, 4)], [value("y", 1, 1, 1, 32)], weights)


def test_a_pool_is_a_reduction_where_more_nodes_stay_in_their_order_for_it():
    before = moves(names(left(_residual_blocks(3))))
    result = check_optimized(_residual_blocks(3), target="ort-cpu")
    assert "ReduceMean" in op_types(result.model) and result.after.count == 6
    assert moves(names(left(result.model))) <= before


def test_negative_a_pool_of_channels_that_are_second_stays_a_pool():
    nodes = [
        transpose("x", "a", 0, 3, 1, 2),
        oh.make_node("Conv", ["a", "w"], ["c"]),
        transpose("c", "b", 0, 2, 3, 1),
        oh.make_node("Relu", ["b"], ["r"]),
        transpose("r", "d", 0, 3, 1, 2),
        oh.make_node("GlobalAveragePool", ["d"], ["y"]),
    ]
    weights = [initializer("w", np.random.default_rng(1).uniform(-1, 1, (7, 3, 2, 2)))]
    result = check_optimized(model_of(nodes, [value("x", 1, 6, 5, 3)], [value("y", 1, 7, 1, 1)], weights))
    assert op_types(result.model) == ["Transpose", "Conv", "Relu", "GlobalAveragePool"]


def _pool_between_integers(dtype: type) -> onnx.ModelProto:
    """A pool between integers of this type, of channels that came last, which are the last of its result again."""
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "s", "z"], ["a"]),
        oh.make_node("DequantizeLinear", ["a", "s", "z"], ["b"]),
        transpose("b", "c", 0, 3, 1, 2),
        oh.make_node("GlobalAveragePool", ["c"], ["d"]),
        oh.make_node("QuantizeLinear", ["d", "s", "z"], ["e"]),
        oh.make_node("DequantizeLinear", ["e", "s", "z"], ["y"]),
    ]
    constants = [initializer("s", np.float32(0.1)), initializer("z", dtype(0))]
    return model_of(
        nodes, [value("x", 2, 4, 5, 6)], [value("y", 2, 6, 1, 1)], constants, opset=21, ir_version=10
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_negative_a_pool_between_integers_stays_a_pool(dtype: type):
    """ONNX Runtime computes a pool on integers, and a reduction on floats."""
    result = check_optimized(_pool_between_integers(dtype), target="ort-cpu")
    assert "GlobalAveragePool" in op_types(result.model)


def test_a_pool_between_integers_of_16_bits_is_a_reduction():
    result = check_optimized(_pool_between_integers(np.int16), target="ort-cpu")
    assert "ReduceMean" in op_types(result.model) and result.after.count == 0


def _normalized(*perm: int, opset: int = 18, outputs: int = 1) -> onnx.ModelProto:
    """Batch normalization of a tensor behind a Transpose, and a Transpose back."""
    back = [perm.index(d) for d in range(len(perm))]
    given = [2, 3, 4, 5][: len(perm)]
    channels = given[perm[1]]
    random = np.random.default_rng(2)
    names = ["scale", "bias", "mean", "var"]
    weights = [initializer(name, random.uniform(0.5, 1, channels)) for name in names]
    results = ["n", "new_mean", "new_var"][:outputs]
    attributes: dict[str, Any] = {"training_mode": 1} if outputs > 1 else {}
    nodes = [
        transpose("x", "t", *perm),
        oh.make_node("BatchNormalization", ["t", *names], results, **attributes),
        transpose("n", "y", *back),
    ]
    return model_of(nodes, [value("x", *given)], [value("y", *given)], weights, opset=opset)


@pytest.mark.parametrize("opset", [11, 15, 18])
@pytest.mark.parametrize("perm", [(1, 0), (2, 0, 1), (3, 0, 2, 1)])
def test_channels_that_come_first_are_normalized_as_those_of_one_batch(perm: tuple[int, ...], opset: int):
    result = check_optimized(_normalized(*perm, opset=opset))
    assert result.after.count == 0
    assert op_types(result.model) == ["Unsqueeze", "BatchNormalization", "Squeeze"]


def test_negative_channels_that_are_second_are_normalized_as_they_are():
    result = check_optimized(_normalized(0, 1, 3, 2))
    assert op_types(result.model) == ["BatchNormalization"]


def test_negative_channels_that_come_last_are_not():
    assert check_optimized(_normalized(0, 3, 1, 2)).after.count == 2


def test_negative_statistics_that_are_computed_are_those_of_the_batch():
    assert check_optimized(_normalized(1, 0, 2, outputs=3)).after.count == 2


def _between_transposes(op_type: str, opset: int = 17, **axis: Any) -> onnx.ModelProto:
    """An operator on what a Transpose gives, its result there as it is and transposed back."""
    nodes = [
        transpose("x", "t", 0, 2, 1),
        oh.make_node(op_type, ["t"], ["y"], **axis),
        transpose("y", "z", 0, 2, 1),
    ]
    return model_of(
        nodes, [value("x", 2, 32, 32)], [value("y", 2, 32, 32), value("z", 2, 32, 32)], opset=opset
    )


@pytest.mark.parametrize(("target", "left"), [("ort-cpu", 2), ("onnx", 1)])
def test_a_softmax_stays_along_the_innermost_axis_where_the_kernel_moves_what_transposes_would(
    target: str, left: int
):
    # Along the other axis it would give z at once, and only y would be transposed; but it moves its operand and result.
    assert check_optimized(_between_transposes("Softmax", axis=2), target=target).after.count == left
    # With z alone, it moves what both Transposes do.
    model = _between_transposes("Softmax", axis=2)
    del model.graph.output[0]
    (node,) = check_optimized(model, target=target).model.graph.node
    assert node.op_type == "Softmax" and node.attribute[0].i == 1


def test_negative_what_works_along_any_axis_is_not_kept_on_one():
    assert check_optimized(_between_transposes("Relu")).after.count == 1
    # Where it is along the last but one, it gets the innermost of the input.
    assert check_optimized(_between_transposes("Softmax", axis=1)).after.count == 1
    # Up to opset 12, it is along all dims from an axis on, which stay the innermost.
    assert check_optimized(_between_transposes("Softmax", opset=12, axis=1)).after.count == 1


@pytest.mark.parametrize(
    "axes", [[0, 2, 3], [1, -1]]
)  # the checker of onnx 1.23 fails where they are left out
def test_a_normalization_of_mean_and_variance(axes: list[int]):
    nodes = [
        transpose("x", "a", 0, 3, 1, 2),
        oh.make_node("MeanVarianceNormalization", ["a"], ["b"], axes=axes),
        transpose("b", "y", 0, 2, 3, 1),
    ]
    model = model_of(nodes, [value("x", 2, 5, 4, 3)], [value("y", 2, 5, 4, 3)])
    assert check_optimized(model).after.count == 0
