"""The function of a program that is run, and the arrays that it is called with."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from layout_ir.api.call_inputs import Inputs, in_order, stored
from layout_ir.backends.reference.semantics import layout_at_run_time
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.diagnostics import LocatedError
from layout_ir.dialects.layout import dtype_of, is_number
from layout_ir.dialects.nn.model_names import names_in
from layout_ir.errors import LayoutError


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
    inputs = in_order(names, title, inputs)
    types = list(function.function_type.inputs)
    return [_argument(name, type, value) for name, type, value in zip(names, types, inputs, strict=True)]


def _argument(name: str, type: Attribute, value: Any) -> Tensor | float:
    if is_number(type):
        if np.ndim(value) != 0:
            raise LayoutError(f"input '{name}' is {type}, the array given has {np.ndim(value)} dims")
        return np.asarray(value).item()
    return stored(name, value, layout_at_run_time(type), dtype_of(type))
