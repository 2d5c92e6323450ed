"""Models whose options follow from one Format at a time.

Most ops run in whatever Format reaches one of their tensors, and what the others then have follows from that alone:
no second Format takes part. Such a model says, for one tensor and one Format, which options they give. As a model it
gives those of all Formats that it is offered; selection, to which Formats come one after the other, asks once per
Format and tensor, however many there are already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.dialects.layout import is_tensor
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.options.conv_kernels import Target
from layout_ir.passes.selection.options.tensor_formats import Candidates, row_major


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """What a format model says of one op.

    `always` are the options that it has whatever Formats there are; `of(k, fmt)` gives those that follow from `fmt` of
    its tensor number k, operands first. `tensors` are the tensors whose Formats it asks for, each with its number.
    """

    always: tuple[LayoutOption, ...]
    of: Callable[[int, Format], Iterable[LayoutOption]]
    tensors: tuple[tuple[int, SSAValue], ...]

    def all(self, candidates: Candidates) -> Iterator[LayoutOption]:
        """The options for all `candidates`, and for row-major tensors. One may come more than once."""
        yield from self.always
        for k, value in self.tensors:
            for fmt in dict.fromkeys((row_major(value), *candidates(value))):
                yield from self.of(k, fmt)


@dataclass(frozen=True, slots=True)
class FormatModel:
    """A model (`conv_kernels.Model`) that is made of what it says of one Format."""

    says: Callable[[Operation, Target], FormatOptions]

    def __call__(self, op: Operation, candidates: Candidates, target: Target) -> Iterable[LayoutOption]:
        """The options of `op`, each once and at the least cost that is said of it."""
        return cheapest(self.says(op, target).all(candidates))


def tensors_of(op: Operation) -> tuple[tuple[int, SSAValue], ...]:
    """The tensors of `op`, operands first, each with its number among them."""
    return tuple(enumerate(value for value in (*op.operands, *op.results) if is_tensor(value.type)))


def cheapest(options: Iterable[LayoutOption]) -> Iterable[LayoutOption]:
    """`options`, each once: of those that differ in nothing but the cost, the one of the least."""
    found: dict[object, LayoutOption] = {}
    for option in options:
        key = option.ins, option.outs, option.in_place, option.name
        known = found.setdefault(key, option)
        if option.cost < known.cost:
            found[key] = option
    return found.values()
