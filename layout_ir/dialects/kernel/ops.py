"""Plans of compiled reorders as IR: loops with constant strides around micro-kernels, every choice an attribute.

    kernel.plan @reorder_0 width 4 src 802816 dst 802816 cpu "haswell" {
      kernel.step src 0 dst 0 {
        kernel.for 2 src 401408 dst 401408 split {
          kernel.tile 4 rows 64 by 6272 cols 1568 by 256 cuts <cols:16, rows:4, cols:4>
        }
      }
    }
    %y = kernel.call @reorder_0 %x : T -> U

Strides, offsets and runs count bytes; `src` and `dst` of the plan are the least sizes of the two buffers. The steps of
a plan have no order. `split` marks the loop that threads share (on a micro-kernel: its outermost loop), `ahead` the one
that asks for the source of its next round. What an op reads and writes is stated by its `reads` and `writes`, which
`bounds` checks against the buffers.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    I64,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.traits import IsolatedFromAbove, NoTerminator, Pure, SymbolOpInterface, SymbolTable
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.kernel import bounds
from layout_ir.dialects.kernel.bounds import Access, Accesses, Buffers, Places, Range
from layout_ir.dialects.kernel.attributes import CutsAttr, LevelsAttr, OffsetsAttr
from layout_ir.dialects.layout import nbytes_of
from layout_ir.errors import LayoutError

Int = IntegerAttr[I64]


def number(value: Int | None) -> int:
    """The integer of a property, 0 where it is absent."""
    return 0 if value is None else value.value.data


def ops_in(region: Region) -> tuple[Operation, ...]:
    """The ops of a region of at most one block. Raises VerifyException where there are more."""
    if len(region.blocks) > 1:
        raise VerifyException(f"a body has one block, not {len(region.blocks)}")
    return tuple(op for block in region.blocks for op in block.ops)


def steps_in(region: Region) -> "tuple[StepOp, ...]":
    """The steps of a plan or a stage. Raises VerifyException where there is anything else."""
    steps: list[StepOp] = []
    for op in ops_in(region):
        if not isinstance(op, StepOp):
            raise VerifyException(f"a plan is made of kernel.step, not {op.name}")
        steps.append(op)
    return tuple(steps)


def element_width(op: Operation) -> int:
    """Bytes of the elements of the plan that `op` is in. Raises VerifyException where it is in none."""
    outer = op.parent_op()
    while outer is not None and not isinstance(outer, PlanOp):
        outer = outer.parent_op()
    if outer is None:
        raise VerifyException(f"{op.name} belongs into a kernel.plan")
    return number(outer.width)


# Structure -----------------------------------------------------------------------------------------------------------


@irdl_op_definition
class PlanOp(Buffers, IRDLOperation):
    """A reorder of elements of `width` bytes; `cpu` names the machine it was made for (absent: the host)."""

    name = "kernel.plan"
    sym_name = prop_def(SymbolNameConstraint())
    width = prop_def(Int)
    src = prop_def(Int)
    dst = prop_def(Int)
    cpu = opt_prop_def(StringAttr)
    body = region_def()
    traits = traits_def(NoTerminator(), SymbolOpInterface(), IsolatedFromAbove())
    assembly_format = "$sym_name `width` $width `src` $src `dst` $dst (`cpu` $cpu^)? $body attr-dict"

    @property
    def sizes(self) -> tuple[int | None, int]:
        return number(self.src), number(self.dst)

    def verify_(self) -> None:
        if number(self.width) not in (1, 2, 4, 8):
            raise VerifyException(f"elements have 1, 2, 4 or 8 bytes, not {number(self.width)}")
        bounds.check_filled(steps_in(self.body), number(self.dst), whole=False)


@irdl_op_definition
class StepOp(Places, IRDLOperation):
    """Loops around one micro-kernel, from `src` and `dst` bytes on."""

    name = "kernel.step"
    src = prop_def(Int)
    dst = prop_def(Int)
    body = region_def()
    traits = traits_def(NoTerminator())
    assembly_format = "`src` $src `dst` $dst $body attr-dict"

    def verify_(self) -> None:
        chain = self.chain()
        splits = sum("split" in op.properties for op in chain)
        if splits > (isinstance(self.parent_op(), PlanOp)):
            raise VerifyException("at most one loop of a step is shared by threads, and none inside a stage")
        if sum("ahead" in op.properties for op in chain) > 1:
            raise VerifyException("at most one loop of a step asks ahead")
        bounds.check_places(self, element_width(self))

    @property
    def rounds(self) -> int:
        return 1

    @property
    def reach(self) -> tuple[Range, Range]:
        src, dst = self.strides
        return (src, src), (dst, dst)

    @property
    def strides(self) -> tuple[int, ...]:
        return number(self.src), number(self.dst)

    def chain(self) -> tuple[Operation, ...]:
        """The loops, outermost first, and the micro-kernel. Raises VerifyException where it is no such nest."""
        result: list[Operation] = []
        op: Operation = self
        while isinstance(op, StepOp | LoopOp):
            inner = ops_in(op.body)
            if len(inner) != 1 or not isinstance(inner[0], LoopOp | KernelOp):
                names = ", ".join(x.name for x in inner) or "nothing"
                raise VerifyException(f"{op.name} holds one loop or one micro-kernel, not {names}")
            op = inner[0]
            result.append(op)
        return tuple(result)


class LoopOp(Places, IRDLOperation):
    """A loop that is no part of a micro-kernel."""

    body = region_def()
    traits = traits_def(NoTerminator())

    def verify_(self) -> None:
        self.check()
        bounds.check_places(self, element_width(self))

    @abstractmethod
    def check(self) -> None:
        """Raises VerifyException where the loop's own numbers do not fit together."""


