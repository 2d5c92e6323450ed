"""Options of `linalg.pack` and `linalg.unpack`: reorders between a plain tensor and one in blocks.

The packed tensor, row-major, is the unpacked one in a blocked Format (`RelayoutOp.packed_format`). So where the
unpacked tensor lies in that Format, pack and unpack give the same memory another type and cost nothing:

    pack   of tensor<60x8, [a, b, a:32] pad = P>   is tensor<2x8x32>, whose partial tile holds P, the padding value
    unpack to tensor<60x8, [a, b, a:32]>           is tensor<2x8x32>, whose partial tile is pads that hold anything

The same holds for other orders of the packed dims. Between two row-major tensors either is a copy. What a program
packs for an op that could as well read the unpacked tensor in blocks is then packed where it costs least, or nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.tag import names_for
from layout_ir.dialects.layout import dtype_of, format_of, is_any, layout_of
from layout_ir.dialects.upstream.linalg_relayout import PackOp, RelayoutOp
from layout_ir.errors import LayoutError
from layout_ir.foreign.scalar import constant_value
from layout_ir.interfaces import LayoutOption, PadRead
from layout_ir.passes.selection.costs.cost_model import reorder_ns
from layout_ir.passes.selection.options.conv_kernels import Target
from layout_ir.passes.selection.options.models import default_options
from layout_ir.passes.selection.options.tensor_formats import Candidates, bound, is_shape_free, row_major


def relayout_options(op: Operation, candidates: Candidates, target: Target) -> Iterator[LayoutOption]:
    """Each Format of the unpacked tensor that is one of the packed tensor in memory, free; and the copy of row-major
    to row-major."""
    assert isinstance(op, RelayoutOp)
    try:
        natural = op.packed_format()
    except LayoutError:
        yield from default_options(op, candidates, target)
        return
    packed, unpacked = (op.result, op.source) if op.packs else (op.source, op.result)
    found: dict[tuple[Format, Format], None] = {(natural, row_major(packed)): None}
    for fmt in candidates(packed):
        image = unpacked_image(op, fmt)
        if image is not None:
            found[image, fmt] = None
    for fmt in candidates(unpacked):
        image = packed_image(op, fmt)
        if image is not None:
            found[fmt, image] = None
    for here, there in found:
        if _is_relabelling(op, here, there, unpacked, packed):
            yield _option(op, here, there, 0)
    here, there = row_major(unpacked), row_major(packed)
    source, destination = bound(here, unpacked), bound(natural, unpacked)
    if source is not None and destination is not None and not source.same_store(destination):
        yield _option(op, here, there, reorder_ns(source, destination, dtype_of(unpacked.type)))


def _option(op: RelayoutOp, unpacked: Format, packed: Format, cost: int) -> LayoutOption:
    """The destination has the Format of the result, as their types are one."""
    source, result = (unpacked, packed) if op.packs else (packed, unpacked)
    return LayoutOption(
        (source.with_pad("undef"), result.with_pad("undef")), (result.with_pad("undef"),), cost
    )


def _is_relabelling(
    op: RelayoutOp, here: Format, there: Format, unpacked: SSAValue, packed: SSAValue
) -> bool:
    """Whether the op may run where the unpacked tensor lies in `here` and the packed one in `there`."""
    ours, theirs = bound(here, unpacked), bound(there, packed)
    if ours is None or theirs is None or theirs.is_padded:
        return False
    # A partial tile is pads of one and elements of the other: what they hold has to be known.
    return not op.packs or not ours.is_padded or padding_number(op) is not None


def padding_number(op: Operation) -> float | None:
    """The padding value of a pack, where it is a constant, of i1 0 or 1; None for any other op."""
    if not isinstance(op, PackOp) or op.padding_value is None:
        return None
    value = constant_value(op.padding_value)
    if value is None or value != value:
        return None
    number = value.item()
    return int(number) if isinstance(number, bool) else number


def unpacked_image(op: RelayoutOp, fmt: Format) -> Format | None:
    """The Format of the unpacked tensor that lies as the packed one does in `fmt`; None where there is none."""
    rank = len(op.outer_order)
    if not is_shape_free(fmt) or fmt.chunk_factors:
        return None
    factors: list[Factor] = []
    for factor in fmt.factors:
        if factor.dim >= rank:
            if factor.size is not None:
                return None
            tile = factor.dim - rank
            factors.append(replace(factor, dim=op.tiled_dims[tile], size=op.tile_sizes[tile]))
        else:
            dim = op.outer_order[factor.dim]
            if factor.size is not None and dim in op.tiled_dims:
                return None
            factors.append(replace(factor, dim=dim))
    return _format(factors, rank)


def packed_image(op: RelayoutOp, fmt: Format) -> Format | None:
    """The Format of the packed tensor that lies as the unpacked one does in `fmt`; None where there is none."""
    rank, tiles = len(op.outer_order), dict(zip(op.tiled_dims, op.tile_sizes, strict=True))
    if not is_shape_free(fmt) or fmt.chunk_factors:
        return None
    place = {dim: k for k, dim in enumerate(op.outer_order)}
    left = dict(tiles)
    factors: list[Factor] = []
    for factor in fmt.factors:
        if factor.size is not None and factor.dim in tiles:
            if left.pop(factor.dim, None) != factor.size:
                return None
            factors.append(replace(factor, dim=rank + op.tiled_dims.index(factor.dim), size=None))
        else:
            factors.append(replace(factor, dim=place[factor.dim]))
    return None if left else _format(factors, rank + len(tiles))


def _format(factors: list[Factor], rank: int) -> Format | None:
    try:
        return Format(tuple(names_for(rank)), tuple(factors))
    except LayoutError:
        return None


# Pads ----------------------------------------------------------------------------------------------------------------


def reads(op: Operation, operand: int) -> tuple[PadRead, ...]:
    """The pads of what is packed become elements: they must hold the padding value."""
    value = padding_number(op)
    if operand != 0 or value is None:
        return ()
    assert isinstance(op, PackOp)
    return tuple(PadRead(dim, value) for dim in op.tiled_dims)


def leaves(op: Operation) -> float | None:
    """What an unpack shows in the pads of its result: what a pack in front of it has put there, where it is one."""
    inner = op.operands[0].owner
    if not isinstance(op, RelayoutOp) or op.packs or not isinstance(inner, PackOp):
        return None
    alike = (inner.tiled_dims, inner.tile_sizes) == (op.tiled_dims, op.tile_sizes)
    if not alike or inner.unpacked_type.get_shape() != op.unpacked_type.get_shape():
        return None
    if is_any(op.result.type) or format_of(op.result.type) is None:
        return None
    return padding_number(inner) if layout_of(op.result.type).is_padded else None
