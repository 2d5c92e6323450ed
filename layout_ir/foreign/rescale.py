"""`tosa.rescale` with a multiplier and a shift for each channel, the last dim, as loops with a scalar body.

    n, h, w, c   x (n, h, w, c)   multiplier (c)   shift (c)   zero points (0)   ->   y (n, h, w, c)

The body is that of TOSA's specification in arithmetic of 64 bits, in which no product overflows:

    scaled = ((x - input_zero) * multiplier + 2^(shift - 1)) >> shift
    y      = clamp(scaled + output_zero, the range of the result)

With DOUBLE_ROUND, a shift of more than 31 rounds twice: 2^30, with the sign of what is scaled, is added as well.
"""

from __future__ import annotations

from functools import cache
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType, Signedness, i64
from xdsl.dialects.linalg.ops import YieldOp
from xdsl.dialects.tosa import RoundingMode, RoundingModeAttr
from xdsl.ir import Block, Operation, SSAValue

from layout_ir.dialects.layout import is_tensor
from layout_ir.dialects.layout.types import tensor_type


def rescale_body(op: Operation) -> Block | None:
    """The scalar body of a `tosa.rescale` per channel: x, multiplier, shift, input zero point, output zero point.

    None where it is none per channel, or its types are not those of TOSA. The block is shared by all ops alike.
    """
    types = [value.type for value in (*op.operands, *op.results)]
    if not _flag(op, "per_channel") or len(types) != 6 or not all(is_tensor(type) for type in types):
        return None
    rank = len(tensor_type(types[0]).get_shape())
    ranks = [len(tensor_type(type).get_shape()) for type in types]
    kinds = [tensor_type(type).element_type for type in types]
    integers = [cast("IntegerType", kind) for kind in kinds if isinstance(kind, IntegerType)]
    if ranks != [rank, 1, 1, 1, 1, rank] or rank < 1 or len(integers) != len(kinds):
        return None
    if any(kind.signedness.data is not Signedness.SIGNLESS or kind.width.data >= 64 for kind in integers):
        return None
    unsigned = _flag(op, "input_unsigned"), _flag(op, "output_unsigned")
    # TOSA has no unsigned numbers of 32 bits.
    if any(
        flag and kind.width.data > 16
        for flag, kind in zip(unsigned, (integers[0], integers[-1]), strict=True)
    ):
        return None
    mode = op.properties.get("rounding_mode")
    twice = isinstance(mode, RoundingModeAttr) and mode.data is RoundingMode.DOUBLE_ROUND
    return _body(tuple(integers), *unsigned, twice)


def _flag(op: Operation, name: str) -> bool:
    value = op.properties.get(name)
    return isinstance(value, IntegerAttr) and bool(value.value.data)


@cache
def _body(kinds: tuple[IntegerType, ...], from_unsigned: bool, to_unsigned: bool, twice: bool) -> Block:
    *given, result = kinds
    block = Block(arg_types=given)

    def add(op: Operation) -> SSAValue:
        block.add_op(op)
        return op.results[0]

    def number(value: int) -> SSAValue:
        return add(arith.ConstantOp(IntegerAttr(value, i64)))

    def wide(value: SSAValue, unsigned: bool) -> SSAValue:
        return add((arith.ExtUIOp if unsigned else arith.ExtSIOp)(value, i64))

    x, multiplier, shift, input_zero, output_zero = block.args
    amount = wide(shift, True)
    value = add(arith.SubiOp(wide(x, from_unsigned), wide(input_zero, from_unsigned)))
    half = add(arith.ShLIOp(number(1), add(arith.SubiOp(amount, number(1)))))
    total = add(arith.AddiOp(add(arith.MuliOp(value, wide(multiplier, False))), half))
    if twice:
        more = add(
            arith.SelectOp(add(arith.CmpiOp(value, number(0), "sge")), number(1 << 30), number(-(1 << 30)))
        )
        is_far = add(arith.CmpiOp(amount, number(31), "sgt"))
        total = add(arith.SelectOp(is_far, add(arith.AddiOp(total, more)), total))
    shifted = add(arith.AddiOp(add(arith.ShRSIOp(total, amount)), wide(output_zero, to_unsigned)))
    signedness = Signedness.UNSIGNED if to_unsigned else Signedness.SIGNED
    low, end = signedness.value_range(result.width.data)
    clamped = add(arith.MinSIOp(add(arith.MaxSIOp(shifted, number(low))), number(end - 1)))
    block.add_op(YieldOp(add(arith.TruncIOp(clamped, result))))
    return block
