"""Two programs compute the same: both are executed by the reference, which is NaN in every pad.

A transformation of layouts that reads a pad as if it were an element is wrong, and mostly unnoticed: pads are often
zero, by chance or because nobody wrote them. The reference fills every pad of which no type promises a value, and every
address outside of a layout, with NaN (with the least value, where integers have none), so that such a read shows in the
results. What a program means is the reference's business: moves are exact, sums may run in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError, VerifyException

from layout_ir.api.call_inputs import Inputs
from layout_ir.api.execute import run
from layout_ir.api.program_arguments import entry_point
from layout_ir.api.program_text import context
from layout_ir.backends.reference.interpreter import check_types
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.diagnostics import location_of, name_of_op
from layout_ir.dialects.layout import dtype_of, is_number, is_tensor
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError, shape_text
from layout_ir.frontends.mlir.locations import LocatedParser
from layout_ir.tools.validation import COARSE, TOLERANCE, numbers_of, runs_of_both

Program = ModuleOp | str


def assert_same_program(
    before: Program,
    after: Program,
    inputs: Inputs | None = None,
    *,
    entry: str | None = None,
    tolerance: float | None = None,
    seed: int = 0,
) -> None:
    """Raises AssertionError unless both programs give the same results, saying which value differs first, and where.

    A program is a module or its text. `inputs` are arrays of logical shapes, as `layout_ir.run` takes them; None draws
    random ones from `seed`. Compared is the function `entry`, or each function of `before` that can be executed: one
    with static shapes whose arguments are tensors and numbers. A result may differ by `tolerance` times its largest
    element (default: 1e-4, or a few units in the last place of halves); where one has a NaN or an infinity the other
    has to have the same.

    Raises LayoutError where nothing can be executed, since a comparison of nothing is no test.
    """
    old, new = _module(before, "before"), _module(after, "after")
    names = [entry] if entry is not None else _functions(old)
    refused: list[str] = []
    compared = 0
    for name in names:
        function = entry_point(old, name)
        if entry is None and inputs is None and (reason := _reason_not_to_run(old, function)) is not None:
            refused.append(f"@{name}: {reason}")
            continue
        compared += 1
        if name not in _functions(new):
            raise AssertionError(f"@{name} is gone: the functions after are {_listed(_functions(new))}")
        if (message := _difference(old, new, function, inputs, tolerance, seed)) is not None:
            raise AssertionError(message)
    if not compared:
        raise LayoutError(
            f"nothing was compared: {'; '.join(refused) or 'the program before has no function with a body'}"
        )


def _module(program: Program, what: str) -> ModuleOp:
    if isinstance(program, ModuleOp):
        return program
    try:
        module = LocatedParser(context(), program, f"<{what}>").parse_program(True)
        module.verify()
    except (ParseError, VerifyException) as error:
        raise LayoutError(f"the program {what} is wrong: {error}") from error
    return module


def _functions(module: ModuleOp) -> list[str]:
    return [op.sym_name.data for op in module.ops if isinstance(op, FuncOp) and op.body.blocks]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"@{name}" for name in names) or "none"


def _reason_not_to_run(module: ModuleOp, function: FuncOp) -> str | None:
    """Why a function cannot be executed on random inputs; None where it can."""
    for argument in function.args:
        if not is_tensor(argument.type) and not is_number(argument.type):
            return f"argument {argument.type} is neither a tensor nor a number"
    try:
        check_types(module, function)
    except LayoutError as error:
        return str(error)
    return None


def _difference(
    before: ModuleOp,
    after: ModuleOp,
    function: FuncOp,
    inputs: Inputs | None,
    tolerance: float | None,
    seed: int,
) -> str | None:
    """How the results of `function` differ; None where they agree."""
    name = function.sym_name.data
    types, others = (
        [str(type) for type in entry_point(module, name).function_type.outputs] for module in (before, after)
    )
    if len(types) != len(others):
        return f"@{name} returns {len(others)} values, it returned {len(types)}"
    for given, olds, news in runs_of_both(before, after, function, inputs, seed):
        for number, (old, new, type) in enumerate(
            zip(olds, news, function.function_type.outputs, strict=True)
        ):
            dtype = dtype_of(type) if is_tensor(type) else ""
            where = _first_place(old, new, dtype, tolerance)
            if where is None:
                continue
            lines = [f"result {number} of @{name} {where}"]
            if (first := _first_value(before, after, given, name, tolerance)) is not None:
                lines.append(f"the first value that differs: {first}")
            became_nan = old.shape == new.shape and np.isnan(_numbers(new, dtype)) & ~np.isnan(
                _numbers(old, dtype)
            )
            if np.any(became_nan):
                lines.append(
                    "it became NaN, which is what stands in pads that hold no promised value: a pad is read as an "
                    "element"
                )
            return "\n  ".join(lines)
    return None


def _numbers(array: Array, dtype: str) -> Array:
    numbers = numbers_of(array, dtype)
    return np.asarray(numbers, np.complex128 if np.iscomplexobj(numbers) else np.float64)


def _first_place(old: Array, new: Array, dtype: str, tolerance: float | None) -> str | None:
    """The first index at which two stored arrays differ, and both elements; None where they agree."""
    if old.shape != new.shape or old.dtype != new.dtype:
        return f"is {shape_text(new.shape)} of {new.dtype}, it was {shape_text(old.shape)} of {old.dtype}"
    limit = COARSE.get(dtype, TOLERANCE) if tolerance is None else tolerance
    a, b = _numbers(old, dtype), _numbers(new, dtype)
    with np.errstate(invalid="ignore"):
        fine = np.isfinite(a)
        scale = float(np.max(np.abs(a[fine]), initial=0.0)) or 1.0
        same = np.where(fine, np.abs(a - b) <= limit * scale, (a == b) | (np.isnan(a) & np.isnan(b)))
    if same.all():
        return None
    index = tuple(int(x) for x in np.argwhere(~same)[0])
    count = int(np.count_nonzero(~same))
    return (
        f"differs at index {index}: {b[index]} after, {a[index]} before ({count} of {a.size} elements differ by more "
        f"than {limit:.0e} of the largest)"
    )


def _first_value(
    before: ModuleOp, after: ModuleOp, inputs: Inputs, name: str, tolerance: float | None
) -> str | None:
    """The first value, in the order of the run after, whose name has another value in the run before.

    Names are those that the text gives (`%relu`), which passes keep; a value without a name is not looked at.
    """
    olds = _named_values(before, inputs, name)
    for key, (op, tensor) in _named_values(after, inputs, name).items():
        if key not in olds or tensor.shape != olds[key][1].shape or tensor.dtype != olds[key][1].dtype:
            continue
        where = _first_place(olds[key][1].logical(), tensor.logical(), tensor.dtype, tolerance)
        if where is not None:
            place = location_of(op)
            at = "" if place is None else f" at {place}"
            return f"%{key} = {name_of_op(op)}{at} in layout {tensor.layout.format} {where}"
    return None


def _named_values(module: ModuleOp, inputs: Inputs, name: str) -> dict[str, tuple[Operation, Tensor]]:
    """By name, the op and the tensor of each value of a run, in order; of a loop the first iteration."""
    found: dict[str, tuple[Operation, Tensor]] = {}

    def trace(op: Operation, tensors: Sequence[Any], seconds: float) -> None:
        del seconds
        results = tensors[len(tensors) - len(op.results) :]
        for result, tensor in zip(op.results, results, strict=True):
            if result.name_hint is not None and isinstance(tensor, Tensor):
                found.setdefault(result.name_hint, (op, tensor))

    run(module, inputs, entry=name, reorders="reference", trace=trace)
    return found
