"""Copies between arrays of any strides as LLVM IR: shape and strides are arguments, not constants.

One module serves every array, so nothing is compiled when a new shape comes along. A copy has two halves:

    @normalize(copy, src, dst, itemsize, nd, shape, src strides, dst strides)     what is to be moved, in fewest dims
    @run(copy, unused, part, parts)                                               moves one part of it

The first is `copy_normalization`. `@run` chooses one of the micro-kernels (`strided_kernels`) by run length and
innermost strides, calls it for the three innermost dims, and counts through the dims around those one by one. Threads
share one dim (`part_dim`).
"""

from __future__ import annotations

from layout_ir.backends.llvm.emission.copy_normalization import (
    BLOCK,
    COUNT,
    DST,
    FIELDS,
    MOST_DIMS,
    SRC,
    normalize,
)
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Numbers, function_text
from layout_ir.backends.llvm.emission.strided_kernels import (
    NEST,
    ROWS,
    WIDTHS,
    chosen_kernel,
    strided_kernels,
)
from layout_ir.backends.llvm.machine.machine import LANE, LINE, Machine

_NEAR = 1 << 10
"""Bytes between rows of the source up to which arrays that L2 does not hold are read in the order of memory: as few
rows at a time as make a line of the destination, all of their columns. From there on, `ROWS` rows a line wide, each
prefetching its next line. (25 MiB of f32: rows 256 bytes apart 8.6 ms and 14.4 with prefetches, 1800 apart 9.4 and
5.5; squares of 2048 f64 10 ms without prefetches, 3 with. In L2 prefetches take a sixth more.)
"""


def strided_copy_module(machine: Machine) -> list[str]:
    """The functions `@normalize` and `@run`, and what they call, as LLVM IR; `module_text` makes them a module."""
    memcpy = "declare ptr @memcpy(ptr, ptr, i64)"
    return [memcpy, normalize(), *strided_kernels(machine), _run(machine)]


