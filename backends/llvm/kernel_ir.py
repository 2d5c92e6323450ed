"""A plan as IR of the `kernel` dialect, and back: `plan_of(plan_op(plan, name)) == plan`."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region

from layout_ir.dialects.kernel import ops as ir
from layout_ir.dialects.kernel.ops import number
from layout_ir.dialects.kernel.plan import (
    ONCE,
    AnyLoop,
    Axis,
    Blocking,
    Copy,
    Elements,
    Fill,
    Interleave,
    Kernel,
    Level,
    Loop,
    PaddedCopy,
    Plan,
    Staged,
    Step,
    TableLoop,
    Tile,
    VariableBoundLoops,
)
from layout_ir.dialects.kernel.structure import element_width
from layout_ir.errors import LayoutError
from layout_ir.symbolic.symint import Size

Properties = dict[str, Attribute]


# Plan to IR ----------------------------------------------------------------------------------------------------------


def plan_op(plan: Plan, name: str, cpu: str | None = None) -> ir.PlanOp:
    """The op that says `plan`, for the machine named `cpu`. Raises LayoutError for loops that carry pads."""
    properties = {
        "sym_name": StringAttr(name),
        **_ints(width=plan.width, src=plan.src_bytes, dst=plan.dst_bytes),
    }
    if plan.conversion is not None:
        properties["convert"] = ir.ConversionAttr(plan.conversion)
    if cpu is not None:
        properties["cpu"] = StringAttr(cpu)
    return ir.PlanOp(
        properties=properties,
        regions=[_region(_step_op(step, converts=plan.conversion is not None) for step in plan.steps)],
    )


def _ints(**numbers: Size) -> Properties:
    return {name: IntegerAttr(index(value), i64) for name, value in numbers.items()}


def some(**numbers: Size) -> Properties:
    """The numbers that are not 0."""
    return _ints(**{name: value for name, value in numbers.items() if value})


def _flags(**flags: bool) -> Properties:
    return {name: UnitAttr() for name, flag in flags.items() if flag}


def _region(ops: Iterable[Operation]) -> Region:
    listed = list(ops)
    return Region(Block(listed)) if listed else Region()


def _step_op(step: Step, *, converts: bool = False) -> Operation:
    inner = _kernel_op(step.kernel, split=step.parallel == len(step.loops), converts=converts)
    for depth, item in reversed(list(enumerate(step.loops))):
        inner = _loop_op(item, inner, split=depth == step.parallel, ahead=depth == step.prefetch)
    properties = {**_ints(src=step.src, dst=step.dst), **some(channel=step.channel)}
    return ir.StepOp(properties=properties, regions=[_region([inner])])


def _loop_op(item: AnyLoop, inner: Operation, *, split: bool, ahead: bool) -> Operation:
    body = [_region([inner])]
    if isinstance(item, Loop):
        flags = _flags(split=split, ahead=ahead)
        return ir.ForOp(properties={**_loop(item), **flags}, regions=body)
    if (split and isinstance(item, VariableBoundLoops)) or ahead:
        raise LayoutError(
            f"'{item}' cannot be shared by threads or ask ahead: only loops with constant bounds can"
        )
    if isinstance(item, TableLoop):
        offsets = ir.OffsetsAttr(_pairs(item))
        channel = some(channel=item.channel)
        return ir.TableOp(properties={"offsets": offsets, **channel, **_flags(split=split)}, regions=body)
    levels = ir.LevelsAttr(tuple(map(_digit, item.levels)))
    return ir.RaggedOp(properties={**_ints(start=item.start, stop=item.stop), "levels": levels}, regions=body)


def _loop(loop: Loop) -> Properties:
    if loop.valid:
        raise LayoutError(f"'{loop}' carries pads: only the rows of a tile do")
    return {**_ints(count=loop.count, src=loop.src, dst=loop.dst), **some(channel=loop.channel)}


def _inner(loop: Loop) -> Properties:
    return {name if name == "count" else f"inner_{name}": value for name, value in _loop(loop).items()}


def _pairs(table: TableLoop) -> tuple[tuple[int, int], ...]:
    return tuple(zip(map(index, table.src), map(index, table.dst), strict=True))


def _digit(level: Level) -> ir.Digit:
    move = level.loop
    if isinstance(move, TableLoop):
        return ir.Digit(level.unit, _pairs(move), index(move.channel))
    return ir.Digit(
        level.unit, ir.Steady(index(move.count), index(move.src), index(move.dst)), index(move.channel)
    )


def _kernel_op(kernel: Kernel, *, split: bool, converts: bool) -> Operation:
    flags = _flags(streaming=kernel.streaming, split=split)
    if isinstance(kernel, Staged):
        body = _region(map(_step_op, kernel.steps))
        runs = (
            _ints(runs=kernel.rows, stride=kernel.dst_stride, pitch=kernel.row_stride)
            if kernel.row_stride
            else {}
        )
        runs |= _ints(along=kernel.iterations, step=kernel.src_stride) if kernel.iterations > 1 else {}
        return ir.StagedOp(properties={**_ints(size=kernel.size), **runs, **flags}, regions=[body])
    if isinstance(kernel, Tile) and not converts:
        return ir.TileOp(properties={**_tile(kernel), **flags})
    if isinstance(kernel, Interleave) and not converts:
        numbers = _ints(
            width=kernel.width,
            strands=kernel.ways,
            count=kernel.count,
            stride=kernel.stride,
            block=kernel.block,
        )
        return ir.WeaveOp(properties={**numbers, **_flags(splits=kernel.inverse), **flags})
    if isinstance(kernel, Elements):
        return ir.ElementsOp(properties={**_ints(width=kernel.width), **_inner(kernel.inner), **flags})
    if isinstance(kernel, PaddedCopy):
        inner = {} if kernel.inner == ONCE else _inner(kernel.inner)
        numbers = _ints(run=kernel.run, valid=kernel.valid, value=kernel.value, width=kernel.width)
        return ir.PaddedOp(properties={**numbers, **inner, **flags})
    if isinstance(kernel, Tile):
        cuts = ir.CutsAttr(tuple((cut.axis, index(cut.size)) for cut in kernel.schedule))
        rows, cols = kernel.rows, kernel.cols
        numbers = _ints(rows=rows.count, row_stride=rows.stride, cols=cols.count, col_stride=cols.stride)
        optional = some(row_channel=rows.channel, col_channel=cols.channel, reach=kernel.prefetch_distance)
        return ir.ConvertTileOp(properties={**numbers, **optional, "cuts": cuts, **flags})
    if isinstance(kernel, Interleave):
        numbers = _ints(strands=kernel.ways, count=kernel.count, stride=kernel.stride, block=kernel.block)
        numbers |= some(channel=kernel.channel)
        return ir.ConvertWeaveOp(properties={**numbers, **_flags(splits=kernel.inverse), **flags})
    inner = {} if kernel.inner == ONCE else _inner(kernel.inner)
    if isinstance(kernel, Copy) and converts:
        numbers = {**_ints(run=kernel.run), **some(channel=kernel.channel)}
        return ir.ConvertOp(properties={**numbers, **inner, **flags})
    properties = {**_ints(run=kernel.run), **inner, **flags}
    if isinstance(kernel, Copy):
        return ir.CopyOp(properties=properties)
    return ir.FillOp(properties={**properties, **_ints(value=kernel.value, width=kernel.width)})


def _tile(tile: Tile) -> Properties:
    cuts = ir.CutsAttr(tuple((cut.axis, index(cut.size)) for cut in tile.schedule))
    pads = _ints(valid=tile.valid, pad=tile.pad) if tile.valid or tile.pad else {}
    numbers = _ints(
        width=tile.width,
        rows=tile.rows.count,
        row_stride=tile.rows.stride,
        cols=tile.cols.count,
        col_stride=tile.cols.stride,
    )
    fold = _ints(fold=tile.cols.fold, col_far=tile.cols.outer_stride) if tile.cols.fold else {}
    reach = _ints(reach=tile.prefetch_distance) if tile.prefetch_distance else {}
    return {**numbers, **fold, "cuts": cuts, **pads, **_flags(whole=tile.square), **reach}


# IR to plan ----------------------------------------------------------------------------------------------------------


def plan_of(op: ir.PlanOp) -> Plan:
    """The plan that a verified op says."""
    steps = tuple(map(_step, ir.steps_in(op.body)))
    conversion = None if op.convert is None else op.convert.data
    return Plan(number(op.width), number(op.src), number(op.dst), steps, conversion)


def _step(op: ir.StepOp) -> Step:
    *loops, kernel = chain = op.chain()
    split = next((depth for depth, inner in enumerate(chain) if "split" in inner.properties), -1)
    ahead = next((depth for depth, inner in enumerate(chain) if "ahead" in inner.properties), None)
    return Step(
        tuple(map(_item, loops)),
        number(op.src),
        number(op.dst),
        _kernel(kernel),
        split,
        ahead,
        number(op.channel),
    )


def _item(op: Operation) -> AnyLoop:
    if isinstance(op, ir.ForOp):
        return Loop(number(op.count), number(op.src), number(op.dst), channel=number(op.channel))
    if isinstance(op, ir.TableOp):
        return _table(op.offsets.data, number(op.channel))
    assert isinstance(op, ir.RaggedOp)
    return VariableBoundLoops(tuple(map(_level, op.levels.data)), number(op.start), number(op.stop))


def _table(pairs: tuple[tuple[int, int], ...], channel: int) -> TableLoop:
    return TableLoop(tuple(src for src, _ in pairs), tuple(dst for _, dst in pairs), channel)


def _level(digit: ir.Digit) -> Level:
    move = digit.move
    if isinstance(move, ir.Steady):
        return Level(digit.unit, Loop(move.count, move.src, move.dst, channel=digit.channel))
    return Level(digit.unit, _table(move, digit.channel))


def _kernel(op: Operation) -> Kernel:
    assert isinstance(op, ir.KernelOp)
    streaming = op.streaming is not None
    if isinstance(op, ir.StagedOp):
        steps = tuple(map(_step, ir.steps_in(op.body)))
        if op.runs is None:
            return Staged(number(op.size), steps, streaming)
        runs, along = (number(op.runs), number(op.stride), number(op.pitch)), number(op.along) or 1
        return Staged(number(op.size), steps, streaming, *runs, along, number(op.step))
    if isinstance(op, ir.TileOp):
        return Tile(
            number(op.width),
            Axis(number(op.rows), number(op.row_stride)),
            Axis(number(op.cols), number(op.col_stride), number(op.fold), number(op.col_far)),
            tuple(Blocking(axis, size) for axis, size in op.cuts.data),
            streaming,
            number(op.valid),
            _bits(number(op.pad), number(op.width)),
            op.whole is not None,
            number(op.reach),
        )
    if isinstance(op, ir.WeaveOp):
        strands, count, stride, block = map(number, (op.strands, op.count, op.stride, op.block))
        return Interleave(number(op.width), strands, count, stride, op.splits is not None, block, streaming)
    if isinstance(op, ir.ConvertTileOp):
        rows = Axis(number(op.rows), number(op.row_stride), channel=number(op.row_channel))
        cols = Axis(number(op.cols), number(op.col_stride), channel=number(op.col_channel))
        cuts = tuple(Blocking(axis, size) for axis, size in op.cuts.data)
        return Tile(element_width(op), rows, cols, cuts, streaming, prefetch_distance=number(op.reach))
    if isinstance(op, ir.ConvertWeaveOp):
        strands, count, stride, block = map(number, (op.strands, op.count, op.stride, op.block))
        inverse, channel = op.splits is not None, number(op.channel)
        return Interleave(element_width(op), strands, count, stride, inverse, block, streaming, channel)
    if isinstance(op, ir.ConvertOp):
        inner = ONCE
        if op.count is not None:
            numbers = map(number, (op.count, op.inner_src, op.inner_dst))
            inner = Loop(*numbers, channel=number(op.inner_channel))
        return Copy(number(op.run), inner, streaming, number(op.channel))
    assert isinstance(op, ir.CopyOp | ir.FillOp | ir.PaddedOp | ir.ElementsOp)
    inner = ONCE if op.count is None else Loop(*map(number, (op.count, op.inner_src, op.inner_dst)))
    if isinstance(op, ir.ElementsOp):
        return Elements(number(op.width), inner, streaming)
    if isinstance(op, ir.CopyOp):
        return Copy(number(op.run), inner, streaming)
    width = number(op.width)
    if isinstance(op, ir.PaddedOp):
        value = _bits(number(op.value), width)
        return PaddedCopy(width, value, number(op.valid), number(op.run), inner, streaming)
    return Fill(width, _bits(number(op.value), width), number(op.run), inner, streaming)


def _bits(value: int, width: int) -> int:
    """Bits of a pad: attributes hold those of 8 bytes as signed numbers."""
    return value % (1 << 8 * width)
