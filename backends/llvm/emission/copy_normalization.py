"""Normalization of copies between strided arrays, as LLVM IR: the same elements in the fewest dims.

    @normalize(copy, src, dst, itemsize, nd, shape, src strides, dst strides)

drops dims of extent 1, turns dims around that run backwards in the destination, sorts them by the strides of the
destination, merges those that continue each other, and takes the innermost dim that lies together on both sides for
one *run* of bytes. It returns 0 where there is nothing to move, 2 where elements of the destination share addresses,
else 1. What it finds is a block of i64 at `copy` (`FIELDS`), outermost dim first.
"""

from __future__ import annotations

from layout_ir.backends.llvm.emission.llvm_builder import Builder, Numbers, function_text

MOST_DIMS = 8
"""Dims of an array that is copied here; of one with more, the caller finds another way."""

FIELDS = {"src": 0, "dst": 1, "run": 2, "dims": 3, "part_dim": 4, "src_low": 5, "src_high": 6, "dst_high": 7}
"""Where the numbers of a copy are in its block: pointers to the first elements, bytes of a run, how many dims, the dim
that threads share (-1 for none), and the addresses between which source and destination lie (`dst` is the lowest)."""

COUNT, SRC, DST = 8, 8 + MOST_DIMS, 8 + 2 * MOST_DIMS
"""Where extents and strides of the dims begin in the block."""

BLOCK = 8 + 3 * MOST_DIMS
"""Numbers in the block of a copy."""

MANY = 128
"""Iterations from which on a dim is divided among threads, outer ones first."""


def normalize() -> str:
    """The function `@normalize`."""
    b = Builder()
    copy = Numbers(b, "%copy")
    shape, src_strides, dst_strides = (Numbers(b, f"%{name}") for name in ("shape", "ss", "ds"))
    found, elements, low, high = (b.local(name) for name in ("found", "elements", "low", "high"))
    src_at, dst_at = b.local("src.at", "ptr"), b.local("dst.at", "ptr")
    found.set(0, 0)
    elements.set(0, 1)
    src_at.set(0, "%src", "ptr")
    dst_at.set(0, "%dst", "ptr")
    address = b.put("ptrtoint ptr %src to i64")
    low.set(0, address)
    high.set(0, b.add(address, "%itemsize"))
    with b.loop(0, "%nd") as d:
        n, s, t = shape.get(d), src_strides.get(d), dst_strides.get(d)
        elements.set(0, b.mul(elements.get(0), n))
        last = b.sub(n, 1)
        s_span, t_span = b.mul(last, s), b.mul(last, t)
        low.set(0, b.add(low.get(0), b.min(s_span, 0)))
        high.set(0, b.add(high.get(0), b.max(s_span, 0)))
        back = b.compare("slt", t, 0)
        src_at.set(0, b.at(src_at.get(0, "ptr"), b.select(back, s_span, 0)), "ptr")
        dst_at.set(0, b.at(dst_at.get(0, "ptr"), b.select(back, t_span, 0)), "ptr")
        k = found.get(0)
        copy.set(b.add(k, COUNT), n)
        copy.set(b.add(k, SRC), b.select(back, b.sub(0, s), s))
        copy.set(b.add(k, DST), b.select(back, b.sub(0, t), t))
        more = b.put(f"zext i1 {b.compare('ne', n, 1)} to i64")
        found.set(0, b.add(k, more))
    empty = b.compare("eq", elements.get(0), 0)
    b.do(f"br i1 {empty}, label %none, label %sort")
    b.label("%sort")
    dims = found.get(0)
    with b.loop(1, dims) as i, b.loop(0, b.sub(dims, i)) as j:
        here, there = b.add(j, DST), b.add(j, DST + 1)
        swap = b.compare("slt", copy.get(here), copy.get(there))
        for begin in (COUNT, SRC, DST):
            x, y = b.add(j, begin), b.add(j, begin + 1)
            a, c = copy.get(x), copy.get(y)
            copy.set(x, b.select(swap, c, a))
            copy.set(y, b.select(swap, a, c))
    # The distance of neighbours in a dim against the extent of all dims inside of it.
    extent, shares = b.local("extent"), b.local("shares")
    extent.set(0, "%itemsize")
    shares.set(0, 0)
    with b.loop(0, dims) as i:
        d = b.sub(b.sub(dims, 1), i)
        stride, inside = copy.get(b.add(d, DST)), extent.get(0)
        near = b.put(f"zext i1 {b.compare('slt', stride, inside)} to i64")
        shares.set(0, b.put(f"or i64 {shares.get(0)}, {near}"))
        extent.set(0, b.add(inside, b.mul(stride, b.sub(copy.get(b.add(d, COUNT)), 1))))
    # Dims that continue each other.
    merged = found
    merged.set(0, 0)
    with b.loop(1, dims) as i:
        m = merged.get(0)
        n = copy.get(b.add(i, COUNT))
        s, t = copy.get(b.add(i, SRC)), copy.get(b.add(i, DST))
        outer = copy.get(b.add(m, COUNT))
        continues = [
            b.compare("eq", copy.get(b.add(m, begin)), b.mul(n, stride))
            for begin, stride in ((SRC, s), (DST, t))
        ]
        both = b.put(f"and i1 {continues[0]}, {continues[1]}")
        to = b.select(both, m, b.add(m, 1))
        copy.set(b.add(to, COUNT), b.select(both, b.mul(outer, n), n))
        copy.set(b.add(to, SRC), s)
        copy.set(b.add(to, DST), t)
        merged.set(0, to)
    any_ = b.compare("ne", dims, 0)
    count = b.select(any_, b.add(merged.get(0), 1), 0)
    # The innermost dim, where it is a run.
    inner = b.select(any_, b.sub(count, 1), 0)
    together = any_
    for begin in (SRC, DST):
        flag = b.compare("eq", copy.get(b.add(inner, begin)), "%itemsize")
        together = b.put(f"and i1 {together}, {flag}")
    run = b.mul("%itemsize", copy.get(b.add(inner, COUNT)))
    copy.set(FIELDS["run"], b.select(together, run, "%itemsize"))
    count = b.select(together, b.sub(count, 1), count)
    copy.set(FIELDS["dims"], count)
    # Threads share the first dim of many iterations, else the one with most of them.
    best = b.local("best")
    best.set(0, -1)
    with b.loop(0, count) as i:
        known = best.get(0)
        n = copy.get(b.add(i, COUNT))
        first = b.compare("slt", known, 0)
        most = b.select(first, 1, copy.get(b.add(b.max(known, 0), COUNT)))
        few, more = b.compare("slt", most, MANY), b.compare("sgt", n, most)
        best.set(0, b.select(b.put(f"and i1 {few}, {more}"), i, known))
    copy.set(FIELDS["part_dim"], best.get(0))
    copy.set(FIELDS["src"], src_at.get(0, "ptr"), "ptr")
    begin = dst_at.get(0, "ptr")
    copy.set(FIELDS["dst"], begin, "ptr")
    copy.set(FIELDS["src_low"], low.get(0))
    copy.set(FIELDS["src_high"], high.get(0))
    copy.set(FIELDS["dst_high"], b.add(b.put(f"ptrtoint ptr {begin} to i64"), extent.get(0)))
    answer = b.add(shares.get(0), 1)
    b.do(f"ret i64 {answer}")
    b.label("%none")
    b.do("ret i64 0")
    arguments = "ptr %copy, ptr %src, ptr %dst, i64 %itemsize, i64 %nd, ptr %shape, ptr %ss, ptr %ds"
    return function_text("i64", "normalize", arguments, b)
