"""What the definition of an op, a function of NumPy, asks of the element type of an array that is none of NumPy's.

Definitions are run on symbols to write code: `arith` ops for MLIR (`exits/linalg/scalar_body.py`), LLVM IR for loops
(`backends/llvm/loops/vector_numpy.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from layout_ir.elements.element_types import ElementType, element_type


def computed_dtype(dtype: str) -> str:
    """The element type in which ops on `dtype` are computed."""
    return "f32" if dtype in ("f16", "bf16") else dtype


class IntegerBounds(NamedTuple):
    """What `numpy.iinfo` says."""

    min: int
    max: int


@dataclass(frozen=True, slots=True)
class ScalarType:
    """What functions ask of the `dtype` of an array."""

    name: str

    @property
    def known(self) -> ElementType:
        """What the table of element types says."""
        return element_type(self.name)

    @property
    def kind(self) -> str:
        """NumPy's letter: f, i, u or b."""
        return {"float": "f", "signed": "i", "unsigned": "u", "bool": "b"}[self.known.kind]

    @property
    def bits(self) -> int:
        """How wide the numbers are in code: a truth value has one bit there, and a byte in memory."""
        return 1 if self.kind == "b" else self.known.bits

    @property
    def bounds(self) -> IntegerBounds:
        """The bounds of an integer type."""
        return IntegerBounds(*map(int, self.known.range))

    def type(self, number: float) -> float:
        """`number`, which becomes a constant of this type where it meets a symbol."""
        return number
