"""Types of results of Reshape that ONNX's inference does not find, where the extents are computed.

Of a Reshape to extents that are computed, at least the rank is known, and an extent that follows from all the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.functions import domain_of

if TYPE_CHECKING:
    import onnx


class ReshapeTypes:
    """What is known of results of Reshape beside what inference finds, each told once; of rank `highest` at most."""

    def __init__(
        self,
        nodes: Sequence[Sequence[onnx.NodeProto]],
        constants: Sequence[Mapping[str, onnx.TensorProto]],
        highest: int,
    ) -> None:
        """`nodes` and `constants` are those of graphs, graph by graph."""
        self._nodes = nodes
        self._constants = constants
        self._highest = highest
        self._reshapes = list(map(_reshapes, nodes))
        self._ranked: set[str] = set()
        self._divided: set[str] = set()
        self._seen: dict[str, tuple[object, object]] = {}
        """The types of operand and result that were looked at, by name of the result."""

    def more(self, found: Sequence[Mapping[str, onnx.TypeProto]]) -> list[dict[str, onnx.TypeProto]]:
        """Types of results by name, graph by graph, beside the types that were `found`: at first their ranks, and once
        these are all known, extents."""
        reshaped = partial(_reshaped, told=self._ranked, highest=self._highest)
        ranks = list(map(reshaped, self._nodes, self._constants, self._reshapes, found))
        self._ranked.update(*ranks)
        if any(ranks):
            return ranks
        divided = partial(_divided, told=self._divided, seen=self._seen)
        quotients = list(map(divided, self._reshapes, found))
        self._divided.update(*quotients)
        return quotients


def _reshapes(nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The nodes that are a Reshape with two inputs."""
    return [
        node
        for node in nodes
        if node.op_type == "Reshape" and not domain_of(node.domain) and len(node.input) == 2
    ]


def _reshaped(
    all_nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, onnx.TensorProto],
    reshapes: Sequence[onnx.NodeProto],
    types: Mapping[str, onnx.TypeProto],
    told: Container[str],
    highest: int,
) -> dict[str, onnx.TypeProto]:
    """The types of results of Reshape of whose rank inference says nothing, by name, without those that are `told`.

    Their extents are computed; before version 13 of the operators inference looks through no Concat of them.
    """
    nodes = [
        node
        for node in reshapes
        if node.input[0] in types
        and node.output[0] not in told
        and not (node.output[0] in types and types[node.output[0]].tensor_type.HasField("shape"))
    ]
    if not nodes:
        return {}
    makers = {name: node for node in all_nodes for name in node.output}
    found: dict[str, onnx.TypeProto] = {}
    for node in nodes:
        extents = _extents(node.input[1], types, makers, constants, highest)
        if extents:
            operand = types[node.input[0]]
            result = found[node.output[0]] = type(operand)()
            result.tensor_type.elem_type = operand.tensor_type.elem_type
            for extent in extents:
                dim = result.tensor_type.shape.dim.add()
                if extent is not None and extent > 0:  # 0 is that of the operand, -1 what is left
                    dim.dim_value = extent
    return found


def _divided(
    reshapes: Sequence[onnx.NodeProto],
    types: Mapping[str, onnx.TypeProto],
    told: Container[str],
    seen: dict[str, tuple[object, object]],
) -> dict[str, onnx.TypeProto]:
    """The types of results of Reshape with one extent of which inference says nothing, by name, without those that are
    `told`: it is what is left of the elements of the operand, a number or a single extent that has a name.

    Where `seen` has the types of both, nothing new follows from them.

    Heads of an attention are cut by computed numbers, which inference follows through no division.
    """
    found: dict[str, onnx.TypeProto] = {}
    for node in reshapes:
        if node.output[0] in told:
            continue
        operand, result = types.get(node.input[0]), types.get(node.output[0])
        if operand is None or result is None:
            continue
        if not (operand.tensor_type.HasField("shape") and result.tensor_type.HasField("shape")):
            continue
        before = seen.get(node.output[0])
        if before is not None and before[0] is operand and before[1] is result:
            continue
        seen[node.output[0]] = operand, result
        dims = result.tensor_type.shape.dim
        names = {dim.dim_param for dim in operand.tensor_type.shape.dim}
        open_places = [k for k, d in enumerate(dims) if not d.dim_value and d.dim_param not in names - {""}]
        if len(open_places) != 1:
            continue
        (place,) = open_places
        extent = _quotient(operand.tensor_type.shape.dim, [*dims[:place], *dims[place + 1 :]])
        if extent is not None:
            stated = found[node.output[0]] = type(result)()
            stated.tensor_type.elem_type = result.tensor_type.elem_type
            for k, dim in enumerate(dims):
                new = stated.tensor_type.shape.dim.add()
                if k == place and isinstance(extent, str):
                    new.dim_param = extent
                elif k == place or dim.dim_value:
                    new.dim_value = int(extent) if k == place else dim.dim_value
    return found


def _quotient(
    dims: Sequence[onnx.TensorShapeProto.Dimension], others: Sequence[onnx.TensorShapeProto.Dimension]
) -> int | str | None:
    """The product of extents divided by that of others, where it is a number above 0 or a single name."""
    if not all(dim.dim_value or dim.dim_param for dim in (*dims, *others)):
        return None
    names = Counter(dim.dim_param for dim in dims if not dim.dim_value)
    divisors = Counter(dim.dim_param for dim in others if not dim.dim_value)
    count = prod(dim.dim_value or 1 for dim in dims)
    divisor = prod(dim.dim_value or 1 for dim in others)
    if divisors - names or count % divisor:
        return None
    left = list((names - divisors).elements())
    if not left:
        return count // divisor
    return left[0] if len(left) == 1 and count == divisor else None


def _extents(
    name: str,
    types: Mapping[str, onnx.TypeProto],
    makers: Mapping[str, onnx.NodeProto],
    constants: Mapping[str, onnx.TensorProto],
    most: int,
) -> list[int | None] | None:
    """The elements of a vector as far as constants say them; None where not even their number is known, or a part has
    more than `most`."""
    import onnx.numpy_helper

    pieces: list[int | None] = []
    maker = makers.get(name)
    for piece in maker.input if maker is not None and maker.op_type == "Concat" else [name]:
        source = piece
        while source in makers and makers[source].op_type == "Cast":
            source = makers[source].input[0]
        tensor = constants.get(source)
        if source in makers and makers[source].op_type == "Constant" and makers[source].attribute:
            tensor = makers[source].attribute[0].t
        if tensor is not None and tensor.data_type in (tensor.INT32, tensor.INT64):
            pieces += onnx.numpy_helper.to_array(tensor).ravel().tolist()
            continue
        dims = types[piece].tensor_type.shape.dim if piece in types else ()
        if len(dims) != 1 or not 0 < dims[0].dim_value <= most:
            return None
        pieces += [None] * dims[0].dim_value
    return pieces
