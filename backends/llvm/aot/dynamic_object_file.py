"""Reorders of dynamic shapes, compiled ahead of time.

    void NAME(const void *src, void *dst, const int64_t *extents)
    void NAME_part(const void *src, void *dst, int64_t part, int64_t parts, const int64_t *extents)
    int64_t NAME_src_bytes(const int64_t *extents), NAME_dst_bytes(const int64_t *extents)

Nothing is compiled when a shape comes along, so the object holds plans for hints that differ in what matters (small and
large, whole blocks and remainders, lines that are full or not), for those that its user names, and the fallback. A call
takes the first whose guards hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import lcm, prod

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm.aot.object_file import Unit, check_name
from layout_ir.backends.llvm.emission.size_registers import SizeRegisters
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.dynamic_shapes import (
    DynamicPlan,
    DynamicReorder,
    DynamicShape,
    dynamic_reorder,
)
from layout_ir.backends.llvm.planning.nontemporal import streaming_volume
from layout_ir.dialects.kernel.plan import Plan
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError, shape_text
from layout_ir.symbolic.symint import Size

_ARGUMENTS = "ptr %src, ptr %dst, i64 %part, i64 %parts, ptr %extents"


@dataclass(frozen=True, slots=True)
class DynamicUnit(Unit):
    """One reorder of tensors of a dynamic shape; its plans (`choices`) in the order in which their guards are tried."""

    reorder: DynamicReorder
    choices: tuple[DynamicPlan, ...]
    """The last is the fallback."""

    @property
    def formats(self) -> tuple[Format, Format]:
        """The formats of source and destination."""
        return self.reorder.src, self.reorder.dst

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The logical extents, None where they are arguments of every call."""
        return self.reorder.shape

    @property
    def plans(self) -> tuple[Plan, ...]:
        """In the order in which their guards are tried; the last serves all shapes."""
        return tuple(choice.plan for choice in self.choices)

    @property
    def symbols(self) -> tuple[str, ...]:
        """NAME, NAME_part and the two functions that return the bytes of a buffer."""
        return self.name, f"{self.name}_part", f"{self.name}_src_bytes", f"{self.name}_dst_bytes"

    @property
    def in_place(self) -> bool:
        """Always False: every plan would have to be safe in place, the fallback too."""
        return False

    def functions(self) -> list[str]:
        """One per plan, the choice among them, and those of the C interface around it."""
        name = self.name
        bodies = [choice.function(f"{name}.{k}") for k, choice in enumerate(self.choices)]
        part = f"define void @{name}_part({_ARGUMENTS}) nounwind {{\n{self._share()}  ret void\n}}"
        whole = (
            f"define void @{name}(ptr %src, ptr %dst, ptr %extents) nounwind {{\n"
            f"  call void @{name}.choice(ptr %src, ptr %dst, i64 0, i64 1, ptr %extents)\n  ret void\n}}"
        )
        plan = self.choices[-1].plan
        sizes = [self._size("src", plan.src_bytes), self._size("dst", plan.dst_bytes)]
        return [*bodies, self._choice(), part, whole, *sizes]

    def _share(self) -> str:
        """The body of NAME_part. Where two elements share a byte, no two threads may write: the first part is all."""
        if not self.plans[-1].shares_bytes:
            return f"  call void @{self.name}.choice({_ARGUMENTS})\n"
        return (
            "  %first = icmp eq i64 %part, 0\n  br i1 %first, label %all, label %none\nall:\n"
            f"  call void @{self.name}(ptr %src, ptr %dst, ptr %extents)\n  br label %none\nnone:\n"
        )

    def _choice(self) -> str:
        """The function that runs the first plan whose guards hold; nothing is done where a dim is empty."""
        name, lines = self.name, self._empty("done", "ask0")
        for k, choice in enumerate(self.choices):
            lines.append(f"ask{k}:")
            if choice.shape_env.guards:
                registers = SizeRegisters(choice.shape_env, prefix=f"%a{k}.")
                flag = registers.guards_hold()
                lines += [*registers.lines, f"  br i1 {flag}, label %take{k}, label %ask{k + 1}"]
            else:
                lines.append(f"  br label %take{k}")
            lines += [f"take{k}:", f"  call void @{name}.{k}({_ARGUMENTS})", "  br label %done"]
        body = "\n".join([*lines, "done:", "  ret void"])
        return f"define internal void @{name}.choice({_ARGUMENTS}) nounwind {{\n{body}\n}}"

    def _size(self, side: str, size: Size) -> str:
        """The function that says how many bytes one side has."""
        registers = SizeRegisters(self.choices[-1].shape_env, prefix="%b.")
        result = registers.operand(size)
        body = "\n".join(
            [
                *self._empty("none", "some"),
                "some:",
                *registers.lines,
                f"  ret i64 {result}",
                "none:",
                "  ret i64 0",
            ]
        )
        return f"define i64 @{self.name}_{side}_bytes(ptr %extents) nounwind {{\n{body}\n}}"

    def _empty(self, yes: str, no: str) -> list[str]:
        """Instructions that go to label `yes` where a dynamic dim is empty."""
        if 0 in self.shape:
            return [f"  br label %{yes}"]
        lines, flag = list[str](), "false"
        for dim, extent in enumerate(self.shape):
            if extent is None:
                lines += [
                    f"  %e{dim}.at = getelementptr i64, ptr %extents, i64 {dim}",
                    f"  %e{dim} = load i64, ptr %e{dim}.at, align 8",
                    f"  %e{dim}.is = icmp slt i64 %e{dim}, 1",
                    f"  %e{dim}.any = or i1 {flag}, %e{dim}.is",
                ]
                flag = f"%e{dim}.any"
        return [*lines, f"  br i1 {flag}, label %{yes}, label %{no}"]


