"""Running a program on NumPy arrays.

Ops have the reference semantics (`layout_ir.backends.reference`); the reorders among them may be compiled ones. Arrays
go in and come out in their logical shape, whatever the formats of inputs and results are.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Literal

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from layout_ir.backends.reference.interpreter import (
    ReferenceFunctions,
    Trace,
    check_supported,
    check_types,
    interpreter_of,
)
from layout_ir.backends.reference.semantics import SEMANTICS, Semantics, layout_at_run_time
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.diagnostics import LocatedError
from layout_ir.dialects.layout import FillPadsOp, ReorderOp, dtype_of, strip_type
from layout_ir.dialects.nn.model_names import names_in
from layout_ir.elements.numpy_types import Array, storage
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError, public
from layout_ir.foreign.scalar import is_number
from layout_ir.forking import loading

Inputs = Mapping[str, Any] | Sequence[Any]


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
    if not isinstance(module, ModuleOp):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LayoutError(f"a program is a ModuleOp of xDSL, not of type {type(module).__name__}")
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


def entry_point(module: ModuleOp, name: str) -> FuncOp:
    """Function `name` of `module`. Raises LayoutError, saying which there are, if there is none or it has no body."""
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    if name not in functions:
        known = ", ".join(f"@{other}" for other in functions) or "none"
        raise LayoutError(f"the module has no function @{name}, its functions: {known}")
    if not functions[name].body.blocks:
        raise LocatedError(f"function @{name} has no body to run", functions[name])
    return functions[name]


def input_names(function: FuncOp) -> list[str]:
    """Names of the arguments, by which `run` takes them."""
    types = function.function_type.inputs
    given = names_in(function.arg_attrs, len(types))
    hints = (
        [argument.name_hint for argument in function.args] if function.body.blocks else [None] * len(types)
    )
    return [
        name or hint or f"arg{number}" for number, (name, hint) in enumerate(zip(given, hints, strict=True))
    ]


def result_names(function: FuncOp) -> list[str]:
    """Names of the results: the ONNX name where the module was imported, else result0 and so on."""
    given = names_in(function.res_attrs, len(function.function_type.outputs))
    return [name or f"result{number}" for number, name in enumerate(given)]


def arguments_of(function: FuncOp, inputs: Inputs) -> list[Tensor | float]:
    """The values of the arguments, from inputs by position or name. Raises LayoutError where they do not fit."""
    names = input_names(function)
    title = f"@{function.sym_name.data}"
    if isinstance(inputs, Mapping):
        wrong = [name for name in names if name not in inputs] + [
            name for name in inputs if name not in names
        ]
        if wrong:
            problem = "is missing" if wrong[0] in names else "is no input"
            raise LayoutError(
                f"'{wrong[0]}' {problem}: {title} takes {_listed(names)}, given are {_listed(inputs)}"
            )
        inputs = [inputs[name] for name in names]
    if len(inputs) != len(names):
        raise LayoutError(f"{title} takes {len(names)} inputs ({_listed(names)}), given are {len(inputs)}")
    types = list(function.function_type.inputs)
    return [_argument(name, type, value) for name, type, value in zip(names, types, inputs, strict=True)]


def _argument(name: str, type: Attribute, value: Any) -> Tensor | float:
    if is_number(type):
        if np.ndim(value) != 0:
            raise LayoutError(f"input '{name}' is {type}, the array given has {np.ndim(value)} dims")
        return np.asarray(value).item()
    dtype, layout = dtype_of(type), layout_at_run_time(type)
    array = np.asarray(value)
    if dtype == "bf16" and array.dtype.name == "bfloat16":
        array = array.view(np.uint16)
    if array.shape != layout.shape or array.dtype != storage(dtype):
        given = "x".join(map(str, array.shape)) or "a scalar"
        raise LayoutError(
            f"input '{name}' is {strip_type(type)}, the array given is {given} of {array.dtype}"
        )
    return Tensor.store(array, layout, dtype)


def _listed(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"


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
