"""What layouts are made of: factors, without and with a shape, and the digits of one dim.

A Format holds `Factor`s, a Layout `BoundFactor`s, both outermost first, all dims together. Seen per dim, fine to coarse
and each with its unit, the bound factors are `Digit`s.
"""

from __future__ import annotations

from dataclasses import dataclass

from layout_ir.argument_checks import checked_integer
from layout_ir.errors import LayoutError

MEMORY = "m"
"""The axis of ordinary memory. Any other axis (`@lane`, `@mesh`) is a place, not an address."""


@dataclass(frozen=True, slots=True)
class Factor:
    """One loop over memory: `size` values of dim number `dim`, `stride` elements apart.

    `size` None is the rest of the dim. `stride` None is the running product of what lies further in. Inside the
    chunk part and in plain formats strides count elements; left of a bar they count chunks.

    Raises LayoutError where a number is no integer, `dim` is below 0 and `size` below 1.
    """

    dim: int
    size: int | None = None
    stride: int | None = None
    axis: str = MEMORY

    def __post_init__(self) -> None:
        # Factors are made by the ten thousand: the usual ones pass without a call.
        dim, size, stride = self.dim, self.size, self.stride
        if type(dim) is not int:
            checked_integer("dim of a factor =", dim)
        if dim < 0:
            raise LayoutError(f"a factor refers to dim {dim}, and dims count from 0")
        if size is not None:
            if type(size) is not int:
                checked_integer("size of a factor =", size)
            if size < 1:
                raise LayoutError(f"a factor of dim {dim} has size {size}, sizes start at 1")
        if stride is not None and type(stride) is not int:
            checked_integer("stride of a factor =", stride)


@dataclass(frozen=True, slots=True)
class BoundFactor:
    """`count` steps of dim number `dim`, `stride` elements apart (places apart, on another axis than memory)."""

    dim: int
    count: int
    stride: int
    axis: str = MEMORY


@dataclass(frozen=True, slots=True)
class Digit:
    """(y div unit) mod count of a shifted index y moves the address by `stride` elements each."""

    unit: int
    count: int
    stride: int
    axis: str = MEMORY
