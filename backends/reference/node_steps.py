"""Nodes of the onnx package's evaluator one behind the other, each called as directly as its operator allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

NodeStep = tuple[Callable[..., Sequence[Any]], Mapping[str, Any], bool, Sequence[str], Sequence[str]]
"""What computes a node, its attributes, whether it takes the values around it too, names of its inputs and outputs."""


def node_steps(evaluator: Any, *, types_fit: bool = False) -> list[NodeStep]:
    """The nodes of an evaluator of the package, each as a call of its operator where all else that its method `run`
    does is to look at what it gives, or with `types_fit` at what it is given, too."""
    return [_step(node, types_fit) for node in evaluator.rt_nodes_]


def _step(node: Any, types_fit: bool) -> NodeStep:
    from onnx.reference import op_run
    from onnx.reference.ops import _op

    package: Any = op_run
    kinds: Any = _op
    kind = cast("Any", type(node))
    takes_all = node.need_context()
    if kind.run is package.OpRun.run and not (takes_all or node.has_subgraph or node.has_linked_attribute):
        attributes = {name: getattr(node, name) for name in node.attributes_names_}
        return node._run, attributes, False, node.input, node.output
    with_types = kinds.OpRunUnary, kinds.OpRunUnaryNum, kinds.OpRunBinary, kinds.OpRunBinaryNum
    if types_fit and any(kind.run is known.run for known in with_types):
        return node._run, {}, False, node.input, node.output
    return node.run, {}, takes_all, node.input, node.output


def walk(steps: Sequence[NodeStep], outputs: Sequence[str], given: Mapping[str, Any]) -> list[Any]:
    """The outputs of nodes one behind the other."""
    values: dict[str, Any] = {"": None, **given}
    for run, attributes, takes_all, inputs, results in steps:
        more = {"context": values} if takes_all else attributes
        found = run(*[values[name] for name in inputs], **more)
        for name, value in zip(results, found, strict=False):
            values[name] = value if type(value) is np.ndarray or not np.isscalar(value) else np.asarray(value)
    return [values[name] for name in outputs]
