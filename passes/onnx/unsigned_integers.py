"""Signed integers of 8 bits that are moved between QuantizeLinear and DequantizeLinear, made unsigned.

On x86, ONNX Runtime computes on unsigned integers, and makes signed ones unsigned where DequantizeLinear stands right
behind QuantizeLinear. A Transpose in between hides them from it: what is around it becomes unsigned, and an operator
with operands of one kind and a result of the other is not computed on integers any more. So here those are made
unsigned that a Transpose moves. An integer that is larger by 128, with a zero point that is larger by 128, stands for
the same number, and is saturated at the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.functions import domain_of, fresh_name
from layout_ir.frontends.onnx.subgraphs import captured_names, graphs_within
from layout_ir.frontends.onnx.tensor_protos import array_of
from layout_ir.passes.onnx.model_constants import node_constants
from layout_ir.passes.onnx.names_in_use import drop_constants, names_of, unused_constants

if TYPE_CHECKING:
    import onnx

_INT8, _UINT8 = 3, 2
"""Signed and unsigned integers of 8 bits, as TensorProto numbers element types."""
_ZERO_POINT = 2
"""The input of QuantizeLinear and DequantizeLinear that is their zero point."""


def make_moved_integers_unsigned(model: onnx.ModelProto) -> None:
    """Makes the results of QuantizeLinear in `model` unsigned that reach DequantizeLinear alone, through a Transpose.

    Their zero points are constants of the same graph, which are left for those who use them besides.
    """
    taken: set[str] = set()
    for graph in graphs_within(model.graph):
        chains = list(_signed_chains(graph))
        if chains:
            taken = taken or names_of(model.graph)
            _make_unsigned(graph, chains, taken)


def _signed_chains(graph: onnx.GraphProto) -> Iterator[list[onnx.NodeProto]]:
    """The nodes of each chain: a QuantizeLinear, and all that its result comes to, Transposes and DequantizeLinear."""
    if all(node.op_type != "QuantizeLinear" for node in graph.node):
        return
    signed = {name for name, tensor in _constants(graph).items() if tensor.data_type == _INT8}
    kept = {value.name for value in graph.output}
    users: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input[:]:
            users.setdefault(name, []).append(node)
        kept.update(captured_names(node) if node.attribute else ())
    for node in graph.node:
        if _is_quantization(node, "QuantizeLinear", signed):
            chain = [node]
            for each in chain:
                if each is node or _is_transpose(each):
                    chain += users.get(each.output[0], ())
            inner = [each for each in chain if _is_transpose(each)]
            ends = [each for each in chain[1:] if _is_quantization(each, "DequantizeLinear", signed)]
            is_whole = len(chain) == 1 + len(inner) + len(ends)
            if inner and is_whole and kept.isdisjoint(each.output[0] for each in (node, *inner)):
                yield chain


def _constants(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    """The constants of the graph that are in the model and that no caller may replace, by name."""
    inputs = {value.name for value in graph.input}
    initializers = {tensor.name: tensor for tensor in graph.initializer if tensor.name not in inputs}
    found = {**initializers, **node_constants(graph.node)}
    return {name: tensor for name, tensor in found.items() if tensor.data_location != tensor.EXTERNAL}


def _is_transpose(node: onnx.NodeProto) -> bool:
    return node.op_type == "Transpose" and not domain_of(node.domain)


def _is_quantization(node: onnx.NodeProto, op_type: str, signed: set[str]) -> bool:
    """Whether a node is this operator, with a zero point that is among those of signed integers."""
    is_meant = node.op_type == op_type and domain_of(node.domain) in ("", "com.microsoft")
    return is_meant and len(node.input) > _ZERO_POINT and node.input[_ZERO_POINT] in signed


def _make_unsigned(
    graph: onnx.GraphProto, chains: Sequence[Sequence[onnx.NodeProto]], taken: set[str]
) -> None:
    import numpy as np
    import onnx.numpy_helper

    constants = _constants(graph)
    shifted: dict[str, str] = {}
    changed: set[str] = set()
    for chain in chains:
        for node in chain:
            if node.op_type == "Transpose":
                changed.add(node.output[0])
                continue
            before = node.input[_ZERO_POINT]
            if before not in shifted:
                name = fresh_name(f"{before}_unsigned", taken)
                array = array_of(constants[before], None, before).astype(np.int16) + 128
                graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.uint8), name))
                shifted[before] = name
            node.input[_ZERO_POINT] = shifted[before]
            if node.op_type == "QuantizeLinear":
                changed.add(node.output[0])
                for attribute in node.attribute:
                    if attribute.name == "output_dtype" and attribute.i == _INT8:
                        attribute.i = _UINT8
    for value in graph.value_info:
        if value.name in changed:
            value.type.tensor_type.elem_type = _UINT8
    drop_constants(graph, unused_constants(graph) & shifted.keys())
