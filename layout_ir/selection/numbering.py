"""Ops and options under names, and which names the numbers of a problem stand for."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from layout_ir.errors import LayoutError


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run an op: the format of each operand and of each result, what it costs, and a name for it, if any.

    Formats are hashable objects. None for an operand means that any will do: in all options of the op, or in none. With
    a cost of None or inf the op does not run so. Raises LayoutError where the cost is no number.
    """

    ins: Sequence[Any]
    outs: Sequence[Any]
    cost: float | None = 0
    name: str | None = None

    def __post_init__(self) -> None:
        if self.cost is not None and not hasattr(self.cost, "__float__"):
            raise LayoutError(f"an option costs {self.cost!r}, which is no number")


class NamedOp(NamedTuple):
    """An op as it was stated, without the options that are not possible and those that are another one at more cost."""

    name: Hashable
    operands: tuple[Hashable, ...]
    results: tuple[Hashable, ...]
    options: tuple[Option, ...]
    costs: tuple[int, ...]
    """Per option, in units of the resolution."""
    weight: int

    @property
    def taken(self) -> tuple[int, ...]:
        """The operands, by number, that the op takes in a certain format."""
        return tuple([k for k, fmt in enumerate(self.options[0].ins) if fmt is not None])


@dataclass(frozen=True, slots=True)
class Numbering:
    """What the numbers of a problem stand for: op o is `ops[o]`, and its choice c its option c; value v is `values[v]`,
    its format f is `formats[v][f]`, and its reorders run `weights[v]` times."""

    ops: tuple[NamedOp, ...]
    values: tuple[Hashable, ...]
    weights: tuple[int, ...]
    formats: tuple[tuple[Hashable, ...], ...]
    resolution: float

    def cost(self, units: int) -> float:
        """A cost as the problem was stated in."""
        return units * self.resolution

    def names(self) -> dict[str, Any]:
        """All names as text, as a certificate lists them."""
        return {
            "ops": [str(op.name) for op in self.ops],
            "values": [str(value) for value in self.values],
            "formats": [[str(fmt) for fmt in own] for own in self.formats],
        }
