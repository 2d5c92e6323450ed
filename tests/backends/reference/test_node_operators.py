"""Operators that stand in place of those of the onnx package, as nodes, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.reference.node_evaluation import NodeEvaluation
from tests.backends.onednn.node_models import node_model

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is the oracle")


def pooled(shape: tuple[int, ...], **attributes: Any) -> tuple[Any, np.ndarray[Any, Any]]:
    """A model of a MaxPool with indices, and its input, in which elements are equal to others."""
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=(3,) * (len(shape) - 2), **attributes)],
        "node",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_empty_tensor_value_info(name) for name in ("y", "i")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    x = np.random.default_rng(len(shape)).integers(0, 6, shape).astype(np.float32)
    return onnx.shape_inference.infer_shapes(model), x


@pytest.mark.parametrize("shape", [(2, 3, 9), (2, 3, 9, 8), (1, 2, 5, 6, 7)])
@pytest.mark.parametrize("column_major", [0, 1])
@pytest.mark.parametrize(
    "name", ["", "strides", "dilations", "pads", "ceil_mode", "SAME_UPPER", "SAME_LOWER", "VALID"]
)
def test_where_the_largest_elements_are(shape: tuple[int, ...], column_major: int, name: str):
    twice = [2] * (len(shape) - 2)
    attributes: dict[str, Any] = {
        "strides": {"strides": twice},
        "dilations": {"dilations": twice},
        "pads": {"pads": [1] * len(twice) * 2},
        "ceil_mode": {"ceil_mode": 1, "strides": twice, "pads": [1] * len(twice) + [0] * len(twice)},
    }.get(name, {"auto_pad": name, "strides": twice} if name else {})
    model, x = pooled(shape, storage_order=column_major, **attributes)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for ours, theirs in zip(li.run(li.from_onnx(model), [x]), session.run(None, {"x": x}), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_what_is_no_number_is_the_largest_as_without_indices():
    model, x = pooled((1, 1, 5))
    x[0, 0, 2] = np.nan
    values, indices = li.run(li.from_onnx(model), [x])
    assert np.isnan(values).all() and (indices == 2).all()


def test_negative_a_window_that_does_not_fit():
    model, _ = pooled((1, 1, 5, 5))
    model.graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info("x", 1, (1, 1, 2, 2)))
    with pytest.raises(li.LayoutError):
        li.run(li.from_onnx(model), [np.zeros((1, 1, 2, 2), np.float32)])


def loop(shape: tuple[int, ...], trips: int, condition: bool) -> Any:
    """A model of a Loop whose state is doubled, and whose scan outputs are the states and a number."""
    helper = onnx.helper
    value, flag = helper.make_tensor_value_info, onnx.TensorProto.BOOL
    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "state"], ["next"]),
            helper.make_node("Identity", ["next"], ["row"]),
            helper.make_node("ReduceSum", ["next"], ["sum"], keepdims=0),
            helper.make_node("Identity", ["going"], ["still"]),
        ],
        "body",
        [value("trip", 7, []), value("going", flag, []), value("state", 1, shape)],
        [value("still", flag, []), value("next", 1, shape), value("row", 1, shape), value("sum", 1, [])],
    )
    graph = helper.make_graph(
        [
            helper.make_node(
                "Loop", ["trips", "condition" if condition else "", "x"], ["y", "rows", "sums"], body=body
            )
        ],
        "loop",
        [value("x", 1, shape)],
        [value("y", 1, shape), value("rows", 1, (trips, *shape)), value("sums", 1, (trips,))],
        [
            onnx.numpy_helper.from_array(np.array(trips), "trips"),
            onnx.numpy_helper.from_array(np.array(True), "condition"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("trips", [1, 4])
@pytest.mark.parametrize("condition", [False, True])
def test_what_the_trips_of_a_loop_leave(shape: tuple[int, ...], trips: int, condition: bool):
    model = loop(shape, trips, condition)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for ours, theirs in zip(li.run(li.from_onnx(model), [x]), session.run(None, {"x": x}), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("trips", [0, 3])
def test_a_loop_without_condition_and_values_of_its_own(trips: int):
    helper = onnx.helper
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["trip"], ["row"], to=6),
            helper.make_node("Identity", ["going"], ["still"]),
        ],
        "body",
        [value("trip", 7, []), value("going", 9, [])],
        [value("still", 9, []), value("row", 6, [])],
    )
    loop = NodeEvaluation([helper.make_node("Loop", ["trips", ""], ["rows"], body=body)], {"": 17})
    [rows] = loop({"trips": np.array(trips)})
    assert (rows.dtype, rows.tolist()) == (np.int32, list(range(trips)))


@pytest.mark.parametrize("sides", [(0, 0, 0, 0), (1, 1, 1, 0), (1, 0, -1, 1)])
def test_what_a_scan_leaves(sides: tuple[int, int, int, int]):
    helper = onnx.helper
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("ReduceSum", ["row"], ["sum"], keepdims=0),
            helper.make_node("Add", ["state", "sum"], ["next"]),
            helper.make_node("Mul", ["row", "next"], ["made"]),
        ],
        "body",
        [value("state", 1, []), value("row", 1, [3])],
        [value("next", 1, []), value("made", 1, [3])],
    )
    names = ("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions")
    attributes = {name: [side] for name, side in zip(names, sides, strict=True)}
    node = helper.make_node(
        "Scan", ["first", "x"], ["last", "rows"], body=body, num_scan_inputs=1, **attributes
    )
    x = np.random.default_rng(0).standard_normal((4, 3) if sides[0] == 0 else (3, 4)).astype(np.float32)
    graph = helper.make_graph(
        [node], "scan", [value("first", 1, []), value("x", 1, x.shape)],
        [value("last", 1, []), value("rows", 1, None)],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = {"first": np.array(0.5, np.float32), "x": x}
    evaluated = NodeEvaluation([node], {"": 17})(inputs)
    for ours, theirs in zip(evaluated, session.run(None, inputs), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_a_scan_over_nothing_has_no_rows():
    helper = onnx.helper
    body = helper.make_graph(
        [helper.make_node("Neg", ["row"], ["made"])],
        "body",
        [helper.make_tensor_value_info("row", 10, [3])],
        [helper.make_tensor_value_info("made", 10, [3])],
    )
    node = helper.make_node("Scan", ["x"], ["rows"], body=body, num_scan_inputs=1)
    [rows] = NodeEvaluation([node], {"": 17})({"x": np.zeros((0, 3), np.float16)})
    assert (rows.dtype, rows.shape) == (np.float16, (0, 3))


@pytest.mark.parametrize(
    ("attribute", "labels"), [("classlabels_int64s", [3, 7]), ("classlabels_strings", ["a", "b"])]
)
def test_a_map_from_class_to_number_for_each_row(attribute: str, labels: list[int] | list[str]):
    node = onnx.helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **{attribute: labels})
    evaluate = NodeEvaluation([node], {"ai.onnx.ml": 1})
    (found,) = evaluate({"x": np.array([[0.25, 0.75], [1, 0]], np.float32)})
    assert found == [dict(zip(labels, row, strict=True)) for row in ((0.25, 0.75), (1, 0))]
    with pytest.raises(li.LayoutError, match=r"fails on ZipMap .*: 3 columns for 2 classes"):
        evaluate({"x": np.ones((1, 3), np.float32)})


def _support_vectors(classes: int) -> NodeEvaluation:
    """An SVMClassifier whose first rows, a vector per class, are alike."""
    pairs = classes * (classes - 1) // 2
    node = onnx.helper.make_node(
        "SVMClassifier",
        ["x"],
        ["label", "probabilities"],
        domain="ai.onnx.ml",
        classlabels_ints=list(range(classes)),
        coefficients=[1.0] * classes * (classes - 1),
        kernel_params=[1.0, 0.0, 1.0],
        kernel_type="LINEAR",
        prob_a=[-1.0] * pairs,
        prob_b=[0.5] * pairs,
        rho=[0.1] * pairs,
        support_vectors=np.arange(2.0 * classes).tolist(),
        vectors_per_class=[1] * classes,
    )
    return NodeEvaluation([node], {"ai.onnx.ml": 1})


def test_probabilities_of_two_classes():
    _, probabilities = _support_vectors(2)({"x": np.ones((1, 2), np.float32)})
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)


def test_negative_probabilities_of_three_classes():
    with pytest.raises(
        li.LayoutError, match=r"fails on SVMClassifier .*: probabilities of more than two classes"
    ):
        _support_vectors(3)({"x": np.ones((1, 2), np.float32)})


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_are_gathered_by_indices_that_lie_anywhere_and_by_none(axis: int):
    helper = onnx.helper
    gather = NodeEvaluation([helper.make_node("Gather", ["x", "i"], ["y"], axis=axis)], {"": 18})
    x = np.arange(12.0).reshape(3, 4)
    for indices in (np.array([[0, 1], [2, -1]]).T, np.zeros((0, 2), np.int64), np.array(1)):
        [found] = gather({"x": x, "i": indices})
        np.testing.assert_array_equal(found, np.take(x, indices, axis))


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_rows_go_from_their_axis_on_before_opset_13(operator: str, opset: int, axis: int | None):
    helper = onnx.helper
    node = helper.make_node(operator, ["x"], ["y"], **({} if axis is None else {"axis": axis}))
    x = np.random.default_rng(0).integers(-2, 3, (2, 3, 4)).astype(np.float32)
    [found] = NodeEvaluation([node], {"": opset})({"x": x})
    values = (helper.make_tensor_value_info(name, 1, (2, 3, 4)) for name in "xy")
    graph = helper.make_graph([node], "node", [next(values)], [next(values)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(found, session.run(None, {"x": x})[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("given", [True, False])
def test_an_optional_value_is_what_it_holds_or_nothing(given: bool):
    helper = onnx.helper
    kind = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [3])
    nodes = [
        helper.make_node("Optional", ["x"] if given else [], ["o"], type=kind),
        helper.make_node("OptionalHasElement", ["o"], ["there"]),
    ]
    x = np.ones(3, np.float32)
    held, there = NodeEvaluation(nodes, {"": 18})({"x": x} if given else {})
    assert held is (x if given else None)
    assert there == given


@pytest.mark.parametrize("axis", [-1, 0])
def test_places_that_are_one_hot_by_a_depth_that_is_a_vector(axis: int):
    helper = onnx.helper
    node = helper.make_node("OneHot", ["i", "depth", "values"], ["y"], axis=axis)
    indices = np.array([[1, -1, 3], [0, 5, -4]])
    given = {"i": indices, "depth": np.array([4]), "values": np.array([0.5, 2], np.float32)}
    [found] = NodeEvaluation([node], {"": 13})(given)
    rows = np.array([[np.roll([2, 0.5, 0.5, 0.5], at) for at in row] for row in indices], np.float32)
    rows[1, 1] = 0.5  # index 5 is outside
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.moveaxis(rows, -1, axis))


def node_results(
    op: str, inputs: list[Any], domain: str = "", **attributes: Any
) -> tuple[list[Any], list[Any]]:
    """The results of a node by the executor and by ONNX Runtime."""
    helper = onnx.helper
    names = [f"i{number}" for number in range(len(inputs))]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], domain=domain, **attributes)],
        "node",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, inputs, strict=True)
        ],
        [helper.make_empty_tensor_value_info("y")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = dict(zip(names, inputs, strict=True))
    evaluation = NodeEvaluation(list(graph.node), {"": 17, "com.microsoft": 1})
    return list(evaluation(feeds)), session.run(None, feeds)


@pytest.mark.parametrize("scale", [1.0, 0.5, 0.37])
@pytest.mark.parametrize("counts", [(1, 1), (2, 3), (7, 5)])
def test_the_largest_of_regions(scale: float, counts: tuple[int, int]):
    x = np.random.default_rng(3).standard_normal((2, 3, 9, 8)).astype(np.float32) - 3
    regions = np.array(
        [[0, 0, 0, 7, 8], [1, 1, 3, 2, 3], [0, -3, 5, 3, 30], [1, 5, 5, 2, 1], [0, 40, 40, 50, 50], [1, 3, 1, 11, 5]],
        np.float32,
    )  # fmt: skip
    (ours,), (theirs,) = node_results("MaxRoiPool", [x, regions], pooled_shape=counts, spatial_scale=scale)
    np.testing.assert_array_equal(ours, theirs)


def test_negative_the_largest_of_a_region_of_no_batch():
    evaluation = NodeEvaluation(
        [onnx.helper.make_node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[1, 1])], {"": 17}
    )
    with pytest.raises(li.LayoutError, match="outside of its 1"):
        evaluation({"x": np.zeros((1, 1, 4, 4), np.float32), "r": np.ones((1, 5), np.float32)})


@pytest.mark.parametrize("shape", [(4, 4), (3, 2, 2), (2, 3, 5, 5), (0, 2, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inverses_of_matrices(shape: tuple[int, ...], dtype: type):
    x: Any = np.random.default_rng(4).standard_normal(shape) + 3 * np.eye(shape[-1])
    x = x.astype(dtype)
    (ours,), (theirs,) = node_results("Inverse", [x], "com.microsoft")
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_negative_inverses_of_what_has_none():
    evaluation = NodeEvaluation(
        [onnx.helper.make_node("Inverse", ["x"], ["y"], domain="com.microsoft")], {"": 17, "com.microsoft": 1}
    )
    (found,) = evaluation({"x": np.stack([np.zeros((2, 2)), 2 * np.eye(2)]).astype(np.float32)})
    assert np.isnan(found[0]).all()
    np.testing.assert_array_equal(found[1], np.eye(2) / 2)
    with pytest.raises(li.LayoutError, match="square"):
        evaluation({"x": np.zeros((2, 3), np.float32)})


@pytest.mark.parametrize("shape", [(30,), (4,), (5, 6), (2, 3), (1, 5, 6)])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_a_condition_of_any_shape_is_taken_flat(shape: tuple[int, ...], axis: int | None):
    helper = onnx.helper
    attributes = {} if axis is None else {"axis": axis}
    compress = helper.make_node("Compress", ["x", "c"], ["y"], **attributes)
    x, count = np.arange(30, dtype=np.float32).reshape(5, 6), int(np.prod(shape))
    length = x.size if axis is None else x.shape[axis]
    condition = (np.arange(count) % 3 == 0) & (np.arange(count) < length)
    if axis is not None and count > length:
        shape, condition = (length, 1), condition[:length]
    inputs = {"x": x, "c": condition.reshape(shape)}
    graph = helper.make_graph(
        [compress],
        "node",
        [
            helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape),
            helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, shape),
        ],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["a"] if axis is None else ["a", "b"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (ours,) = NodeEvaluation([compress], {"": 13})(inputs)
    np.testing.assert_array_equal(ours, session.run(None, inputs)[0])


@pytest.mark.parametrize(
    "zero", [np.array([3, 7, 1], np.uint8), np.array([[3], [7], [1]], np.uint8), np.uint8(5)]
)
def test_a_vector_has_a_zero_point_for_each_row(zero: Any):
    """ONNX Runtime takes none of these; what the standard says is in NumPy."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (3, 3)).astype(np.uint8), rng.integers(-128, 128, (3, 4)).astype(np.int8)
    rows = np.reshape(zero, (-1, 1)).astype(np.int64)
    product = (a.astype(np.int64) - rows) @ b.astype(np.int64)
    evaluation = NodeEvaluation([onnx.helper.make_node("MatMulInteger", ["a", "b", "z"], ["y"])], {"": 17})
    np.testing.assert_array_equal(evaluation({"a": a, "b": b, "z": np.asarray(zero)})[0], product)

    names = ["a", "s", "z", "b", "t", "u", "v", "w"]
    evaluation = NodeEvaluation([onnx.helper.make_node("QLinearMatMul", names, ["y"])], {"": 17})
    scale = (0.5 + rows[:, 0] / 8).astype(np.float32).reshape(np.shape(zero))
    given = {"a": a, "s": scale, "z": np.asarray(zero), "b": b, "t": np.float32(0.25), "u": np.int8(0)}
    (found,) = evaluation(given | {"v": np.float32(64) * scale, "w": np.asarray(zero)})
    np.testing.assert_array_equal(found, np.clip(np.rint(product / 256 + rows), 0, 255))


