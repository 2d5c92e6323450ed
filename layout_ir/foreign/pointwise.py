"""Ops of tosa that compute each element of their result from the elements of their operands at the same place.

    %r = tosa.rescale %x, %multiplier, %shift, %in, %out   reads %x at the place, the others as they are

No op of arith or math says what they compute, so they are no loops (`structured`): whatever the layout, they stay what
they are, on the tensors of the memory. What they make of pads is unknown.
"""

from __future__ import annotations

from xdsl.dialects import tosa
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from layout_ir.foreign.structured import structured

_OPERANDS = {
    **dict.fromkeys(
        ("bitwise_not", "cast", "clamp", "clz", "identity", "logical_not", "negate", "rescale", "sigmoid", "table"), 1
    ),
    **dict.fromkeys(
        (
            "arithmetic_right_shift", "equal", "greater", "greater_equal", "logical_left_shift",
            "logical_right_shift", "maximum", "minimum", "mul",
        ),
        2,
    ),
    "select": 3,
}  # fmt: skip
"""How many operands, the first ones, an op reads at the place of the element; tables, zero points and such follow."""

POINTWISE = frozenset(f"tosa.{name}" for name in _OPERANDS)
"""The names of the ops that are pointwise where they are no loops."""


def pointwise_operands(op: Operation) -> int:
    """How many operands of `op`, the first ones, are read at the place of the element; 0 of an op of another kind."""
    if op.name not in POINTWISE or structured(op) is not None:
        return 0
    per_channel = op.properties.get("per_channel")
    if isinstance(per_channel, IntegerAttr) and per_channel.value.data:
        return 0  # of types that are not TOSA's: nothing is known of it
    return _OPERANDS[op.name.removeprefix(f"{tosa.TOSA.name}.")]
