"""Reorders as calls of compiled functions, by the address of the buffers.

    %src = bufferization.to_buffer %x read_only : tensor<2x17x5x4xf32> to memref<2x17x5x4xf32>
    %dst = memref.alloc() : memref<2x3x5x4x8xf32>
    func.call @reorder_0(%src, %dst) : (memref<2x17x5x4xf32>, memref<2x3x5x4x8xf32>) -> ()
    %y = bufferization.to_tensor %dst restrict writable : memref<2x3x5x4x8xf32> to tensor<2x3x5x4x8xf32>

`@reorder_0` is declared with `llvm.bareptr`, with which stock lowering hands over pointers: the C function
`void reorder_0(const void *, void *)`, as reorders are compiled ahead of time. Its attribute `reorder` has the two
types with their layouts as text, and the quantization parameters.
"""

from __future__ import annotations

from xdsl.dialects import memref
from xdsl.dialects.bufferization import ToBufferOp, ToTensorOp
from xdsl.dialects.builtin import FunctionType, MemRefType, ModuleOp, StringAttr, TensorType, UnitAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute

from layout_ir.dialects.layout.types import tensor_type
from layout_ir.exits.linalg.linalg_builder import LinalgBuilder

REORDER = "layout.reorder"
"""The attribute by which `convert-layout-to-physical` says what a declared function does."""


def pass_buffers(module: ModuleOp) -> None:
    """Makes the functions that do reorders take source and destination by address, in place."""
    declared = {
        op.sym_name.data: op for op in module.walk() if isinstance(op, FuncOp) and REORDER in op.attributes
    }
    for op in list(module.walk()):
        if not isinstance(op, CallOp) or op.callee.string_value() not in declared:
            continue
        (source,), (result,) = op.arguments, op.results
        build = LinalgBuilder(op)
        source_type, target_type = _buffer(source.type), _buffer(result.type)
        read = build.insert(
            ToBufferOp.build(
                operands=[source], result_types=[source_type], properties={"read_only": UnitAttr()}
            )
        )
        target = build.insert(memref.AllocOp.get(target_type.element_type, None, target_type.get_shape()))
        call = CallOp(op.callee.string_value(), [read, target], [])
        call.location = op.location
        assert op.parent is not None
        op.parent.insert_op_before(call, op)
        made = build.insert(ToTensorOp(target, restrict=True, writable=True))
        made.name_hint = result.name_hint
        result.replace_all_uses_with(made)
        op.detach()
        op.erase()
    for function in declared.values():
        types = [*function.function_type.inputs, *function.function_type.outputs]
        function.function_type = FunctionType.from_lists([_buffer(type) for type in types], [])
        said = function.attributes.pop(REORDER)
        parameters = [f"{name} = {value}" for name, value in function.attributes.items()]
        for name in list(function.attributes):
            del function.attributes[name]
        function.attributes["reorder"] = StringAttr(", ".join([_text(said), *parameters]))
        function.attributes["llvm.bareptr"] = UnitAttr()


def _buffer(type: Attribute) -> MemRefType[Attribute]:
    tensor: TensorType[Attribute] = tensor_type(type)
    return MemRefType(tensor.element_type, tensor.get_shape())


def _text(said: Attribute) -> str:
    assert isinstance(said, FunctionType)
    return f"{said.inputs.data[0]} -> {said.outputs.data[0]}"
