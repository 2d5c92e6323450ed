"""Which version of the ONNX operators a model is written in: opsets, and what each of them has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import onnx
import onnx.defs
import onnx.helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from layout_ir.diagnostics import LocatedError, name_of_op
from layout_ir.dialects.layout import dtype_of
from layout_ir.dialects.nn import OpaqueOp
from layout_ir.dialects.nn.protos import MODEL, header_in, node_of

if TYPE_CHECKING:
    from onnx.defs import OpSchema

OLDEST = 9
"""The oldest version that is written, as it is the oldest that is read."""

USUAL = 20
"""The version for programs that came from no model. It has all ops of `nn`, and runtimes since 2024 have it."""

DATA_TYPES = {
    "f16": onnx.TensorProto.FLOAT16,
    "bf16": onnx.TensorProto.BFLOAT16,
    "f32": onnx.TensorProto.FLOAT,
    "f64": onnx.TensorProto.DOUBLE,
    "i1": onnx.TensorProto.BOOL,
    "i8": onnx.TensorProto.INT8,
    "i16": onnx.TensorProto.INT16,
    "i32": onnx.TensorProto.INT32,
    "i64": onnx.TensorProto.INT64,
    "ui8": onnx.TensorProto.UINT8,
    "ui16": onnx.TensorProto.UINT16,
    "ui32": onnx.TensorProto.UINT32,
    "ui64": onnx.TensorProto.UINT64,
}
"""Element types of ONNX by their names here, all whose elements are whole bytes."""


@cache
def schema_of(op_type: str, version: int) -> OpSchema | None:
    """The definition of an operator of ONNX's own domain in `version`; None where that has none."""
    try:
        return onnx.defs.get_schema(op_type, version, "")
    except onnx.defs.SchemaError:
        return None


def first_version(
    op_type: str, operands: Sequence[SSAValue], results: Sequence[SSAValue], since: int
) -> int | None:
    """The first version from `since` on in which the operator takes and gives the element types of these values.

    None where there is none.
    """
    ins, outs = (tuple(_word(value) for value in values) for values in (operands, results))
    return _first_version(op_type, ins, outs, since)


@cache
def _first_version(op_type: str, ins: tuple[str, ...], outs: tuple[str, ...], since: int) -> int | None:
    for version in range(since, onnx.defs.onnx_opset_version() + 1):
        schema = schema_of(op_type, version)
        if schema is None or schema.deprecated:
            continue
        sides = ((ins, schema.inputs), (outs, schema.outputs))
        if all(
            word in formals[min(number, len(formals) - 1)].types
            for words, formals in sides
            for number, word in enumerate(words)
        ):
            return version
    return None


def _word(value: SSAValue) -> str:
    """The type of a tensor as schemas write it: tensor(float)."""
    return f"tensor({onnx.TensorProto.DataType.Name(DATA_TYPES[dtype_of(value.type)]).lower()})"


def chosen_versions(module: ModuleOp, ops: Sequence[Operation], needed: Mapping[Operation, int]) -> Versions:
    """The versions in which `ops` can be written, where `needed` says the oldest of ONNX's own domain for some.

    Raises LocatedError, naming both ops, where an opaque op is of another version and there is no version for both.
    """
    header = header_in(module.attributes[MODEL]) if MODEL in module.attributes else onnx.ModelProto()
    stated = {_domain(entry.domain): entry.version for entry in header.opset_import}
    opaque = [op for op in ops if isinstance(op, OpaqueOp)]
    usual = max((op.versions.get("", 0) for op in opaque), default=0) or USUAL
    own = max(stated.get("", usual), OLDEST)
    reason: Operation | None = max(needed, key=lambda op: needed[op], default=None)
    if reason is not None and needed[reason] > own:
        own = needed[reason]
    else:
        reason = None
    found = {**stated, "": own}
    for op in opaque:
        for domain, version in op.versions.items():
            known = found.setdefault(domain, version)
            if known != version and (domain or not _means_the_same(op, version, known)):
                because = "the model" if reason is None or domain else name_of_op(reason)
                raise LocatedError(
                    f"{op.title} is of version {version} of the operators of {domain or 'ONNX'}, but {because} needs "
                    f"version {known}, in which it is another: convert the model with onnx.version_converter first",
                    op,
                )
    return Versions(header, found)


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _means_the_same(op: OpaqueOp, version: int, other: int) -> bool:
    """Whether the node of `op`, with its subgraphs, is the same in two versions of ONNX's own operators."""
    node = node_of(op, [""] * sum(op.given_inputs), [""] * sum(op.given_outputs))
    for inner in nodes_in(node):
        if _domain(inner.domain) == "":
            schemas = schema_of(inner.op_type, version), schema_of(inner.op_type, other)
            if schemas[0] is None or schemas[1] is None:
                return False
            if schemas[0].since_version != schemas[1].since_version:
                return False
    return True


def graphs_in(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The subgraphs of a node, those of the nodes in them not included."""
    for attribute in node.attribute:
        yield from attribute.graphs
        if attribute.HasField("g"):
            yield attribute.g


def nodes_in(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """The node itself and those of its subgraphs, at any depth."""
    yield node
    for graph in graphs_in(node):
        for inner in graph.node:
            yield from nodes_in(inner)


class Versions:
    """The versions of operators of a model by domain, and what the model that came in says about itself."""

    def __init__(self, header: onnx.ModelProto, versions: Mapping[str, int]):
        self.header = header
        self.opset = versions[""]
        self._versions = versions

    def empty_model(self) -> onnx.ModelProto:
        """A model without nodes, which says about itself what the one that came in does."""
        model = onnx.ModelProto()
        model.CopyFrom(self.header)
        model.graph.name = model.graph.name or "main"
        known = {_domain(entry.domain): entry for entry in model.opset_import}
        for domain, version in self._versions.items():
            entry = known[domain] if domain in known else model.opset_import.add(domain=domain)
            entry.version = version
        needed = onnx.helper.find_min_ir_version_for(list(model.opset_import), True)
        # Before version 4, initializers had to be inputs as well.
        model.ir_version = max(model.ir_version, needed, 4)
        return model
