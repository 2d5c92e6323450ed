"""Branches that constants and shapes decide on; ONNX Runtime computes the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest
from onnx.reference import ReferenceEvaluator

from layout_ir import optimize_onnx
from layout_ir.frontends.onnx.subgraphs import graphs_by_depth
from layout_ir.passes.onnx import decided_branches, order_search
from layout_ir.passes.onnx.decided_branches import DecidedBranches, with_decided_branches
from layout_ir.passes.onnx.model_graph import Graph
from layout_ir.passes.onnx.typed_graphs import typed_graphs
from tests.passes.onnx.optimized import check_optimized, initializer, model_of, op_types, transpose, value

SHAPE = (1, 3, 4, 5)
SHAPE_OF_X = [
    oh.make_node("Shape", ["x"], ["extents"]),
    oh.make_node("Gather", ["extents", "at"], ["channels"]),
    oh.make_node("Equal", ["channels", "three"], ["c"]),
]


def graph(
    nodes: Sequence[onnx.NodeProto], result: str = "r", constants: Sequence[onnx.TensorProto] = ()
) -> onnx.GraphProto:
    unknown = oh.make_tensor_value_info(result, onnx.TensorProto.FLOAT, None)
    return oh.make_graph(nodes, "branch", [], [unknown], constants)


def back(name: str = "r") -> onnx.NodeProto:
    return transpose("u", name, 0, 3, 1, 2)


def branching(
    then: onnx.GraphProto,
    other: onnx.GraphProto | None = None,
    *,
    before: Sequence[onnx.NodeProto] = SHAPE_OF_X,
    channels: int | str = 3,
    is_input: bool = False,
) -> onnx.ModelProto:
    """A Transpose of x to t, then an If on `c` of two branches that use `t`."""
    other = other or graph([oh.make_node("Sigmoid", ["t"], ["u"], name="twice"), back()])
    inputs = [value("x", 1, channels, 4, 5)]
    if is_input:
        inputs.append(value("three", dtype=onnx.TensorProto.INT64))
    decided = oh.make_node("If", ["c"], ["y"], name="choice", then_branch=then, else_branch=other)
    constants = [initializer("at", np.array(1)), initializer("three", np.array(3))]
    return model_of(
        [transpose("x", "t", 0, 2, 3, 1), *before, decided],
        inputs,
        [value("y", 1, channels, 4, 5)],
        constants,
    )


def test_a_branch_that_a_shape_decides_on_is_written_out():
    result = check_optimized(branching(graph([oh.make_node("Relu", ["t"], ["u"]), back()])))
    assert op_types(result.model) == ["Relu"]
    assert (result.before.count, result.after.count) == (3, 0)
    assert not result.model.graph.initializer


def test_the_other_branch():
    constants = [oh.make_node("Constant", [], ["c"], value=initializer("", np.array([False])))]
    source = branching(graph([oh.make_node("Relu", ["t"], ["u"]), back()]), before=constants)
    assert op_types(check_optimized(source).model) == ["Sigmoid"]


def test_constants_and_names_of_a_branch():
    """A constant and values with names that other values have; a node with a name that another node has."""
    nodes = [
        oh.make_node("Mul", ["t", "factors"], ["extents_2"]),
        oh.make_node("Relu", ["extents_2"], ["u"], name="twice"),
        back(),
    ]
    source = branching(graph(nodes, constants=[initializer("factors", np.array([1, 2, 3], np.float32))]))
    source.graph.node.append(
        oh.make_node("Cast", ["channels"], ["factors_2"], name="twice", to=onnx.TensorProto.FLOAT)
    )
    source.graph.output.append(value("factors_2"))
    result = check_optimized(source)
    assert result.after.count == 0
    assert sorted(node.name for node in result.model.graph.node if node.name) == ["twice", "twice_2"]


def test_branches_in_branches_and_what_they_take_from_outside():
    inner = oh.make_node(
        "If", ["c"], ["r"],
        then_branch=graph([oh.make_node("Add", ["w", "t"], ["u"]), back("q")], "q"),
        else_branch=graph([oh.make_node("Neg", ["w"], ["u"]), back("q")], "q"),
    )  # fmt: skip
    result = check_optimized(branching(graph([oh.make_node("Relu", ["t"], ["w"]), inner])))
    assert sorted(op_types(result.model)) == ["Add", "Relu"]


def test_a_decided_branch_in_one_that_is_not():
    inner = oh.make_node(
        "If", ["c"], ["r"],
        then_branch=graph([oh.make_node("Relu", ["t"], ["u"]), back("q")], "q"),
        else_branch=graph([oh.make_node("Neg", ["t"], ["u"]), back("q")], "q"),
    )  # fmt: skip
    source = branching(graph([inner]), graph([oh.make_node("Abs", ["t"], ["u"]), back()]))
    source.graph.node[-1].input[0] = "free"
    source.graph.input.append(value("free", dtype=onnx.TensorProto.BOOL))
    feeds = {"x": np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32), "free": np.array(True)}
    result = check_optimized(source, feeds)
    assert result.after.count < result.before.count
    branches = [[node.op_type for node in inner.node] for inner in graphs_by_depth(result.model.graph)[1:]]
    assert [list(filter({"Relu", "Neg", "Abs", "If"}.__contains__, ops)) for ops in branches] == [
        ["Abs"],
        ["Relu"],
    ]


def test_decided_branches_of_several_graphs_that_use_the_same_names():
    def decided(*ops: str) -> onnx.GraphProto:
        """Nodes in two branches that are taken, one in the other."""
        within = graph([oh.make_node(ops[1], ["u"], ["v"]), transpose("v", "q", 0, 3, 1, 2)], "q")
        other = graph([oh.make_node("Neg", ["u"], ["v"]), transpose("v", "q", 0, 3, 1, 2)], "q")
        choice = oh.make_node("If", ["c"], ["p"], then_branch=within, else_branch=other)
        inner = graph([oh.make_node(ops[0], ["t"], ["u"]), choice], "p")
        left = graph([transpose("t", "p", 0, 3, 1, 2)], "p")
        return graph([oh.make_node("If", ["c"], ["r"], then_branch=inner, else_branch=left)])

    source = branching(decided("Relu", "Abs"), decided("Sigmoid", "Sin"))
    source.graph.node[-1].input[0] = "free"
    source.graph.input.append(value("free", dtype=onnx.TensorProto.BOOL))
    for free in (True, False):
        feeds = {
            "x": np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32),
            "free": np.array(free),
        }
        model = check_optimized(source, feeds).model
    branches = [{node.op_type for node in inner.node} for inner in graphs_by_depth(model.graph)[1:]]
    assert [ops & {"Relu", "Abs", "Sigmoid", "Sin", "Neg", "If"} for ops in branches] in (
        [{"Relu", "Abs"}, {"Sigmoid", "Sin"}],
        [{"Sigmoid", "Sin"}, {"Relu", "Abs"}],
    )


def test_results_that_are_no_values_of_the_branch():
    """A value from outside that is the result, and one that is the result twice, which ONNX Runtime does not take."""
    then = graph([oh.make_node("Relu", ["t"], ["u"]), back()])
    then.output.extend(oh.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("r", "x"))
    source = branching(then)
    source.graph.node[-1].output.extend(["z", "same"])
    source.graph.output.extend([value("z", *SHAPE), value("same", *SHAPE)])
    written = with_decided_branches(source, None, {}).model
    assert written is not None
    assert op_types(written) == ["Transpose", "Relu", "Transpose", "Identity", "Identity"]
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    evaluator: Any = ReferenceEvaluator(written)
    y, z, same = evaluator.run(None, {"x": x})
    for found, wanted in ((y, np.maximum(x, 0)), (z, np.maximum(x, 0)), (same, x)):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("leaves_out", [[], [oh.make_node("Clip", ["t", "", "six"], ["clipped"])]])
def test_outputs_that_are_left_out_name_no_value(leaves_out: list[onnx.NodeProto]):
    """One of the node that led to the condition, which goes, and one of a node that stays; also an input left out."""
    condition = [
        oh.make_node("TopK", ["x", "one"], ["", "places"], axis=1),
        oh.make_node("Shape", ["places"], ["extents"]),
        oh.make_node("Gather", ["extents", "at"], ["channels"]),
        oh.make_node("Equal", ["channels", "one"], ["c"]),
    ]
    source = branching(graph([oh.make_node("Relu", ["t"], ["u"]), back()]), before=condition)
    source.graph.node.insert(1, oh.make_node("TopK", ["t", "one"], ["", "largest"]))
    source.graph.node.extend(leaves_out)
    source.graph.initializer.extend(
        [initializer("one", np.array([1])), initializer("six", np.array(6, np.float32))]
    )
    source.graph.output.append(value("largest", 1, 4, 5, 1, dtype=onnx.TensorProto.INT64))
    source.graph.output.extend(value("clipped", 1, 4, 5, 3) for _ in leaves_out)
    written = with_decided_branches(source, None, {}).model
    assert written is not None
    kept = ["Transpose", "TopK", "Relu", "Transpose", *(node.op_type for node in leaves_out)]
    assert sorted(op_types(written)) == sorted(kept)


@pytest.mark.parametrize(
    "source",
    [
        # An input without a fixed extent, whatever shape is given for it.
        branching(graph([oh.make_node("Relu", ["t"], ["u"]), back()]), channels="channels"),
        # A constant that callers may give another value.
        branching(graph([oh.make_node("Relu", ["t"], ["u"]), back()]), is_input=True),
        # A condition that is computed.
        branching(
            graph([oh.make_node("Relu", ["t"], ["u"]), back()]),
            before=[
                oh.make_node("ReduceSum", ["x"], ["sum"], keepdims=0), oh.make_node("Cast", ["sum"], ["c"], to=9)
            ],
        ),
    ],
    ids=["extent", "default", "data"],
)  # fmt: skip
def test_negative_what_a_call_decides(source: onnx.ModelProto):
    assert with_decided_branches(source, None, {}).model is None
    feeds = {"x": np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)}
    result = check_optimized(source, feeds, compares_bytes=False, shapes={"x": SHAPE})
    assert "If" in op_types(result.model)


@pytest.mark.parametrize(("channels", "count"), [(3, 2), ("channels", 1)], ids=["decided", "undecided"])
def test_each_model_is_typed_once(channels: int | str, count: int, monkeypatch: pytest.MonkeyPatch):
    """The model that came in and, where a branch is decided, the one without it."""
    typed: list[onnx.ModelProto] = []

    def typing(model: onnx.ModelProto, *rest: Any, **options: Any) -> list[Graph]:
        typed.append(model)
        return typed_graphs(model, *rest, **options)

    for module in (decided_branches, order_search):
        monkeypatch.setattr(module, "typed_graphs", typing)
    then = graph([oh.make_node("Relu", ["t"], ["u"]), back()])
    optimize_onnx(branching(then, channels=channels))
    assert len(typed) == len(set(map(id, typed))) == count


def test_where_nothing_is_left_the_model_without_the_branch_is_not_typed(monkeypatch: pytest.MonkeyPatch):
    def never(branches: DecidedBranches) -> Any:
        raise AssertionError("asked for")

    source = branching(
        graph([oh.make_node("Relu", ["x"], ["r"])]), graph([oh.make_node("Neg", ["x"], ["r"])])
    )
    source.graph.node.append(transpose("t", "z", 0, 3, 1, 2))
    source.graph.output.append(value("z", *SHAPE))
    assert with_decided_branches(source, None, {}).model is not None
    monkeypatch.setattr(DecidedBranches, "follow", never)
    assert optimize_onnx(source).after.count == 0


def test_a_branch_that_is_decided_once_another_is_written():
    """The rank of the first If's result is not known: its branches give different ones."""
    inner = graph([oh.make_node("Relu", ["t"], ["u"]), back("q")], "q")
    other = graph([oh.make_node("Neg", ["x"], ["q"])], "q")
    flat = graph([oh.make_node("Flatten", ["x"], ["r"])])
    source = branching(graph([oh.make_node("Abs", ["x"], ["r"])]), flat)
    source.graph.node.extend(
        [
            oh.make_node("Shape", ["y"], ["extents_of_y"]),
            oh.make_node("Gather", ["extents_of_y", "at"], ["second"]),
            oh.make_node("Equal", ["second", "three"], ["d"]),
            oh.make_node("If", ["d"], ["z"], then_branch=inner, else_branch=other),
        ]
    )
    source.graph.output[0].type.tensor_type.ClearField("shape")
    source.graph.output.append(value("z", *SHAPE))
    branches = with_decided_branches(source, None, {})
    assert branches.model is not None
    assert "If" in op_types(branches.model)
    written, _ = branches.follow()
    assert written is not None
    assert "If" not in op_types(written)
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    evaluator: Any = ReferenceEvaluator(written)
    for found, wanted in zip(evaluator.run(None, {"x": x}), (np.abs(x), np.maximum(x, 0)), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("outputs", [("p", "q"), (9, 8)])
@pytest.mark.parametrize("is_last", [True, False])
def test_what_only_a_branch_says_of_extents_is_known_around_it(outputs: tuple[int | str, ...], is_last: bool):
    def of_rows(op: str) -> onnx.GraphProto:
        nodes = [transpose("rows", "turned", 1, 0), oh.make_node(op, ["turned"], ["r"])]
        return oh.make_graph(nodes, "branch", [], [value("r", 9, 8)])

    nodes = [
        oh.make_node("Shape", ["x"], ["extents"]),
        oh.make_node("Gather", ["extents", "at"], ["first"]),
        oh.make_node("Concat", ["first", "rest"], ["asked"], axis=0),
        oh.make_node("Reshape", ["x", "asked"], ["rows"]),
        oh.make_node(
            "If", ["c"], ["y" if is_last else "t"], then_branch=of_rows("Relu"), else_branch=of_rows("Abs")
        ),
        *([] if is_last else [oh.make_node("Tanh", ["t"], ["y"])]),
    ]
    constants = [initializer("at", np.array([0])), initializer("rest", np.array([-1]))]
    constants.append(initializer("c", np.array(True)))
    model = model_of(nodes, [value("x", 8, "n", 3)], [value("y", *outputs)], constants)
    feeds = {"x": np.random.default_rng(0).random((8, 3, 3), np.float32)}
    # Of an output the model says what it said.
    is_open = is_last and "p" in outputs
    result = check_optimized(model, feeds, compares_bytes=not is_open)
    assert "If" not in op_types(result.model) and result.after.count == 1


def test_negative_what_moves_nothing_less_stays():
    nothing = graph([oh.make_node("Relu", ["x"], ["r"])])
    source = branching(nothing, graph([oh.make_node("Neg", ["x"], ["r"])]))
    source.graph.output.append(value("t", 1, 4, 5, 3))
    assert "If" in op_types(check_optimized(source).model)


def test_negative_a_branch_that_is_missing():
    source = branching(graph([oh.make_node("Relu", ["t"], ["u"]), back()]))
    del source.graph.node[-1].attribute[:]
    assert with_decided_branches(source, None, {}).model is None
