"""Booleans as MLIR writes the bytes of a literal: eight to a byte, the first in the lowest bit.

In a program each has a byte of its own, all ones for true. MLIR packs them where it prints a literal of many elements
in hexadecimal, `dense<"0xB66D..."> : tensor<200xi1>`; integers of other widths below eight bits have a byte each there,
too. A single byte of zeros or ones stands for a splat.
"""

from __future__ import annotations

_BYTES = bytes(0xFF if digit == ord("1") else 0 for digit in range(256))
"""Of a digit the byte of a boolean."""


def unpacked_bits(bits: bytes, count: int) -> bytes:
    """The bytes of a literal of `count` booleans: each boolean a byte, or one byte for all of a splat.

    What holds a byte for each already, as xDSL writes them, comes back as it is, and so does what is of another length.
    """
    if bits in (b"\x00", b"\xff") or len(bits) != -(-count // 8):
        return bits
    digits = f"{int.from_bytes(bits, 'little'):0{8 * len(bits)}b}"[::-1][:count]
    return digits.encode().translate(_BYTES)
