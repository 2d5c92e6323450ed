"""Quantization parameters of a reorder in IR: a scale or a zero point for each of its two sides, operand and result.

    scale = [1, 0.05]                               per-tensor on both sides
    scale = [1, [0.05, 0.1, 0.2]] dim = 1           per-tensor for the operand, per-channel (dim 1) for the result

The property is an array with one entry per side, a float attribute (per-tensor) or a dense array (per-channel):
`[1.0 : f64, array<f64: 0.05, 0.1, 0.2>]`. So a list of one channel stays a list.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr, f64, i64
from xdsl.ir import Attribute
from xdsl.parser import Parser

from layout_ir.elements.quantization import number_text
from layout_ir.errors import LayoutError, shape_text

QuantizationParameter = float | tuple[float, ...]
"""A scale or zero point of one side: a number for the tensor (per-tensor), or one per channel."""

SIDES = ("operand", "result")


def parse_sides(parser: Parser) -> Attribute:
    """The property for a text such as `[1, [0.05, 0.1]]`, one entry per side."""

    def side() -> Attribute:
        channels = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_number)
        if channels is None:
            return FloatAttr(float(parser.parse_number()), f64)
        return DenseArrayBase.from_list(f64, [float(x) for x in channels])

    return ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, side))


def sides_text(sides: tuple[QuantizationParameter, ...]) -> str:
    """The text that `parse_sides` reads back as `sides`."""

    def text(side: QuantizationParameter) -> str:
        return f"[{', '.join(map(_text, side))}]" if isinstance(side, tuple) else _text(side)

    return f"[{', '.join(map(text, sides))}]"


@lru_cache(maxsize=1024)
def sides_of(attribute: Attribute, name: str) -> tuple[QuantizationParameter, ...]:
    """The parameter of each side in property `name`. Raises LayoutError where it holds anything else."""
    found: list[QuantizationParameter] = []
    for side in cast("ArrayAttr[Attribute]", attribute).data:
        if isinstance(side, FloatAttr):
            found.append(side.value.data)
        elif isinstance(side, DenseArrayBase):
            found.append(tuple(map(float, side.get_values())))  # pyright: ignore
        else:
            raise LayoutError(f"{name} holds {side}, expected a number or an array of numbers for each side")
    return tuple(found)


def properties_of(
    scales: Sequence[Sequence[float] | None], zero_points: Sequence[Sequence[float] | None], dim: int | None
) -> dict[str, Attribute]:
    """The properties of a reorder: per side one number, or one per index of `dim`; None for 1 and 0."""
    properties: dict[str, Attribute] = {}
    per_channel = False
    for name, neutral, sides in (("scale", 1.0, scales), ("zero_point", 0.0, zero_points)):
        attributes: list[Attribute] = []
        for side in sides:
            if side is None or len(side) == 1:
                attributes.append(FloatAttr(neutral if side is None else side[0], f64))
            else:
                per_channel = True
                attributes.append(DenseArrayBase.from_list(f64, list(side)))
        properties[name] = ArrayAttr(attributes)
    if per_channel and dim is not None:
        properties["dim"] = IntegerAttr(dim, i64)
    return properties


def check_channels(
    name: str, sides: tuple[QuantizationParameter, ...], dim: int | None, shape: tuple[int, ...]
) -> None:
    """Raises LayoutError where `dim` is no dim of `shape` (-1: a dynamic extent), or where a per-channel parameter in
    property `name` has no `dim` or another length than that dim."""
    shown = shape_text(None if extent < 0 else extent for extent in shape)
    if dim is not None and not 0 <= dim < len(shape):
        raise LayoutError(
            f"dim = {dim} is no dim of {shown}: expected one of the {len(shape)} dims, from 0 on"
        )
    for side, parameter in zip(SIDES, sides, strict=True):
        if not isinstance(parameter, tuple):
            continue
        if dim is None:
            raise LayoutError(
                f"{name} of the {side} is a list of {len(parameter)}, one number per channel: "
                "say along which dim they run, such as dim = 1"
            )
        if len(parameter) != shape[dim]:
            extent = "?" if shape[dim] < 0 else shape[dim]
            raise LayoutError(
                f"{name} of the {side} has {len(parameter)} numbers, dim {dim} of {shown} has extent {extent}: "
                "give one for each index, or one for the tensor without brackets"
            )


def _text(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e16 else number_text(value)
