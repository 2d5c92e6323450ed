"""Local functions are written out at their calls; the oracle is ONNX Runtime, which inlines them itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import layout_ir as li
from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from tests.frontends.onnx.models import model, node, ops_of
from tests.frontends.onnx.running import run

onnxruntime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")

OPSET = 18
X = np.array([[-2, -1, 0], [1, 2, 3]], np.float32)

OPSETS = [helper.make_opsetid("", OPSET), helper.make_opsetid("mine", 1)]


def function(
    name: str, inputs: str, outputs: str, nodes: Sequence[onnx.NodeProto], opset: int = OPSET, **options: Any
) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", opset), OPSETS[1]]
    return helper.make_function("mine", name, inputs.split(), outputs.split(), nodes, opsets, **options)


def call(name: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    result = node(name, inputs, outputs, **attributes)
    result.domain = "mine"
    return result


def with_functions(
    nodes: Sequence[onnx.NodeProto], *functions: onnx.FunctionProto, outputs: Sequence[str] = ("y",)
) -> onnx.ModelProto:
    source = model(nodes, {"x": X.shape}, outputs, opset=OPSET)
    source.opset_import.append(OPSETS[1])
    source.functions.extend(functions)
    source.ir_version = 9
    return source


def referring(op_type: str, inputs: str, outputs: str, **references: tuple[str, Any]) -> onnx.NodeProto:
    """A node whose attributes refer to those of the function it is in: own name = (its name, type)."""
    result = node(op_type, inputs, outputs)
    for name, (parameter, type) in references.items():
        result.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=parameter, type=type))
    return result


FLOAT: Any = onnx.AttributeProto.FLOAT

PAIR = function(
    "pair", "a b", "s d", [node("Add", "a b", "s"), node("Sub", "a b", "t"), node("Neg", "t", "d")]
)
SLOPE = function(
    "slope",
    "a",
    "b",
    [referring("LeakyRelu", "a", "b", alpha=("slope", FLOAT))],
    attributes=["slope"],
)
STEEP = function(
    "steep",
    "a",
    "b",
    [referring("LeakyRelu", "a", "b", alpha=("slope", FLOAT))],
    attribute_protos=[helper.make_attribute("slope", 3.0)],
)
OUTER = function(
    "outer",
    "a",
    "b",
    [call("pair", "a a", "s d"), call("slope", "s", "t", slope=0.25), node("Add", "t d", "b")],
)


@pytest.mark.parametrize(
    "source",
    [
        with_functions([call("pair", "x x", "s d"), call("pair", "s d", "y z")], PAIR, outputs=["y", "z"]),
        with_functions([call("pair", "x x", "- y")], PAIR),
        with_functions([call("slope", "x", slope=0.5)], SLOPE),
        with_functions([call("slope", "x")], SLOPE),
        with_functions([call("steep", "x", "s"), call("steep", "s", slope=2.0)], STEEP),
        with_functions([call("outer", "x", "s"), call("outer", "s")], OUTER, PAIR, SLOPE),
        # Names inside a function are its own, and may be those of the graph.
        with_functions([node("Exp", "x", "t"), call("pair", "t x", "s d"), node("Mul", "s t", "y")], PAIR),
        # What is called may be an op of the standard by name only.
        with_functions([call("Relu", "x")], function("Relu", "a", "b", [node("Neg", "a", "b")])),
        # An optional input that is left out, and handed on.
        with_functions([call("low", "x")], function("low", "a b", "c", [node("Clip", "a b", "c")])),
    ],
    ids=lambda source: " ".join(node.op_type for node in source.graph.node),
)
def test_functions_compute_what_onnx_runtime_computes(source: onnx.ModelProto):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(source.SerializeToString(), options)
    for ours, theirs in zip(run(from_onnx(source), [X]), session.run(None, {"x": X}), strict=True):
        np.testing.assert_allclose(ours, np.asarray(theirs), rtol=1e-6)


def value_of(name: str, element: int = onnx.TensorProto.FLOAT) -> onnx.ValueInfoProto:
    shape = X.shape if element == onnx.TensorProto.FLOAT else ()
    return helper.make_tensor_value_info(name, element, shape)


def branching(
    condition: str, then: Sequence[onnx.NodeProto], other: Sequence[onnx.NodeProto]
) -> onnx.NodeProto:
    """An If that gives "z", of branches that end in "r"."""
    graphs = [
        helper.make_graph(nodes, name, [], [value_of("r")])
        for name, nodes in (("then", then), ("else", other))
    ]
    return node("If", condition, "z", then_branch=graphs[0], else_branch=graphs[1])


LOOP = node(
    "Loop",
    "count - x",
    "y",
    body=helper.make_graph(
        [node("Identity", "going", "go"), call("outer", "state", "t"), call("pair", "t x", "next u")],
        "body",
        [
            value_of("number", onnx.TensorProto.INT64),
            value_of("going", onnx.TensorProto.BOOL),
            value_of("state"),
        ],
        [value_of("go", onnx.TensorProto.BOOL), value_of("next")],
    ),
)
CHOICE = function(
    "choice",
    "a c",
    "b",
    [
        branching(
            "c", [call("slope", "a", "r", slope=0.5)], [call("pair", "a a", "r t"), node("Neg", "t", "u")]
        ),
        node("Identity", "z", "b"),
    ],
)


@pytest.mark.parametrize(
    "source",
    [
        with_functions(
            [
                branching("c", [call("outer", "x", "r")], [node("Exp", "x", "s"), call("pair", "s x", "r -")]),
                node("Neg", "z"),
            ],
            OUTER, PAIR, SLOPE,
        ),
        with_functions([LOOP], OUTER, PAIR, SLOPE),
        # Two calls of a function that calls others in branches, in a branch.
        with_functions(
            [
                branching("c", [call("choice", "x c", "s"), call("choice", "s c", "r")], [node("Neg", "x", "r")]),
                call("choice", "z c"),
            ],
            CHOICE, PAIR, SLOPE,
        ),
        # Of another version of operators, which are the same in both.
        with_functions(
            [branching("c", [call("old", "x", "r")], [node("Neg", "x", "r")]), node("Neg", "z")],
            function("old", "a", "b", [node("Relu", "a", "t"), node("Add", "t a", "b")], opset=14),
        ),
    ],
    ids=["branch", "loop", "both", "version"],
)  # fmt: skip
@pytest.mark.parametrize("condition", [True, False])
def test_functions_in_subgraphs_compute_what_onnx_runtime_computes(source: onnx.ModelProto, condition: bool):
    given = onnx.ModelProto()
    given.CopyFrom(source)
    constants = {"c": np.array(condition), "count": np.array(3)}
    for name in constants:
        given.graph.input.append(
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(constants[name].dtype), ())
        )
    before = given.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    feeds = {"x": X, **constants}
    (theirs,) = onnxruntime.InferenceSession(before, options).run(None, feeds)
    (ours,) = run(from_onnx(given), list(feeds.values()))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    (ours,) = li.compile(given)(feeds)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert given.SerializeToString() == before


def test_negative_a_function_of_another_operator_in_a_subgraph():
    """Softmax went over all later dims until opset 12, and a subgraph has one version."""
    old = function("old", "a", "b", [node("Softmax", "a", "b", axis=0)], opset=12)
    source = with_functions(
        [branching("c", [call("old", "x", "r")], [node("Neg", "x", "r")]), node("Neg", "z")], old
    )
    source.graph.input.append(value_of("c", onnx.TensorProto.BOOL))
    with pytest.raises(
        OnnxImportError, match=r"\(Softmax\) of function 'mine.old': is of version 12 of the operators"
    ):
        from_onnx(source)


def test_a_result_may_be_an_input():
    """ONNX Runtime does not load such a model."""
    both = function("both", "a", "a b", [node("Neg", "a", "b")])
    source = with_functions([call("both", "x", "s t"), node("Mul", "s t")], both)
    (ours,) = run(from_onnx(source), [X])
    np.testing.assert_array_equal(ours, -X * X)


def test_nodes_keep_the_version_of_their_function():
    """Softmax went over all later dims until opset 12."""
    old = function("old", "a", "b", [node("Softmax", "a", "b", axis=0)], opset=12)
    new = function("new", "a", "b", [node("Softmax", "a", "b", axis=0)], opset=13)
    for which, axes in ((old, (0, 1)), (new, 0)):
        (ours,) = run(from_onnx(with_functions([call(which.name, "x")], which)), [X])
        np.testing.assert_allclose(ours, np.exp(X) / np.exp(X).sum(axes, keepdims=True), rtol=1e-6)


def test_a_long_chain_is_no_recursion():
    count = 5000
    chain = [function(f"f{k}", "a", "b", [call(f"f{k + 1}", "a", "b")]) for k in range(count)]
    chain.append(function(f"f{count}", "a", "b", [node("Relu", "a", "b")]))
    assert [op.name for op in ops_of(with_functions([call("f0", "x")], *chain))] == ["nn.relu"]


def doubling(levels: int) -> onnx.ModelProto:
    body = [[call(f"f{k + 1}", "a", "t"), call(f"f{k + 1}", "t", "b")] for k in range(levels)]
    last = function(f"f{levels}", "a", "b", [node("Relu", "a", "b")])
    functions = [function(f"f{k}", "a", "b", nodes) for k, nodes in enumerate(body)]
    return with_functions([call("f0", "x")], *functions, last)


def test_functions_may_call_others_twice():
    assert len(ops_of(doubling(6))) == 64


@pytest.mark.parametrize("levels", [14, 21, 60, 5000])
def test_negative_functions_that_make_too_many_nodes(levels: int):
    # A call in the graph, two calls on each level for each call of it, and the nodes of the last.
    count = 1 + sum(2**level for level in range(1, levels + 1)) + 2**levels
    with pytest.raises(
        OnnxImportError, match="the functions of the model, written out at their calls, make"
    ) as error:
        from_onnx(doubling(levels))
    assert f"make {count if levels < 63 else 'more than 2^63'} nodes" in str(error.value)


def test_negative_functions_that_make_too_many_bytes():
    constant = helper.make_node(
        "Constant", [], ["c"], value=onnx.numpy_helper.from_array(np.zeros(100_000, np.float32))
    )
    big = function("big", "a", "b", [constant, node("Shape", "c", "s"), node("Identity", "a", "b")])
    names = ["x", *(f"v{k}" for k in range(1, 200)), "y"]
    calls = [call("big", a, b) for a, b in pairwise(names)]
    with pytest.raises(
        OnnxImportError, match=r"make \d+ bytes; at most \d+ are imported from a model of this size"
    ):
        from_onnx(with_functions(calls, big))
    fewer = [*calls[:10], node("Relu", "v10")]
    assert [op.name for op in ops_of(with_functions(fewer, big))] == ["nn.relu"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            with_functions([call("f", "x")], function("f", "a", "b", [call("f", "a", "b")])),
            "function 'mine.f' calls itself: 'mine.f' -> 'mine.f'",
        ),
        (
            with_functions(
                [call("f", "x")],
                function("f", "a", "b", [call("g", "a", "b")]),
                function("g", "a", "b", [call("f", "a", "b")]),
            ),
            "calls itself: 'mine.f' -> 'mine.g' -> 'mine.f'",
        ),
        (
            with_functions(
                [call("f", "x")],
                function("f", "a", "b", [branching("c", [call("f", "a", "r")], []), node("Neg", "z", "b")]),
            ),
            "function 'mine.f' calls itself: 'mine.f' -> 'mine.f'",
        ),
        (
            with_functions([branching("c", [call("pair", "x x x", "r z")], []), node("Neg", "z")], PAIR),
            r"node 0 'z' \(If\): node 0 'r' \(pair\) of its subgraph: has 3 inputs, but function 'mine.pair' has 2",
        ),
        (
            with_functions([call("pair", "x x x", "y z")], PAIR),
            r"node 0 'y' \(pair\): has 3 inputs, but function 'mine.pair' has 2",
        ),
        (
            with_functions([call("pair", "x x", "y z q")], PAIR),
            "has 3 outputs, but function 'mine.pair' has 2",
        ),
        (
            with_functions([call("slope", "x", tilt=1.0)], SLOPE),
            "attribute tilt is no parameter of function 'mine.slope', which has slope",
        ),
        (
            with_functions([call("slope", "x", slope=1)], SLOPE),
            "attribute slope of function 'mine.slope' is of type INT, but alpha there is of type FLOAT",
        ),
        (
            with_functions([call("pair", "x x")], PAIR, PAIR),
            "function 'mine.pair' is defined twice",
        ),
        (
            with_functions([call("f", "x")], function("f", "a", "b", [node("Relu", "c", "b")])),
            r"node 0 'y' \(f\): node 0 'b' \(Relu\) of function 'mine.f' uses 'c_\d+', which nothing defines",
        ),
        (
            with_functions([call("f", "x")], function("f", "a", "b", [node("Relu", "a", "b"), node("Exp", "a", "b")])),
            "value 'y' is defined twice: by .*Relu.* and by .*Exp",
        ),
        (
            with_functions([call("f", "x")], function("f", "a", "b", [node("Relu", "b", "a"), node("Exp", "a", "b")])),
            "function 'mine.f' computes its own input 'a'",
        ),
        (
            with_functions([call("f", "x", "y z")], function("f", "a", "b b", [node("Relu", "a", "b")])),
            "function 'mine.f' names one of its outputs twice",
        ),
        (
            with_functions([call("f", "x")], function("f", "a", "b", [node("NonZero", "a", "b", name="wave")])),
            r"node 0 'y' \(f\): node 0 'wave' \(NonZero\) of function 'mine.f': op ai.onnx.NonZero",
        ),
        (
            with_functions([call("f", "x")], function("f", "a", "b", [node("Relu", "a", "b")], opset=8)),
            "function 'f' uses opset 8, supported are 9 to",
        ),
        (
            with_functions([referring("LeakyRelu", "x", "y", alpha=("slope", FLOAT))]),
            r"node 0 'y' \(LeakyRelu\): attribute alpha refers to 'slope' of a function, but the node is in none",
        ),
    ],
)  # fmt: skip
def test_negative_functions(source: onnx.ModelProto, message: str):
    with pytest.raises(OnnxImportError, match=message):
        from_onnx(source)


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_an_operator_of_the_standard_comes_before_a_function_of_its_name(domain: str):
    negated = function("Relu", "a", "b", [node("Neg", "a", "b")])
    negated.domain = domain
    source = with_functions([node("Relu", "x", "y")], negated)
    (wanted,) = onnxruntime.InferenceSession(source.SerializeToString()).run(None, {"x": X})
    assert np.array_equal(wanted, np.maximum(X, 0))
    assert [op.name for op in ops_of(source)] == ["nn.relu"]


def test_negative_a_function_of_another_name_in_the_domain_of_the_standard_is_called():
    negated = function("Negated", "a", "b", [node("Neg", "a", "b")])
    negated.domain = ""
    assert [op.name for op in ops_of(with_functions([node("Negated", "x", "y")], negated))] == ["nn.neg"]
