"""The text of dense constants, bit for bit.

xDSL writes NaN and infinities in lists in a way it does not read back, and takes 0.0 and -0.0 for equal when it looks
for splats; here a list or splat is written only where its text means the same bits, everything else in hexadecimal, as
MLIR does for big constants anyway.
"""

from __future__ import annotations

from io import StringIO
from typing import Any

from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, TensorType, i1
from xdsl.printer import Printer

from layout_ir.elements.splats import is_splat

HEX_ABOVE = 100
"""Constants of more elements than this print in hexadecimal, but for booleans: the limit MLIR and xDSL use."""


def elements_text(attribute: DenseIntOrFPElementsAttr[Any]) -> str:
    """`dense<...>`, without the type."""
    element, data = attribute.get_element_type(), attribute.data.data
    size = element.compile_time_size
    if is_splat(data, size):
        one = DenseIntOrFPElementsAttr(TensorType(element, [1]), BytesAttr(data[:size]))
        return _values(one) or _hexadecimal(data[:size])
    if len(data) // size <= HEX_ABOVE:
        return _values(attribute) or _hexadecimal(data)
    return _booleans(attribute) if element == i1 else _hexadecimal(data)


def _hexadecimal(data: bytes) -> str:
    return f'dense<"0x{data.hex().upper()}">'


def _booleans(attribute: DenseIntOrFPElementsAttr[Any]) -> str:
    """A list, however many they are: in hexadecimal they are eight to a byte for MLIR, and one for xDSL."""
    texts = ["true" if byte else "false" for byte in attribute.data.data]
    for extent in reversed(attribute.get_shape()):
        texts = [f"[{', '.join(texts[k : k + extent])}]" for k in range(0, len(texts), extent)]
    return f"dense<{texts[0]}>"


def _values(attribute: DenseIntOrFPElementsAttr[Any]) -> str | None:
    """xDSL's text of a constant; None where it would read back as other bits."""
    if len(attribute) > 1 and attribute.is_splat():
        return None  # not the same bits, but the same values: 0.0 and -0.0
    stream = StringIO()
    attribute.print_without_type(Printer(stream=stream))
    text = stream.getvalue()
    # Floats that xDSL spells as bit patterns are read as the integers they look like.
    return None if "0x" in text else text
