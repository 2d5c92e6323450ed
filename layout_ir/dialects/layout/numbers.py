"""The numbers of quantized tensors in IR: one for the operand and one for the result, or a list with one per channel.

    scale = [1, 0.05]                               one number for each tensor
    scale = [1, [0.05, 0.1, 0.2]] dim = 1           one for the operand, one per index of dim 1 for the result

As a property that is an array of a float attribute or a dense array for each of the two sides, `[1.0 : f64, array<f64:
0.05, 0.1, 0.2>]`, so that a list of one number stays a list.
"""

from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, f64
from xdsl.ir import Attribute
from xdsl.parser import Parser

from layout_ir.elements.quantization import number_text
from layout_ir.errors import LayoutError, shape_text

Numbers = float | tuple[float, ...]
"""A number of the tensor, or one per channel."""

SIDES = ("operand", "result")


def parse_numbers(parser: Parser) -> Attribute:
    """The property that `[1, [0.05, 0.1]]` spells."""

    def side() -> Attribute:
        numbers = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_number)
        if numbers is None:
            return FloatAttr(float(parser.parse_number()), f64)
        return DenseArrayBase.from_list(f64, [float(x) for x in numbers])

    return ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, side))


def numbers_text(sides: tuple[Numbers, ...]) -> str:
    """What `parse_numbers` reads."""
    return (
        f"[{', '.join(f'[{_listed(side)}]' if isinstance(side, tuple) else _text(side) for side in sides)}]"
    )


def numbers_of(attribute: Attribute, name: str) -> tuple[Numbers, ...]:
    """The numbers of each side in property `name`. Raises LayoutError where it holds anything else."""
    found: list[Numbers] = []
    for side in cast("ArrayAttr[Attribute]", attribute).data:
        if isinstance(side, FloatAttr):
            found.append(side.value.data)
        elif isinstance(side, DenseArrayBase):
            found.append(tuple(map(float, side.get_values())))  # pyright: ignore
        else:
            raise LayoutError(f"{name} holds {side}, expected a number or an array of numbers for each side")
    return tuple(found)


def check_channels(name: str, sides: tuple[Numbers, ...], dim: int | None, shape: tuple[int, ...]) -> None:
    """Raises LayoutError where a list in property `name` is not as long as `dim` of `shape`, or `dim` is none."""
    shown = shape_text(None if extent < 0 else extent for extent in shape)
    if dim is not None and not 0 <= dim < len(shape):
        raise LayoutError(
            f"dim = {dim} is no dim of {shown}: expected one of the {len(shape)} dims, from 0 on"
        )
    for side, numbers in zip(SIDES, sides, strict=True):
        if not isinstance(numbers, tuple):
            continue
        if dim is None:
            raise LayoutError(
                f"{name} of the {side} is a list of {len(numbers)}, one number per channel: "
                "say along which dim they run, such as dim = 1"
            )
        if len(numbers) != shape[dim]:
            extent = "?" if shape[dim] < 0 else shape[dim]
            raise LayoutError(
                f"{name} of the {side} has {len(numbers)} numbers, dim {dim} of {shown} has extent {extent}: "
                "give one for each index, or one for the tensor without brackets"
            )


def _listed(numbers: tuple[float, ...]) -> str:
    return ", ".join(map(_text, numbers))


def _text(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e16 else number_text(value)
