"""What is written: names, constants, and Reshapes where only dims of one element move."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.passes.onnx import order_search
from layout_ir.passes.onnx.graph_rewriter import GraphRewriter
from tests.passes.onnx.optimized import (
    check_optimized,
    initializer,
    model_of,
    op_types,
    random_feeds,
    transpose,
    value,
)


def test_a_constant_is_made_larger_once_for_all_who_need_it():
    nodes = [transpose("x", "b", 0, 2, 3, 1)]
    for number in range(4):
        nodes.append(oh.make_node("Add", ["b" if not number else f"b{number - 1}", "w"], [f"b{number}"]))
    nodes.append(transpose("b3", "y", 0, 3, 1, 2))
    weights = initializer("w", np.ones((64, 64), np.float32))
    model = model_of(nodes, [value("x", 2, 64, 3, 64)], [value("y", 2, 64, 3, 64)], [weights])
    result = check_optimized(model)
    assert result.after.count == 0
    assert [list(t.dims) for t in result.model.graph.initializer if len(t.dims) == 3] == [[64, 1, 64]]


@pytest.mark.parametrize("opset", [11, 18])
def test_dims_of_one_element_move_without_a_transpose(opset: int):
    pool = oh.make_node("GlobalMaxPool", ["x"], ["p"])
    nodes = [pool, transpose("p", "t", 0, 2, 3, 1), oh.make_node("DepthToSpace", ["t"], ["y"], blocksize=1)]
    model = model_of(nodes, [value("x", 2, 3, 4, 5)], [value("y", 2, 1, 1, 3)], opset=opset)
    result = check_optimized(model)
    assert result.after.count == 0 and "Transpose" not in op_types(result.model)
    # With two extents that nobody knows, a Reshape cannot say both.
    model = model_of(nodes, [value("x", "N", "C", 4, 5)], [value("y", "N", 1, 1, "C")], opset=opset)
    assert check_optimized(model, random_feeds(model, N=2, C=3)).after.count == 0


def test_a_constant_that_only_its_other_order_replaces_is_no_input_any_more():
    # Before version 4 of the format, initializers are inputs.
    nodes = [transpose("x", "a", 0, 2, 1), oh.make_node("Mul", ["a", "w"], ["b"])]
    nodes += [oh.make_node("Add", ["b", "s"], ["c"]), transpose("c", "y", 0, 2, 1)]
    constants = [initializer("w", np.arange(12.0).reshape(4, 3)), initializer("s", 2.0)]
    inputs = [value("x", 2, 3, 4), value("w", 4, 3), value("s")]
    model = model_of(nodes, inputs, [value("y", 2, 3, 4)], constants, ir_version=3)
    feeds = {"x": np.arange(24, dtype=np.float32).reshape(2, 3, 4)}
    result = check_optimized(model, feeds)
    assert op_types(result.model) == ["Mul", "Add"]
    assert [each.name for each in result.model.graph.input] == ["x"]
    # Since then, an input may be another one than its initializer: it stays, and is moved.
    model.ir_version = 4
    result = check_optimized(model, feeds)
    assert [each.name for each in result.model.graph.input] == ["x", "w", "s"]


def test_values_in_the_order_of_the_model_keep_their_names():
    nodes = [transpose("x", "a", 1, 0), oh.make_node("Relu", ["a"], ["b"]), transpose("b", "c", 1, 0)]
    nodes += [oh.make_node("CumSum", ["c", "axis"], ["d"]), oh.make_node("Neg", ["d"], ["y"])]
    model = model_of(nodes, [value("x", 2, 3)], [value("y", 2, 3)], [initializer("axis", 1)])
    new = check_optimized(model).model
    assert [list(node.output) for node in new.graph.node] == [["c"], ["d"], ["y"]]


def test_a_transpose_that_stays_keeps_what_is_said_of_it():
    nodes = [transpose("x", "a", 1, 0), transpose("a", "b", 1, 0), transpose("b", "y", 1, 0)]
    for node, name in zip(nodes, "abc", strict=True):
        node.name, node.doc_string = name, f"what {name} is for"
        node.metadata_props.add(key="namespace", value=name)
    new = check_optimized(model_of(nodes, [value("x", 2, 3)], [value("y", 3, 2)])).model
    (node,) = new.graph.node
    assert (node.name, node.doc_string) == ("c", "what c is for")
    assert [(entry.key, entry.value) for entry in node.metadata_props] == [("namespace", "c")]


def test_negative_of_a_transpose_in_another_place_nothing_is_said():
    nodes = [oh.make_node("Cast", ["x"], ["h"], to=onnx.TensorProto.DOUBLE), transpose("h", "y", 1, 0)]
    nodes[-1].metadata_props.add(key="namespace", value="last")
    y = value("y", 60, 40, dtype=onnx.TensorProto.DOUBLE)
    new = check_optimized(model_of(nodes, [value("x", 40, 60)], [y])).model
    assert op_types(new) == ["Transpose", "Cast"]
    assert not new.graph.node[0].metadata_props


def test_what_only_the_file_knows_of_a_value_is_said_of_it_under_its_new_name():
    # Nobody can know how much is sliced. The second time, that is as much as the first time.
    nodes = [transpose("x", "a", 2, 0, 1), oh.make_node("Slice", ["a", "starts", "ends"], ["b"])]
    nodes += [oh.make_node("Relu", ["b"], ["c"]), transpose("c", "y", 0, 2, 1)]
    inputs = [value("x", 4, 5, 6), *(value(n, 3, dtype=onnx.TensorProto.INT64) for n in ("starts", "ends"))]
    model = model_of(nodes, inputs, [value("y", 2, 3, 1)])
    feeds = {"x": np.arange(120, dtype=np.float32).reshape(4, 5, 6)}
    feeds |= {"starts": np.array([1, 2, 0]), "ends": np.array([3, 3, 3])}
    model.graph.value_info.append(value("b", 2, 1, 3))
    result = check_optimized(model, feeds)
    assert result.after.nbytes == 2 * 4 * 6
    assert li.optimize_onnx(result.model).before == result.after


def _branches(back: tuple[int, ...]) -> onnx.ModelProto:
    """An If whose one branch gives a value from outside, behind two Transposes, and uses it besides."""
    then = [transpose("x", "t", 1, 0), transpose("t", "s", *back), oh.make_node("Relu", ["s"], ["r"])]
    outputs = [value("s", 4, 4), value("r", 4, 4)]
    other = [oh.make_node("Neg", ["x"], ["n"]), oh.make_node("Abs", ["x"], ["a"])]
    then_branch = oh.make_graph(then, "then", [], outputs)
    else_branch = oh.make_graph(other, "else", [], [value("n", 4, 4), value("a", 4, 4)])
    nodes = [oh.make_node("If", ["c"], ["y", "z"], then_branch=then_branch, else_branch=else_branch)]
    condition = value("c", dtype=onnx.TensorProto.BOOL)
    return model_of(nodes, [condition, value("x", 4, 4)], [value("y", 4, 4), value("z", 4, 4)])


@pytest.mark.parametrize("is_needed", [False, True])
def test_a_constant_from_outside_is_turned_in_the_branch_that_wants_it_so(is_needed: bool):
    nodes = [transpose("w", "t", 1, 0), oh.make_node("Add", ["x", "t"], ["sum"])]
    branch = oh.make_graph(nodes, "branch", [], [value("sum", 3, 4)])
    other = oh.make_graph([oh.make_node("Neg", ["x"], ["n"])], "other", [], [value("n", 3, 4)])
    outer = [oh.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=other)]
    results = [value("y", 3, 4)]
    if is_needed:
        outer.append(oh.make_node("Neg", ["w"], ["z"]))
        results.append(value("z", 4, 3))
    inputs = [value("x", 3, 4), value("c", dtype=onnx.TensorProto.BOOL)]
    model = model_of(outer, inputs, results, [initializer("w", np.arange(12.0).reshape(4, 3))])
    x = np.ones((3, 4), np.float32)
    for condition in (False, True):
        result = check_optimized(model, {"x": x, "c": np.array(condition)})
        assert result.after.count == 0
        assert [t.name for t in result.model.graph.initializer] == ["w"][: int(is_needed)]


@pytest.mark.parametrize("condition", [True, False])
def test_a_result_of_a_branch_that_is_a_value_from_outside_has_a_name_of_its_own(condition: bool):
    feeds = {"c": np.array(condition), "x": np.arange(-8, 8, dtype=np.float32).reshape(4, 4)}
    assert check_optimized(_branches((1, 0)), feeds).after.count == 0
    assert check_optimized(_branches((0, 1)), feeds).after.count == 1


@pytest.fixture
def rewriters(monkeypatch: pytest.MonkeyPatch) -> list[GraphRewriter]:
    """Those that `optimize_onnx` uses, in order."""
    found: list[GraphRewriter] = []

    class Noted(GraphRewriter):
        def write(self) -> None:
            found.append(self)
            super().write()

    monkeypatch.setattr(order_search, "GraphRewriter", Noted)
    return found


def _origins(rewriter: GraphRewriter) -> list[tuple[str, str | None]]:
    """The operator of each node that was written, and of the node that it is."""
    return [
        (proto.op_type, None if origin is None else origin.op_type)
        for proto, origin in zip(rewriter.out.nodes, rewriter.origins, strict=True)
    ]


def test_a_node_is_itself_between_what_it_needs_and_what_orders_its_result(rewriters: list[GraphRewriter]):
    nodes = [transpose("x", "a", 1, 2, 0), oh.make_node("Add", ["a", "v"], ["b"])]
    nodes += [oh.make_node("Shape", ["b"], ["s"]), transpose("b", "y", 2, 0, 1)]
    inputs = [value("x", 7, 5, 6), value("v", 7)]
    model = model_of(nodes, inputs, [value("y", 7, 5, 6), value("s", 3, dtype=7)])
    check_optimized(model)
    assert _origins(rewriters[0]) == [
        ("Unsqueeze", None),
        ("Add", "Add"),
        ("Shape", "Shape"),
        ("Gather", None),
    ]


def test_nodes_on_values_that_nobody_moves_are_written_as_they_are(rewriters: list[GraphRewriter]):
    nodes = [oh.make_node("Relu", ["x"], ["a"], name="first"), oh.make_node("Add", ["a", "w"], ["b"])]
    nodes += [transpose("b", "c", 1, 0), oh.make_node("Neg", ["c"], ["d"]), transpose("d", "y", 1, 0)]
    nodes += [oh.make_node("Mul", ["a", "w"], ["z"])]
    model = model_of(
        nodes, [value("x", 2, 3)], [value("y", 2, 3), value("z", 2, 3)], [initializer("w", np.ones((2, 3)))]
    )
    new = li.optimize_onnx(model).model.graph
    kept = [node.op_type for node in rewriters[0].values.nodes if id(node) in rewriters[0].kept]
    assert kept == ["Relu", "Add", "Mul"]
    assert [new.node[k] for k in (0, 1, 3)] == [nodes[k] for k in (0, 1, 5)]
    assert [tensor.name for tensor in new.initializer] == ["w"]


def test_negative_a_node_on_a_value_that_is_moved_is_not_as_it_was(rewriters: list[GraphRewriter]):
    # The Neg runs on the value that was transposed for it.
    nodes = [oh.make_node("Relu", ["x"], ["a"]), transpose("a", "b", 1, 0)]
    nodes += [oh.make_node("Neg", ["b"], ["c"]), transpose("c", "y", 1, 0)]
    check_optimized(model_of(nodes, [value("x", 2, 3)], [value("y", 2, 3)]))
    kept = [node.op_type for node in rewriters[0].values.nodes if id(node) in rewriters[0].kept]
    assert kept == ["Relu"] and _origins(rewriters[0]) == [("Relu", "Relu"), ("Neg", "Neg")]


def test_names_that_shape_inference_made_up_are_not_told():
    nodes = [
        oh.make_node("Compress", ["x", "c"], ["k"], axis=0),
        transpose("k", "a", 1, 0),
        oh.make_node("Softmax", ["a"], ["y"], axis=1),
    ]
    inputs = [value("x", "N", 12), value("c", "N", dtype=onnx.TensorProto.BOOL)]
    result = li.optimize_onnx(model_of(nodes, inputs, [value("y", "p", "q")]))
    (note,) = (note for note in result.notes if "known at run time only" in note)
    assert "extents without a name" in note and "unk__" not in note