def _run(machine: Machine) -> str:
    b = Builder()
    given = Numbers(b, "%copy")
    sizes = {"block": BLOCK, "nest": len(NEST), "index": MOST_DIMS}
    copy, nest, counters = (b.local(name, count=count) for name, count in sizes.items())
    kernel, src_at, dst_at = (b.local(name, "ptr") for name in ("kernel", "src.at", "dst.at"))
    chosen = b.local("chosen")
    run, dims, part_dim = (given.get(FIELDS[name]) for name in ("run", "dims", "part_dim"))
    src_at.set(0, given.get(FIELDS["src"], "ptr"), "ptr")
    dst_at.set(0, given.get(FIELDS["dst"], "ptr"), "ptr")
    with b.either(b.compare("eq", dims, 0)) as otherwise:
        with b.when(b.compare("eq", "%part", 0)):
            b.put(f"call ptr @memcpy(ptr {dst_at.get(0, 'ptr')}, ptr {src_at.get(0, 'ptr')}, i64 {run})")
        b.do("br label %done")
        b.label("%unreached")
        otherwise()
    with b.loop(0, dims) as d:
        for begin in (COUNT, SRC, DST):
            copy.set(b.add(d, begin), given.get(b.add(d, begin)))
        counters.set(d, 0)
    # The part of the dim that threads share.
    shared = b.compare("sge", part_dim, 0)
    dim = b.select(shared, part_dim, 0)
    whole = copy.get(b.add(dim, COUNT))
    begin = b.put(f"udiv i64 {b.mul(whole, '%part')}, %parts")
    end = b.put(f"udiv i64 {b.mul(whole, b.add('%part', 1))}, %parts")
    copy.set(b.add(dim, COUNT), b.sub(end, begin))
    for place, first in ((src_at, SRC), (dst_at, DST)):
        place.set(0, b.at(place.get(0, "ptr"), b.mul(begin, copy.get(b.add(dim, first)))), "ptr")
    b.do(f"br i1 {b.compare('slt', begin, end)}, label %some, label %done")
    b.label("%some")

    # A dim around the innermost that lies together in the source changes places with the one next to it, where there
    # is enough of it for a transpose in registers, or where the two are interleaved: else few elements would be moved
    # at a time, and those beside them again and again.
    inner, around = b.sub(dims, 1), b.sub(dims, 2)
    chosen.set(0, -1)
    apart = copy.get(b.add(inner, SRC))
    least = b.select(b.compare("sle", run, 2), LANE // 2, LANE)
    with b.loop(0, inner) as d:
        column = b.mul(copy.get(b.add(d, COUNT)), run)
        useful = b.put(f"or i1 {b.compare('sge', column, least)}, {b.compare('eq', apart, column)}")
        together = b.compare("eq", copy.get(b.add(d, SRC)), run)
        useful = b.put(f"and i1 {useful}, {together}")
        chosen.set(0, b.select(useful, d, chosen.get(0)))
    with b.when(b.compare("sge", chosen.get(0), 0)):
        other = chosen.get(0)
        for first in (COUNT, SRC, DST):
            x, y = b.add(other, first), b.add(around, first)
            a, c = copy.get(x), copy.get(y)
            copy.set(x, c)
            copy.set(y, a)
    values = {"run": run}
    for number, (dim, sides) in enumerate((("row", "rows"), ("col", "cols"), ("plane", "planes"))):
        there = b.compare("sgt", dims, number)
        place = b.select(there, b.sub(dims, number + 1), 0)
        values[sides] = b.select(there, copy.get(b.add(place, COUNT)), 1)
        values[f"{dim}_src"] = b.select(there, copy.get(b.add(place, SRC)), 0)
        values[f"{dim}_dst"] = b.select(there, copy.get(b.add(place, DST)), 0)
    volume = b.mul(b.mul(b.mul(values["rows"], values["cols"]), values["planes"]), run)
    out_of_cache = b.compare("sgt", volume, machine.l2 // 2)
    near = b.compare("sle", values["row_src"], _NEAR)
    in_order = b.put(f"and i1 {out_of_cache}, {near}")
    values["block"] = b.select(in_order, b.put(f"udiv i64 {LINE}, {run}"), ROWS)
    ahead = b.put(f"xor i1 {near}, {out_of_cache}")
    ahead = b.put(f"and i1 {ahead}, {out_of_cache}")
    for k, name in enumerate(NEST):
        nest.set(k, values[name])
    kernel.set(0, "@runs", "ptr")
    for width in WIDTHS:
        with b.when(b.compare("eq", run, width)):
            kernel.set(0, chosen_kernel(b, width, values, ahead, machine), "ptr")

    # The dims around the three, counted through from the inside.
    outer = b.max(b.sub(dims, 3), 0)
    function = kernel.get(0, "ptr")
    b.do("br label %next")
    b.label("%next")
    src, dst = src_at.get(0, "ptr"), dst_at.get(0, "ptr")
    b.do(f"call void {function}(ptr {src}, ptr {dst}, i64 0, i64 1, ptr %nest)")
    chosen.set(0, b.sub(outer, 1))
    b.do("br label %carry")
    b.label("%carry")
    d = chosen.get(0)
    b.do(f"br i1 {b.compare('slt', d, 0)}, label %done, label %count")
    b.label("%count")
    i, n = b.add(counters.get(d), 1), copy.get(b.add(d, COUNT))
    full = b.compare("eq", i, n)
    counters.set(d, b.select(full, 0, i))
    for place, first in ((src_at, SRC), (dst_at, DST)):
        stride = copy.get(b.add(d, first))
        back = b.sub(stride, b.mul(n, stride))
        place.set(0, b.at(place.get(0, "ptr"), b.select(full, back, stride)), "ptr")
    chosen.set(0, b.sub(d, 1))
    b.do(f"br i1 {full}, label %carry, label %next")
    b.label("%done")
    b.do("ret void")
    return function_text("void", "run", "ptr %copy, ptr %unused, i64 %part, i64 %parts", b)
