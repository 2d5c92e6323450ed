"""Types of tensors as MLIR writes them: extents and an element type, as in `2x5xf32`.

What stands behind it (an encoding, a layout, a memory space) is the business of the notation that reads it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from layout_ir.algebra.scan import LIMIT, Scanner
from layout_ir.elements.element_types import canonical_name
from layout_ir.errors import LayoutError

_SHAPED = re.compile(r"\s*((?:(?:\d+|\?)\s*x\s*)*)((?:!\w[\w.]*|[A-Za-z]\w*)(?:<[^<>]*>)?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ShapedType:
    """Extents (None: dynamic) and the element type: its canonical name, or None for one that no table has."""

    extents: tuple[int | None, ...]
    element: str | None

    @property
    def static(self) -> tuple[int, ...] | None:
        """The extents, or None where one is dynamic."""
        known = tuple(extent for extent in self.extents if extent is not None)
        return known if len(known) == len(self.extents) else None


def read_shaped_type(scan: Scanner) -> ShapedType:
    """Takes `2x5xf32`, up to what follows the element type. Raises LayoutError at the part that is none."""
    match = _SHAPED.match(scan.text, scan.token.start)
    if match is None:
        scan.fail(f"expected extents and an element type, such as 2x5xf32, found {scan.found()}")
    start = scan.token
    written = [part.strip() for part in match[1].split("x")[:-1]]
    if len(written) > 64:
        scan.fail(f"the type has {len(written)} dims, at most 64 are supported", start)
    if any(part != "?" and (len(part) > 19 or int(part) >= LIMIT) for part in written):
        scan.fail(f"extents {'x'.join(written)[:40]} are not all below 2^63", start)
    while scan.token.kind != "end" and scan.token.start < match.end():
        scan.next()
    try:
        element = canonical_name(match[2])
    except LayoutError:
        element = None
    return ShapedType(tuple(None if part == "?" else int(part) for part in written), element)
