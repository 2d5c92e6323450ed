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
`bounds` checks against the buffers; the micro-kernels are in `micro`.
"""

from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise

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
from layout_ir.dialects.kernel.attributes import ConversionAttr, LevelsAttr, OffsetsAttr
from layout_ir.dialects.kernel.bounds import Accesses, Buffers, Places, Range
from layout_ir.dialects.kernel.open import OpenOp
from layout_ir.dialects.layout import dtype_of, format_of, nbytes_of
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.elements.element_types import bits_of
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
    """Bytes of the elements of the plan that `op` is in. Raises VerifyException where it is in none, or has none."""
    width = number(plan_around(op).width)
    bounds.check_width(width)
    return width


def plan_around(op: Operation) -> "PlanOp":
    """The plan that `op` is in. Raises VerifyException where it is in none."""
    outer = op.parent_op()
    while outer is not None and not isinstance(outer, PlanOp):
        outer = outer.parent_op()
    if outer is None:
        raise VerifyException(f"{op.name} belongs into a kernel.plan")
    return outer


# Structure -----------------------------------------------------------------------------------------------------------


@irdl_op_definition
class PlanOp(Buffers, IRDLOperation):
    """A reorder of elements of `width` bytes; `cpu` names the machine it was made for (absent: the host).

    With `convert` elements change their type, and `width` is that of the narrower ones. On a side whose elements have
    4 bits offsets, strides and runs count half bytes, and `width` is 1.
    """

    name = "kernel.plan"
    sym_name = prop_def(SymbolNameConstraint())
    width = prop_def(Int)
    src = prop_def(Int)
    dst = prop_def(Int)
    convert = opt_prop_def(ConversionAttr)
    cpu = opt_prop_def(StringAttr)
    body = region_def()
    traits = traits_def(NoTerminator(), SymbolOpInterface(), IsolatedFromAbove())
    assembly_format = (
        "$sym_name `width` $width `src` $src `dst` $dst (`convert` $convert^)? (`cpu` $cpu^)? $body attr-dict"
    )

    @property
    def sizes(self) -> tuple[int | None, int]:
        src, dst = (2 if packed else 1 for packed in self.packed)
        return src * number(self.src), dst * number(self.dst)

    @property
    def packed(self) -> tuple[bool, bool]:
        """Whether two elements share a byte, in the source and in the destination."""
        if self.convert is None:
            return False, False
        return bits_of(self.convert.data.src) < 8, bits_of(self.convert.data.dst) < 8

    @property
    def widths(self) -> tuple[int, int]:
        """How far apart neighbours are in source and destination."""
        if self.convert is None:
            return number(self.width), number(self.width)
        return max(bits_of(self.convert.data.src) // 8, 1), max(bits_of(self.convert.data.dst) // 8, 1)

    def verify_(self) -> None:
        bounds.check_width(number(self.width))
        if min(number(self.src), number(self.dst)) < 0:
            raise VerifyException(
                f"buffers of {number(self.src)} and {number(self.dst)} bytes: 0 is the least"
            )
        if self.convert is not None and number(self.width) != min(self.widths):
            raise VerifyException(
                f"elements of {self.convert.data} need width {min(self.widths)}, not {number(self.width)}"
            )
        bounds.check_filled(steps_in(self.body), self.sizes[1], whole=False)


@irdl_op_definition
class StepOp(Places, IRDLOperation):
    """Loops around one micro-kernel, from `src` and `dst` bytes on."""

    name = "kernel.step"
    src = prop_def(Int)
    dst = prop_def(Int)
    channel = opt_prop_def(Int)
    body = region_def()
    traits = traits_def(NoTerminator())
    assembly_format = "`src` $src `dst` $dst (`channel` $channel^)? $body attr-dict"

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
    def reach(self) -> tuple[Range, Range, Range]:
        src, dst, channel = map(number, (self.src, self.dst, self.channel))
        return (src, src), (dst, dst), (channel, channel)

    @property
    def moves(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (number(self.src),), (number(self.dst),)

    def chain(self) -> tuple[Operation, ...]:
        """The loops, outermost first, and the micro-kernel. Raises VerifyException where it is no such nest."""
        result: list[Operation] = []
        body = self.body
        while True:
            inner = ops_in(body)
            result += inner
            if len(inner) == 1 and isinstance(inner[0], LoopOp):
                body = inner[0].body
                continue
            if len(inner) != 1 or not isinstance(inner[0], Accesses):
                names = ", ".join(op.name for op in inner) or "nothing"
                raise VerifyException(f"a step or loop holds one loop or one micro-kernel, not {names}")
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


def is_in_wrong_loop(op: Operation) -> bool:
    """Whether a loop around `op` does not verify by itself: where its rounds are, nobody can say."""
    outer = op.parent_op()
    while outer is not None:
        if isinstance(outer, LoopOp):
            try:
                outer.check()
            except VerifyException:
                return True
        outer = outer.parent_op()
    return False


@irdl_op_definition
class ForOp(LoopOp):
    """`count` rounds, `src` and `dst` bytes apart."""

    name = "kernel.for"
    count = prop_def(Int)
    src = prop_def(Int)
    dst = prop_def(Int)
    split = opt_prop_def(UnitAttr)
    ahead = opt_prop_def(UnitAttr)
    channel = opt_prop_def(Int)
    assembly_format = (
        "$count `src` $src `dst` $dst (`channel` $channel^)? "
        "(`split` $split^)? (`ahead` $ahead^)? $body attr-dict"
    )

    def check(self) -> None:
        bounds.positive(count=self.rounds)

    @property
    def rounds(self) -> int:
        return number(self.count)

    @property
    def reach(self) -> tuple[Range, Range, Range]:
        src, dst, channel = (
            bounds.linear(self.rounds, number(x)) for x in (self.src, self.dst, self.channel)
        )
        return src, dst, channel

    @property
    def moves(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (number(self.src),), (number(self.dst),)

    @property
    def gap(self) -> int | None:
        return abs(number(self.dst)) if self.rounds > 1 else None


@irdl_op_definition
class TableOp(LoopOp):
    """A round per pair of offsets."""

    name = "kernel.table"
    offsets = prop_def(OffsetsAttr)
    split = opt_prop_def(UnitAttr)
    channel = opt_prop_def(Int)
    assembly_format = "$offsets (`channel` $channel^)? (`split` $split^)? $body attr-dict"

    def check(self) -> None:
        bounds.positive(rounds=self.rounds)

    @property
    def rounds(self) -> int:
        return len(self.offsets.data)

    @property
    def reach(self) -> tuple[Range, Range, Range]:
        src, dst = self.moves
        return (min(src), max(src)), (min(dst), max(dst)), bounds.linear(self.rounds, number(self.channel))

    @property
    def moves(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(src for src, _ in self.offsets.data), tuple(dst for _, dst in self.offsets.data)

    @property
    def gap(self) -> int | None:
        places = sorted(dst for _, dst in self.offsets.data)
        return min((b - a for a, b in pairwise(places)), default=None)


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
    def reach(self) -> tuple[Range, Range, Range]:
        start, stop = number(self.start), number(self.stop)
        src, dst, channel = (bounds.ragged(self.levels.data, start, stop, side) for side in range(3))
        return src, dst, channel

    @property
    def moves(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        src, dst = zip(*(digit.moves for digit in self.levels.data), strict=True)
        return tuple(x for part in src for x in part), tuple(x for part in dst for x in part)


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
        if isinstance(plan, OpenOp):
            self._verify_open(plan)
            return
        if not isinstance(plan, PlanOp):
            raise VerifyException(f"{self.callee} is no kernel.plan and no kernel.open")
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

    def _verify_open(self, kernel: OpenOp) -> None:
        extents, conversion = kernel.extents.data, kernel.elements.data
        sides = (
            ("operand", self.input.type, kernel.source.data, conversion.src),
            ("result", self.result.type, kernel.target.data, conversion.dst),
        )
        for side, type, format, dtype in sides:
            try:
                shape = tuple(None if x < 0 else x for x in tensor_type(type).get_shape())
                has = shape, format_of(type), dtype_of(type)
            except LayoutError as error:
                raise VerifyException(str(error)) from error
            if has != (extents, format, dtype):
                wanted = f"elements {dtype} of extents {kernel.extents.text} in {format}"
                raise VerifyException(f"the {side} is {type}, {self.callee} is for {wanted}")
