"""Reorders of a physical program as `linalg.pack` and `linalg.unpack`.

    nn.pad behind, layout.reshape that splits dims, layout.permute that takes the tiles to the end      linalg.pack
    layout.permute that takes the tiles from the end, layout.reshape that merges, nn.slice from 0       linalg.unpack

Where pad or slice are missing there are no partial tiles. A dim that is cut twice, or a tile that is not at the end, is
nothing that these ops say, and stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp, dtype_of
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.dialects.upstream.linalg_relayout import PackOp, UnPackOp
from layout_ir.elements.element_types import element_type
from layout_ir.exits.linalg.linalg_builder import LinalgBuilder


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a tensor is cut into tiles, in the words of linalg.pack."""

    inner_dims_pos: tuple[int, ...]
    inner_tiles: tuple[int, ...]
    outer_dims_perm: tuple[int, ...]


def pack_reorders(module: ModuleOp) -> None:
    """Replaces the chains in place; what is left of them without users goes."""
    for op in list(module.walk()):
        if isinstance(op, PermuteOp) and op.parent is not None and op.is_bare and not _pack(op):
            _unpack(op)


def _pack(op: PermuteOp) -> bool:
    """Whether the chain that ends in `op` is a pack, and is one now."""
    split = op.input.owner
    if not isinstance(split, ReshapeOp) or not split.is_bare:
        return False
    tiling = _tiling(split.source_type.get_shape(), split.result_type.get_shape(), op.ints("perm"))
    if tiling is None:
        return False
    source, build = split.input, LinalgBuilder(op)
    dtype, padding = dtype_of(op.result.type), None
    pad = source.owner
    if isinstance(pad, nn.PadOp) and pad.mode == "constant" and _is_partial_tile(pad, tiling):
        source = pad.x
        number = pad.value if element_type(dtype).is_float else int(pad.value)
        padding = build.scalar(number, dtype)
    target = build.empty(tensor_type(op.result.type).get_shape(), dtype)
    new = PackOp(
        source, target.value, tiling.inner_dims_pos, tiling.inner_tiles,
        outer_dims_perm=_order(tiling), padding_value=padding,
    )  # fmt: skip
    _replace(op, new, build)
    _erase_unused(split, pad)
    return True


def _unpack(op: PermuteOp) -> None:
    """Makes the chain that starts with `op` an unpack, if it is one."""
    join = _only_user(op.result)
    if not isinstance(join, ReshapeOp) or not join.is_bare:
        return
    shape = op.result_type.get_shape()
    perm = op.ints("perm")
    back = [0] * len(perm)
    for k, dim in enumerate(perm):
        back[dim] = k
    tiling = _tiling(join.result_type.get_shape(), shape, back)
    if tiling is None:
        return
    last: Operation = join
    cut = _only_user(join.result)
    if isinstance(cut, nn.SliceOp) and _is_partial_tile(cut, tiling):
        last = cut
    build = LinalgBuilder(last)
    result = tensor_type(last.results[0].type)
    target = build.empty(result.get_shape(), dtype_of(result))
    new = UnPackOp(
        op.input, target.value, tiling.inner_dims_pos, tiling.inner_tiles, outer_dims_perm=_order(tiling)
    )
    _replace(last, new, build)
    _erase_unused(last, join, op)


def _replace(op: Operation, new: PackOp | UnPackOp, build: LinalgBuilder) -> None:
    made = build.insert(new)
    made.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(made)
    _erase_unused(op)


def _erase_unused(*ops: object) -> None:
    for op in ops:
        if isinstance(op, Operation) and op.parent is not None and not any(r.uses for r in op.results):
            op.detach()
            op.erase()


def _only_user(value: SSAValue) -> Operation | None:
    users = [use.operation for use in value.uses]
    return users[0] if len(users) == 1 else None


def _order(tiling: Tiling) -> tuple[int, ...]:
    perm = tiling.outer_dims_perm
    return () if perm == tuple(range(len(perm))) else perm


def _tiling(whole: Sequence[int], split: Sequence[int], perm: Sequence[int]) -> Tiling | None:
    """The tiles that reshaping `whole` to `split`, and `perm` of that, make; None where pack does not say it."""
    places = _places(whole, split)
    if places is None:
        return None
    rank = len(whole)
    dim_of = {place: (dim, k) for dim, own in enumerate(places) for k, place in enumerate(own)}
    outer, inner = perm[:rank], perm[rank:]
    if any(dim_of[place][1] != 0 for place in outer) or any(dim_of[place][1] != 1 for place in inner):
        return None
    if not inner:
        return None
    return Tiling(
        tuple(dim_of[place][0] for place in inner),
        tuple(split[place] for place in inner),
        tuple(dim_of[place][0] for place in outer),
    )


def _places(whole: Sequence[int], split: Sequence[int]) -> list[list[int]] | None:
    """Per dim of `whole` the one or two dims of `split` that hold it; None where there are more, or none."""
    result: list[list[int]] = []
    at = 0
    for extent in whole:
        if at >= len(split):
            return None
        own = [at]
        # As few as hold it: a dim of 1 behind is one of its own.
        while prod(split[place] for place in own) < extent and len(own) < 2 and own[-1] + 1 < len(split):
            own.append(own[-1] + 1)
        if prod(split[place] for place in own) != extent:
            return None
        result.append(own)
        at = own[-1] + 1
    return result if at == len(split) else None


def _is_partial_tile(op: nn.PadOp | nn.SliceOp, tiling: Tiling) -> bool:
    """Whether `op` adds or takes off the rest of the last tile of each dim, and nothing else."""
    small, large = tensor_type(op.operands[0].type), tensor_type(op.results[0].type)
    if isinstance(op, nn.SliceOp):
        small, large = large, small
        if any(op.starts) or any(step != 1 for step in op.steps):
            return False
    elif any(op.pads[: len(op.pads) // 2]):
        return False
    return _fits(small, large, tiling)


def _fits(small: TensorType[Attribute], large: TensorType[Attribute], tiling: Tiling) -> bool:
    tiles = dict(zip(tiling.inner_dims_pos, tiling.inner_tiles, strict=True))
    pairs = zip(small.get_shape(), large.get_shape(), strict=True)
    return all(-(-a // tiles.get(dim, 1)) * tiles.get(dim, 1) == b for dim, (a, b) in enumerate(pairs))
