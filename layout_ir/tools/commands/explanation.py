"""What there is to say of a layout, as plain values: `explain` prints them, as text or as JSON.

The formula of an address is the definition of the layout in one line, in the names of its dims:

    480*n + 160*(c/8) + 32*h + 8*w + c%8        nChw8c of 2x17x5x4, / is integer division
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any

from layout_ir.algebra.canonical import canonical_digits
from layout_ir.algebra.factors import MEMORY, BoundFactor, Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Index, Layout, Pad
from layout_ir.algebra.pads import print_policy
from layout_ir.algebra.tag import name_of, names_for
from layout_ir.elements.element_types import bits_of, canonical_name

_ENUMERATED = 1 << 16


def explain(layout: Layout, dtype: str) -> dict[str, Any]:
    """The facts of `layout`; keys as `layout-ir explain --help` lists them. Raises LayoutError for the `dtype`."""
    dtype = canonical_name(dtype)
    first = min(layout.first_address, 0) if layout.span else 0
    return {
        "format": str(layout.format),
        "tag": name_of(layout.format),
        "dims": list(layout.names),
        "shape": list(layout.shape),
        "padded_shape": list(layout.padded_shape),
        "dtype": dtype,
        "factors": [_factor(layout, k) for k in range(len(layout.factors))],
        "formula": formula(layout),
        "places": {axis: formula(layout, axis) for axis in layout.axes},
        "elements": layout.nelems,
        "pads": prod(layout.padded_shape) - layout.nelems,
        "holes": _holes(layout),
        "addresses": layout.extent - first,
        "first_address": layout.first_address,
        "nbytes": layout.nbytes(dtype),
        # JSON has no infinity.
        "pad_policy": print_policy(layout.pad) if layout.pad in (inf, -inf) else layout.pad,
        "chunk_size": layout.chunk_size,
        "chunks": -(-layout.extent // layout.chunk_size) if layout.chunk_size else 0,
        "is_dense": layout.is_dense(),
        "is_injective": layout.is_injective(),
        "contiguous": orders(layout),
    }


def at_index(layout: Layout, index: Sequence[int], dtype: str) -> dict[str, Any]:
    """Where the element of `index` is. Raises LayoutError outside the shape."""
    address, bits = layout.address(index), bits_of(dtype)
    chunk, offset = divmod(address, layout.chunk_size) if layout.chunk_size else (None, None)
    byte = address * bits // 8 if bits >= 8 else None
    return {"index": list(index), "address": address, "byte": byte, "chunk": chunk, "chunk_offset": offset}


def at_offset(layout: Layout, offset: int) -> dict[str, Any]:
    """What lies at address `offset` (elements)."""
    found = layout.inverse(offset)
    first = min(layout.first_address, 0) if layout.span else 0
    answer: dict[str, Any] = {"offset": offset, "is": "hole", "index": None, "position": None, "holds": None}
    match found:
        case Index(index):
            answer |= {"is": "element", "index": list(index)}
        case Pad(position):
            answer |= {"is": "pad", "position": list(position), "holds": print_policy(layout.pad)}
        case _:
            if not first <= offset < layout.extent:
                answer["is"] = "outside"
    return answer


def formula(layout: Layout, axis: str = MEMORY) -> str:
    """The address (the place, on another axis) of an element, in the names of the dims."""
    terms: list[str] = []
    for k, factor in enumerate(layout.factors):
        if factor.axis != axis or factor.count <= 1 or not factor.stride:
            continue
        digit = _digit(layout, k)
        compound = any(sign in digit for sign in "/%+")
        if factor.stride == 1:
            terms.append(digit)
        elif factor.stride == -1 and not compound:
            terms.append(f"-{digit}")
        else:
            terms.append(f"{factor.stride}*({digit})" if compound else f"{factor.stride}*{digit}")
    if axis == MEMORY and layout.offset:
        terms.insert(0, str(layout.offset))
    text = " + ".join(terms).replace("+ -", "- ") or "0"
    if axis == MEMORY and layout.swizzle is not None and layout.swizzle[0]:
        bits, base, shift = layout.swizzle
        return f"a ^ (a >> {base + shift} & {(1 << bits) - 1}) << {base}  where a = {text}"
    return text


def _digit(layout: Layout, at: int) -> str:
    """What factor number `at` takes of its index, such as c/8%4."""
    factor = layout.factors[at]
    name, low = layout.names[factor.dim], layout.lo[factor.dim]
    text = name if not low else f"({name} + {low})"
    unit = _unit(layout.factors, at)
    if unit > 1:
        text += f"/{unit}"
    # The most significant digit needs no remainder: the index ends where it does.
    if any(f.dim == factor.dim and f.count > 1 for f in layout.factors[:at]):
        text += f"%{factor.count}"
    return text


def _unit(factors: Sequence[BoundFactor], at: int) -> int:
    return prod(f.count for f in factors[at + 1 :] if f.dim == factors[at].dim)


def _factor(layout: Layout, at: int) -> dict[str, Any]:
    factor = layout.factors[at]
    name = layout.names[factor.dim]
    inner = any(f.dim == factor.dim for f in layout.factors[:at])
    return {
        "factor": f"{name}:{factor.count}" if inner else name,
        "dim": name,
        "size": factor.count,
        "unit": _unit(layout.factors, at),
        "stride": factor.stride,
        "axis": factor.axis,
        "digit": _digit(layout, at),
    }


def _holes(layout: Layout) -> int | None:
    """Addresses of the buffer that belong to no position; None where counting them would take long."""
    if not layout.span:
        return layout.extent
    buffer = layout.extent - min(layout.first_address, 0)
    positions = prod(f.count for f in layout.factors if f.axis == MEMORY)
    if layout.is_injective():
        return buffer - positions
    if prod(layout.padded_shape) > _ENUMERATED:
        return None
    return buffer - len(set(layout.addresses(padded=True).ravel().tolist()))


def orders(layout: Layout) -> list[str]:
    """The orders in which the elements are contiguous, as tags or lists of names.

    Row-major, channels last, and the order that the strides suggest: there may be several, because dims of one
    element lie nowhere.
    """
    if 0 in layout.shape:
        return []
    dims = range(layout.rank)
    strides = [
        max((abs(s) for _, s in canonical_digits(layout.digits[d], layout.shape[d])), default=0) for d in dims
    ]
    candidates = [tuple(dims)]
    if layout.names == names_for(layout.rank) and layout.rank > 2:
        candidates.append((0, *range(2, layout.rank), 1))
    candidates.append(tuple(sorted(dims, key=lambda d: -strides[d])))
    found: list[str] = []
    for order in dict.fromkeys(candidates):
        format = Format(layout.names, tuple(Factor(d) for d in order))
        if layout.is_contiguous(format):
            found.append(name_of(format) or ", ".join(layout.names[d] for d in order) or "scalar")
    return found
