"""Translation validation: a pass is checked by comparing the programs before and after it.

A layout pass changes where tensors are in memory and nothing else. So both programs must strip to the same text; with
`execute` both are also run on the same random data, by the reference, and must agree. The reference poisons every pad
of which no type promises a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from xdsl.dialects.builtin import AnyFloat, ModuleOp, i1
from xdsl.dialects.func import FuncOp

from layout_ir.diagnostics import Diagnostic, Location, Severity, warning
from layout_ir.dialects.layout import dtype_of, is_number, is_tensor
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.errors import LayoutError, unforeseen_as_error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layout_ir.api.call_inputs import Inputs

    Results: TypeAlias = list[NDArray[Any]]

Mode = Literal["strip", "execute"]

TOLERANCE = 1e-4
"""Largest difference between two runs, relative to the largest result: sums may run in another order."""

COARSE = {"f16": 4e-3, "bf16": 3e-2}
"""`TOLERANCE` for results of half precision: four units in the last place."""

_UNCHECKED = ("layout-strip", "layout-explain")
"""Passes after which there is nothing to compare. Nor is there after `convert-layout-to-...`: what they write is other
ops on the tensors of memory, which have other shapes."""


class Validator:
    """Remembers a program before a pass and compares what the pass made of it."""

    def __init__(self, mode: Mode, place: Location):
        self.mode = mode
        self.place = place
        self.text = ""
        self.module: ModuleOp | None = None

    def before(self, name: str, module: ModuleOp) -> None:
        """Keeps the program that the pass `name` will get, for `after`."""
        if _is_checked(name):
            self.text = stripped_text(module)
            self.module = module.clone() if self.mode == "execute" else None

    def after(self, name: str, module: ModuleOp) -> Diagnostic | None:
        """The error about the program that the pass `name` returned; None where it agrees with the one before."""
        if not _is_checked(name):
            return None
        text = stripped_text(module)
        if text != self.text:
            line = _first_difference(self.text, text)
            message = f"pass '{name}' changed what the program computes: {line}"
            return Diagnostic(Severity.ERROR, message, self.place)
        if self.module is None:
            return None
        difference = compare_runs(self.module, module)
        if difference is None:
            return None
        return Diagnostic(
            Severity.ERROR, f"pass '{name}' changed the results of the program: {difference}", self.place
        )


def _is_checked(name: str) -> bool:
    return name.startswith("layout-") and name not in _UNCHECKED


def stripped_text(module: ModuleOp) -> str:
    """The text of `module` without layouts and without dead ops, which passes may erase.

    A dead op has results without uses and is known to have no effect; unregistered ops stay.
    """
    from xdsl.transforms.dead_code_elimination import dce

    from layout_ir.passes.strip import strip
    from layout_ir.printing import print_module

    copy = module.clone()
    strip(copy)
    dce(copy)
    return print_module(copy)


def _first_difference(before: str, after: str) -> str:
    for old, new in zip(before.splitlines(), after.splitlines(), strict=False):
        if old != new:
            return f"'{old.strip()[:120]}' became '{new.strip()[:120]}'"
    return "ops were added or removed at the end"


def compare_runs(before: ModuleOp, after: ModuleOp) -> str | None:
    """How the results of `after` differ from those of `before`; None where they agree.

    Runs every function whose arguments are tensors and numbers; where it has numbers, once with all conditions true and
    once with all false. A function with dynamic shapes is not run, and a warning says so.
    """
    from layout_ir.backends.reference.interpreter import check_types

    for function in [op for op in before.ops if isinstance(op, FuncOp) and op.body.blocks]:
        if not all(is_tensor(arg.type) or is_number(arg.type) for arg in function.args):
            continue
        try:
            check_types(before, function)
        except LayoutError as error:
            warning(function, f"@{function.sym_name.data} is not executed: {error}")
            continue
        difference = _compare_function(before, after, function)
        if difference is not None:
            return difference
    return None


def _compare_function(before: ModuleOp, after: ModuleOp, function: FuncOp) -> str | None:
    """How the results of one function differ; None where they agree."""
    name, types = function.sym_name.data, function.function_type.outputs
    for _, olds, news in runs_of_both(before, after, function):
        for k, (old, new, type) in enumerate(zip(olds, news, types, strict=True)):
            dtype = dtype_of(type) if is_tensor(type) else ""
            limit = COARSE.get(dtype, TOLERANCE)
            error = relative_difference(numbers_of(old, dtype), numbers_of(new, dtype))
            if error > limit:
                return (
                    f"result {k} of @{name} differs by {error:.1e} of its largest value (limit {limit:.0e})"
                )
    return None


def runs_of_both(
    before: ModuleOp, after: ModuleOp, function: FuncOp, inputs: Inputs | None = None, seed: int = 0
) -> Iterator[tuple[Inputs, Results, Results]]:
    """Per run of `function` by the reference: its inputs, its results in the program `before`, and in `after`.

    Without `inputs` they are random ones from `seed`; then a function whose arguments are also numbers runs twice, once
    with all conditions true and once with all false. Raises LayoutError where a run fails.
    """
    from layout_ir.api.execute import run

    name = function.sym_name.data
    branches = inputs is None and any(is_number(argument.type) for argument in function.args)
    for condition in (True, False) if branches else (True,):
        given = random_inputs(function, seed, condition=condition) if inputs is None else inputs
        try:
            olds = run(before, given, entry=name, reorders="reference")
        except LayoutError:
            if inputs is not None:
                raise
            # A function that divides by its arguments traps at a 0 among them.
            given = random_inputs(function, seed, least=1, condition=condition)
            olds = run(before, given, entry=name, reorders="reference")
        yield given, olds, run(after, given, entry=name, reorders="reference")


def numbers_of(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The numbers that the stored elements of `array` stand for; `dtype` is "" where it is no tensor."""
    from layout_ir.elements.numpy_types import widen

    return widen(array, dtype) if dtype else array


