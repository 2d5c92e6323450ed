"""CuTe layouts as C++ writes them: types and the calls that make them.

    Layout<Shape<_8, Shape<_2, _4>>, Stride<_1, Stride<_64, Int<8>>>>
    cute::ComposedLayout<cute::Swizzle<3, 3, 3>, cute::C<0>, cute::Layout<...>>
    make_layout(make_shape(Int<8>{}, 64), LayoutRight{})

They say what `Shape:Stride` says. Strides that are left out count from the left, as `LayoutLeft` does; `LayoutRight`
counts from the right. A type that leaves a number to the run time (`int`) is refused, since the text has no number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from layout_ir.algebra.scan import MAX_DEPTH, Scanner

Tree: TypeAlias = "int | list[Tree]"
Swizzle: TypeAlias = tuple[int, int, int]

_LAYOUTS = ("Layout", "ComposedLayout", "make_layout", "make_composed_layout")
BEGINNING = rf"(?:cute::)?(?:{'|'.join(_LAYOUTS)})\s*[<(]"
"""A regular expression for how such a text begins."""
_TUPLES = ("Shape", "Stride", "Step", "Coord", "Tile", "tuple", "make_shape", "make_stride", "make_tuple")
_NUMBERS = ("Int", "C", "constant", "integral_constant")
_STATIC = re.compile(r"_(\d+)", re.ASCII)
_FROM_LEFT, _FROM_RIGHT = ("LayoutLeft", "GenColMajor"), ("LayoutRight", "GenRowMajor")
_CLOSING = {"<": ">", "(": ")"}


@dataclass(frozen=True, slots=True)
class CuteText:
    """What a text says, `offset` and strides in elements. The swizzle is one of addresses in elements; where `bits`,
    the bits of an element, are said, it is one of addresses in bytes."""

    sizes: Tree
    strides: Tree
    offset: int = 0
    swizzle: Swizzle | None = None
    bits: int | None = None


def read_type(scan: Scanner) -> CuteText:
    """The layout that begins at the cursor, which is left behind it. Raises LayoutError with the span of what is
    no layout, or has no number."""
    name = _name(scan)
    if name not in _LAYOUTS:
        scan.fail(f"expected {', '.join(_LAYOUTS[:-1])} or {_LAYOUTS[-1]}, found '{name}'")
    closing = _opened(scan)
    if "omposed" not in name:
        sizes = _tree(scan, "an extent", 1)
        strides = _strides(scan, sizes) if scan.accept(",") else compact(sizes, from_left=True)
        _closed(scan, closing)
        return CuteText(sizes, strides)
    swizzle = _swizzle(scan)
    scan.expect(",")
    offset, bits = _offset(scan)
    scan.expect(",")
    inner = read_type(scan)
    if inner.swizzle is not None or inner.offset:
        scan.fail("a composed layout inside of another")
    _closed(scan, closing)
    return CuteText(inner.sizes, inner.strides, offset, swizzle, bits)


def compact(sizes: Tree, *, from_left: bool) -> Tree:
    """The strides of a dense layout of these extents, the leftmost or the rightmost mode the fastest."""
    return _compact(sizes, 1, from_left)[0]


def _compact(sizes: Tree, step: int, from_left: bool) -> tuple[Tree, int]:
    """The strides of `sizes` where the fastest is `step`, and the stride of what comes next."""
    if isinstance(sizes, int):
        return step, step * sizes
    strides: list[Tree] = []
    for size in sizes if from_left else reversed(sizes):
        stride, step = _compact(size, step, from_left)
        strides.append(stride)
    return strides if from_left else strides[::-1], step


def _name(scan: Scanner) -> str:
    """The next identifier, without the namespaces in front of it."""
    name = scan.word("a name of CuTe")
    while name in ("cute", "std") and scan.accept(":"):
        scan.expect(":")
        name = scan.word("a name of CuTe")
    return name


def _opened(scan: Scanner) -> str:
    """Takes a `<` or a `(`; what closes it."""
    opening = scan.token.text
    if opening not in _CLOSING:
        scan.fail(f"expected '<' or '(', found {scan.found()}")
    scan.next()
    return _CLOSING[opening]


def _closed(scan: Scanner, closing: str) -> None:
    """Takes what closes a type or a call, and the braces that make a value of a type."""
    scan.expect(closing)
    if scan.accept("{"):
        scan.expect("}")


def _strides(scan: Scanner, sizes: Tree) -> Tree:
    before = scan.pos
    if scan.token.kind == "word" and (name := _name(scan)) in (*_FROM_LEFT, *_FROM_RIGHT):
        if scan.accept("{"):
            scan.expect("}")
        return compact(sizes, from_left=name in _FROM_LEFT)
    scan.pos = before
    return _tree(scan, "a stride", None)


def _tree(scan: Scanner, what: str, low: int | None, depth: int = 0) -> Tree:
    if depth > MAX_DEPTH:
        scan.fail(f"more than {MAX_DEPTH} levels of nesting")
    before = scan.pos
    if scan.token.kind == "word" and _STATIC.fullmatch(scan.token.text) is None and _name(scan) in _TUPLES:
        return _listed(scan, lambda: _tree(scan, what, low, depth + 1))
    scan.pos = before
    return _number(scan, what, low)


def _listed(scan: Scanner, item: Callable[[], Tree]) -> list[Tree]:
    closing = _opened(scan)
    found: list[Tree] = []
    while not scan.at(closing):
        if found:
            scan.expect(",")
        found.append(item())
    _closed(scan, closing)
    return found


def _number(scan: Scanner, what: str, low: int | None) -> int:
    """A number: `8`, `_8`, `Int<8>{}`, `C<8>`, `integral_constant<int, 8>`."""
    start = scan.token
    if (static := _STATIC.fullmatch(start.text)) is not None:
        scan.next()
        value = int(static[1][:20])
        if value >= 1 << 63:
            scan.fail(f"{what} {start.text[:24]} is not below 2^63", start)
    elif start.kind == "word":
        name = _name(scan)
        if name not in _NUMBERS:
            scan.fail(
                f"{what} is '{name}', which is no number: a layout of a type has all its numbers in the text",
                start,
            )
        scan.expect("<")
        if "constant" in name:
            scan.word("a type of integers")
            scan.expect(",")
        value = scan.integer(what)
        _closed(scan, ">")
    else:
        value = scan.integer(what)
    if scan.accept("{"):
        scan.expect("}")
    if low is not None and value < low:
        scan.fail(f"{what} is {value}, at least {low} is needed", start)
    return value


def _swizzle(scan: Scanner) -> Swizzle | None:
    start = scan.token
    if (name := _name(scan)) != "Swizzle":
        scan.fail(f"expected Swizzle<B, M, S>, found '{name}'", start)
    scan.expect("<")
    numbers: list[int] = []
    for closing in (",", ",", ">"):
        numbers.append(_number(scan, "a number of the swizzle", 0))
        if numbers[-1] > 62:
            scan.fail(f"a swizzle by {numbers[-1]} bits leaves a 64-bit address", start)
        _closed(scan, closing)
    bits, base, shift = numbers
    return (bits, base, shift) if bits else None


def _offset(scan: Scanner) -> tuple[int, int | None]:
    """The offset of a composed layout; in its place may be a pointer's element, `smem_ptr_flag_bits<16>`."""
    before = scan.pos
    start = scan.token
    if start.kind == "word" and _STATIC.fullmatch(start.text) is None:
        name = _name(scan)
        if name in ("smem_ptr_flag", "smem_ptr_flag_bits", "smem_sparse_ptr_flag_bits"):
            bits = 1
            if scan.accept("<"):
                bits = _number(scan, "the bits of an element", 1)
                _closed(scan, ">")
            elif scan.accept("{"):
                scan.expect("}")
            return 0, bits
        scan.pos = before
    return _number(scan, "the offset", None), None
