"""NumPy: shape, strides and offset in bytes, of any sign.

Bytes turn into elements by the width of the element type, which the text may state as `itemsize`. Strides that are
no multiple of it (a field of a structured array, packed bits) have no counting in elements and are refused.
"""

from __future__ import annotations

from typing import ClassVar

from layout_ir.algebra.scan import Scanner
from layout_ir.elements.element_types import bits_of
from layout_ir.errors import LayoutError
from layout_ir.notations.decomposition import from_strides, strided
from layout_ir.notations.notation import Notation, Subject

_FIELDS = ("shape", "strides", "offset", "itemsize")


class NumpyNotation(Notation):
    """`shape=(2, 5), strides=(20, 4), offset=0, itemsize=4`, all but the shape in bytes.

    Read is also a bare tuple, what `x.strides` prints.
    """

    name: ClassVar[str] = "numpy"
    beginning: ClassVar[str] = r"(shape|strides|offset|itemsize)\s*=|\(\s*-?\d"
    about: ClassVar[str] = "NumPy: shape, strides and offset in bytes"
    example: ClassVar[str] = "shape=(2, 5), strides=(20, 4), offset=0, itemsize=4"
    says: ClassVar[frozenset[str]] = frozenset({"offset", "lo", "size"})

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        scan = Scanner(text, self.name)
        fields: dict[str, tuple[int, ...]] = {}
        is_bare = scan.at("(")
        if is_bare:
            fields["strides"] = scan.integers("(", ")", "strides")
        while not is_bare:
            start = scan.token
            field = scan.word("shape, strides, offset or itemsize")
            if field not in _FIELDS or field in fields:
                scan.fail(f"unexpected field '{field}': an array has {', '.join(_FIELDS)}, each once", start)
            scan.expect("=")
            if field in ("offset", "itemsize"):
                fields[field] = (scan.integer(field, low=1 if field == "itemsize" else None),)
            else:
                fields[field] = scan.integers("(", ")", field, low=0 if field == "shape" else None)
            if not scan.accept(","):
                break
        scan.end()
        extents = fields.get("shape", shape)
        if extents is None or "strides" not in fields:
            raise LayoutError(
                f"numpy text needs strides, and shape unless one is given: it has {', '.join(fields)}"
            )
        if "itemsize" in fields:
            width = fields["itemsize"][0]
            if dtype is not None and width * 8 != bits_of(dtype):
                raise LayoutError(
                    f"numpy text says itemsize {width}, an element of {dtype} has {bits_of(dtype)} bits"
                )
        else:
            width = _itemsize(dtype)
        offset = fields.get("offset", (0,))[0]
        for what, value in (("offset", offset), *(("stride", s) for s in fields["strides"])):
            if value % width:
                raise LayoutError(
                    f"numpy {what} of {value} bytes is no multiple of the {width} bytes of an element"
                )
        return from_strides(extents, [s // width for s in fields["strides"]], offset // width)

    def _print(self, subject: Subject, dtype: str | None) -> str:
        layout = self.bound(subject)
        width = _itemsize(dtype)
        strides, offset = strided(layout, self.name)
        for what, value in (("offset", offset), *(("stride", s) for s in strides)):
            if not -(1 << 63) <= value * width < 1 << 63:
                raise self.refuse(layout, f"its {what} of {value * width} bytes is no integer of 64 bits")
        in_bytes = tuple(s * width for s in strides)
        return f"shape={layout.shape}, strides={in_bytes}, offset={offset * width}, itemsize={width}"


def _itemsize(dtype: str | None) -> int:
    if dtype is None:
        raise LayoutError("numpy counts bytes: give the element type")
    bits = bits_of(dtype)
    if bits % 8:
        raise LayoutError(f"numpy counts bytes, an element of {dtype} has {bits} bits")
    return bits // 8
