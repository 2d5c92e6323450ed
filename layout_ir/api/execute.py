"""Running a program on NumPy arrays.

Ops have the reference semantics (`layout_ir.backends.reference`); the reorders among them may be compiled ones. Arrays
go in and come out in their logical shape, whatever the formats of inputs and results are.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Literal

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from layout_ir.api.call_inputs import Inputs
from layout_ir.api.program_arguments import arguments_of, entry_point
from layout_ir.argument_checks import check_program
from layout_ir.backends.reference.interpreter import (
    ReferenceFunctions,
    Trace,
    check_supported,
    check_types,
    interpreter_of,
)
from layout_ir.backends.reference.semantics import SEMANTICS, Semantics, layout_at_run_time
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.dialects.layout import FillPadsOp, ReorderOp, dtype_of
from layout_ir.elements.numpy_types import Array
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError, public
from layout_ir.forking import loading


@public
def run(
    module: ModuleOp,
    inputs: Inputs = (),
    *,
    entry: str = "main",
    reorders: Literal["compiled", "reference"] = "compiled",
    constants: MutableMapping[Operation, Tensor] | None = None,
    trace: Trace | None = None,
) -> list[Array]:
    """The results of function `entry`, as arrays of their logical shapes.

    `inputs` are arrays of the arguments' logical shapes and exact element types (numbers for arguments that are no
    tensors), by position, or by name (the ONNX name where the module was imported, else that of the argument). bf16
    goes in as uint16 bits or ml_dtypes.bfloat16, and comes out as uint16 bits.

    With `reorders="compiled"` each `layout.reorder` and `layout.fill_pads` that the native backend compiles runs as
    machine code (one that reads a swizzle does not). A value whose layout is still `any`
    lies dense and row-major. `constants`, a dict of the caller's, keeps constants in their layouts for the next run.
    `trace(op, tensors, seconds)` is called after each op, with its operands and result.

    Raises LayoutError where the inputs do not fit, or an op has no reference semantics.
    """
    check_program(module)
    function = entry_point(module, entry)
    check_supported(module, function)
    check_types(module, function)
    arguments = arguments_of(function, inputs)
    if reorders not in ("compiled", "reference"):
        raise LayoutError(f"reorders = {reorders!r} is unknown, expected compiled or reference")
    replaced = _compiled_moves(module) if reorders == "compiled" else {}
    functions = ReferenceFunctions(replaced=replaced, constants=constants, trace=trace)
    results = interpreter_of(module, functions).call_op(function, tuple(arguments))
    return [
        np.array(result.logical()) if isinstance(result, Tensor) else np.asarray(result) for result in results
    ]


def _compiled_moves(module: ModuleOp) -> dict[type[Operation], Semantics]:
    """Semantics of the ops that move elements, compiled now so that no run's time contains it."""
    moves = [op for op in module.walk() if isinstance(op, ReorderOp | FillPadsOp)]
    if not moves:
        return {}
    with loading:
        from layout_ir.backends.llvm import Reorder, compile_reorder

    kernels: dict[Operation, Reorder] = {}
    for op in moves:
        source, target = layout_at_run_time(op.input.type), layout_at_run_time(op.result.type)
        if source.swizzle is None and target.swizzle is None:
            dtype = dtype_of(op.result.type)
            conversion = op.conversion if isinstance(op, ReorderOp) else Conversion(dtype, dtype)
            kernels[op] = compile_reorder(source, target, conversion=conversion)

    def move(op: Operation, x: Tensor) -> Tensor:
        if op not in kernels:
            return SEMANTICS[type(op)](op, x)
        layout = layout_at_run_time(op.results[0].type)
        is_filled = layout.pad != "undef" or not layout.is_padded
        dtype = dtype_of(op.results[0].type)
        result = (Tensor.blank if is_filled else Tensor.poisoned)(layout, dtype)
        kernels[op](np.ascontiguousarray(x.buffer), result.buffer)
        return result

    return {ReorderOp: move, FillPadsOp: move}
