"""What extents count as that inference finds for inputs of the agreed size, or that follow from Reshapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from layout_ir.passes.onnx import counted_extents as counted_extents_module
from layout_ir.passes.onnx.counted_extents import keep_counts
from layout_ir.passes.onnx.model_graph import Graph, Node
from layout_ir.passes.onnx.node_inference import infer_results
from layout_ir.passes.onnx.typed_graphs import typed_graphs
from layout_ir.passes.onnx.value_shapes import CACHED_EXTENT, UNKNOWN_EXTENT
from tests.passes.onnx.optimized import initializer, model_of, transpose, value


def _windows(*windows: str | int) -> Graph:
    """A picture of 8x12 per batch, reshaped to `windows` by a computed shape, and a product of these."""
    nodes = [
        oh.make_node("Reshape", ["x", "s"], ["y"]),
        oh.make_node("MatMul", ["y", "w"], ["z"]),
        oh.make_node("Reshape", ["z", "t"], ["r"]),
    ]
    lists = [
        value(name, rank, dtype=onnx.TensorProto.INT64) for name, rank in (("s", len(windows)), ("t", 3))
    ]
    inputs = [value("x", "N", 8, 12), *lists, value("w", windows[-1], 5)]
    results = [value("y", *windows), value("z", *windows[:-1], 5), value("r", "rows", 2, 5)]
    (graph,) = typed_graphs(model_of(nodes, inputs, results), None, {}, {}, {}, {})
    return graph


def test_inner_extents_count_as_what_follows_from_those_of_the_inputs():
    nodes = [
        oh.make_node("Conv", ["x", "w"], ["c"], strides=[2, 4], pads=[1, 1, 1, 1]),
        transpose("c", "t", 0, 2, 3, 1),
        oh.make_node("Reshape", ["t", "s"], ["y"]),
        oh.make_node("MatMul", ["y", "m"], ["z"]),
    ]
    constants = [
        *(initializer("w", np.ones((8, 3, 3, 3))), initializer("m", np.ones((8, 5)))),
        initializer("s", [0, -1, 8]),
    ]
    model = model_of(nodes, [value("x", "N", 3, "H", "W")], [value("z", "N", "P", 5)], constants)
    (graph,) = typed_graphs(model, None, {}, {}, {}, {})
    assert graph.nbytes("c") == graph.nbytes("y") == 4 * 8 * 32 * 16
    assert graph.nbytes("z") == 4 * 5 * 32 * 16


@pytest.mark.parametrize(("height", "own"), [(16, []), ("H", ["MaxPool"])])
def test_only_nodes_that_make_up_extents_are_inferred_for_a_size(
    height: int | str, own: list[str], monkeypatch: pytest.MonkeyPatch
):
    nodes = [
        oh.make_node("MaxPool", ["x"], ["p"], kernel_shape=[1, 1], strides=[2, 1]),
        oh.make_node("Relu", ["p"], ["r"]),
        oh.make_node("Shape", ["r"], ["y"]),
    ]
    inferred: list[str] = []

    def infer(graph: Graph, node: Node, read: Any) -> list[str]:
        inferred.append(node.op_type)
        return infer_results(graph, node, read)

    monkeypatch.setattr(counted_extents_module, "infer_results", infer)
    outputs = [value("y", 4, dtype=onnx.TensorProto.INT64)]
    (graph,) = typed_graphs(model_of(nodes, [value("x", "N", 8, height, 16)], outputs), None, {}, {}, {}, {})
    assert inferred == own
    assert graph.nbytes("r") == 4 * 8 * (32 if own else 8) * 16
    assert graph.shape("r") == ("N", 8, "unk__0" if own else 8, 16)  # what is counted decides nothing


def test_what_operators_of_onnx_runtime_make_of_an_extent_counts():
    nodes = [
        oh.make_node("FusedConv", ["x", "w"], ["c"], domain="com.microsoft", strides=[2], activation="Relu"),
        oh.make_node("Relu", ["c"], ["y"]),
    ]
    model = model_of(
        nodes, [value("x", "N", 3, "L")], [value("y", *"abc")], [initializer("w", np.ones((8, 3, 1)))]
    )
    model.opset_import.append(oh.make_opsetid("com.microsoft", 1))
    (graph,) = typed_graphs(model, None, {}, {}, {}, {})
    assert graph.nbytes("y") == 4 * 8 * 32


def test_negative_extents_of_a_size_that_does_not_fit_count_as_any_others():
    nodes = [
        oh.make_node("Add", ["x", "b"], ["a"]),
        oh.make_node("NonZero", ["a"], ["y"]),
    ]
    model = model_of(
        nodes, [value("x", "N", "H")], [value("y", 2, "M", dtype=7)], [initializer("b", np.ones(7))]
    )
    (graph,) = typed_graphs(model, None, {}, {}, {}, {})
    assert graph.nbytes("y") == 8 * 2 * UNKNOWN_EXTENT


@pytest.mark.parametrize("node", [oh.make_node("Relu", ["y"], ["t"]), transpose("y", "t", 1, 0)])
def test_negative_a_count_does_not_say_how_many_dims_there_are(node: onnx.NodeProto):
    nodes = [
        oh.make_node("Reshape", ["x", "s"], ["y"]),
        node,
        oh.make_node("Flatten", ["t"], ["z"], axis=0),
    ]
    inputs = [value("x", "N", "C"), value("s", "rank", dtype=onnx.TensorProto.INT64)]
    (graph,) = typed_graphs(model_of(nodes, inputs, [value("z", 1, "all")]), None, {}, {}, {}, {})
    assert graph.shape("y") == (None if node.op_type == "Relu" else (None, None))
    assert graph.shape("z") == (1, "all")


def test_a_product_of_windows_counts_as_the_windows_there_are():
    graph = _windows("many", 4)
    assert graph.nbytes("z") == 4 * (8 * 12 // 4) * 5
    assert graph.counted_extent("rows") == 8 * 12 // 4 // 2


def test_an_extent_of_the_operand_follows_from_the_result():
    nodes = [
        oh.make_node("Compress", ["x", "c"], ["y"], axis=0),
        oh.make_node("Reshape", ["y", "s"], ["z"]),
    ]
    inputs = [
        value("x", "N", 12),
        value("c", "N", dtype=onnx.TensorProto.BOOL),
        value("s", 2, dtype=onnx.TensorProto.INT64),
    ]
    model = model_of(nodes, inputs, [value("y", "kept", 12), value("z", 9, 4)])
    (graph,) = typed_graphs(model, None, {}, {}, {}, {})
    assert graph.counted_extent("kept") == 9 * 4 // 12


@pytest.mark.parametrize("windows", [("many", 7), ("many", "more", 4), (0, "many", 4)])
def test_negative_what_does_not_follow_counts_as_any_extent(windows: tuple[str | int, ...]):
    assert _windows(*windows).counted_extent("many") == UNKNOWN_EXTENT


def test_negative_no_extent_follows_from_a_reshape_of_another_domain():
    nodes = [oh.make_node("Reshape", ["x"], ["y"], domain="of.its.own")]
    model = model_of(nodes, [value("x", "N", 8, 12)], [value("y", "many", 4)])
    model.opset_import.append(oh.make_opsetid("of.its.own", 1))
    (graph,) = typed_graphs(model, None, {}, {}, {}, {})
    assert graph.counted_extent("many") == UNKNOWN_EXTENT


def _expanded_mask() -> list[onnx.NodeProto]:
    """A mask as long as the cache `old` and the words `x` together, expanded as PyTorch does it: by a shape in which -1
    stands for an extent that stays."""
    integers = {"axis": [1], "kept": [-1], "zero": [0]}
    constants = [oh.make_node("Constant", [], [name], value_ints=ints) for name, ints in integers.items()]
    return [
        *constants,
        oh.make_node("Shape", ["x"], ["s"]),
        oh.make_node("Shape", ["old"], ["t"]),
        oh.make_node("Gather", ["s", "axis"], ["words"]),
        oh.make_node("Gather", ["t", "axis"], ["cached"]),
        oh.make_node("Add", ["words", "cached"], ["all"]),
        oh.make_node("Concat", ["kept", "words", "all"], ["asked"], axis=0),
        oh.make_node("Equal", ["asked", "kept"], ["stays"]),
        oh.make_node("Where", ["stays", "axis", "asked"], ["wanted"]),
        oh.make_node("Expand", ["m", "wanted"], ["mask"]),
        oh.make_node("Relu", ["mask"], ["y"]),
    ]


def test_nodes_that_compute_extents_are_evaluated_for_inputs_of_the_agreed_size():
    inputs = [value("x", "N", "words"), value("old", "N", "cached"), value("m", "N", 1, 1)]
    model = model_of(_expanded_mask(), inputs, [value("y", "p", "q", "r")])
    (graph,) = typed_graphs(model, None, {}, {}, {}, {})
    assert [graph.counted_extent(n) for n in graph.shape("mask") or ()] == [
        1,
        UNKNOWN_EXTENT,
        2 * UNKNOWN_EXTENT,
    ]


def test_extents_of_branches_are_evaluated_too():
    inputs = [value("x", "N", "words"), value("old", "N", "cached"), value("m", "N", 1, 1)]
    result = onnx.ValueInfoProto(name="y")
    result.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    then, other = (oh.make_graph(_expanded_mask(), name, [], [result]) for name in ("then", "else"))
    node = oh.make_node("If", ["c"], ["z"], then_branch=then, else_branch=other)
    model = model_of([node], [*inputs, value("c", dtype=onnx.TensorProto.BOOL)], [value("z", "p", "q", "r")])
    _, *inner = typed_graphs(model, None, {}, {}, {}, {})
    assert len(inner) == 2
    for graph in inner:
        assert graph.nbytes("mask") == 4 * UNKNOWN_EXTENT * 2 * UNKNOWN_EXTENT


def _appended(cache: str, *, to: str = "new") -> onnx.ModelProto:
    """Keys `new`, as many as there are words, appended to the cache, and the mask of all, cut to the words:
    its length `total` has a name of its own."""
    nodes = [
        oh.make_node("Exp", ["words"], ["exp"]),
        transpose("exp", "new", 0, 2, 1, 3),
        oh.make_node("Concat", [cache, to], ["keys"], axis=-2),
        transpose("keys", "turned", 0, 1, 3, 2),
        oh.make_node("MatMul", ["queries", "turned"], ["scores"]),
        oh.make_node("Shape", ["old"], ["first"], start=2, end=3),
        oh.make_node("Shape", ["mask"], ["t"], start=1, end=2),
        oh.make_node("Slice", ["mask", "first", "t", "axes"], ["own"]),
        oh.make_node("Unsqueeze", ["own", "axes"], ["row"]),
        oh.make_node("Unsqueeze", ["row", "last"], ["weights"]),
        oh.make_node("Mul", ["queries", "weights"], ["y"]),
    ]
    inputs = [
        *(value("words", "N", "words", 2, 8), value("queries", "N", 2, "words", 8)),
        *(value("mask", "N", "total"), value("old", "N", 2, "past", 8), value("other", "N", 2, "more", 8)),
    ]
    results = [value("scores", *"abcd"), value("y", *"efgh")]
    constants = [
        initializer("axes", [1]),
        initializer("last", [3]),
        initializer("zeros", np.zeros((1, 2, 3, 8))),
    ]
    return model_of(nodes, inputs, results, constants)


def test_what_a_model_appends_to_counts_as_a_cache_and_the_mask_of_all_as_long_as_both():
    (graph,) = typed_graphs(_appended("old"), None, {}, {}, {}, {})
    length = CACHED_EXTENT + UNKNOWN_EXTENT
    assert graph.nbytes("old") == 4 * 2 * CACHED_EXTENT * 8
    assert graph.nbytes("keys") == graph.nbytes("turned") == 4 * 2 * length * 8
    assert graph.nbytes("scores") == 4 * 2 * UNKNOWN_EXTENT * length
    assert graph.nbytes("mask") == 4 * length
    assert graph.nbytes("y") == 4 * 2 * UNKNOWN_EXTENT * 8


def test_a_transposed_cache_is_one_as_well():
    model = _appended("old")
    model.graph.node.insert(0, transpose("stored", "old", 1, 2, 0, 3))
    (given,) = [each for each in model.graph.input if each.name == "old"]
    given.CopyFrom(value("stored", "past", "N", 2, 8))
    (graph,) = typed_graphs(model, None, {}, {}, {}, {})
    assert graph.nbytes("stored") == 4 * 2 * CACHED_EXTENT * 8


@pytest.mark.parametrize(("cache", "to"), [("zeros", "new"), ("old", "zeros"), ("old", "other")])
def test_negative_what_nothing_computed_is_appended_to_is_no_cache(cache: str, to: str):
    (graph,) = typed_graphs(_appended(cache, to=to), None, {}, {}, {}, {})
    assert graph.nbytes("old") == 4 * 2 * UNKNOWN_EXTENT * 8
    assert graph.nbytes("mask") == 4 * UNKNOWN_EXTENT


# Rounds --------------------------------------------------------------------------------------------------------------


def _written(*windows: str | int) -> Graph:
    """The windows as a later round has them: the other way round, under a name of its own."""
    nodes = [oh.make_node("Relu", ["y_order10"], ["u"])]
    model = model_of(nodes, [value("y_order10", *windows)], [value("u", *windows)])
    (graph,) = typed_graphs(model, None, {}, {}, {}, {})
    return graph


def test_what_an_extent_counted_as_it_counts_as_in_later_rounds():
    before, same, turned = _windows("unk__0", 4), _windows("unk__5", 4), _written(4, "unk__9")
    same.counted = {"unk__5": 7}
    keep_counts(same, before, {})
    keep_counts(turned, before, {"y_order10": ("y", (1, 0))})
    assert same.counted_extent("unk__5") == turned.counted_extent("unk__9") == 8 * 12 // 4


def test_negative_what_was_not_known_before_stays_as_it_is():
    before, after = _windows("unk__0", 4), _windows("unk__5", 4)
    before.counted, after.counted = {}, {"unk__5": 7}
    keep_counts(after, before, {})
    assert after.counted_extent("unk__5") == 7