def test_negative_a_vector_of_other_rows():
    evaluation = NodeEvaluation([onnx.helper.make_node("MatMulInteger", ["a", "b", "z"], ["y"])], {"": 17})
    a, b = np.ones((3, 2), np.uint8), np.ones((2, 4), np.int8)
    with pytest.raises(li.LayoutError):
        evaluation({"a": a, "b": b, "z": np.array([1, 2], np.uint8)})


@pytest.mark.parametrize("dtype", ["int4", "uint4", "uint16", "int8"])
@pytest.mark.parametrize("channels", [0, 5])
def test_levels_of_the_runtime_are_those_of_the_standard(dtype: str, channels: int):
    """ONNX Runtime takes and gives no numbers of 4 bits: both nodes together give f32."""
    kind = onnx.helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, dtype.upper()))
    rng = np.random.default_rng(2)
    scale = np.asarray(rng.uniform(0.1, 1, channels or ()), np.float32)
    zero = np.asarray(rng.integers(0, 7, scale.shape)).astype(kind)
    given = [onnx.numpy_helper.from_array(array, name) for name, array in (("s", scale), ("z", zero))]
    nodes = [
        onnx.helper.make_node(name, [source, "s", "z"], [target], domain="com.microsoft", axis=1)
        for name, source, target in (("QuantizeLinear", "x", "q"), ("DequantizeLinear", "q", "y"))
    ]
    x = rng.normal(0, 4, (3, 5, 2)).astype(np.float32)
    values = [onnx.helper.make_tensor_value_info(name, 1, x.shape) for name in "xy"]
    graph = onnx.helper.make_graph(nodes, "levels", values[:1], values[1:], given)
    domains = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=domains, ir_version=10)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    np.testing.assert_allclose(li.compile(model)([x])[0], expected, rtol=1e-6)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("axis", [0, -1])
