"""What ops of tosa cut, widen, repeat and reverse, read off their shape operands; None where these are not known."""

from __future__ import annotations

import pytest
from xdsl.ir import Operation

from layout_ir.api.program_text import parse_program
from layout_ir.foreign import movement

SHAPE = "tosa.const_shape {{values = dense<[{0}]> : tensor<{1}xindex>}} : () -> !tosa.shape<{1}>"


def op_of(text: str, numbers: str, result: str, shape: str = "") -> Operation:
    """The op of tosa on 4x6 in a function of two shapes, `%s` of `numbers` and `%d`, which is no constant."""
    rank = numbers.count(",") + 1
    module = parse_program(
        f"""
        func.func @main(%x: tensor<4x6xf32>, %d: !tosa.shape<2>, %n: tensor<1xf32>) -> tensor<{result}xf32> {{
          %s = {SHAPE.format(numbers, rank)}
          %y = {text} : (tensor<4x6xf32>{shape.format(rank)}) -> tensor<{result}xf32>
          func.return %y : tensor<{result}xf32>
        }}
        """,
        "program.mlir",
    )
    return next(op for op in module.walk() if op.name.startswith("tosa.") and op.name != "tosa.const_shape")


TWO = ", !tosa.shape<2>, !tosa.shape<2>"
PADS = ", !tosa.shape<{0}>, tensor<1xf32>"
ONE = ", !tosa.shape<{0}>"


def test_numbers_are_those_of_the_constant_shapes():
    assert movement.cuts_of(op_of("tosa.slice %x, %s, %d", "1, 2", "3x4", TWO)) == [(1, 3, 1), (2, 4, 1)]
    assert movement.widening_of(op_of("tosa.pad %x, %s, %n", "1, 0, 2, 3", "5x11", PADS)) == [(1, 0), (2, 3)]
    tile = op_of("tosa.tile %x, %s", "1, 2", "4x12", ONE)
    assert movement.multiples_of(tile) == (1, 2) and movement.whole_dims_of(tile) == [1]
    reverse = op_of("tosa.reverse %x {axis = 0 : i32}", "0", "4x6")
    assert movement.reversed_dim_of(reverse) == 0 and movement.whole_dims_of(reverse) == [0]


@pytest.mark.parametrize(
    ("text", "numbers", "result", "shape"),
    [
        ("tosa.slice %x, %d, %s", "3, 4", "3x4", TWO),
        ("tosa.tile %x, %d", "1", "4x12", ", !tosa.shape<2>"),
        # Numbers that do not fit the types, of which tosa's own verifier says more.
        ("tosa.slice %x, %s, %d", "2, 2", "3x4", TWO),
        ("tosa.pad %x, %s, %n", "1, 0, 2, 3", "5x12", PADS),
        ("tosa.pad %x, %s, %n", "1, -1, 0, 0", "4x6", PADS),
        ("tosa.tile %x, %s", "1, 3", "4x12", ONE),
        ("tosa.reverse %x {axis = 2 : i32}", "0", "4x6", ""),
    ],
)
def test_negative_nothing_is_known_of_other_numbers(text: str, numbers: str, result: str, shape: str):
    op = op_of(text, numbers, result, shape)
    assert movement.cuts_of(op) is movement.widening_of(op) is movement.whole_dims_of(op) is None
