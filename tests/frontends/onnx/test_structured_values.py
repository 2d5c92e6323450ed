"""Sequences and optional values fold away where it is known what they hold; the oracle is ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import layout_ir as li
from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from layout_ir.frontends.onnx.import_error import is_unknown_type
from tests.frontends.onnx.models import model, node
from tests.frontends.onnx.onnxruntime_oracle import session_results
from tests.frontends.onnx.running import run

X, Z = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
CONSTANTS = {
    "zero": np.array(0), "one": np.array(1), "last": np.array(-1), "three": np.array(3), "sizes": np.array([1, 0, 3]),
}  # fmt: skip
TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, X.shape)
PAIR = node("SequenceConstruct", "x z", "s")


def source_of(nodes: Sequence[onnx.NodeProto], opset: int = 17) -> onnx.ModelProto:
    used = {name for each in nodes for name in each.input}
    constants = {name: array for name, array in CONSTANTS.items() if name in used}
    return model(nodes, {"x": X.shape, "z": Z.shape}, constants=constants, opset=opset)


@pytest.mark.parametrize(
    "nodes",
    [
        [PAIR, node("SequenceAt", "s one")],
        [PAIR, node("SequenceAt", "s last")],
        [PAIR, node("Identity", "s", "t"), node("SequenceAt", "t zero")],
        [PAIR, node("ConcatFromSequence", "s", axis=-1)],
        [PAIR, node("ConcatFromSequence", "s", axis=-1, new_axis=1)],
        [PAIR, node("SequenceInsert", "s x", "t"), node("SequenceInsert", "t z last", "u"),
         node("SequenceErase", "u zero", "v"), node("SequenceErase", "v", "w"),
         node("ConcatFromSequence", "w", axis=0)],
        [node("SequenceEmpty", "", "s"), node("SequenceInsert", "s x zero", "t"), node("SequenceAt", "t zero")],
        [node("SplitToSequence", "x", "s", axis=1), node("ConcatFromSequence", "s", axis=0)],
        [node("SplitToSequence", "x", "s", axis=-1, keepdims=0), node("SequenceAt", "s last")],
        [node("SplitToSequence", "x three", "s", axis=1), node("SequenceAt", "s one")],
        [node("SplitToSequence", "x sizes", "s", axis=1, keepdims=0), node("ConcatFromSequence", "s", axis=1)],
        [node("Optional", "x", "o"), node("OptionalGetElement", "o")],
        [PAIR, node("Optional", "s", "o"), node("OptionalGetElement", "o", "t"), node("SequenceAt", "t one")],
    ],
    ids=lambda nodes: " ".join(each.op_type for each in nodes),
)  # fmt: skip
def test_they_fold_away(nodes: list[onnx.NodeProto]):
    source = source_of([*nodes[:-1], nodes[-1], node("Abs", "y", "a")])
    source.graph.output[0].name = "a"
    feeds = {"x": X, "z": Z}
    (theirs,) = session_results(source, feeds)
    (ours,) = run(from_onnx(source), [X, Z])
    np.testing.assert_array_equal(ours, theirs)
    executable = li.compile(source)
    np.testing.assert_array_equal(executable(feeds)[0], theirs)
    assert executable.fallbacks == {}


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_in_all_versions_of_the_operators_they_become(opset: int):
    nodes = [
        node("SplitToSequence", "x", "s", axis=1, keepdims=0),
        node("ConcatFromSequence", "s", axis=1, new_axis=1),
    ]
    np.testing.assert_array_equal(run(from_onnx(source_of(nodes, opset)), [X, Z])[0], X)


def test_lengths_and_presence_are_constants_and_decide_branches():
    """An If whose condition is the presence of a value takes the branch that unwraps it."""
    then = helper.make_graph([node("OptionalGetElement", "o", "r")], "then", [], [_value("r")])
    other = helper.make_graph([node("Neg", "z", "r")], "else", [], [_value("r")])
    nodes = [
        node("Optional", "x", "o"),
        node("OptionalHasElement", "o", "there"),
        node("If", "there", "t", then_branch=then, else_branch=other),
        PAIR,
        node("SequenceLength", "s", "n"),
        node("Cast", "n", "m", to=TensorProto.FLOAT),
        node("Mul", "t m"),
    ]
    np.testing.assert_array_equal(run(from_onnx(source_of(nodes)), [X, Z])[0], 2 * X)
    nodes[0] = node("Optional", "", "o", type=TENSOR)
    np.testing.assert_array_equal(run(from_onnx(source_of(nodes)), [X, Z])[0], -2 * Z)


def _value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, X.shape)


@pytest.mark.parametrize("position", [0, 1, -1])
def test_what_the_run_time_alone_knows_runs_by_the_reference(position: int):
    """A position that is computed, beside a constant one in the same sequence."""
    nodes = [PAIR, node("SequenceAt", "s i", "t"), node("SequenceAt", "s zero", "u"), node("Sub", "t u")]
    source = source_of(nodes)
    source.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, []))
    with pytest.raises(
        OnnxImportError, match=r"\(SequenceAt\): input 1 'i' is computed at run time"
    ) as error:
        from_onnx(source)
    assert is_unknown_type(error.value)
    executable = li.compile(source)
    (ours,) = executable({"x": X, "z": Z, "i": np.array(position)})
    np.testing.assert_array_equal(ours, (X, Z)[position] - X)
    assert executable.fallbacks == {"SequenceConstruct": 1, "SequenceAt": 1}


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_that_the_run_time_takes_is_given_what_it_uses(condition: bool):
    """A sequence, and an optional value without an element."""
    nodes = [
        node("SequenceAt", "s one", "t"),
        node("OptionalHasElement", "o", "there"),
        node("Where", "there x t", "r"),
    ]
    branches = {
        "then_branch": helper.make_graph(nodes, "then", [], [_value("r")]),
        "else_branch": helper.make_graph([node("Neg", "x", "r")], "else", [], [_value("r")]),
    }
    source = source_of(
        [PAIR, node("Optional", "", "o", type=TENSOR), node("If", "c", "q", **branches), node("Abs", "q")]
    )
    source.graph.initializer.extend([onnx.numpy_helper.from_array(CONSTANTS["one"], "one")])
    source.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    feeds = {"x": X, "z": Z, "c": np.array(condition)}
    np.testing.assert_array_equal(li.compile(source)(feeds)[0], session_results(source, feeds)[0])


def test_a_sequence_that_goes_out():
    source = source_of([PAIR, node("SequenceAt", "s one", "t"), node("Neg", "t")])
    source.graph.output.append(helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None))
    found: list[Any] = li.compile(source)({"x": X, "z": Z})
    np.testing.assert_array_equal(found[0], -Z)
    np.testing.assert_array_equal(found[1], [X, Z])


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ([PAIR, node("SequenceAt", "s three")], r"\(SequenceAt\): position 3 is outside of a sequence of 2"),
        ([PAIR, node("SequenceInsert", "s x three", "t"), node("SequenceAt", "t zero")], "position 3 is outside of"),
        ([node("SequenceEmpty", "", "s"), node("SequenceErase", "s", "t"), node("SequenceAt", "t zero")],
         "an element of an empty sequence is erased"),
        ([node("SequenceEmpty", "", "s"), node("ConcatFromSequence", "s", axis=0)], "has no elements to join"),
        ([node("SequenceAt", "x zero")], "input 0 is no sequence"),
        ([node("SequenceConstruct", "x one", "s"), node("SequenceAt", "s zero")], "of several types: float32, int64"),
        ([PAIR, node("SequenceConstruct", "s x", "t"), node("SequenceAt", "t zero")],
         "input 0 is a sequence of 2 tensors, no tensor"),
        ([node("SplitToSequence", "x zero", "s"), node("SequenceAt", "s zero")], "parts of 0 are no parts of a dim"),
        ([node("SplitToSequence", "x sizes", "s", axis=0), node("SequenceAt", "s zero")], "do not fill dim 0"),
        ([PAIR, node("Relu", "s")], "one of its inputs is a sequence of 2 tensors"),
        ([node("Optional", "", "o", type=TENSOR), node("OptionalGetElement", "o")],
         "input 0 is an optional value that is empty: it has no element"),
        ([node("Optional", "", "o", type=TENSOR), node("SequenceAt", "o zero")],
         "input 0 is an optional value that is empty"),
    ],
)  # fmt: skip
def test_negative_what_is_not_valid(nodes: list[onnx.NodeProto], problem: str):
    with pytest.raises(OnnxImportError, match=problem):
        from_onnx(source_of(nodes))
