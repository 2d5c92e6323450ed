"""Adding ops and targets: what another compiler needs, to have layouts chosen for its programs.

    from layout_ir import extend

    def conv_options(op, candidates, target):                    a model: in which Formats the op runs
        yield extend.LayoutOption((BLOCKED, WEIGHTS), (BLOCKED,), cost=900, name="conv_blocked")

    extend.register_op(ConvOp, options=conv_options, pads=..., semantics=...)
    extend.register_target(extend.Target("npu", rates=extend.Rates(bytes_per_ns=4)))
    extend.check_op(op, target="npu")                            what is wrong with it, as diagnostics

    layout_ir.optimize(module, target="npu")                     or target=Target(...)
    op.attributes["layout.chosen"]                               "conv_blocked": the kernel to emit

What is registered holds for this process. An installed package names its ops and targets as entry points
(`layout_ir.ops`, `layout_ir.targets`), and is imported when a program has such an op, or names such a target.
docs/extend.md is a whole compiler made of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, cast

from xdsl.ir import Operation, SSAValue

from layout_ir import registry
from layout_ir.algebra.format import Format
from layout_ir.api.op_checking import check_op
from layout_ir.diagnostics import Diagnostic, Severity
from layout_ir.dialects.layout import has_layout
from layout_ir.entry_points import OPS, TARGETS
from layout_ir.errors import LayoutError, public
from layout_ir.interfaces import (
    ARRAY_SEMANTICS,
    CHOSEN,
    OPTIONS,
    PAD_BEHAVIOURS,
    ArraySemantics,
    LayoutOp,
    LayoutOption,
    PadBehaviour,
    PadRead,
)
from layout_ir.passes.pad_queries import held_pad
from layout_ir.passes.selection.costs.cost_model import CostModel, Rates
from layout_ir.passes.selection.options import tensor_formats
from layout_ir.passes.selection.options.conv_kernels import ConvKernel, ConvShape, Model, Target
from layout_ir.passes.selection.options.models import MODELS
from layout_ir.passes.selection.options.targets import register_target
from layout_ir.passes.selection.options.tensor_formats import Candidates, bound, shape_of
from layout_ir.selection.solver.selection_problem import FORBIDDEN

__all__ = [
    "CHOSEN",
    "FORBIDDEN",
    "OPS",
    "OPTIONS",
    "TARGETS",
    "ArraySemantics",
    "Candidates",
    "ConvKernel",
    "ConvShape",
    "CostModel",
    "Diagnostic",
    "LayoutOp",
    "LayoutOption",
    "Model",
    "PadBehaviour",
    "PadRead",
    "Rates",
    "Severity",
    "Target",
    "check_op",
    "elementwise_options",
    "elementwise_pads",
    "nbytes",
    "register_op",
    "register_target",
    "row_major",
]


# Models of ours call the two thousands of times for a network, users' a few.
nbytes = public(tensor_formats.nbytes)
row_major = public(tensor_formats.row_major)


@public
def register_op(
    op: type[Operation] | str,
    *,
    options: Model | None,
    pads: PadBehaviour | None = None,
    semantics: ArraySemantics | None = None,
) -> None:
    """Says in which Formats the ops of a class, or of a name (unregistered ones too), run, and what they compute.

    `options(op, candidates, target)` gives LayoutOptions for the Formats that `candidates(value)` has so far; it is
    asked again as they become more. None leaves the tensors of the op row-major, or as their types say.

    `pads` says what the op reads in the pads of its operands and leaves in those of its result. Without it the pad
    policies in the Formats of the options do: what pads of operands must hold, and what those of results will.

    `semantics(op, *arrays)` computes the results from NumPy arrays of the logical shapes (f16 and bf16 as float32):
    one array, or a tuple. With it `layout_ir.run`, `layout-ir run` and `--validate=execute` take programs with the op.

    What is registered last holds. Raises LayoutError for arguments of other types, and for semantics of an op that has
    some already.
    """
    name = op if isinstance(op, str) else getattr(op, "name", "")
    is_class = isinstance(op, type) and issubclass(op, Operation)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not (is_class or isinstance(op, str)) or (isinstance(op, str) and "." not in op):
        raise LayoutError(f"an op is a class of ops or a name such as 'npu.conv', not {op!r}")
    for what, given in (("options", options), ("semantics", semantics)):
        if given is not None and not callable(given):
            raise LayoutError(f"{what} of {name} is a function, not of type {type(given).__name__}")
    if pads is not None and not isinstance(pads, PadBehaviour):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LayoutError(f"pads of {name} is a PadBehaviour, not of type {type(pads).__name__}")
    if pads is not None and is_class and issubclass(cast("type[Operation]", op), LayoutOp):
        raise LayoutError(f"{name} says itself what it does with pads, as a LayoutOp: leave out pads")
    if semantics is not None and _is_ours(op, name):
        raise LayoutError(f"{name} has semantics: leave out semantics")
    if options is not None:
        MODELS.register(op, options)
    if pads is not None:
        PAD_BEHAVIOURS.register(op, pads)
    if semantics is not None:
        ARRAY_SEMANTICS.register(op, semantics)


def _is_ours(op: type[Operation] | str, name: str) -> bool:
    """Whether an op is one that the reference knows, and not one of another package's dialect of the same name."""
    dialect = name.partition(".")[0]
    if isinstance(op, str) or dialect not in ("nn", "layout"):
        return dialect in ("nn", "layout")
    return op in registry.DIALECTS[dialect]().operations


# What many ops have in common ----------------------------------------------------------------------------------------


def elementwise_options(op: Operation, candidates: Candidates, target: Target) -> Iterator[LayoutOption]:
    """A model for elementwise ops: any Format that reaches one of their tensors, the same for all of them.

    Tensors of another shape than the result (broadcast ones) are row-major. Time is that of streaming all bytes at the
    rate of the target. Pads are as `pads` of the op say; without, they are not read, and hold nothing afterwards.
    """
    shape = shape_of(op.results[0])
    operands = [value for value in op.operands if has_layout(value.type)]
    shared = [value for value in (*operands, *op.results) if shape_of(value) == shape]

    def of(value: SSAValue, fmt: Format) -> Format:
        return fmt if shape_of(value) == shape else row_major(value)

    given = (fmt.with_pad("undef") for value in shared for fmt in candidates(value))
    for fmt in dict.fromkeys((row_major(op.results[0]), *given)):
        if bound(fmt, op.results[0]) is not None:
            ins, outs = tuple(of(v, fmt) for v in operands), tuple(of(v, fmt) for v in op.results)
            total = sum(nbytes(of(value, fmt), value) for value in (*operands, *op.results))
            yield LayoutOption(ins, outs, target.rates.stream(total))


def elementwise_pads(compute: Callable[..., Any]) -> PadBehaviour:
    """What elementwise ops do with pads: they read none that matter, and leave `compute(*numbers)` in the result's.

    The numbers are those that the pads of the operands hold; where one is not known, neither is that of the result.
    Only results on which kernels that approximate agree are promised: 0, 0.5, 1, -1 and the infinities.
    """

    def leaves(op: Operation) -> float | None:
        held = [held_pad(operand, op.results[0]) for operand in op.operands]
        known = [number for number in held if number is not None]
        if len(known) != len(held):
            return None
        try:
            value = float(compute(*known))
        except ArithmeticError:
            return None
        return value if value in (0.0, 0.5, 1.0, -1.0, math.inf, -math.inf) else None

    return PadBehaviour(leaves=leaves)