@irdl_op_definition
class ForOp(LoopOp):
    """`count` rounds, `src` and `dst` bytes apart."""

    name = "kernel.for"
    count = prop_def(Int)
    src = prop_def(Int)
    dst = prop_def(Int)
    split = opt_prop_def(UnitAttr)
    ahead = opt_prop_def(UnitAttr)
    assembly_format = (
        "$count `src` $src `dst` $dst (`split` $split^)? (`ahead` $ahead^)? $body attr-dict"
    )

    def check(self) -> None:
        bounds.positive(count=self.rounds)

    @property
    def rounds(self) -> int:
        return number(self.count)

    @property
    def reach(self) -> tuple[Range, Range]:
        return bounds.linear(self.rounds, number(self.src)), bounds.linear(self.rounds, number(self.dst))

    @property
    def strides(self) -> tuple[int, ...]:
        return number(self.src), number(self.dst)

    @property
    def gap(self) -> int | None:
        return abs(number(self.dst)) if self.rounds > 1 else None


@irdl_op_definition
class TableOp(LoopOp):
    """A round per pair of offsets."""

    name = "kernel.table"
    offsets = prop_def(OffsetsAttr)
    split = opt_prop_def(UnitAttr)
    assembly_format = "$offsets (`split` $split^)? $body attr-dict"

    def check(self) -> None:
        bounds.positive(rounds=self.rounds)

    @property
    def rounds(self) -> int:
        return len(self.offsets.data)

    @property
    def reach(self) -> tuple[Range, Range]:
        src, dst = zip(*self.offsets.data, strict=True)
        return (min(src), max(src)), (min(dst), max(dst))

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(x for pair in self.offsets.data for x in pair)

    @property
    def gap(self) -> int | None:
        places = sorted(dst for _, dst in self.offsets.data)
        return min((b - a for a, b in zip(places, places[1:], strict=False)), default=None)


@irdl_op_definition
class RaggedOp(LoopOp):
    """Positions [start, stop) of one dim whose digits are `levels`: inner bounds depend on the outer loops."""

    name = "kernel.ragged"
    start = prop_def(Int)
    stop = prop_def(Int)
    levels = prop_def(LevelsAttr)
    assembly_format = "$start `to` $stop $levels $body attr-dict"

    def check(self) -> None:
        bounds.positive(positions=self.rounds, start=number(self.start) + 1)
        bounds.check_levels(self.levels.data, number(self.stop))

    @property
    def rounds(self) -> int:
        return number(self.stop) - number(self.start)

    @property
    def reach(self) -> tuple[Range, Range]:
        start, stop = number(self.start), number(self.stop)
        return (
            bounds.ragged(self.levels.data, start, stop, 0),
            bounds.ragged(self.levels.data, start, stop, 1),
        )

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(stride for digit in self.levels.data for stride in digit.strides)


