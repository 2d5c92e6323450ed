"""The one error of the layout algebra.

Everything that can be wrong with a layout (its text, the shape it is bound to, the buffer behind it) is
reported as a `LayoutError` whose message states both sides of the conflict. Where the error is about a text,
`span` gives the offsets of the offending part in it, so that a tool can put a caret under it.
"""

from __future__ import annotations

from collections.abc import Iterable


class LayoutError(ValueError):
    """Invalid layout, or an operation that has no answer for this layout.

    `span` is the half-open range of character offsets in the text that was read, or None.
    """

    span: tuple[int, int] | None

    def __init__(self, message: str, span: tuple[int, int] | None = None):
        super().__init__(message)
        self.span = span


def shape_text(shape: Iterable[int | None]) -> str:
    """A shape in a message: 2x?x5 where an extent is open (None), `scalar` where there are no dims."""
    return "x".join("?" if extent is None else str(extent) for extent in shape) or "scalar"
