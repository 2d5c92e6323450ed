"""Several ops that are one node: the slices of a Split, the views of a DepthToSpace or a SpaceToDepth.

One node of a model became them, whose name they have in common, and they still say together what it said: it goes out
as it came. A group needs no later version of the operators than its ops do: it is none where a version lacks the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from xdsl.ir import Operation, SSAValue

from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.dialects.nn.model_names import names_at
from layout_ir.exits.onnx.node_writer import NodeWriter
from layout_ir.exits.onnx.operator_versions import OLDEST, first_version


@dataclass(frozen=True, slots=True, eq=False)
class NodeGroup:
    """Ops that are one node, and how that is written."""

    op_type: str
    ops: tuple[Operation, ...]
    writer: Operation
    """The op in whose place the node stands: its operand is known before that, and no result is used."""
    results: tuple[SSAValue, ...]
    write: Callable[[NodeWriter], object]
    since: int = OLDEST
    """The first version in which `write` can write it, whatever the element types."""


def node_groups(ops: Sequence[Operation], opset: int) -> dict[Operation, NodeGroup]:
    """The group of each op that is in one, in a version of the operators."""
    found: dict[Operation, NodeGroup] = {}
    for group in (*_splits(ops), *_block_moves(ops)):
        version = first_version(group.op_type, group.ops[0].operands, group.results, group.since)
        if version is not None and version <= opset:
            found |= dict.fromkeys(group.ops, group)
    return found


# --- Split ----------------------------------------------------------------------------------------------------------


def _splits(ops: Sequence[Operation]) -> Iterator[NodeGroup]:
    """Slices of one value along one dim, without a gap between them."""
    alike: dict[tuple[SSAValue, str, int], list[nn.SliceOp]] = {}
    for op in ops:
        if isinstance(op, nn.SliceOp) and (dim := _split_dim(op)) is not None and (names := names_at(op)):
            alike.setdefault((op.x, names[0], dim), []).append(op)
    for (x, _, dim), parts in alike.items():
        first = parts[0]
        places = {op: (op.starts[dim], op.starts[dim] + op.sizes[dim]) for op in parts}
        parts.sort(key=places.__getitem__)
        bounds = [places[op] for op in parts]
        tiles = all(one[1] == other[0] for one, other in pairwise(bounds))
        whole = bounds[0][0] == 0 and bounds[-1][1] == tensor_type(x.type).get_shape()[dim]
        if len(parts) > 1 and tiles and whole:
            results = tuple(op.result for op in parts)
            yield NodeGroup("Split", tuple(parts), first, results, partial(_write_split, parts, dim))


def _write_split(parts: Sequence[nn.SliceOp], dim: int, write: NodeWriter) -> None:
    x, outputs = write.name_of(parts[0].x), [write.name_of(op.result) for op in parts]
    sizes = [op.sizes[dim] for op in parts]
    if write.opset < 13:
        write.node(parts[0], "Split", [x], outputs, axis=dim, split=sizes)
    else:
        write.node(parts[0], "Split", [x, write.ints(sizes, "split")], outputs, axis=dim)


def _split_dim(op: nn.SliceOp) -> int | None:
    """The one dim that a slice cuts, in steps of 1; None where there are more."""
    cut = [dim for dim, (old, new) in enumerate(zip(op.shapes[0], op.sizes, strict=True)) if old != new]
    return cut[0] if len(cut) == 1 and op.sizes[cut[0]] and set(op.steps) == {1} else None


# --- DepthToSpace, SpaceToDepth ---------------------------------------------------------------------------------------


def _block_moves(ops: Sequence[Operation]) -> Iterator[NodeGroup]:
    """Reshape, permute, reshape that bring a block of channels into space, or back."""
    for last in ops:
        if not isinstance(last, ReshapeOp) or not isinstance(permute := last.input.owner, PermuteOp):
            continue
        first = permute.input.owner
        if not isinstance(first, ReshapeOp) or not all(op.result.has_one_use() for op in (first, permute)):
            continue
        # The last may have another name, of what a later view was that it took in.
        names = {names_at(op)[:1] for op in (first, permute)}
        move = _MOVES.get(permute.ints("perm"))
        if move is not None and len(names) == 1 and () not in names and move.block_of(first) is not None:
            write = partial(_write_block_move, move, first, last)
            since = 11 if move.mode else OLDEST
            yield NodeGroup(move.op_type, (first, permute, last), last, (last.result,), write, since)


@dataclass(frozen=True, slots=True)
class _BlockMove:
    """What a permutation of six dims does."""

    op_type: str
    image: tuple[int, ...]
    """N, C, H, W of the image, as four of the dims before the permutation."""
    block: tuple[int, int]
    """The other two of these: the digits that move."""
    mode: str | None = None

    def block_of(self, first: ReshapeOp) -> int | None:
        """The extent of a block between two reshapes; None where there is none."""
        digits = first.result_type.get_shape()
        one, other = (digits[dim] for dim in self.block)
        return one if one == other and 0 not in digits else None


_MOVES: dict[tuple[int, ...], _BlockMove] = {
    (0, 3, 4, 1, 5, 2): _BlockMove("DepthToSpace", (0, 3, 4, 5), (1, 2)),
    (0, 1, 4, 2, 5, 3): _BlockMove("DepthToSpace", (0, 1, 4, 5), (2, 3), "CRD"),
    (0, 3, 5, 1, 2, 4): _BlockMove("SpaceToDepth", (0, 1, 2, 4), (3, 5)),
}


def _write_block_move(move: _BlockMove, first: ReshapeOp, last: ReshapeOp, write: NodeWriter) -> None:
    """Writes the node, between reshapes where the image has other dims of extent 1 than the operator wants."""
    block = move.block_of(first)
    assert block is not None
    n, c, h, w = (first.result_type.get_shape()[dim] for dim in move.image)
    deep, wide = (n, c * block**2, h, w), (n, c, h * block, w * block)
    before, after = (deep, wide) if move.op_type == "DepthToSpace" else (wide, deep)
    x, y = write.name_of(first.input), write.name_of(last.result)
    if first.source_type.get_shape() != before:
        (x,) = write.node(first, "Reshape", [x, write.ints(before, "shape")], [write.temporary(first)])
    same = last.result_type.get_shape() == after
    made = y if same else write.temporary(last)
    write.node(first, move.op_type, [x], [made], blocksize=block, mode=move.mode)
    if not same:
        write.node(last, "Reshape", [made, write.ints(last.result_type.get_shape(), "shape")])
