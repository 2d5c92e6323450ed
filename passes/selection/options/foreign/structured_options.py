"""Options of structured ops: every Format that reaches one of their tensors, carried to the others by the loops.

What an option must obey:

* All tensors that have a loop have the same pads along it, for a kernel runs over the whole padded extent of a loop.
* A dim that is a window is neither blocked nor padded, nor is a loop padded that a window is made of.
* A reduction runs over pads only if some number in them is neutral; a body that divides integers runs on pads only if
  ones in the divisor keep it from dividing by zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import cast

from xdsl.dialects.builtin import DenseIntElementsAttr
from xdsl.dialects.linalg.ops import Conv2DNchwFchwOp
from xdsl.ir import Operation

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.dialects.layout import dtype_of, is_tensor
from layout_ir.foreign.structured import Structured, is_window, loop_of, shape, structured
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.costs.cost_model import Rates
from layout_ir.passes.selection.options.conv_kernels import ConvShape, Target
from layout_ir.passes.selection.options.foreign.padding import divisors, neutral, runs_along
from layout_ir.passes.selection.options.foreign.transfer import transfer
from layout_ir.passes.selection.options.format_model import FormatModel, FormatOptions
from layout_ir.passes.selection.options.models import default_options
from layout_ir.passes.selection.options.tensor_formats import bound, is_shape_free, row_major

ONE_LAYOUT = ("arith", "math")
"""Dialects whose ops take tensors only in the layout of their result."""

_LOOPS_RATE = 8
"""Floating-point operations per ns of loops a compiler makes of a reduction, without a library's kernel behind them:
about a tenth of what targets list for packed convolutions."""


def _says(op: Operation, target: Target) -> FormatOptions:
    """The options of an op that has loops, Format by Format: a kernel without a name of its own is one of loops in its
    formats. Of an op that has no loops, those of its types."""
    s = structured(op)
    if s is None:
        return FormatOptions(tuple(default_options(op, lambda value: (), target)), lambda k, fmt: (), ())
    always = tuple(_kernels(op, target)) if isinstance(op, Conv2DNchwFchwOp) else ()
    limits = Limits(s)
    plain = [row_major(value) for _, value in s.tensors]

    def of(k: int, fmt: Format) -> Iterator[LayoutOption]:
        ways: list[Sequence[Format] | None] = [carry(s, k, fmt)]
        if op.dialect_name() not in ONE_LAYOUT:
            ways.append(_tied(s, [*plain[:k], fmt, *plain[k + 1 :]], k))
        for formats in ways:
            layouts = None if formats is None else limits.layouts(formats)
            if formats is not None and layouts is not None:
                yield _option(s, formats, layouts, target.rates)

    return FormatOptions(always, of, tuple(enumerate(value for _, value in s.tensors)))


structured_options = FormatModel(_says)
"""The options of structured ops."""


def carry(s: Structured, k: int, fmt: Format) -> list[Format] | None:
    """Formats of all tensors of `s` when tensor number k has `fmt`; None where one would have none."""
    ours, value = s.tensors[k]
    found: list[Format] = []
    for exprs, other in s.tensors:
        if exprs == ours and shape(other) == shape(value):
            found.append(fmt)
            continue
        other_format = (
            transfer(fmt, ours, exprs, s.reductions, row_major(other).names, shape(other))
            if is_shape_free(fmt)
            else None
        )
        if other_format is None:
            return None
        found.append(other_format)
    return found


def _tied(s: Structured, formats: list[Format], k: int) -> list[Format]:
    """`formats`, where results have that of the operand they start from, or that operand the result's if it is k."""
    places = [j for j, value in enumerate(s.op.operands) if is_tensor(value.type)]
    first = len(places)
    tied = list(formats)
    for number, operand in enumerate(s.init):
        if operand is not None:
            place = places.index(operand)
            if k == first + number:
                tied[place] = tied[first + number]
            else:
                tied[first + number] = tied[place]
    return tied


