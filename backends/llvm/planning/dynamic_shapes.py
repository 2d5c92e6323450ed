"""Plans for dynamic shapes: one kernel for a class of shapes, and one for all.

A plan is made for a hint, a possible shape, with a `SymInt` wherever an extent is dynamic; its counts, strides and
offsets are then formulas, evaluated when the kernel is called, and its guards say which shapes it serves. Blocks are
constant: a dynamic extent is a multiple of the blocks of its dim or it has a rest, and that is a guard too, so that
tails are planned as for known extents. The fallback has no guards, no tiles, and moves element by element; it serves
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
from typing import cast

from layout_ir.algebra.binding import bind
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import pad_after
from layout_ir.algebra.refinement import refine
from layout_ir.backends.llvm.emission.emit import emit_function
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.index_splitting import Domain, IndexSet
from layout_ir.backends.llvm.planning.pad_fills import pad_bits
from layout_ir.backends.llvm.planning.parallel import finished, parallel_loop
from layout_ir.backends.llvm.planning.planner import (
    in_buffers,
    index_sets,
    make_plan,
    pad_domains,
    product_domains,
)
from layout_ir.backends.llvm.planning.schedule import merged
from layout_ir.backends.llvm.planning.staging import buffer_bound
from layout_ir.dialects.kernel.plan import (
    ONCE,
    AnyLoop,
    Copy,
    Elements,
    Fill,
    Loop,
    Plan,
    Staged,
    Step,
    VariableBoundLoops,
)
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError, shape_text
from layout_ir.symbolic.guarding import size_oblivious
from layout_ir.symbolic.shape_env import ShapeEnv
from layout_ir.symbolic.symint import Size, SymInt, dynamic_extent, in_blocks, with_hints

DynamicShape = tuple[int | None, ...]
"""The shape, None where an extent is dynamic."""


@dataclass(frozen=True)
class DynamicReorder:
    """A reorder of elements that become what `conversion` says; some extents may be dynamic."""

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
    def pair(self) -> ElementPair:
        """What is done to the elements."""
        return ElementPair.of(self.conversion)

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
        shape: list[Size] = []
        for dim, (extent, block) in enumerate(zip(self._checked(hint), self.blocks, strict=True)):
            if self.shape[dim] is None:
                extent = self._dynamic(shape_env, dim, extent, block, whole=extent % block == 0)
            shape.append(extent)
        src, dst = _bound(self.src, shape), _bound(self.dst, shape)
        plan = make_plan(src, dst, self.pair, self.pad, self.machine)
        for step in plan.steps:
            if isinstance(step.kernel, Staged) and step.kernel.size > buffer_bound(
                step.kernel.size, self.machine
            ):
                raise AssertionError("the hint's own buffer is larger than its bound")
        return DynamicPlan(
            replace(plan, steps=tuple(map(_parallel_for_hint, plan.steps))), shape_env, self.machine
        )

    def fallback(self) -> DynamicPlan:
        """The plan for all shapes. Raises LayoutError where there is none."""
        shape_env = ShapeEnv()
        shape: list[Size] = []
        for dim, (extent, block) in enumerate(zip(self.shape, self.blocks, strict=True)):
            shape.append(
                self._dynamic(shape_env, dim, 7 * block + 1, block, whole=None) if extent is None else extent
            )
        plan = DynamicPlan(_fallback(self, shape), shape_env, self.machine)
        plan.function("all")  # a table whose entries depend on extents makes guards only now
        if shape_env.guards:
            raise LayoutError(
                f"no kernel from {self.src} to {self.dst} serves all extents of {shape_text(self.shape)}: "
                "units of one dim conflict, or it has pads in front; give that extent"
            )
        return plan

    def _dynamic(self, shape_env: ShapeEnv, dim: int, hint: int, block: int, *, whole: bool | None) -> Size:
        """The extent of `dim` in blocks of `block`; `whole` as for `in_blocks`."""
        extent = dynamic_extent(shape_env, dim, self.src.names[dim], hint)
        return in_blocks(extent, block, whole=whole) if block > 1 else extent

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
            f"a kernel for dynamic extents ({shape_text(shape)}) has its numbers compiled in, but every call would "
            f"bring {' and '.join(conversion.at_run_time)} along: give numbers instead of arrays, or give the extents"
        )
    if conversion.dim is not None and shape[conversion.dim] is None:
        raise LayoutError(
            f"there are {conversion.channels} channels along dim {conversion.dim}, whose extent is dynamic: "
            "give that extent"
        )
    return DynamicReorder(src, dst, shape, conversion, machine)


@dataclass(frozen=True, eq=False)
class DynamicPlan:
    """A plan with symbolic sizes, and the symbols and guards that it depends on."""

    plan: Plan
    shape_env: ShapeEnv
    machine: Machine

    def function(self, name: str) -> str:
        """`internal void @name(src, dst, part, parts, extents)` as LLVM IR; may add guards."""
        return emit_function(name, self.plan, self.machine, "internal", self.shape_env)

    def serves(self, extents: Sequence[int]) -> bool:
        """Whether the guards hold for a shape without empty dims."""
        return self.shape_env.guards_hold(extents)

    def __str__(self) -> str:
        given = self.shape_env.guards_text()
        return "\n".join([*(["where " + ", ".join(given)] if given else []), str(self.plan)])


def _bound(format: Format, shape: Sequence[Size]) -> Layout:
    """`format` for a dynamic shape. The algebra is written for ints, and what it returns holds symbolic sizes."""
    return size_oblivious(bind)(format, cast("Sequence[int]", shape))


def _fallback(reorder: DynamicReorder, shape: Sequence[Size]) -> Plan:
    """Element by element, in domains whose loops may have no iterations."""
    pair = reorder.pair
    moves = pair.conversion is None
    src, dst = _bound(reorder.src, shape), _bound(reorder.dst, shape)
    nest = size_oblivious(refine)(src, dst)
    sets = index_sets(nest, pair)
    steps: list[Step] = []
    for domain in product_domains(sets, [_maybe_empty(positions) for positions in sets]):
        domain = in_buffers(domain, nest, pair)
        loops, inner = _loops(domain.loops)
        at = Step((), domain.src, domain.dst, Copy(1), channel=domain.channel)
        steps.append(finished(at, loops, Elements(pair.src, inner) if moves else Copy(1, inner)))
    if dst.pad != "undef":
        for domain in size_oblivious(pad_domains)(dst, pair.dst, parts=_maybe_empty):
            loops, inner = _loops(domain.loops)
            at = Step((), 0, domain.dst + dst.offset * pair.dst, Copy(1))
            steps.append(finished(at, loops, Fill(pair.dst, reorder.pad, pair.dst, inner)))
    sizes = pair.src_bytes(src.extent), pair.dst_bytes(dst.extent)
    return Plan(pair.narrower, *sizes, tuple(steps), pair.conversion)


def _parallel_for_hint(step: Step) -> Step:
    """`step` with the parallel loop that suits the hint: a symbolic count may be 1, as batches are."""
    known = with_hints(step)
    return replace(step, parallel=parallel_loop(known.loops, known.kernel))


def _maybe_empty(positions: IndexSet) -> list[Domain]:
    """The positions as one domain, whether there are any or not."""
    levels, start, stop = positions
    if len(levels) == 1 and not isinstance(start, SymInt) and start == 0 and isinstance(levels[0].loop, Loop):
        return [Domain(0, 0, (replace(levels[0].loop, count=stop),))]
    return [Domain(0, 0, (VariableBoundLoops(tuple(levels), start, stop),) if levels else ())]


def _loops(domain: Sequence[AnyLoop]) -> tuple[tuple[AnyLoop, ...], Loop]:
    """The outer loops, and the one with the smallest step in the destination."""
    loops = merged([x for x in domain if isinstance(x, Loop)])
    others = [x for x in domain if not isinstance(x, Loop)]
    inner = loops.pop() if loops else ONCE
    return (*others, *loops), inner