# Micro-kernels -------------------------------------------------------------------------------------------------------


class KernelOp(Accesses, IRDLOperation):
    """What a nest does in its innermost round."""

    streaming = opt_prop_def(UnitAttr)
    split = opt_prop_def(UnitAttr)

    FLAGS: ClassVar[str] = "(`streaming` $streaming^)? (`split` $split^)? attr-dict"
    INNER: ClassVar[str] = "`for` $count `src` $inner_src `dst` $inner_dst"

    def verify_(self) -> None:
        self.check()
        bounds.check_access(self, element_width(self))

    def check(self) -> None:
        """Raises VerifyException where the op's own numbers do not fit together."""


class RunOp(KernelOp):
    """`run` bytes that lie together, in each round of an inner loop if there is one."""

    run = prop_def(Int)
    count = opt_prop_def(Int)
    inner_src = opt_prop_def(Int)
    inner_dst = opt_prop_def(Int)

    def check(self) -> None:
        given = [x is not None for x in (self.count, self.inner_src, self.inner_dst)]
        if any(given) and not all(given):
            raise VerifyException("an inner loop has a count, a source and a destination stride")
        bounds.positive(run=number(self.run), count=1 if self.count is None else number(self.count))

    def _access(self, stride: Int | None) -> Access:
        loops = () if self.count is None else ((number(self.count), number(stride)),)
        return Access(number(self.run), loops)

    @property
    def writes(self) -> Access:
        return self._access(self.inner_dst)


@irdl_op_definition
class CopyOp(RunOp):
    """Runs that lie together on both sides."""

    name = "kernel.copy"
    assembly_format = f"$run (`for` $count^ `src` $inner_src `dst` $inner_dst)? {KernelOp.FLAGS}"

    @property
    def reads(self) -> Access | None:
        return self._access(self.inner_src)


@irdl_op_definition
class FillOp(RunOp):
    """Runs get the pad value `value`, the bits of an element of `width` bytes."""

    name = "kernel.fill"
    value = prop_def(Int)
    width = prop_def(Int)
    assembly_format = (
        "$run `with` $value `width` $width "
        f"(`for` $count^ `src` $inner_src `dst` $inner_dst)? {KernelOp.FLAGS}"
    )

    @property
    def reads(self) -> Access | None:
        return None

    @property
    def element(self) -> int | None:
        return number(self.width)


@irdl_op_definition
class ElementsOp(KernelOp):
    """Single elements of `width` bytes, one after the other."""

    name = "kernel.elements"
    width = prop_def(Int)
    count = prop_def(Int)
    inner_src = prop_def(Int)
    inner_dst = prop_def(Int)
    assembly_format = f"$width {KernelOp.INNER} {KernelOp.FLAGS}"

    def check(self) -> None:
        bounds.positive(width=number(self.width), count=number(self.count))

    @property
    def reads(self) -> Access | None:
        return Access(number(self.width), ((number(self.count), number(self.inner_src)),))

    @property
    def writes(self) -> Access:
        return Access(number(self.width), ((number(self.count), number(self.inner_dst)),))

    @property
    def element(self) -> int | None:
        return number(self.width)


@irdl_op_definition
class TileOp(KernelOp):
    """Transposes in registers: `rows` lie together in the destination, `cols` in the source.

    From row `valid` on, if given, the source has none: those rows are pads that get the bits `pad`. `whole`: rows are
    loaded as whole registers.
    """

    name = "kernel.tile"
    width = prop_def(Int)
    rows = prop_def(Int)
    row_stride = prop_def(Int)
    cols = prop_def(Int)
    col_stride = prop_def(Int)
    cuts = prop_def(CutsAttr)
    valid = opt_prop_def(Int)
    pad = opt_prop_def(Int)
    whole = opt_prop_def(UnitAttr)
    assembly_format = (
        "$width `rows` $rows `by` $row_stride `cols` $cols `by` $col_stride `cuts` $cuts "
        f"(`valid` $valid^ `pad` $pad)? (`whole` $whole^)? {KernelOp.FLAGS}"
    )

    def check(self) -> None:
        rows, cols = number(self.rows), number(self.cols)
        bounds.positive(width=number(self.width), rows=rows, cols=cols)
        if (self.valid is None) != (self.pad is None):
            raise VerifyException("rows that are pads need both 'valid' and 'pad'")
        if not 0 <= number(self.valid) < rows:
            raise VerifyException(f"{number(self.valid)} rows are valid of {rows}")
        for axis, count in (("rows", rows), ("cols", cols)):
            sizes = [size for name, size in self.cuts.data if name == axis]
            if not sizes or not 0 < sizes[-1] <= count:
                shown = sizes[-1] if sizes else "no"
                raise VerifyException(f"the last cut of {axis} is the tile, of 1 to {count}, not {shown}")

    @property
    def reads(self) -> Access | None:
        rows = number(self.valid) or number(self.rows)
        return Access(number(self.cols) * number(self.width), ((rows, number(self.row_stride)),))

    @property
    def writes(self) -> Access:
        run = number(self.rows) * number(self.width)
        return Access(run, ((number(self.cols), number(self.col_stride)),))

    @property
    def element(self) -> int | None:
        return number(self.width)