def test_rows_are_divided_by_their_norms(order: int, axis: int):
    x = np.array([[1.5, -0.5, 2], [0, 0, 0], [-3, 4, 0]], np.float32)
    inputs = {"x": x}
    model = node_model("LpNormalization", inputs, opset=22, p=order, axis=axis)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    constant = onnx.ModelProto.FromString(model.SerializeToString())
    constant.graph.initializer.append(onnx.numpy_helper.from_array(x, "x"))
    del constant.graph.input[:]
    for made, given in ((model, [x]), (constant, [])):
        (found,) = li.run(li.from_onnx(made), given)
        np.testing.assert_allclose(found, session.run(None, inputs)[0], rtol=1e-6)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("factors", [(1, 2, 3), (1, 0.5, 1), (1, 1.7, 1)])
def test_resizing_before_opset_11_has_scales_in_place_of_regions(mode: str, factors: tuple[float, ...]):
    inputs = {"x": np.random.default_rng(0).random((2, 6, 5), np.float32), "s": np.array(factors, np.float32)}
    made = onnx.helper.make_node("Resize", list(inputs), ["y"], mode=mode)
    (found,) = NodeEvaluation([made], {"": 10})(inputs)
    graph = onnx.helper.make_graph(
        [made],
        "node",
        [onnx.helper.make_tensor_value_info(name, 1, array.shape) for name, array in inputs.items()],
        [onnx.helper.make_empty_tensor_value_info("y")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 10)], ir_version=5)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(found, session.run(None, inputs)[0], rtol=0, atol=1e-6)
