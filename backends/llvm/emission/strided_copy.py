"""Copies between arrays of any strides as LLVM IR: shape and strides are arguments, not constants.

One module serves every array, so nothing is compiled when a new shape comes along. A copy has two halves:

    @normalize(copy, src, dst, itemsize, nd, shape, src strides, dst strides)     what is to be moved, in fewest dims
    @run(copy, unused, part, parts)                                               moves one part of it

`@normalize` drops dims of extent 1, turns dims around that run backwards in the destination, sorts them by the strides
of the destination, merges those that continue each other, and takes the innermost dims that lie together on both sides
for one *run* of bytes. It returns 0 where there is nothing to move, 2 where elements of the destination share
addresses, else 1. What it finds is a block of i64 (`FIELDS`), outermost dim first.

`@run` chooses by run length and innermost strides: transposes in registers, interleaves, reversed and repeated
elements, single elements, or runs. Each is a function of two pointers and `extents`, the shape and strides of the three
innermost dims (`NEST`); the dims around those are counted through one by one. Threads share one dim (`part_dim`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from layout_ir.backends.llvm.emission.emit import emit_function
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, shuffle
from layout_ir.backends.llvm.machine.machine import LANE, LINE, Machine
from layout_ir.dialects.kernel.plan import Axis, Blocking, Interleave, Kernel, Loop, Plan, Step, Tile
from layout_ir.symbolic.shape_env import ShapeEnv
from layout_ir.symbolic.symint import SymInt, dynamic_extent

MOST_DIMS = 8
"""Dims of an array that is copied here; of one with more, the caller finds another way."""

FIELDS = {"src": 0, "dst": 1, "run": 2, "dims": 3, "part_dim": 4, "src_low": 5, "src_high": 6, "dst_high": 7}
"""Where the numbers of a copy are in its block: pointers to the first elements, bytes of a run, how many dims, the dim
that threads share (-1 for none), and the addresses between which source and destination lie (`dst` is the lowest)."""

COUNT, SRC, DST = 8, 8 + MOST_DIMS, 8 + 2 * MOST_DIMS
"""Where extents and strides of the dims begin in the block."""

BLOCK = 8 + 3 * MOST_DIMS
"""Numbers in the block of a copy."""

NEST = (
    "rows", "row_src", "row_dst", "cols", "col_src", "col_dst", "planes", "plane_src", "plane_dst", "run",
    "block",
)  # fmt: skip
"""The numbers that a micro-kernel is given: extents and strides of the innermost dim (rows) and the two around it."""

_WIDTHS = (1, 2, 4, 8, 16)
"""Bytes of the elements that have micro-kernels of their own."""

_ROWS = 128
"""Rows that are moved before the next columns are: their lines of the source, and those of the columns, stay in L1."""

_NEAR = 1 << 10
"""Bytes between rows of the source up to which arrays that L2 does not hold are read in the order of memory: as few
rows at a time as make a line of the destination, all of their columns. From there on, `_ROWS` rows a line wide, each
prefetching its next line. (25 MiB of f32: rows 256 bytes apart 8.6 ms and 14.4 with prefetches, 1800 apart 9.4 and
5.5; squares of 2048 f64 10 ms without prefetches, 3 with. In L2 prefetches take a sixth more.)
"""

_HINT = 4099
"""What sizes are taken for where code is emitted: no multiple of any block, so that the code for a rest is there."""

_WAYS = (2, 3, 4)
"""Runs that are interleaved in registers: real and imaginary parts, colours, colours with opacity."""


def strided_copy_module(machine: Machine) -> list[str]:
    """The functions `@normalize` and `@run`, and what they call, as LLVM IR; `module_text` makes them a module."""
    functions = ["declare ptr @memcpy(ptr, ptr, i64)", _normalize()]
    for width in _WIDTHS:
        functions += _micro_kernels(width, machine)
    functions += [_runs(), _run(machine)]
    return functions


class _Memory:
    """Numbers of 64 bits in memory, read and written by their place."""

    def __init__(self, b: Builder, pointer: str) -> None:
        self.b, self.pointer = b, pointer

    def get(self, place: Value, type_: str = "i64") -> str:
        """The number at `place`."""
        return self.b.put(f"load {type_}, ptr {self._at(place)}, align 8")

    def set(self, place: Value, value: Value, type_: str = "i64") -> None:
        """Writes the number at `place`."""
        self.b.do(f"store {type_} {value}, ptr {self._at(place)}, align 8")

    def _at(self, place: Value) -> str:
        return (
            self.b.put(f"getelementptr i64, ptr {self.pointer}, i64 {place}") if place != 0 else self.pointer
        )


def _select(b: Builder, flag: str, a: Value, c: Value, type_: str = "i64") -> str:
    return b.put(f"select i1 {flag}, {type_} {a}, {type_} {c}")


def _compare(b: Builder, relation: str, a: Value, c: Value) -> str:
    return b.put(f"icmp {relation} i64 {a}, {c}")


@contextmanager
def _when(b: Builder, flag: str) -> Generator[None]:
    """The body runs if `flag`."""
    with b.either(flag) as otherwise:
        yield
        otherwise()


@contextmanager
def _steps(b: Builder, low: Value, high: Value) -> Generator[str]:
    """As `Builder.loop`, with bounds that may be any numbers of which only registers know."""
    low = low if isinstance(low, str) else b.put(f"add i64 {low}, 0")
    with b.loop(low, high) as i:
        yield str(i)


# What is to be moved -------------------------------------------------------------------------------------------------


def _normalize() -> str:
    b = Builder()
    copy = _Memory(b, "%copy")
    shape, src_strides, dst_strides = (_Memory(b, f"%{name}") for name in ("shape", "ss", "ds"))
    b.do("%found = alloca i64")
    b.do("%elements = alloca i64")
    b.do("%src.at = alloca ptr")
    b.do("%dst.at = alloca ptr")
    b.do("%low = alloca i64")
    b.do("%high = alloca i64")
    found, elements, low, high = (_Memory(b, f"%{name}") for name in ("found", "elements", "low", "high"))
    src_at, dst_at = _Memory(b, "%src.at"), _Memory(b, "%dst.at")
    found.set(0, 0)
    elements.set(0, 1)
    src_at.set(0, "%src", "ptr")
    dst_at.set(0, "%dst", "ptr")
    address = b.put("ptrtoint ptr %src to i64")
    low.set(0, address)
    high.set(0, b.add(address, "%itemsize"))
    with _steps(b, 0, "%nd") as d:
        n, s, t = shape.get(d), src_strides.get(d), dst_strides.get(d)
        elements.set(0, b.mul(elements.get(0), n))
        last = b.sub(n, 1)
        s_span, t_span = b.mul(last, s), b.mul(last, t)
        low.set(0, b.add(low.get(0), b.min(s_span, "0")))
        high.set(0, b.add(high.get(0), b.max(s_span, "0")))
        back = _compare(b, "slt", t, 0)
        src_at.set(0, b.at(src_at.get(0, "ptr"), _select(b, back, s_span, 0)), "ptr")
        dst_at.set(0, b.at(dst_at.get(0, "ptr"), _select(b, back, t_span, 0)), "ptr")
        k = found.get(0)
        copy.set(b.add(k, COUNT), n)
        copy.set(b.add(k, SRC), _select(b, back, b.sub("0", s), s))
        copy.set(b.add(k, DST), _select(b, back, b.sub("0", t), t))
        more = b.put(f"zext i1 {_compare(b, 'ne', n, 1)} to i64")
        found.set(0, b.add(k, more))
    empty = _compare(b, "eq", elements.get(0), 0)
    b.do(f"br i1 {empty}, label %none, label %sort")
    b.label("%sort")
    dims = found.get(0)
    with _steps(b, 1, dims) as i, _steps(b, 0, b.sub(dims, i)) as j:
        here, there = b.add(j, DST), b.add(j, DST + 1)
        swap = _compare(b, "slt", copy.get(here), copy.get(there))
        for begin in (COUNT, SRC, DST):
            x, y = b.add(j, begin), b.add(j, begin + 1)
            a, c = copy.get(x), copy.get(y)
            copy.set(x, _select(b, swap, c, a))
            copy.set(y, _select(b, swap, a, c))
    # The distance of neighbours in a dim against the extent of all dims inside of it.
    b.do("%extent = alloca i64")
    b.do("%shares = alloca i64")
    extent, shares = _Memory(b, "%extent"), _Memory(b, "%shares")
    extent.set(0, "%itemsize")
    shares.set(0, 0)
    with _steps(b, 0, dims) as i:
        d = b.sub(b.sub(dims, 1), i)
        stride, inside = copy.get(b.add(d, DST)), extent.get(0)
        near = b.put(f"zext i1 {_compare(b, 'slt', stride, inside)} to i64")
        shares.set(0, b.put(f"or i64 {shares.get(0)}, {near}"))
        extent.set(0, b.add(inside, b.mul(stride, b.sub(copy.get(b.add(d, COUNT)), 1))))
    # Dims that continue each other.
    merged = found
    merged.set(0, 0)
    with _steps(b, 1, dims) as i:
        m = merged.get(0)
        n = copy.get(b.add(i, COUNT))
        s, t = copy.get(b.add(i, SRC)), copy.get(b.add(i, DST))
        outer = copy.get(b.add(m, COUNT))
        continues = [
            _compare(b, "eq", copy.get(b.add(m, begin)), b.mul(n, stride))
            for begin, stride in ((SRC, s), (DST, t))
        ]
        both = b.put(f"and i1 {continues[0]}, {continues[1]}")
        to = _select(b, both, m, b.add(m, 1))
        copy.set(b.add(to, COUNT), _select(b, both, b.mul(outer, n), n))
        copy.set(b.add(to, SRC), s)
        copy.set(b.add(to, DST), t)
        merged.set(0, to)
    any_ = _compare(b, "ne", dims, 0)
    count = _select(b, any_, b.add(merged.get(0), 1), 0)
    # The innermost dim, where it is a run.
    inner = _select(b, any_, b.sub(count, 1), 0)
    together = any_
    for begin in (SRC, DST):
        flag = _compare(b, "eq", copy.get(b.add(inner, begin)), "%itemsize")
        together = b.put(f"and i1 {together}, {flag}")
    run = b.mul("%itemsize", copy.get(b.add(inner, COUNT)))
    copy.set(FIELDS["run"], _select(b, together, run, "%itemsize"))
    count = _select(b, together, b.sub(count, 1), count)
    copy.set(FIELDS["dims"], count)
    # Threads share the first dim of many iterations, else the one with most of them.
    b.do("%best = alloca i64")
    best = _Memory(b, "%best")
    best.set(0, -1)
    with _steps(b, 0, count) as i:
        known = best.get(0)
        n = copy.get(b.add(i, COUNT))
        first = _compare(b, "slt", known, 0)
        most = _select(b, first, 1, copy.get(b.add(b.max(known, "0"), COUNT)))
        few, more = _compare(b, "slt", most, _ROWS), _compare(b, "sgt", n, most)
        best.set(0, _select(b, b.put(f"and i1 {few}, {more}"), i, known))
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
    return _text("i64", "normalize", arguments, b)


def _text(result: str, name: str, arguments: str, b: Builder, attributes: str = "nounwind") -> str:
    allocas = [line for line in b.lines if " = alloca " in line]
    others = [line for line in b.lines if " = alloca " not in line]
    body = "\n".join([*allocas, *others])
    return f"define internal {result} @{name}({arguments}) {attributes} {{\nentry:\n{body}\n}}"


# Moving it -----------------------------------------------------------------------------------------------------------


def _run(machine: Machine) -> str:
    b = Builder()
    given = _Memory(b, "%copy")
    b.do(f"%block = alloca [{BLOCK} x i64], align 8")
    b.do(f"%nest = alloca [{len(NEST)} x i64], align 8")
    b.do(f"%index = alloca [{MOST_DIMS} x i64], align 8")
    b.do("%kernel = alloca ptr")
    b.do("%src.at = alloca ptr")
    b.do("%dst.at = alloca ptr")
    b.do("%chosen = alloca i64")
    copy, nest, counters = _Memory(b, "%block"), _Memory(b, "%nest"), _Memory(b, "%index")
    kernel, src_at, dst_at = _Memory(b, "%kernel"), _Memory(b, "%src.at"), _Memory(b, "%dst.at")
    chosen = _Memory(b, "%chosen")
    run, dims, part_dim = (given.get(FIELDS[name]) for name in ("run", "dims", "part_dim"))
    src_at.set(0, given.get(FIELDS["src"], "ptr"), "ptr")
    dst_at.set(0, given.get(FIELDS["dst"], "ptr"), "ptr")
    with b.either(_compare(b, "eq", dims, 0)) as otherwise:
        with _when(b, _compare(b, "eq", "%part", 0)):
            b.put(f"call ptr @memcpy(ptr {dst_at.get(0, 'ptr')}, ptr {src_at.get(0, 'ptr')}, i64 {run})")
        b.do("br label %done")
        b.label("%unreached")
        otherwise()
    with _steps(b, 0, dims) as d:
        for begin in (COUNT, SRC, DST):
            copy.set(b.add(d, begin), given.get(b.add(d, begin)))
        counters.set(d, 0)
    # The part of the dim that threads share.
    shared = _compare(b, "sge", part_dim, 0)
    dim = _select(b, shared, part_dim, 0)
    whole = copy.get(b.add(dim, COUNT))
    begin = b.put(f"udiv i64 {b.mul(whole, '%part')}, %parts")
    end = b.put(f"udiv i64 {b.mul(whole, b.add('%part', 1))}, %parts")
    copy.set(b.add(dim, COUNT), b.sub(end, begin))
    for place, first in ((src_at, SRC), (dst_at, DST)):
        place.set(0, b.at(place.get(0, "ptr"), b.mul(begin, copy.get(b.add(dim, first)))), "ptr")
    b.do(f"br i1 {_compare(b, 'slt', begin, end)}, label %some, label %done")
    b.label("%some")

    # A dim around the innermost that lies together in the source changes places with the one next to it.
    inner, around = b.sub(dims, 1), b.sub(dims, 2)
    chosen.set(0, -1)
    with _steps(b, 0, inner) as d:
        together = _compare(b, "eq", copy.get(b.add(d, SRC)), run)
        chosen.set(0, _select(b, together, d, chosen.get(0)))
    with _when(b, _compare(b, "sge", chosen.get(0), 0)):
        other = chosen.get(0)
        for first in (COUNT, SRC, DST):
            x, y = b.add(other, first), b.add(around, first)
            a, c = copy.get(x), copy.get(y)
            copy.set(x, c)
            copy.set(y, a)
    values = {"run": run}
    for number, (dim, sides) in enumerate((("row", "rows"), ("col", "cols"), ("plane", "planes"))):
        there = _compare(b, "sgt", dims, number)
        place = _select(b, there, b.sub(dims, number + 1), 0)
        values[sides] = _select(b, there, copy.get(b.add(place, COUNT)), 1)
        values[f"{dim}_src"] = _select(b, there, copy.get(b.add(place, SRC)), 0)
        values[f"{dim}_dst"] = _select(b, there, copy.get(b.add(place, DST)), 0)
    volume = b.mul(b.mul(b.mul(values["rows"], values["cols"]), values["planes"]), run)
    out_of_cache = _compare(b, "sgt", volume, machine.l2 // 2)
    near = _compare(b, "sle", values["row_src"], _NEAR)
    in_order = b.put(f"and i1 {out_of_cache}, {near}")
    values["block"] = _select(b, in_order, b.put(f"udiv i64 {LINE}, {run}"), _ROWS)
    ahead = b.put(f"xor i1 {near}, {out_of_cache}")
    ahead = b.put(f"and i1 {ahead}, {out_of_cache}")
    for k, name in enumerate(NEST):
        nest.set(k, values[name])
    kernel.set(0, "@runs", "ptr")
    for width in _WIDTHS:
        with _when(b, _compare(b, "eq", run, width)):
            kernel.set(0, _choice(b, width, values, ahead, machine), "ptr")

    # The dims around the three, counted through from the inside.
    outer = b.max(b.sub(dims, 3), "0")
    function = kernel.get(0, "ptr")
    b.do("br label %next")
    b.label("%next")
    src, dst = src_at.get(0, "ptr"), dst_at.get(0, "ptr")
    b.do(f"call void {function}(ptr {src}, ptr {dst}, i64 0, i64 1, ptr %nest)")
    chosen.set(0, b.sub(outer, 1))
    b.do("br label %carry")
    b.label("%carry")
    d = chosen.get(0)
    b.do(f"br i1 {_compare(b, 'slt', d, 0)}, label %done, label %count")
    b.label("%count")
    i, n = b.add(counters.get(d), 1), copy.get(b.add(d, COUNT))
    full = _compare(b, "eq", i, n)
    counters.set(d, _select(b, full, 0, i))
    for place, first in ((src_at, SRC), (dst_at, DST)):
        stride = copy.get(b.add(d, first))
        back = b.sub(stride, b.mul(n, stride))
        place.set(0, b.at(place.get(0, "ptr"), _select(b, full, back, stride)), "ptr")
    chosen.set(0, b.sub(d, 1))
    b.do(f"br i1 {full}, label %carry, label %next")
    b.label("%done")
    b.do("ret void")
    return _text("void", "run", "ptr %copy, ptr %unused, i64 %part, i64 %parts", b)


def _choice(b: Builder, width: int, nest: dict[str, str], ahead: str, machine: Machine) -> str:
    """The micro-kernel for elements of `width` bytes: the last of these whose conditions hold."""

    def least(**bounds: int) -> list[str]:
        return [_compare(b, "sge", nest[name], bound) for name, bound in bounds.items()]

    found = f"@elements{width}"
    rows_together = _compare(b, "eq", nest["row_dst"], width)
    cols_together = _compare(b, "eq", nest["col_src"], width)
    transposed = b.put(f"and i1 {rows_together}, {cols_together}")
    options: list[tuple[str, list[str]]] = [
        (f"@repeat{width}", [rows_together, _compare(b, "eq", nest["row_src"], 0)])
    ]
    if width < LANE:
        back = _compare(b, "eq", nest["row_src"], -width)
        options.append((f"@reverse{width}", [rows_together, back, *least(rows=machine.vector // width)]))
    for name, rows, cols in _tiles(width, machine):
        options.append((f"@{name}", [transposed, *least(rows=rows, cols=cols)]))
    if width < LANE:
        name, rows, cols = _tiles(width, machine)[-1]
        options.append((f"@{name}ahead", [transposed, ahead, *least(rows=rows, cols=cols)]))
    if width == LANE:
        options.append((f"@lines{width}", [transposed, *least(cols=LINE // width)]))
    else:
        for ways in _WAYS:
            block = _interleave_block(width, ways, machine)
            here = [transposed, _compare(b, "eq", nest["rows"], ways)]
            dense = _compare(b, "eq", nest["col_dst"], ways * width)
            options.append((f"@interleave{width}x{ways}", [*here, dense, *least(cols=block)]))
            here = [transposed, _compare(b, "eq", nest["cols"], ways)]
            dense = _compare(b, "eq", nest["row_src"], ways * width)
            options.append((f"@deinterleave{width}x{ways}", [*here, dense, *least(rows=block)]))
    for name, conditions in options:
        flag = conditions[0]
        for other in conditions[1:]:
            flag = b.put(f"and i1 {flag}, {other}")
        found = _select(b, flag, name, found, "ptr")
    return found


# Micro-kernels -------------------------------------------------------------------------------------------------------


def _symbols() -> tuple[ShapeEnv, dict[str, SymInt]]:
    """The numbers of `NEST` as symbolic sizes."""
    env = ShapeEnv()
    return env, {name: dynamic_extent(env, k, name, _HINT) for k, name in enumerate(NEST)}


def _planned(name: str, width: int, kernel: Kernel, env: ShapeEnv, machine: Machine) -> str:
    names = ("planes", "plane_src", "plane_dst")
    planes = Loop(*(dynamic_extent(env, NEST.index(each), each, _HINT) for each in names))
    plan = Plan(width, 0, 0, (Step((planes,), 0, 0, kernel, parallel=-1),))
    return emit_function(name, plan, machine, "internal", env)


def _tiles(width: int, machine: Machine) -> list[tuple[str, int, int]]:
    """The transposes of elements of `width` bytes: names, rows and columns, those for smaller arrays first."""
    per_lane = LANE // width
    found = [per_lane // 2] if per_lane > 4 else []
    found += [per_lane] if machine.vector == LANE else [per_lane, 4 * per_lane]
    return [(f"tile{width}x{rows}", rows, min(rows, per_lane)) for rows in found if width < LANE]


def _tile(width: int, rows: int, cols: int, sizes: dict[str, SymInt]) -> Tile:
    """A transpose of `rows` and `cols` at a time: down some rows, one line of the source wide."""
    schedule = (
        Blocking("rows", sizes["block"]),
        Blocking("cols", LINE // width),
        Blocking("rows", rows),
        Blocking("cols", cols),
    )
    return Tile(width, Axis(sizes["rows"], sizes["row_src"]), Axis(sizes["cols"], sizes["col_dst"]), schedule)


def _interleave_block(width: int, ways: int, machine: Machine) -> int:
    """Elements of every run that an interleave moves at a time: a register, or part of one."""
    return max(machine.vector // width // (2 if ways > 2 else 1), 1)


def _micro_kernels(width: int, machine: Machine) -> list[str]:
    functions = [_elements(width), _repeat(width)]
    if width == LANE:
        return [*functions, _lines(width)]
    functions.append(_reverse(width, machine))
    for name, rows, cols in _tiles(width, machine):
        env, sizes = _symbols()
        functions.append(_planned(name, width, _tile(width, rows, cols, sizes), env, machine))
    name, rows, cols = _tiles(width, machine)[-1]
    env, sizes = _symbols()
    tile = replace(_tile(width, rows, cols, sizes), prefetch_distance=LINE)
    functions.append(_planned(f"{name}ahead", width, tile, env, machine))
    for ways in _WAYS:
        for inverse, verb in ((False, "interleave"), (True, "deinterleave")):
            env, sizes = _symbols()
            count, stride = (
                (sizes["rows"], sizes["col_dst"]) if inverse else (sizes["cols"], sizes["row_src"])
            )
            block = _interleave_block(width, ways, machine)
            kernel = Interleave(width, ways, count, stride, inverse, block)
            functions.append(_planned(f"{verb}{width}x{ways}", width, kernel, env, machine))
    return functions


def _nest(b: Builder) -> dict[str, str]:
    memory = _Memory(b, "%extents")
    return {name: memory.get(k) for k, name in enumerate(NEST)}


@contextmanager
def _planes(b: Builder, nest: dict[str, str]) -> Generator[tuple[str, str]]:
    """The body for every plane: where it begins in source and destination."""
    with _steps(b, 0, nest["planes"]) as p:
        yield b.at("%src", b.mul(p, nest["plane_src"])), b.at("%dst", b.mul(p, nest["plane_dst"]))


_NEST_ARGUMENTS = "ptr noalias %src, ptr noalias %dst, i64 %part, i64 %parts, ptr noalias %extents"


def _by_row(b: Builder, nest: dict[str, str], block: int) -> Generator[tuple[str, str, str]]:
    """Code for some rows of one column: source, destination, rows."""
    number = b.put(f"udiv i64 {b.add(nest['rows'], block - 1)}, {block}")
    with _planes(b, nest) as (plane, out), _steps(b, 0, number) as k, _steps(b, 0, nest["cols"]) as c:
        first = b.mul(k, block)
        rows = b.min(b.sub(nest["rows"], first), str(block))
        src = b.at(b.at(plane, b.mul(first, nest["row_src"])), b.mul(c, nest["col_src"]))
        dst = b.at(b.at(out, b.mul(first, nest["row_dst"])), b.mul(c, nest["col_dst"]))
        yield src, dst, str(rows)


def _elements(width: int) -> str:
    """One element after the other, some rows of one column and then of the next."""
    b = Builder()
    nest = _nest(b)
    type_ = f"i{8 * width}"
    for src, dst, rows in _by_row(b, nest, _ROWS):
        whole = b.put(f"lshr i64 {rows}, 2")
        with _steps(b, 0, whole) as i:
            first = b.mul(i, 4)
            places = [(b.add(first, k)) for k in range(4)]
            found = [b.load(type_, b.at(src, b.mul(k, nest["row_src"]))) for k in places]
            for k, value in zip(places, found, strict=True):
                b.store(type_, value, b.at(dst, b.mul(k, nest["row_dst"])))
        with _steps(b, b.put(f"and i64 {rows}, -4"), rows) as k:
            value = b.load(type_, b.at(src, b.mul(k, nest["row_src"])))
            b.store(type_, value, b.at(dst, b.mul(k, nest["row_dst"])))
    b.do("ret void")
    return _text("void", f"elements{width}", _NEST_ARGUMENTS, b)


def _vectors(b: Builder, rows: str, size: int) -> Generator[tuple[str, str]]:
    """Code for each of the vectors of `size` elements that make up `rows`, and for each element that is left."""
    with _steps(b, 0, b.put(f"udiv i64 {rows}, {size}")) as i:
        yield "vector", str(b.mul(i, size))
    rest = b.put(f"urem i64 {rows}, {size}")
    with _steps(b, b.sub(rows, rest), rows) as i:
        yield "element", i


def _repeat(width: int) -> str:
    """The same element in every row."""
    b = Builder()
    nest = _nest(b)
    type_, size = f"i{8 * width}", LINE // width
    vector = f"<{size} x {type_}>"
    with _planes(b, nest) as (plane, out), _steps(b, 0, nest["cols"]) as c:
        value = b.load(type_, b.at(plane, b.mul(c, nest["col_src"])))
        dst = b.at(out, b.mul(c, nest["col_dst"]))
        single = b.put(f"insertelement {vector} poison, {type_} {value}, i64 0")
        many = shuffle(b, type_, single, "poison", size, [0] * size)
        for kind, row in _vectors(b, nest["rows"], size):
            at = b.at(dst, b.mul(row, width))
            b.store(*((vector, many) if kind == "vector" else (type_, value)), at)
    b.do("ret void")
    return _text("void", f"repeat{width}", _NEST_ARGUMENTS, b)


def _reverse(width: int, machine: Machine) -> str:
    """Rows that lie together in the source too, in the opposite order."""
    b = Builder()
    nest = _nest(b)
    type_, size = f"i{8 * width}", machine.vector // width
    vector = f"<{size} x {type_}>"
    with _planes(b, nest) as (plane, out), _steps(b, 0, nest["cols"]) as c:
        src = b.at(plane, b.mul(c, nest["col_src"]))
        dst = b.at(out, b.mul(c, nest["col_dst"]))
        for kind, row in _vectors(b, nest["rows"], size):
            to = b.at(dst, b.mul(row, width))
            if kind == "vector":
                last = b.at(src, b.sub("0", b.mul(b.add(row, size - 1), width)))
                value = shuffle(b, type_, b.load(vector, last), "poison", size, list(range(size))[::-1])
                b.store(vector, value, to)
            else:
                b.store(type_, b.load(type_, b.at(src, b.sub("0", b.mul(row, width)))), to)
    b.do("ret void")
    return _text("void", f"reverse{width}", _NEST_ARGUMENTS, b)


def _lines(width: int) -> str:
    """Elements of which a few make a line of the source: the line is read at once, each goes to a column of its own."""
    b = Builder()
    nest = _nest(b)
    type_, ways = f"<{width} x i8>", LINE // width
    number = b.put(f"udiv i64 {b.add(nest['rows'], _ROWS - 1)}, {_ROWS}")
    groups = b.put(f"udiv i64 {b.add(nest['cols'], ways - 1)}, {ways}")
    with _planes(b, nest) as (plane, out), _steps(b, 0, number) as k, _steps(b, 0, groups) as g:
        first = b.mul(k, _ROWS)
        stop = b.min(b.add(first, _ROWS), nest["rows"])
        col = b.min(b.mul(g, ways), b.sub(nest["cols"], ways))
        src = b.at(plane, b.mul(col, width))
        dst = b.at(out, b.mul(col, nest["col_dst"]))
        with _steps(b, str(first), stop) as row:
            here = b.at(src, b.mul(row, nest["row_src"]))
            values = [b.load(type_, here, j * width) for j in range(ways)]
            to = b.at(dst, b.mul(row, width))
            for j, value in enumerate(values):
                b.store(type_, value, b.at(to, b.mul(str(j), nest["col_dst"])))
    b.do("ret void")
    return _text("void", f"lines{width}", _NEST_ARGUMENTS, b)


def _runs() -> str:
    """Runs of bytes: short ones as two vectors that overlap, long ones by the C library."""
    b = Builder()
    nest = _nest(b)
    run = nest["run"]

    def each(sizes: Sequence[int]) -> None:
        """The loops, for runs that are at least as long as the last of `sizes` and at most twice that."""
        if not sizes:
            with (
                _planes(b, nest) as (plane, out),
                _steps(b, 0, nest["cols"]) as c,
                _steps(b, 0, nest["rows"]) as r,
            ):
                src = b.at(b.at(plane, b.mul(c, nest["col_src"])), b.mul(r, nest["row_src"]))
                dst = b.at(b.at(out, b.mul(c, nest["col_dst"])), b.mul(r, nest["row_dst"]))
                b.put(f"call ptr @memcpy(ptr {dst}, ptr {src}, i64 {run})")
            return
        with b.either(_compare(b, "sle", run, 2 * sizes[0])) as otherwise:
            vector = f"<{sizes[0]} x i8>"
            behind = b.sub(run, sizes[0])
            for first, to, rows in _by_row(b, nest, _ROWS):
                with _steps(b, 0, rows) as r:
                    src, dst = b.at(first, b.mul(r, nest["row_src"])), b.at(to, b.mul(r, nest["row_dst"]))
                    values = [b.load(vector, src), b.load(vector, src, behind)]
                    b.store(vector, values[0], dst)
                    b.store(vector, values[1], dst, behind)
            otherwise()
            each(sizes[1:])

    each([2, 4, 8, 16, 32, 64])
    b.do("ret void")
    return _text("void", "runs", _NEST_ARGUMENTS, b)
