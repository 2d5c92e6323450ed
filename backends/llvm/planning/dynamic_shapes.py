"""Plans for shapes with open extents: one kernel for a class of shapes, and one for all.

A plan is made for an example, with `symint.SymInt` numbers where extents are open; its counts, strides and offsets
are then formulas, evaluated when the kernel is called, and its conditions say which shapes it serves. Blocks are
constant: an open extent is a multiple of the blocks of its dim or it has a rest, and that is a condition too, so that
tails are planned as for known extents. `plain` has no conditions, no tiles, and moves element by element; it serves
where no other plan does.

    nchw to nChw8c, ?x?x?x?, like 4x17x56x56:    c%8 != 0, h*w >= 16, ...
        for n: src+(...) dst+(...)
          for c/8: src+32*h*w dst+32*h*w
            tile 4 rows 8 by 4*h*w, cols h*w by 32: cols/16 rows/8 cols/4
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm
from typing import Any

from layout_ir.algebra.binding import bind
from layout_ir.algebra.format import Format
from layout_ir.algebra.pads import pad_after
from layout_ir.algebra.refinement import refine
from layout_ir.backends.llvm.emission.emit import emit_function
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.conversion import (
    bytes_of,
    conversion_spans,
    make_conversion_plan,
    moved_to_base,
)
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.index_splitting import Box
from layout_ir.backends.llvm.planning.pad_fills import pad_bits
from layout_ir.backends.llvm.planning.parallel import split_of
from layout_ir.backends.llvm.planning.planner import make_plan, pad_boxes, product_boxes
from layout_ir.backends.llvm.planning.schedule import finished, merged
from layout_ir.backends.llvm.planning.staging import buffer_bound
from layout_ir.backends.llvm.symbolic.guarding import size_oblivious
from layout_ir.backends.llvm.symbolic.symint import ShapeEnv, hint_of, is_symbolic
from layout_ir.dialects.kernel.plan import (
    ONCE,
    AnyLoop,
    Copy,
    Elements,
    Fill,
    Level,
    Loop,
    Plan,
    Staged,
    Step,
    VariableBoundLoops,
)
from layout_ir.elements.quantization import Conversion
from layout_ir.elements.types import bits_of
from layout_ir.errors import LayoutError, shape_text

DynamicShape = tuple[int | None, ...]
"""The shape, None where it is open."""


@dataclass(frozen=True)
class DynamicReorder:
    """A reorder from `src` to `dst` whose extents are partly open; `conversion` says what becomes of the elements."""

    src: Format
    dst: Format
    shape: DynamicShape
    conversion: Conversion
    machine: Machine

    @property
    def dtypes(self) -> tuple[str, str]:
        """The element types of source and destination."""
        return self.conversion.src, self.conversion.dst

    @property
    def converts(self) -> bool:
        """Whether elements are more than moved: they change, or two of them share a byte."""
        return not self.conversion.is_identity or bits_of(self.conversion.src) < 8

    @property
    def pad(self) -> int:
        """The bits that pads of the destination get."""
        return pad_bits(pad_after(self.dst.pad, self.conversion), self.conversion.dst)

    @property
    def blocks(self) -> tuple[int, ...]:
        """Per dim, what the blocks of both formats divide."""
        return tuple(map(lcm, self.src.blocks(), self.dst.blocks()))

    def specialize(self, hint: Sequence[int]) -> DynamicPlan:
        """The plan for the shape `hint` and all others that meet its guards. Raises LayoutError where there is none."""
        shape_env = ShapeEnv()
        shape: list[Any] = []
        for dim, (extent, block) in enumerate(zip(self._checked(hint), self.blocks, strict=True)):
            if self.shape[dim] is None:
                extent = self._open(shape_env, dim, extent, block, whole=extent % block == 0)
            shape.append(extent)
        src, dst = size_oblivious(bind)(self.src, shape), size_oblivious(bind)(self.dst, shape)
        if self.converts:
            plan = make_conversion_plan(src, dst, self.conversion, self.pad, self.machine)
        else:
            plan = make_plan(src, dst, bits_of(self.conversion.src) // 8, self.pad, self.machine)
        for step in plan.steps:
            if isinstance(step.kernel, Staged) and step.kernel.size > buffer_bound(
                step.kernel.size, self.machine
            ):
                raise AssertionError("the example's own buffer is larger than its bound")
        return DynamicPlan(replace(plan, steps=tuple(map(_shared, plan.steps))), shape_env, self.machine)

    def fallback(self) -> DynamicPlan:
        """The plan for all shapes. Raises LayoutError where there is none."""
        shape_env = ShapeEnv()
        shape: list[Any] = []
        for dim, (extent, block) in enumerate(zip(self.shape, self.blocks, strict=True)):
            shape.append(
                self._open(shape_env, dim, 7 * block + 1, block, whole=None) if extent is None else extent
            )
        plan = DynamicPlan(_fallback(self, shape), shape_env, self.machine)
        plan.function("all")  # a table whose entries depend on extents makes conditions only now
        if shape_env.guards:
            raise LayoutError(
                f"no kernel from {self.src} to {self.dst} serves all extents of {shape_text(self.shape)}: "
                "units of one dim conflict, or it has pads in front; give that extent"
            )
        return plan

    def _open(self, shape_env: ShapeEnv, dim: int, example: int, block: int, *, whole: bool | None) -> Any:
        extent = shape_env.extent(dim, self.src.names[dim], example)
        return shape_env.split(extent, block, whole=whole) if block > 1 else extent

    def _checked(self, extents: Sequence[int]) -> Sequence[int]:
        """`extents`, if they are extents of this shape, at least 1. Raises LayoutError."""
        fits = len(extents) == len(self.shape)
        if not fits or any(known not in (None, x) for known, x in zip(self.shape, extents, strict=True)):
            raise LayoutError(
                f"{'x'.join(map(str, extents))} is no shape that {shape_text(self.shape)} stands for"
            )
        if min(extents, default=1) < 1:
            raise LayoutError(f"the example {'x'.join(map(str, extents))} has no elements")
        return extents


def dynamic_reorder(
    src: Format, dst: Format, shape: DynamicShape, what: str | Conversion, machine: Machine
) -> DynamicReorder:
    """The reorder, if formats, shape and element types fit together; `what` is a conversion, or the type that stays.

    Raises LayoutError where they do not, and where calls would have to bring scales or zero points along.
    """
    conversion = what if isinstance(what, Conversion) else Conversion(what, what)
    for side, format in (("source", src), ("destination", dst)):
        if format.rank != len(shape):
            raise LayoutError(
                f"rank mismatch between the {side} {format} and shape {shape_text(shape)}: "
                f"{format.rank} != {len(shape)}"
            )
    if conversion.at_run_time:
        raise LayoutError(
            f"a kernel for open extents ({shape_text(shape)}) has its numbers compiled in, but every call would bring "
            f"{' and '.join(conversion.at_run_time)} along: give numbers instead of arrays, or give the extents"
        )
    if conversion.dim is not None and shape[conversion.dim] is None:
        raise LayoutError(
            f"there are {conversion.channels} channels along dim {conversion.dim}, whose extent is open: "
            "give that extent"
        )
    return DynamicReorder(src, dst, shape, conversion, machine)


@dataclass(frozen=True, eq=False)
class DynamicPlan:
    """A plan whose numbers may be open, and the unknowns and conditions that it depends on."""

    plan: Plan
    shape_env: ShapeEnv
    machine: Machine

    def function(self, name: str) -> str:
        """`internal void @name(src, dst, part, parts, extents)` as LLVM IR; may add conditions."""
        return emit_function(name, self.plan, self.machine, "internal", self.shape_env)

    def serves(self, extents: Sequence[int]) -> bool:
        """Whether the conditions hold for a shape without empty dims."""
        return self.shape_env.guards_hold(extents)

    def __str__(self) -> str:
        given = self.shape_env.guards_text()
        return "\n".join([*(["where " + ", ".join(given)] if given else []), str(self.plan)])


def _fallback(reorder: DynamicReorder, shape: Sequence[Any]) -> Plan:
    """Element by element, in boxes whose loops may have no rounds."""
    conversion = reorder.conversion
    widths = ElementPair.of(conversion)
    src, dst = size_oblivious(bind)(reorder.src, shape), size_oblivious(bind)(reorder.dst, shape)
    nest = size_oblivious(refine)(src, dst)
    spans = conversion_spans(nest, conversion)
    steps: list[Step] = []
    for box in product_boxes(spans, [_whole(*span) for span in spans]):
        box = moved_to_base(box, nest, conversion)
        loops, inner = _loops(box.items)
        kernel = Copy(1, inner) if reorder.converts else Elements(widths.src, inner)
        steps.append(replace(finished(loops, box.src, box.dst, kernel), channel=box.channel))
    if dst.pad != "undef":
        width = widths.dst
        for box in size_oblivious(pad_boxes)(dst, width, parts=_whole):
            loops, inner = _loops(box.items)
            fill = Fill(width, reorder.pad, width, inner)
            steps.append(finished(loops, 0, box.dst + dst.offset * width, fill))
    sizes = bytes_of(src.extent, conversion.src), bytes_of(dst.extent, conversion.dst)
    return Plan(widths.narrower, *sizes, tuple(steps), conversion if reorder.converts else None)


def _shared(step: Step) -> Step:
    """`step` with the loop shared among threads that suits the example: an open count may be 1, as batches are."""
    known: Step = hint_of(step)
    return replace(step, parallel=split_of(known.loops, known.kernel))


def _whole(levels: Sequence[Level], start: int, stop: int) -> list[Box]:
    """Positions [start, stop) as one box, whether there are any or not."""
    if len(levels) == 1 and not is_symbolic(start) and start == 0 and isinstance(levels[0].loop, Loop):
        return [Box(0, 0, (replace(levels[0].loop, count=stop),))]
    return [Box(0, 0, (VariableBoundLoops(tuple(levels), start, stop),) if levels else ())]


def _loops(items: Sequence[AnyLoop]) -> tuple[tuple[AnyLoop, ...], Loop]:
    """The outer loops, and the one with the smallest step in the destination."""
    loops = merged([x for x in items if isinstance(x, Loop)])
    rest = [x for x in items if not isinstance(x, Loop)]
    inner = loops.pop() if loops else ONCE
    return (*rest, *loops), inner