@irdl_op_definition
class WeaveOp(KernelOp):
    """`strands` runs of `count` elements, `stride` bytes apart, woven into one; with `splits` the other way round."""

    name = "kernel.weave"
    width = prop_def(Int)
    strands = prop_def(Int)
    count = prop_def(Int)
    stride = prop_def(Int)
    block = prop_def(Int)
    splits = opt_prop_def(UnitAttr)
    assembly_format = (
        "$width `strands` $strands `of` $count `by` $stride `block` $block (`splits` $splits^)? "
        f"{KernelOp.FLAGS}"
    )

    def check(self) -> None:
        count, block = number(self.count), number(self.block)
        bounds.positive(width=number(self.width), strands=number(self.strands), count=count)
        if not 0 < block <= count:
            raise VerifyException(f"a block of {block} elements does not fit strands of {count}")

    @property
    def _strands(self) -> Access:
        run = number(self.count) * number(self.width)
        return Access(run, ((number(self.strands), number(self.stride)),))

    @property
    def _woven(self) -> Access:
        return Access(number(self.strands) * number(self.count) * number(self.width))

    @property
    def reads(self) -> Access | None:
        return self._strands if self.splits is None else self._woven

    @property
    def writes(self) -> Access:
        return self._woven if self.splits is None else self._strands

    @property
    def element(self) -> int | None:
        return number(self.width)


@irdl_op_definition
class StagedOp(Buffers, KernelOp):
    """Steps that write `size` bytes, all of them, into a small buffer, which then goes to the destination."""

    name = "kernel.staged"
    size = prop_def(Int)
    body = region_def()
    traits = traits_def(NoTerminator())
    assembly_format = "$size (`streaming` $streaming^)? (`split` $split^)? $body attr-dict"

    def check(self) -> None:
        bounds.positive(size=number(self.size))
        bounds.check_filled(steps_in(self.body), number(self.size), whole=True)

    @property
    def sizes(self) -> tuple[int | None, int]:
        return None, number(self.size)

    @property
    def reads(self) -> Access | None:
        return None

    @property
    def writes(self) -> Access:
        return Access(number(self.size))


# Use -----------------------------------------------------------------------------------------------------------------


@irdl_op_definition
class CallOp(IRDLOperation):
    """The result is the operand, moved as a plan says."""

    name = "kernel.call"
    callee = prop_def(FlatSymbolRefAttrConstr)
    input = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$callee $input attr-dict `:` type($input) `->` type($result)"

    def __init__(self, callee: str, input: SSAValue | Operation, result: Attribute):
        super().__init__(
            operands=[input],
            result_types=[result],
            properties={"callee": SymbolRefAttr(callee)},
        )

    def verify_(self) -> None:
        plan = SymbolTable.lookup_symbol(self, self.callee)  # pyright: ignore
        if not isinstance(plan, PlanOp):
            raise VerifyException(f"{self.callee} is no kernel.plan")
        sides: Sequence[tuple[str, Attribute, Int]] = (
            ("operand", self.input.type, plan.src),
            ("result", self.result.type, plan.dst),
        )
        for side, type, size in sides:
            try:
                held = nbytes_of(type)
            except LayoutError as error:
                raise VerifyException(str(error)) from error
            if held < number(size):
                raise VerifyException(f"the {side} has {held} bytes, {self.callee} needs {number(size)}")
