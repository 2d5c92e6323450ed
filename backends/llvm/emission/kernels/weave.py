"""A few rows woven into one run, or one run split into a few columns: colour images and the like.

Vector v of the run holds its elements V v .. V v + V - 1; element e belongs to strand e mod n at place e div n. With n
vectors on each side, every vector is a choice among the lanes of n others: n - 1 shuffles of two operands.
"""

from __future__ import annotations

from collections.abc import Sequence

from layout_ir.backends.llvm.emission.builder import Builder, shuffle
from layout_ir.backends.llvm.emission.kernels.linear import Pace, Range
from layout_ir.dialects.kernel.plan import Interleave


def emit_weave(
    b: Builder,
    kernel: Interleave,
    src: str,
    dst: str,
    range_: Range,
    streaming: bool,
    pace: Pace | None = None,
) -> None:
    """Blocks of `kernel.block` places of every strand; the last is moved back to end where the strands do."""
    n, width, size = kernel.ways, kernel.width, kernel.block
    vector = f"<{size} x i{8 * width}>"
    stream = size * width if streaming else 0
    with b.loop(*range_(-(-kernel.count // size))) as i:
        at = b.mul(i, size)
        if pace is not None:
            pace.ask(b, b.mul(at, n * width), size * n * width)
        at = b.min(at, kernel.count - size) if kernel.count % size else at
        if kernel.inverse:
            s, d = b.at(src, b.mul(at, n * width)), b.at(dst, b.mul(at, width))
            loaded = [b.load(vector, s, k * size * width) for k in range(n)]
            places = [[divmod(k * n + strand, size) for k in range(size)] for strand in range(n)]
        else:
            s, d = b.at(src, b.mul(at, width)), b.at(dst, b.mul(at, n * width))
            loaded = [b.load(vector, s, k * kernel.stride) for k in range(n)]
            places = [[(e % n, e // n) for e in range(v * size, (v + 1) * size)] for v in range(n)]
        for v, lanes in enumerate(places):
            offset = v * kernel.stride if kernel.inverse else v * size * width
            b.store(vector, chosen(b, f"i{8 * width}", loaded, lanes), d, offset, streaming=stream)


def chosen(b: Builder, element: str, vectors: Sequence[str], lanes: Sequence[tuple[int, int]]) -> str:
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
