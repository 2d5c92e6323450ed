"""The captions of pictures, for SVG, PNG and the terminal alike: summary, legend, remarks, and what a row holds."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from layout_ir.algebra.canonical import canonical_digits
from layout_ir.algebra.factors import MEMORY
from layout_ir.algebra.layout import Hole, Index, Layout
from layout_ir.algebra.pads import print_policy
from layout_ir.drawing.memory_view import Cell, Gap, MemoryView
from layout_ir.errors import shape_text

_HELD = {"undef": "anything", "zero": "0", "zp": "the zero point"}


def summary(layout: Layout) -> str:
    """One line: shapes and what the addresses are."""
    parts = [f"shape {shape_text(layout.shape)}"]
    if layout.is_padded:
        parts.append(f"padded to {shape_text(layout.padded_shape)}")
    first = min(layout.first_address, 0) if layout.span else 0
    begin = f" from {first} on" if first else ""
    addresses = count(layout.extent - first, "address", "es")
    parts.append(f"{addresses}{begin}: {count(layout.nelems, 'element')}")
    if layout.is_padded:
        pads = prod(layout.padded_shape) - layout.nelems
        parts[-1] += f", {count(pads, 'pad')}"
    if layout.chunk_size and layout.span:
        chunks = -(-layout.extent // layout.chunk_size)
        parts.append(f"{count(chunks, 'chunk')} of {layout.chunk_size}")
    return ", ".join(parts) or "the element"


def count(number: int, noun: str, plural: str = "s") -> str:
    """A number and its noun: "1 pad", "3 pads"; `plural` is the ending of several."""
    return f"{number} {noun}{'' if number == 1 else plural}"


def held_by_pads(layout: Layout) -> str:
    """What a pad holds, such as "0" or "anything"."""
    return _HELD.get(str(layout.pad), print_policy(layout.pad))


def remarks(view: MemoryView) -> list[str]:
    """What one must know to read the picture rightly: each a sentence without its full stop."""
    layout, result = view.layout, list[str]()
    if not view.rows:
        result.append("the tensor has no elements, so nothing lies in memory")
    if view.is_sampled:
        result.append(
            f"sampled: {len(view.rows)} of {view.total_rows} rows are shown, where something begins or ends"
        )
    if layout.is_injective(padded=False) is not True and layout.nelems > 1 and not layout.axes:
        result.append("elements may share an address: the first of them is shown")
    if layout.axes:
        result.append(f"each address exists once per place on {', '.join(layout.axes)}: the first is shown")
    if layout.swizzle is not None:
        result.append(f"addresses are swizzled by {layout.swizzle}")
    return result


def gap_text(gap: Gap) -> str:
    """How many rows a gap leaves out, of which chunks, and their addresses."""
    where = ""
    if gap.chunks is not None:
        first, last = gap.chunks
        where = f" of chunk {first}" if first == last else f" of chunks {first} to {last}"
    return f"{count(gap.rows, 'row')}{where} left out: addresses {gap.first} to {gap.last}"


def index_of(layout: Layout, cell: Cell) -> tuple[int, ...] | None:
    """The logical index of a position, pads included (then outside the shape); None for a hole."""
    if isinstance(cell.what, Hole):
        return None
    if isinstance(cell.what, Index):
        return cell.what.index
    return tuple(y - low for y, low in zip(cell.what.position, layout.lo, strict=True))


def row_text(layout: Layout, cells: Sequence[Cell]) -> str:
    """The indices that a row holds, as one range per dim: "n=0, c=0..7, h=2, w=0..3"."""
    indices = [index for cell in cells if (index := index_of(layout, cell)) is not None]
    if not indices:
        return "nothing"
    parts: list[str] = []
    for dim, name in enumerate(layout.names):
        values = [index[dim] for index in indices]
        low, high = min(values), max(values)
        parts.append(f"{name}={low}" if low == high else f"{name}={low}..{high}")
    return ", ".join(parts) or "the element"


def colour_dim(layout: Layout) -> int | None:
    """The dim whose index colours the cells: the one that is blocked, else the channels, else the innermost."""
    if not layout.rank or 0 in layout.padded_shape:
        return None
    blocked = [
        d for d in range(layout.rank) if len(canonical_digits(layout.digits[d], layout.padded_shape[d])) > 1
    ]
    inner = sorted((abs(f.stride), f.dim) for f in layout.factors if f.axis == MEMORY and f.count > 1)
    named = [d for d, name in enumerate(layout.names) if name == "c" and layout.padded_shape[d] > 1]
    for candidates in ([d for d in named if d in blocked], [d for _, d in inner if d in blocked], named):
        if candidates:
            return candidates[0]
    return inner[0][1] if inner else None