def random_inputs(
    function: FuncOp, seed: int, *, least: int = 0, condition: bool | None = None
) -> list[NDArray[Any]]:
    """One random array per argument: floats are normally distributed, integers in [`least`, `least` + 3].

    With a `condition`, arguments that are numbers have a value too: an i1 that condition, an integer 2, a float 0.5.
    Raises LayoutError for any other argument.
    """
    import numpy as np

    from layout_ir.elements.numpy_types import storage

    random = np.random.default_rng(seed)
    arrays: list[NDArray[Any]] = []
    for argument in function.args:
        if condition is not None and is_number(argument.type):
            value = condition if argument.type == i1 else 0.5 if isinstance(argument.type, AnyFloat) else 2
            arrays.append(np.asarray(value))
            continue
        subject = f"argument {argument.type} of @{function.sym_name.data}"
        if not is_tensor(argument.type):
            raise LayoutError(f"{subject} is no tensor: give its value")
        shape, dtype = tensor_type(argument.type).get_shape(), dtype_of(argument.type)
        with unforeseen_as_error(subject):  # one may be too large for the memory there is
            if dtype == "bf16":
                numbers = random.standard_normal(shape).astype(np.float32)
                arrays.append((numbers.view(np.uint32) >> 16).astype(np.uint16))
            elif storage(dtype).kind == "f":
                arrays.append(random.standard_normal(shape).astype(storage(dtype)))
            else:
                low, high = (0, 2) if dtype == "i1" else (least, least + 4)
                arrays.append(random.integers(low, high, shape).astype(storage(dtype)))
    return arrays


def relative_difference(a: NDArray[Any], b: NDArray[Any]) -> float:
    """The largest absolute difference divided by the largest magnitude in `a`.

    Infinite where one has a NaN or an infinity that the other does not have.
    """
    import numpy as np

    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.size == 0 or np.array_equal(a, b, equal_nan=True):
        return 0.0
    fine = np.isfinite(a)
    if not np.array_equal(fine, np.isfinite(b)) or not np.array_equal(a[~fine], b[~fine], equal_nan=True):
        return float("inf")
    scale = float(np.max(np.abs(a[fine]), initial=0.0)) or 1.0
    return float(np.max(np.abs(a[fine] - b[fine]), initial=0.0)) / scale
