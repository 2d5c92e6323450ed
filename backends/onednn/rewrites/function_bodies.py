"""Opaque ONNX nodes as the functions by which ONNX defines their operators: Attention, RotaryEmbedding, AffineGrid, ...

A model of the one node is inlined by the onnx package and imported like any other, and its ops take the place of the
node. Operators of ONNX Runtime have functions of ours (`runtime_functions`). Operands that are constants are
initializers there, so that shapes and axes among them are known.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.inserted_ops import elements_of
from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of
from layout_ir.dialects.nn.protos import node_of
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array, storage
from layout_ir.forking import loading
from layout_ir.frontends.onnx.runtime_functions import FUNCTIONS, written_out


def function_body(node: OpaqueNode) -> list[SSAValue | None]:
    """The results of a node whose operator is defined by others."""
    op = node.op
    if op.captures.data or not _has_body(op):
        raise Unsupported
    operands = [value for value in node.inputs if value is not None]
    constants = [elements_of(value) for value in operands]
    if any(
        dtype_of(value.type) == "bf16"
        for value, known in zip(operands, constants, strict=True)
        if known is not None
    ):
        raise Unsupported
    module = _imported(op, operands, constants)
    function = next(each for each in module.body.block.ops if each.name == "func.func")
    [block] = function.regions[0].blocks
    given = [value for value, known in zip(operands, constants, strict=True) if known is None]
    known: dict[SSAValue, SSAValue] = dict(zip(block.args, given, strict=True))
    for inner in block.ops:
        if isinstance(inner, ReturnOp):
            return [known[value] for value in inner.operands]
        copy = inner.clone(known)
        node.insert(copy)
        known |= zip(inner.results, copy.results, strict=True)
    raise Unsupported


def _has_body(op: nn.OpaqueOp) -> bool:
    """Whether a function is known for the operator of a node."""
    if op.domain.data:
        return f"{op.domain.data}.{op.op_type.data}" in FUNCTIONS
    return _is_function(op.op_type.data, op.versions.get("", 0))


@cache
def _is_function(name: str, version: int) -> bool:
    """Whether ONNX has a function for the operator of this opset, which draws no random numbers."""
    try:
        with loading:
            import onnx.defs
    except ImportError:
        return False
    if name == "Bernoulli" or not version or not onnx.defs.has(name, version):
        return False
    schema: Any = onnx.defs.get_schema(name, version)
    return bool(schema.has_function or schema.has_context_dependent_function)


def _imported(op: nn.OpaqueOp, operands: list[SSAValue], constants: list[Array | None]) -> ModuleOp:
    """The module of a model of the function. Raises Unsupported where it is none that can be imported."""
    with loading:
        import onnx
        import onnx.helper
        import onnx.inliner
        import onnx.numpy_helper

        from layout_ir.frontends.onnx import from_onnx

    def described(name: str, value: SSAValue) -> onnx.ValueInfoProto:
        dtype = dtype_of(value.type)
        number = (
            onnx.TensorProto.BFLOAT16
            if dtype == "bf16"
            else onnx.helper.np_dtype_to_tensor_dtype(storage(dtype))
        )
        return onnx.helper.make_tensor_value_info(name, number, shape_of(value))

    inputs = [f"operand_{number}" for number in range(len(operands))]
    outputs = [f"result_{number}" for number in range(len(op.results))]
    values = [described(name, value) for name, value in zip(inputs, operands, strict=True)]
    graph = onnx.helper.make_graph(
        [node_of(op, inputs, outputs)],
        "function",
        [value for value, known in zip(values, constants, strict=True) if known is None],
        [described(name, value) for name, value in zip(outputs, op.results, strict=True)],
        [
            onnx.numpy_helper.from_array(known, name)
            for name, known in zip(inputs, constants, strict=True)
            if known is not None
        ],
        value_info=[value for value, known in zip(values, constants, strict=True) if known is not None],
    )
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in op.versions.items()]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    if op.domain.data:
        written = written_out(model)
        if written is None:
            raise Unsupported
        return from_onnx(written, keep_quantized=True)
    try:
        inlined = onnx.inliner.inline_selected_functions(
            model, [("", op.op_type.data)], exclude=False, inline_schema_functions=True
        )
    except RuntimeError as error:
        raise Unsupported from error
    if any(each.op_type == op.op_type.data for each in inlined.graph.node):
        raise Unsupported
    return from_onnx(inlined, keep_quantized=True)
