"""What plans and code must know of the elements on both sides: how wide they are, and what may be done to them."""

from __future__ import annotations

from dataclasses import dataclass

from layout_ir.elements.element_types import bits_of
from layout_ir.elements.quantization import Conversion


@dataclass(frozen=True, slots=True)
class ElementPair:
    """Elements of the source, and of the destination.

    `src` and `dst` are the distances of neighbours in the units in which that side is addressed: bytes, or half bytes
    where elements have 4 bits (`src_packed`, `dst_packed`). `conversion` is None where elements are moved, whatever
    they are.
    """

    src: int
    dst: int
    src_packed: bool = False
    dst_packed: bool = False
    conversion: Conversion | None = None

    @classmethod
    def of(cls, conversion: Conversion) -> ElementPair:
        """The elements of `conversion`, which are moved where that is the identity.

        Those of 4 bits are converted even then: their bytes begin between two elements.
        """
        src, dst = bits_of(conversion.src), bits_of(conversion.dst)
        moves = conversion.is_identity and src >= 8
        return cls(max(src // 8, 1), max(dst // 8, 1), src < 8, dst < 8, None if moves else conversion)

    @property
    def packed(self) -> bool:
        """Whether two elements share a byte on either side."""
        return self.src_packed or self.dst_packed

    @property
    def narrower(self) -> int:
        """Bytes of the narrower elements; 1 where two share a byte."""
        return 1 if self.packed else min(self.src, self.dst)

    @property
    def exactly_once(self) -> bool:
        """Whether no element may be written twice: the destination is read as well (beta), or two share a byte."""
        return self.packed or (self.conversion is not None and self.conversion.beta is not None)

    @property
    def transposes_first(self) -> bool:
        """Whether a tile is transposed at the width of the source and converted then, not the other way round."""
        return self.src <= self.dst or (self.conversion is not None and self.conversion.beta is not None)

    def src_bytes(self, count: int) -> int:
        """Bytes that hold `count` elements of the source."""
        return -(-count // 2) if self.src_packed else count * self.src

    def dst_bytes(self, count: int) -> int:
        """Bytes that hold `count` elements of the destination."""
        return -(-count // 2) if self.dst_packed else count * self.dst
