"""Micro-kernels of copies whose shape and strides are arguments, and which of them a copy calls.

Each is a function of two pointers and `extents`: the extents and strides of the three innermost dims (`NEST`). For
elements of 1 to 16 bytes there are transposes and interleaves in registers, reversed and repeated elements, and single
ones; for everything else, runs of bytes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from layout_ir.backends.llvm.emission.emit import emit_function
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Numbers, Value, function_text, shuffle
from layout_ir.backends.llvm.machine.machine import LANE, LINE, Machine
from layout_ir.dialects.kernel.plan import Axis, Blocking, Interleave, Kernel, Loop, Plan, Step, Tile
from layout_ir.symbolic.shape_env import ShapeEnv
from layout_ir.symbolic.symint import SymInt, dynamic_extent

NEST = (
    "rows", "row_src", "row_dst", "cols", "col_src", "col_dst", "planes", "plane_src", "plane_dst", "run",
    "block",
)  # fmt: skip
"""The numbers that a micro-kernel is given: extents and strides of the innermost dim (rows) and the two around it."""

WIDTHS = (1, 2, 4, 8, 16)
"""Bytes of the elements that have micro-kernels of their own."""

ROWS = 128
"""Rows that are moved before the next columns are: their lines of the source, and those of the columns, stay in L1."""

_HINT = 4099
"""What sizes are taken for where code is emitted: no multiple of any block, so that the code for a rest is there."""

_WAYS = (2, 3, 4)
"""Runs that are interleaved in registers: real and imaginary parts, colours, colours with opacity."""


def strided_kernels(machine: Machine) -> list[str]:
    """All micro-kernels, as functions of LLVM IR."""
    return [text for width in WIDTHS for text in _micro_kernels(width, machine)] + [_runs()]


def chosen_kernel(b: Builder, width: int, nest: Mapping[str, str], ahead: str, machine: Machine) -> str:
    """The micro-kernel for elements of `width` bytes: the last of these whose conditions hold."""

    def least(**bounds: int) -> list[str]:
        return [b.compare("sge", nest[name], bound) for name, bound in bounds.items()]

    found = f"@elements{width}"
    rows_together = b.compare("eq", nest["row_dst"], width)
    cols_together = b.compare("eq", nest["col_src"], width)
    transposed = b.put(f"and i1 {rows_together}, {cols_together}")
    options: list[tuple[str, list[str]]] = [
        (f"@repeat{width}", [rows_together, b.compare("eq", nest["row_src"], 0)])
    ]
    if width < LANE:
        back = b.compare("eq", nest["row_src"], -width)
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
            here = [transposed, b.compare("eq", nest["rows"], ways)]
            dense = b.compare("eq", nest["col_dst"], ways * width)
            options.append((f"@interleave{width}x{ways}", [*here, dense, *least(cols=block)]))
            here = [transposed, b.compare("eq", nest["cols"], ways)]
            dense = b.compare("eq", nest["row_src"], ways * width)
            options.append((f"@deinterleave{width}x{ways}", [*here, dense, *least(rows=block)]))
    for name, conditions in options:
        flag = conditions[0]
        for other in conditions[1:]:
            flag = b.put(f"and i1 {flag}, {other}")
        found = b.select(flag, name, found, "ptr")
    return found


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
    memory = Numbers(b, "%extents")
    return {name: memory.get(k) for k, name in enumerate(NEST)}


@contextmanager
def _planes(b: Builder, nest: Mapping[str, str]) -> Generator[tuple[str, str]]:
    """The body for every plane: where it begins in source and destination."""
    with b.loop(0, nest["planes"]) as p:
        yield b.at("%src", b.mul(p, nest["plane_src"])), b.at("%dst", b.mul(p, nest["plane_dst"]))


_NEST_ARGUMENTS = "ptr noalias %src, ptr noalias %dst, i64 %part, i64 %parts, ptr noalias %extents"


def _by_row(b: Builder, nest: Mapping[str, str]) -> Generator[tuple[str, str, Value]]:
    """Code for some rows of one column, `ROWS` at most: source, destination, rows."""
    number = b.put(f"udiv i64 {b.add(nest['rows'], ROWS - 1)}, {ROWS}")
    with _planes(b, nest) as (plane, out), b.loop(0, number) as k, b.loop(0, nest["cols"]) as c:
        first = b.mul(k, ROWS)
        rows = b.min(b.sub(nest["rows"], first), ROWS)
        src = b.at(b.at(plane, b.mul(first, nest["row_src"])), b.mul(c, nest["col_src"]))
        dst = b.at(b.at(out, b.mul(first, nest["row_dst"])), b.mul(c, nest["col_dst"]))
        yield src, dst, rows


def _elements(width: int) -> str:
    """One element after the other, some rows of one column and then of the next."""
    b = Builder()
    nest = _nest(b)
    type_ = f"i{8 * width}"
    for src, dst, rows in _by_row(b, nest):
        whole = b.put(f"lshr i64 {rows}, 2")
        with b.loop(0, whole) as i:
            first = b.mul(i, 4)
            places = [(b.add(first, k)) for k in range(4)]
            found = [b.load(type_, b.at(src, b.mul(k, nest["row_src"]))) for k in places]
            for k, value in zip(places, found, strict=True):
                b.store(type_, value, b.at(dst, b.mul(k, nest["row_dst"])))
        with b.loop(b.put(f"and i64 {rows}, -4"), rows) as k:
            value = b.load(type_, b.at(src, b.mul(k, nest["row_src"])))
            b.store(type_, value, b.at(dst, b.mul(k, nest["row_dst"])))
    b.do("ret void")
    return function_text("void", f"elements{width}", _NEST_ARGUMENTS, b)


def _vectors(b: Builder, rows: str, size: int) -> Generator[tuple[str, Value]]:
    """Code for each of the vectors of `size` elements that make up `rows`, and for each element that is left."""
    with b.loop(0, b.put(f"udiv i64 {rows}, {size}")) as i:
        yield "vector", b.mul(i, size)
    rest = b.put(f"urem i64 {rows}, {size}")
    with b.loop(b.sub(rows, rest), rows) as i:
        yield "element", i


def _repeat(width: int) -> str:
    """The same element in every row."""
    b = Builder()
    nest = _nest(b)
    type_, size = f"i{8 * width}", LINE // width
    vector = f"<{size} x {type_}>"
    with _planes(b, nest) as (plane, out), b.loop(0, nest["cols"]) as c:
        value = b.load(type_, b.at(plane, b.mul(c, nest["col_src"])))
        dst = b.at(out, b.mul(c, nest["col_dst"]))
        single = b.put(f"insertelement {vector} poison, {type_} {value}, i64 0")
        many = shuffle(b, type_, single, "poison", size, [0] * size)
        for kind, row in _vectors(b, nest["rows"], size):
            at = b.at(dst, b.mul(row, width))
            b.store(*((vector, many) if kind == "vector" else (type_, value)), at)
    b.do("ret void")
    return function_text("void", f"repeat{width}", _NEST_ARGUMENTS, b)


def _reverse(width: int, machine: Machine) -> str:
    """Rows that lie together in the source too, in the opposite order."""
    b = Builder()
    nest = _nest(b)
    type_, size = f"i{8 * width}", machine.vector // width
    vector = f"<{size} x {type_}>"
    with _planes(b, nest) as (plane, out), b.loop(0, nest["cols"]) as c:
        src = b.at(plane, b.mul(c, nest["col_src"]))
        dst = b.at(out, b.mul(c, nest["col_dst"]))
        for kind, row in _vectors(b, nest["rows"], size):
            to = b.at(dst, b.mul(row, width))
            if kind == "vector":
                last = b.at(src, b.sub(0, b.mul(b.add(row, size - 1), width)))
                value = shuffle(b, type_, b.load(vector, last), "poison", size, list(range(size))[::-1])
                b.store(vector, value, to)
            else:
                b.store(type_, b.load(type_, b.at(src, b.sub(0, b.mul(row, width)))), to)
    b.do("ret void")
    return function_text("void", f"reverse{width}", _NEST_ARGUMENTS, b)


def _lines(width: int) -> str:
    """Elements of which a few make a line of the source: the line is read at once, each goes to a column of its own."""
    b = Builder()
    nest = _nest(b)
    type_, ways = f"<{width} x i8>", LINE // width
    number = b.put(f"udiv i64 {b.add(nest['rows'], ROWS - 1)}, {ROWS}")
    groups = b.put(f"udiv i64 {b.add(nest['cols'], ways - 1)}, {ways}")
    with _planes(b, nest) as (plane, out), b.loop(0, number) as k, b.loop(0, groups) as g:
        first = b.mul(k, ROWS)
        stop = b.min(b.add(first, ROWS), nest["rows"])
        col = b.min(b.mul(g, ways), b.sub(nest["cols"], ways))
        src = b.at(plane, b.mul(col, width))
        dst = b.at(out, b.mul(col, nest["col_dst"]))
        with b.loop(first, stop) as row:
            here = b.at(src, b.mul(row, nest["row_src"]))
            values = [b.load(type_, here, j * width) for j in range(ways)]
            to = b.at(dst, b.mul(row, width))
            for j, value in enumerate(values):
                b.store(type_, value, b.at(to, b.mul(j, nest["col_dst"])))
    b.do("ret void")
    return function_text("void", f"lines{width}", _NEST_ARGUMENTS, b)


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
                b.loop(0, nest["cols"]) as c,
                b.loop(0, nest["rows"]) as r,
            ):
                src = b.at(b.at(plane, b.mul(c, nest["col_src"])), b.mul(r, nest["row_src"]))
                dst = b.at(b.at(out, b.mul(c, nest["col_dst"])), b.mul(r, nest["row_dst"]))
                b.put(f"call ptr @memcpy(ptr {dst}, ptr {src}, i64 {run})")
            return
        with b.either(b.compare("sle", run, 2 * sizes[0])) as otherwise:
            vector = f"<{sizes[0]} x i8>"
            behind = b.sub(run, sizes[0])
            for first, to, rows in _by_row(b, nest):
                with b.loop(0, rows) as r:
                    src, dst = b.at(first, b.mul(r, nest["row_src"])), b.at(to, b.mul(r, nest["row_dst"]))
                    values = [b.load(vector, src), b.load(vector, src, behind)]
                    b.store(vector, values[0], dst)
                    b.store(vector, values[1], dst, behind)
            otherwise()
            each(sizes[1:])

    each([2, 4, 8, 16, 32, 64])
    b.do("ret void")
    return function_text("void", "runs", _NEST_ARGUMENTS, b)
