"""A few runs interleaved into one, or one run deinterleaved into a few: colour images and the like.

Vector v of the one run holds its elements V v .. V v + V - 1; element e belongs to way e mod n, at place e div n. With
n vectors on each side, every vector is a choice among the lanes of n others: n - 1 shuffles of two operands.
"""

from __future__ import annotations

from collections.abc import Sequence

from layout_ir.backends.llvm.emission.iteration import Partition, Pointers
from layout_ir.backends.llvm.emission.kernels.converter import Converter
from layout_ir.backends.llvm.emission.llvm_builder import Builder, shuffle
from layout_ir.dialects.kernel.plan import Interleave


def emit_interleave(
    converter: Converter, kernel: Interleave, pointers: Pointers, partition: Partition, *, streaming: bool
) -> None:
    """Blocks of `kernel.block` elements of every way; the last is moved back to end where the ways do."""
    b, ways, size = converter.b, kernel.ways, kernel.block
    src, dst = converter.src, converter.dst
    # Shuffled at the narrower width; but with channels a vector is converted while it belongs to a single way.
    converts_first = not kernel.inverse if kernel.channel else dst.width <= src.width
    lane = dst.lane if converts_first else src.lane

    def convert(value: str, way: int) -> str:
        return converter.convert(value, b.add(pointers.channel, way * kernel.channel), [0] * size)

    with b.loop(*partition(-(-kernel.count // size))) as i:
        at = b.mul(i, size)
        if pointers.cursor is not None:
            pointers.cursor.prefetch(b, b.mul(at, ways * src.width), size * ways * src.width)
        at = b.min(at, kernel.count - size) if kernel.count % size else at
        if kernel.inverse:
            here = pointers.advanced(b, at, ways * src.width, dst.width)
            from_ = [k * size * src.width for k in range(ways)]
            lanes = [[divmod(k * ways + way, size) for k in range(size)] for way in range(ways)]
        else:
            here = pointers.advanced(b, at, src.width, ways * dst.width)
            from_ = [k * kernel.stride for k in range(ways)]
            lanes = [[(e % ways, e // ways) for e in range(v * size, (v + 1) * size)] for v in range(ways)]
        vectors = [src.load(b.at(here.src, offset), size) for offset in from_]
        if converts_first:
            vectors = [convert(vector, way) for way, vector in enumerate(vectors)]
        for v, wanted in enumerate(lanes):
            value = _chosen(b, lane, vectors, wanted)
            value = value if converts_first else convert(value, v)
            to = b.at(here.dst, v * kernel.stride if kernel.inverse else v * size * dst.width)
            dst.store(value, to, size, streaming=streaming)


def _chosen(b: Builder, element: str, vectors: Sequence[str], lanes: Sequence[tuple[int, int]]) -> str:
    """The vector whose lane k is lane lanes[k][1] of vectors[lanes[k][0]]."""
    size = len(lanes)
    used = sorted({vector for vector, _ in lanes})
    if len(used) == 1:
        return shuffle(b, element, vectors[used[0]], "poison", size, [lane for _, lane in lanes])
    result = ""
    for step, other in enumerate(used[1:], 1):
        first = step == 1
        mask: list[int | None] = []
        for k, (vector, lane) in enumerate(lanes):
            if vector == other:
                mask.append(size + lane)
            elif vector in used[:step]:
                mask.append(lane if first else k)
            else:
                mask.append(None)
        result = shuffle(b, element, vectors[used[0]] if first else result, vectors[other], size, mask)
    return result