def compile_dynamic_ahead(
    src: Format,
    dst: Format,
    shape: DynamicShape,
    what: str | Conversion,
    machine: Machine,
    name: str = "reorder",
    like: Sequence[Sequence[int]] = (),
) -> DynamicUnit:
    """The reorder of tensors of `shape`, None for any extent; made well for shapes `like` those given.

    `what` says what becomes of the elements, or names the type that they keep.

    Raises LayoutError where no code serves all extents, an example is no such shape, or C does not accept the name.
    """
    check_name(name)
    reorder = dynamic_reorder(src, dst, shape, what, machine)
    _check_addresses(reorder)
    last = reorder.fallback()
    # Where large shapes meet no guard under which streaming pays, and where registers are too wide: fewer guards.
    cached = replace(machine, may_stream=False)
    narrow = replace(cached, vector=min(machine.vector, 16))
    choices: list[DynamicPlan] = []
    for kind in (machine, cached, narrow):
        known = len(choices)
        for hint in (*like, *hints(reorder)):
            if not any(choice.serves(hint) for choice in choices[known:]):
                choice = replace(reorder, machine=kind).specialize(hint)
                choice.function(name)  # emission may add guards, and the next hint asks
                choices.append(choice)
    unique = {str(choice): choice for choice in choices}
    return DynamicUnit(name, reorder.conversion.src, machine, reorder, (*unique.values(), last))


def _check_addresses(reorder: DynamicReorder) -> None:
    """Raises LayoutError where some extents reach below address 0: code without a way to say so cannot refuse them."""
    small, large = (
        [
            k * block if extent is None else extent
            for extent, block in zip(reorder.shape, reorder.blocks, strict=True)
        ]
        for k in (1, 2)
    )
    if 0 in small:
        return
    for side, format in (("source", reorder.src), ("destination", reorder.dst)):
        first, then = (format.bind(shape).first_address for shape in (small, large))
        if first < 0 or then < first:
            raise LayoutError(
                f"the {side} {format} begins {'' if first < 0 else 'for large extents '}below address 0, and code "
                f"compiled ahead of time for {shape_text(reorder.shape)} cannot refuse a shape: give the extent "
                "whose stride is negative"
            )


def hints(reorder: DynamicReorder) -> Iterator[tuple[int, ...]]:
    """Shapes that differ in what matters to a plan: full lines, remainders of blocks, more than the caches hold."""
    if 0 in reorder.shape:
        return
    limit = streaming_volume(reorder.machine) // (reorder.pair.src_bytes(1) + reorder.pair.dst_bytes(1))
    first = reorder.shape.index(None)
    inner = {format.all_factors[-1].dim for format in (reorder.src, reorder.dst)}
    for kind in ("lines", "blocks", "rests"):
        shape = [
            known if known is not None else _extent(kind, 64 if dim in inner else 8, block)
            for dim, (known, block) in enumerate(zip(reorder.shape, reorder.blocks, strict=True))
        ]
        yield tuple(shape)
        for dim in inner if kind == "lines" else ():
            if reorder.shape[dim] is None and reorder.blocks[dim] == 1:
                # Colours and the like, which are interleaved.
                yield from ((*shape[:dim], few, *shape[dim + 1 :]) for few in (3, 4))
        scale = shape[first] * (limit // prod(shape) + 2)
        shape[first] = _extent(kind, scale, reorder.blocks[first])
        yield tuple(shape)


def _extent(kind: str, scale: int, block: int) -> int:
    """An extent of about `scale`: a multiple of 64 or so, an odd number of blocks, or those and half a block."""
    if kind == "lines":
        unit = lcm(block, min(scale, 64))
        return unit * max(scale // unit, 1)
    return (scale // block | 1) * block + (block // 2 if kind == "rests" else 0)