class Limits:
    """The loops of an op that may run over pads; asked for each of many options, so worked out once."""

    def __init__(self, s: Structured):
        self.s = s
        self.runs = divisors(s)
        self._paddable: dict[int, bool] = {}
        self.windows = {
            loop for exprs, _ in s.tensors for expr in exprs if is_window(expr) for loop in expr.used_dims()
        }

    def layouts(self, formats: Sequence[Format]) -> list[Layout] | None:
        """The layouts of all tensors in these formats, or None where the op cannot run in them."""
        found: list[Layout] = []
        extents: dict[int, int] = {}
        for (exprs, value), fmt in zip(self.s.tensors, formats, strict=True):
            layout = bound(fmt, value)
            if layout is None or (layout.is_padded and not is_shape_free(fmt)):
                return None
            for dim, expr in enumerate(exprs):
                padded = layout.padded_shape[dim]
                loop = loop_of(expr)
                if loop is None:
                    if padded != layout.shape[dim] or (is_window(expr) and fmt.blocks()[dim] > 1):
                        return None
                elif extents.setdefault(loop, padded) != padded or (
                    padded != layout.shape[dim] and not self.may_be_padded(loop)
                ):
                    return None
            found.append(layout)
        return found

    def may_be_padded(self, loop: int) -> bool:
        """Whether the op may run over pads along `loop`."""
        if loop not in self._paddable:
            # Ones in pads of all tensors would be a promise that no type of the op gives.
            fits = self.runs is not None and loop not in self.windows and not (self.runs and self.s.one_type)
            if fits and loop in self.s.reductions:
                fits = neutral(self.s, loop) is not None
            elif fits:
                fits = self.runs is not None and runs_along(self.s, loop, self.runs)
            self._paddable[loop] = fits
        return self._paddable[loop]


def _option(
    s: Structured, formats: Sequence[Format], layouts: Sequence[Layout], rates: Rates
) -> LayoutOption:
    count = len(formats) - len(s.result_maps)
    total = sum(
        layout.nbytes(dtype_of(value.type)) for layout, (_, value) in zip(layouts, s.tensors, strict=True)
    )
    cost = rates.stream(total)
    if s.reductions:
        extents = dict(s.extents)
        for (exprs, _), layout in zip(s.tensors, layouts, strict=True):
            for dim, expr in enumerate(exprs):
                loop = loop_of(expr)
                if loop is not None:
                    extents[loop] = layout.padded_shape[dim]
        cost = max(cost, 2 * prod(extents.values()) // _LOOPS_RATE)
    elif _is_relabelling(s, layouts):
        cost = 0
    return LayoutOption(tuple(formats[:count]), tuple(formats[count:]), cost)


def _is_relabelling(s: Structured, layouts: Sequence[Layout]) -> bool:
    """Whether the result is the first operand's bytes under other indices: a transposition in name only."""
    if not s.transposes:
        return False
    order = [loop_of(expr) for expr in s.maps[0]]
    back = [order.index(loop_of(expr)) for expr in s.result_maps[0]]
    return layouts[0].permute(back).same_store(layouts[-1])


def _kernels(op: Conv2DNchwFchwOp, target: Target) -> Iterator[LayoutOption]:
    """The target's own convolutions, which is what this op is."""
    x, w = op.inputs
    y = op.results[0]
    (n, c, *space), (o, _, *window) = shape(x), shape(w)
    # MLIR takes 1 for a stride or dilation that is left out.
    given = (op.properties.get(name) for name in ("strides", "dilations"))
    strides, dilations = (
        tuple(cast("DenseIntElementsAttr", attr).get_values()) if attr is not None else (1, 1)
        for attr in given
    )
    moves = tuple(window), strides, (0, 0, 0, 0), dilations
    conv = ConvShape(n, c, o, 1, tuple(space), *moves, dtype_of(x.type), False)
    for kernel in target.conv_kernels(conv):
        weights, out = bound(kernel.w, w), bound(kernel.y, y)
        if weights is not None and out is not None and bound(kernel.x, x) is not None:
            operations = 2 * prod(weights.padded_shape) * n * prod(out.padded_shape[2:])
            ins = (kernel.x, kernel.w, kernel.y)
            yield LayoutOption(ins, (kernel.y,), operations // kernel.rate, name=kernel.name)
