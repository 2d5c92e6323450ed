"""A model said in other ways: what it computes is the same, and what its Transposes have to cost."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import onnx
import onnx.helper as oh

from tests.passes.onnx.optimized import initializer

BOOL, INT64 = onnx.TensorProto.BOOL, onnx.TensorProto.INT64
WHICH = "which of the branches"
"""The input of a restated model that it has besides, which may be either."""

Restated = tuple[onnx.ModelProto, int]
"""The model, and how many times it has what the other has."""


def _copied(model: onnx.ModelProto) -> onnx.ModelProto:
    result = onnx.ModelProto()
    result.CopyFrom(model)
    return result


def _made(model: onnx.ModelProto) -> set[str]:
    return {name for node in model.graph.node for name in node.output}


def with_constant_nodes(model: onnx.ModelProto, random: Random) -> Restated | None:
    """Every initializer given by a Constant; the nodes in another order that they can run in."""
    result, graph = _copied(model), model.graph
    del result.graph.initializer[:], result.graph.node[:]
    waiting = [oh.make_node("Constant", [], [t.name], value=t) for t in graph.initializer] + list(graph.node)
    there = {"", *(value.name for value in graph.input)}
    while waiting:
        ready = [node for node in waiting if there.issuperset(node.input)]
        if not ready:
            return None  # a subgraph, whose outer values are no inputs
        node = random.choice(ready)
        waiting.remove(node)
        result.graph.node.append(node)
        there.update(node.output)
    return result, 1


def as_a_function(model: onnx.ModelProto, _: Random) -> Restated | None:
    """All nodes in the body of a local function."""
    result, graph = _copied(model), model.graph
    given = [*(value.name for value in graph.input), *(tensor.name for tensor in graph.initializer)]
    results = [value.name for value in graph.output]
    if not _made(model).issuperset(results):
        return None  # a function gives no input as it came
    body = oh.make_function("my", "Whole", given, results, list(graph.node), list(model.opset_import))
    del result.graph.node[:]
    result.graph.node.append(oh.make_node("Whole", given, results, domain="my"))
    result.functions.append(body)
    result.opset_import.append(oh.make_opsetid("my", 1))
    return result, 1


def _body(model: onnx.ModelProto, name: str) -> onnx.GraphProto:
    """All nodes as a subgraph, which takes inputs and constants from around it."""
    body = oh.make_graph(list(model.graph.node), name, [], list(model.graph.output))
    for value in body.output:
        body.node.append(oh.make_node("Identity", [value.name], [f"{value.name} of {name}"]))
        value.name += f" of {name}"
    return body


def in_branches(model: onnx.ModelProto, _: Random) -> Restated | None:
    """All nodes in either branch of an If."""
    result = _copied(model)
    del result.graph.node[:]
    if not _made(model).issuperset(value.name for value in model.graph.output):
        return None
    result.graph.input.append(oh.make_tensor_value_info(WHICH, BOOL, []))
    names = [value.name for value in model.graph.output]
    then, other = _body(model, "then"), _body(model, "else")
    result.graph.node.append(oh.make_node("If", [WHICH], names, then_branch=then, else_branch=other))
    return result, 2


def in_a_loop(model: onnx.ModelProto, _: Random) -> Restated | None:
    """All nodes in the body of a loop that runs once."""
    result, names = _copied(model), [value.name for value in model.graph.output]
    del result.graph.node[:]
    if not _made(model).issuperset(names):
        return None
    body = _body(model, "body")
    body.input.extend([oh.make_tensor_value_info("i", INT64, []), oh.make_tensor_value_info("go", BOOL, [])])
    body.node.append(oh.make_node("Identity", ["go"], ["on"]))
    body.output.insert(0, oh.make_tensor_value_info("on", BOOL, []))
    result.graph.initializer.extend([initializer("once", 1), initializer("first", [0])])
    result.graph.node.append(oh.make_node("Loop", ["once", ""], [f"{n} of all" for n in names], body=body))
    squeezed = [oh.make_node("Squeeze", [f"{name} of all", "first"], [name]) for name in names]
    result.graph.node.extend(squeezed)
    return result, 1


def with_inverse_transposes(model: onnx.ModelProto, random: Random) -> Restated | None:
    """A Transpose and its inverse in front of some operands."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    ranks = {
        value.name: len(value.type.tensor_type.shape.dim)
        for value in (*inferred.value_info, *inferred.input)
        if value.type.tensor_type.HasField("shape")
    }
    result = _copied(model)
    del result.graph.node[:]
    for number, given in enumerate(model.graph.node):
        node = onnx.NodeProto()
        node.CopyFrom(given)
        for place, name in enumerate(node.input):
            if ranks.get(name, 0) < 2 or random.random() < 0.6:
                continue
            perm = random.sample(range(ranks[name]), ranks[name])
            back = [perm.index(d) for d in range(len(perm))]
            there = f"{name} {number} {place}"
            result.graph.node.append(oh.make_node("Transpose", [name], [there], perm=perm))
            node.input[place] = f"{there} back"
            result.graph.node.append(oh.make_node("Transpose", [there], [node.input[place]], perm=back))
        result.graph.node.append(node)
    return result, 1


WAYS: dict[str, Callable[[onnx.ModelProto, Random], Restated | None]] = {
    way.__name__: way
    for way in (
        with_constant_nodes, as_a_function, in_branches, in_a_loop, with_inverse_transposes,
    )
}  # fmt: skip
