"""The bodies of local functions in place of their calls, where they have Transposes.

A choice of orders does not look into a function: it is called from several places, and means what its body says. With
its body in place of each call, a Transpose at its start meets one in front of the call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx.functions import called_functions, check_size, domain_of
from layout_ir.frontends.onnx.subgraphs import nodes_within
from layout_ir.passes.onnx.graph_check import check_names
from layout_ir.passes.onnx.names_in_use import drop_constants, unused_constants

if TYPE_CHECKING:
    import onnx

_MOST_BYTES = 1 << 30
"""The largest model that is read anew: a protobuf has two gibibytes at most, and it is there twice meanwhile."""


def with_moving_functions_inlined(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """A copy of the model without calls of functions that move something, which calls all others as before.

    None where it has no such calls, is too large, or has a function for other versions of the operators than its own,
    or one that ONNX does not write out well. Raises OnnxImportError where functions call themselves, or would make a
    much larger model.
    """
    functions = called_functions(model, {domain_of(each.domain): each.version for each in model.opset_import})
    moving = _moving_functions(functions.values())
    if moving.isdisjoint(_operators(model.graph.node)) or model.ByteSize() > _MOST_BYTES:
        return None
    check_size(model.graph.node, functions)
    import onnx.inliner

    try:
        inlined = onnx.inliner.inline_selected_functions(_with_defaults_given(model), sorted(moving))
    except RuntimeError:  # ONNX does not write out functions for other versions of the operators
        return None
    if not moving.isdisjoint(_operators(inlined.graph.node)):
        return None
    try:
        # ONNX 1.23 forgets the names of what a subgraph gives as it came in.
        check_names(inlined.graph)
    except LayoutError:
        return None
    # A body may do without what it is given.
    drop_constants(inlined.graph, unused_constants(inlined.graph) - unused_constants(model.graph))
    return inlined


def _moving_functions(functions: Iterable[onnx.FunctionProto]) -> set[tuple[str, str]]:
    """Domain and name of the functions with a Transpose, in their bodies or in those that they call."""
    bodies = {(domain_of(f.domain), f.name): _operators(f.node) for f in functions}
    moving = {name for name, operators in bodies.items() if ("", "Transpose") in operators}
    while True:
        more = {name for name, operators in bodies.items() if not moving.isdisjoint(operators)} - moving
        if not more:
            return moving
        moving |= more


def _with_defaults_given(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the defaults of its functions' attributes at each call that does not give them, as ONNX forgets
    them where it writes a function out; the model itself where there are none."""
    if not any(function.attribute_proto for function in model.functions):
        return model
    result = type(model)()
    result.CopyFrom(model)
    defaults = {(domain_of(f.domain), f.name, f.overload): f.attribute_proto for f in result.functions}
    for nodes in (result.graph.node, *(function.node for function in result.functions)):
        for node in (each for outer in nodes for each in (outer, *nodes_within(outer))):
            given = {attribute.name for attribute in node.attribute}
            known = defaults.get((domain_of(node.domain), node.op_type, node.overload), ())
            node.attribute.extend(attribute for attribute in known if attribute.name not in given)
    return result


def _operators(nodes: Iterable[onnx.NodeProto]) -> set[tuple[str, str]]:
    found = ((node, *nodes_within(node)) for node in nodes)
    return {(domain_of(each.domain), each.op_type) for group in found for each in group}
