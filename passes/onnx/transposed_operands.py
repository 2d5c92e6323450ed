"""Types of operands of Transposes: what their results and their `perm` say of them, where inference says less.

Inference goes from operands to results. But the `perm` of a Transpose has an entry for each dim of its operand, which
is all that is known of an element of a sequence, of an input without a shape, of a Reshape to extents that a caller
gives. And what a file says of a result says the same of the operand.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.passes.onnx.orders import Order

if TYPE_CHECKING:
    import onnx


def ranks_by_perms(
    nodes: Iterable[onnx.NodeProto], types: Mapping[str, onnx.TypeProto], told: Container[str]
) -> dict[str, onnx.TypeProto]:
    """The types of operands of Transposes of whose rank inference says nothing, by name, without those that are `told`:
    as many dims as `perm` has. `types` are those of the values of one graph, `nodes` its own: where a value comes from
    around a graph, that may not run."""
    found: dict[str, onnx.TypeProto] = {}
    doubtful: set[str] = set()
    for node in nodes:
        if node.op_type != "Transpose" or not node.input:
            continue
        source = node.input[0]
        known = types.get(source)
        if source in told or known is None or not known.tensor_type.elem_type:
            continue
        if known.tensor_type.HasField("shape"):
            continue
        perm = stated_perm(node)
        if perm is None:
            continue
        operand = type(known)()
        operand.tensor_type.elem_type = known.tensor_type.elem_type
        for _ in perm:
            operand.tensor_type.shape.dim.add()
        if found.setdefault(source, operand) != operand:
            doubtful.add(source)
    return {source: operand for source, operand in found.items() if source not in doubtful}


def operands_of_transposes(
    nodes: Iterable[onnx.NodeProto], types: Mapping[str, onnx.TypeProto], told: Container[str]
) -> dict[str, onnx.TypeProto]:
    """The types of operands of Transposes, by name, of whose results more extents have numbers, without `told`."""
    found: dict[str, onnx.TypeProto] = {}
    for node in nodes:
        if node.op_type != "Transpose" or domain_of(node.domain) or not (node.input and node.output):
            continue
        source, result = node.input[0], types.get(node.output[0])
        if source in told or result is None or not result.tensor_type.HasField("shape"):
            continue
        dims = result.tensor_type.shape.dim[:]
        known = types[source].tensor_type.shape.dim[:] if source in types else []
        if len(known) == len(dims) and all(dim.HasField("dim_value") for dim in known):
            continue  # nothing is more than that
        given = next((list(a.ints) for a in node.attribute if a.name == "perm"), None)
        perm = given or [*range(len(dims))][::-1]
        if sorted(perm) != list(range(len(dims))):
            continue
        if len(known) not in (0, len(dims)):
            continue
        operand = type(result)()
        operand.tensor_type.elem_type = result.tensor_type.elem_type
        extents = [operand.tensor_type.shape.dim.add() for _ in dims]
        for place, dim in zip(perm, dims, strict=True):
            extents[place].CopyFrom(dim)
        if any(
            new.HasField("dim_value") and not (known and known[k].HasField("dim_value"))
            for k, new in enumerate(extents)
        ):
            found[source] = operand
    return found


def stated_perm(node: onnx.NodeProto) -> Order | None:
    """What a Transpose says of its order; None for another node, and where it says nothing."""
    if node.op_type != "Transpose" or domain_of(node.domain) or not (node.input and node.output):
        return None
    perm = next((tuple(attribute.ints) for attribute in node.attribute if attribute.name == "perm"), ())
    return perm if perm and sorted(perm) == list(range(len(perm))) else None
