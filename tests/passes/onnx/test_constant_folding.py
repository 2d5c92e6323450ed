"""Transposes that constants decide."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
import pytest
from numpy.typing import NDArray

import layout_ir as li
from layout_ir.passes.onnx.constant_folding import constant_integers, decided_integers
from layout_ir.passes.onnx.graph_construction import graphs_of_model
from tests.passes.onnx.optimized import check_optimized, initializer, model_of, op_types, transpose, value

W = np.arange(15, dtype=np.float32).reshape(3, 5)


def test_a_transpose_of_a_constant_happens_now():
    nodes = [transpose("w", "wt", 1, 0), oh.make_node("MatMul", ["x", "wt"], ["y"])]
    result = check_optimized(model_of(nodes, [value("x", 4, 5)], [value("y", 4, 3)], [initializer("w", W)]))
    assert op_types(result.model) == ["MatMul"]
    (weights,) = result.model.graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(weights), W.T)


def test_views_of_constants_and_shapes_lead_to_it():
    nodes = [
        oh.make_node("Reshape", ["w", "s"], ["a"]),
        transpose("a", "b", 1, 0, 2),
        oh.make_node("Add", ["x", "b"], ["y"]),
    ]
    weights = [initializer("w", np.arange(24.0)), initializer("s", [2, 3, 4])]
    result = check_optimized(model_of(nodes, [value("x", 3, 2, 4)], [value("y", 3, 2, 4)], weights))
    assert op_types(result.model) == ["Add"]


def test_a_constant_that_is_used_in_two_orders_is_there_twice_and_no_more():
    nodes = [
        transpose("w", "a", 1, 0),
        oh.make_node("MatMul", ["x", "a"], ["b"]),
        oh.make_node("MatMul", ["b", "w"], ["c"]),
    ]
    nodes += [transpose("w", "d", 1, 0), oh.make_node("MatMul", ["c", "d"], ["y"])]
    result = check_optimized(model_of(nodes, [value("x", 4, 5)], [value("y", 4, 3)], [initializer("w", W)]))
    assert result.after.count == 0 and len(result.model.graph.initializer) == 2


def test_negative_quantized_weights_stay_quantized():
    scales = initializer("s", [0.1, 0.2, 0.3])
    weights = onnx.numpy_helper.from_array(W.T.astype(ml_dtypes.int4), "w")
    nodes = [oh.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=1), transpose("d", "t", 1, 0)]
    nodes += [oh.make_node("MatMul", ["x", "t"], ["y"])]
    model = model_of(
        nodes, [value("x", 2, 3)], [value("y", 2, 5)], [weights, scales], opset=21, ir_version=10
    )
    new = check_optimized(model).model
    kinds = {tensor.data_type for tensor in new.graph.initializer}
    assert onnx.TensorProto.INT4 in kinds and "DequantizeLinear" in op_types(new)


@pytest.mark.parametrize(
    "dtype",
    [
        np.float16, np.float64, np.int8, np.uint64, np.bool_, np.complex64, ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4,
    ],
)  # fmt: skip
def test_every_element_type(dtype: Any):
    given: NDArray[Any] = (W % 7).astype(dtype)
    tensor = onnx.numpy_helper.from_array(given, "w")
    nodes = [transpose("w", "t", 1, 0), oh.make_node("Thing", ["t"], ["y"], domain="my")]
    model = model_of(nodes, [], [value("y", 5, 3)], [tensor], opset=21, ir_version=10)
    (found,) = li.optimize_onnx(model).model.graph.initializer
    assert (found.data_type, found.dims) == (tensor.data_type, [5, 3])
    assert onnx.numpy_helper.to_array(found).tobytes() == np.ascontiguousarray(given.T).tobytes()


def test_lists_that_constants_decide_are_known_to_shape_inference():
    nodes = [
        transpose("x", "t", 0, 2, 3, 1),
        oh.make_node("Div", ["c", "two"], ["half"]),
        oh.make_node("Slice", ["t", "zero", "half", "axis"], ["u"]),
        transpose("u", "y", 0, 3, 1, 2),
    ]
    numbers = {"c": [6], "two": [2], "zero": [0], "axis": [3]}
    constants = [initializer(name, np.array(n, np.int64)) for name, n in numbers.items()]
    model = model_of(nodes, [value("x", 2, 6, 4, 5)], [value("y", 2, 3, 4, 5)], constants)
    for target in ("onnx", "ort-cpu"):
        assert op_types(check_optimized(model, None, target).model) == ["Div", "Slice"]


def _reshaped_by_a_computed_list() -> onnx.ModelProto:
    nodes = [oh.make_node("Concat", ["a", "b"], ["s"], axis=0), oh.make_node("Reshape", ["x", "s"], ["y"])]
    lists = [initializer("a", [-1, 6]), initializer("b", [4])]
    return model_of(nodes, [value("x", "n", 24)], [value("y", "p", "q", "r")], lists)


def test_a_list_that_a_reshape_reads_is_found_and_says_the_shape():
    (graph,) = graphs_of_model(_reshaped_by_a_computed_list(), None, {}, {})
    found = decided_integers(graph, {})
    assert {name: array.tolist() for name, array in found.items()} == {"s": [-1, 6, 4]}
    shape = graph.shape("y")
    assert shape is not None and shape[1:] == (6, 4)


@pytest.mark.parametrize("extent", [5, "n"])
def test_lists_that_constants_decide_are_found_without_types_but_no_others(extent: int | str):
    nodes = [
        oh.make_node("Concat", ["a", "b"], ["s"], axis=0),
        oh.make_node("Reshape", ["x", "s"], ["y"]),
        oh.make_node("Shape", ["y"], ["sizes"]),
        oh.make_node("Concat", ["sizes", "b"], ["t"], axis=0),
        oh.make_node("Expand", ["c", "t"], ["z"]),
    ]
    lists = [initializer("a", [-1, 6]), initializer("b", [4]), initializer("c", [1.0])]
    (graph,) = graphs_of_model(model_of(nodes, [value("x", extent, 24)], [value("z")], lists), None, {}, {})
    graph.set_type("y", (extent, 6, None), 1)  # as if inference had not come so far
    graph.set_type("z", None, 1)
    assert {name: array.tolist() for name, array in constant_integers(graph).items()} == {"s": [-1, 6, 4]}
    assert graph.computed["s"].tolist() == [-1, 6, 4]
    decided = decided_integers(graph, {})
    assert decided["s"].tolist() == [-1, 6, 4] and ("t" in decided) == (extent == 5)


def test_negative_a_list_that_is_known_is_not_computed_again():
    known = {"s": np.array([-1, 4, 6])}
    (graph,) = graphs_of_model(_reshaped_by_a_computed_list(), None, {}, {}, known)
    assert decided_integers(graph, known)["s"] is known["s"]
    shape = graph.shape("y")
    assert shape is not None and shape[1:] == (4, 6)


def _halved_by_its_shape(place: int) -> onnx.ModelProto:
    """The first half of the extent at a place of the shape of x, which has a batch that the run time knows."""
    nodes = [
        oh.make_node("Shape", ["x"], ["s"]),
        oh.make_node("Gather", ["s", "place"], ["g"]),
        oh.make_node("Cast", ["g"], ["extent"], to=onnx.TensorProto.INT64),
        oh.make_node("Div", ["extent", "two"], ["half"]),
        oh.make_node("Slice", ["x", "zero", "half", "place"], ["y"]),
    ]
    weights = [initializer("zero", [0]), initializer("two", [2]), initializer("place", [place])]
    return model_of(nodes, [value("x", "batch", 6, 4)], [value("y", "b", "c", "d")], weights)


def test_extents_that_are_known_are_read_from_a_shape_of_which_others_are_not():
    (graph,) = graphs_of_model(_halved_by_its_shape(-2), None, {}, {})
    found = decided_integers(graph, {})
    assert found["half"].tolist() == [3]
    assert graph.shape("y") == ("batch", 3, 4)


def test_negative_an_extent_that_the_run_time_knows_decides_nothing():
    (graph,) = graphs_of_model(_halved_by_its_shape(0), None, {}, {})
    assert "half" not in decided_integers(graph, {})


@pytest.mark.parametrize("batch_place", [0, 1])
def test_a_shape_with_the_extents_of_the_operand_in_their_places_is_known(batch_place: int):
    names = ["batch", 6] if not batch_place else [6, "batch"]
    nodes = [
        oh.make_node("Shape", ["x"], ["s"]),
        oh.make_node("Gather", ["s", "places"], ["kept"]),
        oh.make_node("Gather", ["s", "last"], ["count"]),
        oh.make_node("Div", ["count", "two"], ["half"]),
        oh.make_node("Concat", ["kept", "two", "half"], ["asked"], axis=0),
        oh.make_node("Reshape", ["x", "asked"], ["r"]),
        oh.make_node("Relu", ["r"], ["y"]),
    ]
    numbers = {"places": [0, 1], "last": [2], "two": [2]}
    weights = [initializer(name, values) for name, values in numbers.items()]
    model = model_of(nodes, [value("x", *names, 4)], [value("y", "a", "b", "c", "d")], weights)
    (graph,) = graphs_of_model(model, None, {}, {})
    decided_integers(graph, {})
    assert graph.shape("r") == (*names, 2, 2)


def test_negative_extents_in_other_places_are_not_those_of_the_operand():
    nodes = [
        oh.make_node("Shape", ["x"], ["s"]),
        oh.make_node("Gather", ["s", "places"], ["asked"]),
        oh.make_node("Reshape", ["x", "asked"], ["y"]),
    ]
    model = model_of(nodes, [value("x", "a", "b")], [value("y", "c", "d")], [initializer("places", [1, 0])])
    (graph,) = graphs_of_model(model, None, {}, {})
    assert decided_integers(graph, {}) == {}
    assert graph.shape("y") == ("b", "a")


def _cut_behind_a_transpose(asked: str) -> onnx.ModelProto:
    """A value of ("a", 12) transposed and cut to what `asked` names, with a number that nobody knows before."""
    nodes = [
        oh.make_node("Shape", ["x"], ["s"]),
        oh.make_node("Gather", ["s", "first"], ["a"]),
        oh.make_node("Div", ["given", "one"], ["unknown"]),
        oh.make_node("Concat", ["one", "unknown", asked], ["asked"], axis=0),
        transpose("x", "t", 1, 0),
        oh.make_node("Reshape", ["t", "asked"], ["r"]),
        oh.make_node("Relu", ["r"], ["y"]),
    ]
    given = value("given", 1, dtype=onnx.TensorProto.INT64)
    weights = [initializer("first", [0]), initializer("one", [1])]
    return model_of(nodes, [value("x", "a", 12), given], [value("y", "p", "q", "r")], weights)


def test_a_reshape_has_the_extents_that_it_is_asked_for_by_name():
    (graph,) = graphs_of_model(_cut_behind_a_transpose("a"), None, {}, {})
    decided_integers(graph, {})
    shape = graph.shape("r")
    assert shape is not None and (shape[0], shape[2]) == (1, "a")


@pytest.mark.parametrize("divided", ["s", "given"])
def test_what_follows_from_an_extent_that_a_reshape_is_asked_for_is_known(divided: str):
    nodes = [
        oh.make_node("Shape", ["x"], ["s"]),
        oh.make_node("Gather", ["s", "first"], ["a"]),
        oh.make_node("Mul", ["a", "two"], ["many"]),
        oh.make_node("Gather", [divided, "second"], ["b"]),
        oh.make_node("Div", ["b", "two"], ["half"]),
        oh.make_node("Concat", ["many", "half", "six"], ["asked"], axis=0),
        oh.make_node("Reshape", ["x", "asked"], ["r"]),
        oh.make_node("Relu", ["r"], ["n"]),
        oh.make_node("Relu", ["n"], ["y"]),
    ]
    given = value("given", 2, dtype=onnx.TensorProto.INT64)
    numbers = {"first": [0], "second": [1], "two": [2], "six": [6]}
    weights = [initializer(name, values) for name, values in numbers.items()]
    model = model_of(nodes, [value("x", "a", 8, 6), given], [value("y", "p", "q", "r")], weights)
    (graph,) = graphs_of_model(model, None, {}, {})
    decided_integers(graph, {})
    shape = graph.shape("n")
    assert shape is not None and (shape[1] == 4) == (divided == "s") and shape[2] == 6


def test_negative_a_number_that_nobody_knows_has_no_name_of_an_input():
    (graph,) = graphs_of_model(_cut_behind_a_transpose("unknown"), None, {}, {})
    decided_integers(graph, {})
    shape = graph.shape("r")
    assert shape is None or "a" not in shape


def _positions(start: str, terms: tuple[str, str], step: int = 1) -> onnx.ModelProto:
    """Positions of the tokens x, from an extent of the cache on, as a list, and as rows with one for each token."""
    nodes = [
        oh.make_node("Shape", ["cache"], ["c"]),
        oh.make_node("Shape", ["x"], ["s"]),
        oh.make_node("Gather", ["c", "second"], ["past"]),
        oh.make_node("Gather", ["c", "second"], ["again"]),
        oh.make_node("Gather", ["s", "second"], ["tokens"]),
        oh.make_node("Add", terms, ["sum"]),
        oh.make_node("Range", [start, "sum", "step"], ["list"]),
        oh.make_node("Gather", ["s", "places"], ["count"]),
        oh.make_node("Concat", ["rest", "count"], ["asked"], axis=0),
        oh.make_node("Reshape", ["list", "asked"], ["rows"]),
        oh.make_node("Add", ["x", "rows"], ["y"]),
    ]
    numbers = {"second": 1, "zero": 0, "step": step, "places": [1], "rest": [-1]}
    weights = [initializer(name, np.array(values, np.int64)) for name, values in numbers.items()]
    integer = onnx.TensorProto.INT64
    inputs = [value("x", "b", "n", dtype=integer), value("cache", "b", "p", dtype=integer)]
    return model_of(nodes, inputs, [value("y", "q", "r", dtype=integer)], weights)


@pytest.mark.parametrize(
    ("start", "terms"),
    [("past", ("past", "tokens")), ("past", ("tokens", "again")), ("zero", ("tokens", "zero"))],
)
def test_there_are_as_many_positions_behind_a_cache_as_tokens(start: str, terms: tuple[str, str]):
    (graph,) = graphs_of_model(_positions(start, terms), None, {}, {})
    decided_integers(graph, {})
    assert [graph.shape(name) for name in ("list", "rows", "y")] == [("n",), (1, "n"), ("b", "n")]


@pytest.mark.parametrize(
    ("start", "terms", "step"),
    [("zero", ("past", "tokens"), 1), ("past", ("tokens", "tokens"), 1), ("past", ("past", "tokens"), 2)],
)
def test_negative_there_are_other_positions(start: str, terms: tuple[str, str], step: int):
    (graph,) = graphs_of_model(_positions(start, terms, step), None, {}, {})
    decided_integers(graph, {})
    assert graph.shape("list") != ("n",)


def _padded_by_its_shape(first: int) -> onnx.ModelProto:
    """Pads the last dim of x to 6, as tf2onnx computes it: in 32 bits, by a Slice of the shape from `first` on, and by
    a list of pads that is split and joined again."""
    nodes = [
        oh.make_node("Shape", ["x"], ["s"]),
        oh.make_node("Cast", ["s"], ["s32"], to=onnx.TensorProto.INT32),
        oh.make_node("Slice", ["s32", "first", "end", "zero"], ["cut"]),
        oh.make_node("Cast", ["cut"], ["extent"], to=onnx.TensorProto.INT64),
        oh.make_node("Sub", ["six", "extent"], ["more"]),
        oh.make_node("Concat", ["zeros", "more"], ["list"], axis=0),
        oh.make_node("Split", ["list"], [f"p{k}" for k in range(6)], num_outputs=6),
        oh.make_node("Concat", [f"p{k}" for k in (1, 0, 2, 3, 4, 5)], ["pads"], axis=0),
        oh.make_node("Pad", ["x", "pads"], ["y"]),
    ]
    numbers = {"first": [first], "end": [(1 << 63) - 1], "zero": [0], "six": [6], "zeros": [0] * 5}
    weights = [initializer(name, np.array(values, np.int64)) for name, values in numbers.items()]
    return model_of(nodes, [value("x", "batch", 3, 4)], [value("y", "a", "b", "c")], weights)


def test_extents_are_known_behind_a_slice_of_a_shape_and_a_split_list():
    (graph,) = graphs_of_model(_padded_by_its_shape(2), None, {}, {})
    assert decided_integers(graph, {})["pads"].tolist() == [0, 0, 0, 0, 0, 2]
    assert graph.shape("y") == ("batch", 3, 6)


@pytest.mark.parametrize(
    ("part", "decided"),
    [
        ({"start": 0}, ["batch", 3, 4]),
        ({"start": 1}, [3, 4]),
        ({"start": -1}, [4]),
        ({"end": 2}, ["batch", 3]),
        ({"start": 1, "end": -1}, [3]),
        ({"start": -9, "end": 9}, ["batch", 3, 4]),
        ({"start": 2, "end": 1}, []),
    ],
)
def test_a_shape_gives_a_part_of_the_extents(part: dict[str, Any], decided: list[int | str]):
    nodes = [
        oh.make_node("Shape", ["x"], ["s"], **part),
        oh.make_node("Concat", ["s", "six"], ["list"], axis=0),
        oh.make_node("Expand", ["one", "list"], ["y"]),
    ]
    weights = [initializer("six", [6]), initializer("one", [1.0])]
    model = model_of(nodes, [value("x", "batch", 3, 4)], [value("y")], weights)
    (graph,) = graphs_of_model(model, None, {}, {})
    graph.set_type("y", None, 1)
    assert graph.nodes[0].given_extents() == tuple(decided)
    found = decided_integers(graph, {})
    assert [array.tolist() for array in found.values()] == ([] if "batch" in decided else [[*decided, 6]])
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model.SerializeToString())
    [y] = session.run(None, {"x": np.zeros((2, 3, 4), np.float32)})
    assert y.shape == (*(2 if extent == "batch" else extent for extent in decided), 6)


def test_negative_a_slice_with_an_extent_that_the_run_time_knows_decides_nothing():
    model = _padded_by_its_shape(0)
    model.graph.node[7].input[:] = [f"p{k}" for k in (0, 1, 2, 3, 4)] + ["more"]
    (graph,) = graphs_of_model(model, None, {}, {})
    assert "pads" not in decided_integers(graph, {})


def test_a_softmax_before_opset_13_works_along_all_dims_behind_its_axis():
    # The reference of the onnx package works along one.
    nodes = [oh.make_node("Softmax", ["w"], ["s"], axis=1), transpose("s", "t", 2, 0, 1)]
    nodes.append(oh.make_node("Add", ["x", "t"], ["y"]))
    weights = [initializer("w", np.arange(24.0).reshape(2, 3, 4) / 8)]
    x, y = value("x", 4, 2, 3), value("y", 4, 2, 3)
    for opset in (12, 13):
        check_optimized(model_of(nodes, [x], [y], weights, opset=opset))


def test_negative_what_is_random_is_drawn_by_who_runs_the_model():
    nodes = [oh.make_node("RandomUniformLike", ["w"], ["r"], seed=1.0), transpose("r", "t", 1, 0)]
    nodes.append(oh.make_node("Add", ["x", "t"], ["y"]))
    model = model_of(nodes, [value("x", 5, 3)], [value("y", 5, 3)], [initializer("w", W)])
    assert "RandomUniformLike" in op_types(li.optimize_onnx(model).model)


def test_constants_lead_to_it_through_a_node_that_inference_does_not_know():
    # An axis below 0 counts from the end since opset 11, for runtimes in older versions too.
    nodes = [oh.make_node("Concat", ["w", "w"], ["c"], axis=-1), transpose("c", "t", 1, 0)]
    nodes.append(oh.make_node("Add", ["x", "t"], ["y"]))
    model = model_of(nodes, [value("x", 10, 3)], [value("y", 10, 3)], [initializer("w", W)], opset=9)
    assert op_types(check_optimized(model).model) == ["Add"]
