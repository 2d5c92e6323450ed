"""The onnx package's evaluator of nodes, with operators in place of those that it computes slowly or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from layout_ir.backends.reference.node_operators import own_operators
from layout_ir.backends.reference.operator_kernels import NodeKernels
from layout_ir.frontends.onnx.subgraphs import nodes_within

if TYPE_CHECKING:
    import onnx

Title = tuple[str, str]
"""The domain of an operator, and its name."""

_SLOW = frozenset(
    ("ai.onnx.ml", name)
    for name in (
        "SVMClassifier", "SVMRegressor", "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor",
    )
)  # fmt: skip
"""What the package computes a row at a time, and support vectors of three classes and more wrongly."""


def title_of(node: onnx.NodeProto) -> Title:
    """The domain and the name of the operator of a node."""
    return node.domain, node.op_type


def package_evaluator(model: onnx.ModelProto, kernels: NodeKernels) -> tuple[Any, dict[Title, str]]:
    """The evaluator of a model, and by what the operators of it are computed that `kernels` have in place of the
    package's.

    Raises what the package does where it has no reference for a node, and they have no operator.
    """
    from onnx.reference import ReferenceEvaluator

    own = own_operators(kernels)
    nodes = [inner for node in model.graph.node for inner in (node, *nodes_within(node))]
    titles = set(map(title_of, nodes))

    def others(titles: set[Title]) -> dict[Title, Any]:
        found = {title: kernels.operator(*title) for title in titles}
        return {title: operator for title, operator in found.items() if operator is not None}

    taken = others(titles & _SLOW)
    try:
        evaluator = ReferenceEvaluator(model, new_ops=[*taken.values(), *own])
    except Exception:
        known = {(operator.op_domain, operator.__name__) for operator in own}
        more = others({title for title in titles - known - taken.keys() if title[0]})
        if not more:
            raise
        taken |= more
        evaluator = ReferenceEvaluator(model, new_ops=[*taken.values(), *own])
    return evaluator, {title: operator.computed_by for title, operator in taken.items()}
