"""What layouts are made of: factors, without and with a shape, and the digits of one dim.

A Format holds `Factor`s, a Layout `BoundFactor`s, both outermost first, all dims together. Seen per dim, fine to coarse
and each with its unit, the bound factors are `Digit`s.
"""

from __future__ import annotations

from dataclasses import dataclass

MEMORY = "m"
"""The axis of ordinary memory. Any other axis (`@lane`, `@mesh`) is a place, not an address."""


@dataclass(frozen=True, slots=True)
class Factor:
    """One loop over memory: `size` values of dim number `dim`, `stride` elements apart.

    `size` None is the rest of the dim. `stride` None is the running product of what lies further in. Inside the
    chunk part and in plain formats strides count elements; left of a bar they count chunks.
    """

    dim: int
    size: int | None = None
    stride: int | None = None
    axis: str = MEMORY


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
