"""How often a Loop runs, where constants say it: the trip count, or a condition that follows from counters alone.

Loops of TensorFlow compare a counter that they carry with the extent of what they go over. The nodes of the body from
which such a condition follows are run by themselves, as often as the loop runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.frontends.onnx.subgraphs import graphs_of

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

_MOST_COUNTED = 4096
"""Iterations that are counted one by one: with the eight nodes of a loop of TensorFlow that takes half a second."""
_FEW = 16
"""Elements of what a condition may follow from: counters, bounds."""


def iterations(model: onnx.ModelProto, body: onnx.GraphProto) -> int | None:
    """How often the Loop runs that is the one node of a model; None where that is not known before."""
    import onnx.numpy_helper

    (node,) = model.graph.node
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    count, start = (*node.input, "", "")[:2]
    if any(name and name not in constants for name in (count, start)):
        return None
    most = max(int(onnx.numpy_helper.to_array(constants[count]).reshape(())), 0) if count else None
    if start and not onnx.numpy_helper.to_array(constants[start]).all():
        return 0
    if len(body.input) < 2 or len(body.input) != len(node.input) or len(body.output) < len(body.input) - 1:
        return None  # no Loop of ONNX
    condition = source_of(body.output[0].name, passed_on(body))
    if condition == body.input[1].name:
        return most
    counting = _counting(model, body, constants)
    return None if counting is None else counting.iterations(most)


def passed_on(body: onnx.GraphProto) -> dict[str, str]:
    """The value that a node only passes on, by result of the node."""
    nodes = [node for node in body.node if node.op_type == "Identity" and not domain_of(node.domain)]
    return {node.output[0]: node.input[0] for node in nodes if len(node.input) == len(node.output) == 1}


def source_of(name: str, passed: Mapping[str, str]) -> str:
    """What a value is behind the nodes that only pass it on."""
    for _ in passed:  # no more often, should they go round in a circle
        name = passed.get(name, name)
    return name


@dataclass
class _Counting:
    """The part of a body that its condition follows from."""

    part: onnx.ModelProto
    """It takes the number of the iteration and what `values` has, and gives the condition, then their next values."""
    values: dict[str, NDArray[Any]]
    """The value that each input begins with, by name."""
    number: str
    """The input that is the number of the iteration."""

    def iterations(self, most: int | None) -> int | None:
        """How often the condition lets the body run, `most` times at most; None where it is not seen in good time."""
        import numpy as np
        from onnx.reference import ReferenceEvaluator

        evaluator: Any = ReferenceEvaluator(self.part)
        values = self.values
        for trip in range(_MOST_COUNTED):
            if trip == most:
                return trip
            try:
                going, *following = evaluator.run(None, {self.number: np.array(trip), **values})
            except Exception:
                return None  # whatever the reference raises for a node that it cannot run
            if not np.all(going):
                return trip + 1
            values = dict(zip(values, following, strict=True))
        return None


def _counting(
    model: onnx.ModelProto, body: onnx.GraphProto, constants: Mapping[str, onnx.TensorProto]
) -> _Counting | None:
    """What the condition of a Loop follows from; None where it takes more than a few numbers that constants say, or a
    node that is not ONNX's or has subgraphs."""
    import numpy as np
    import onnx
    import onnx.helper
    import onnx.numpy_helper

    (node,) = model.graph.node
    makers = {name: inner for inner in body.node for name in inner.output if name}
    known = {**constants, **{tensor.name: tensor for tensor in body.initializer}}
    number, going, *carried = (value.name for value in body.input)
    places = {name: k for k, name in enumerate(carried)}
    condition, *results = (value.name for value in body.output)
    read: dict[str, onnx.TensorProto] = {}
    values: dict[str, NDArray[Any]] = {}
    following: list[str] = []
    needed: set[str] = set()
    waiting = [condition]
    while waiting:
        name = waiting.pop()
        if not name or name in needed:
            continue
        needed.add(name)
        if name in makers:
            maker = makers[name]
            if domain_of(maker.domain) or graphs_of(maker) or maker.op_type in _BY_CHANCE:
                return None
            waiting += maker.input
        elif name in places:
            first = constants.get(node.input[2 + places[name]])
            if first is None or prod(first.dims) > _FEW:
                return None
            values[name] = onnx.numpy_helper.to_array(first)
            following.append(results[places[name]])
            waiting.append(following[-1])
        elif name == going:
            values[name] = np.array(True)  # else the body does not run
            following.append(condition)
        elif name != number:
            if name not in known or prod(known[name].dims) > _FEW:
                return None
            read[name] = known[name]
    unknown = onnx.TypeProto()
    graph = onnx.helper.make_graph(
        [inner for inner in body.node if needed.intersection(inner.output)],
        "part",
        [onnx.helper.make_value_info(name, unknown) for name in (number, *values)],
        [onnx.helper.make_value_info(name, unknown) for name in (condition, *following)],
        list(read.values()),
    )
    part = onnx.helper.make_model(graph, opset_imports=model.opset_import)
    return _Counting(part, values, number)


_BY_CHANCE = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
