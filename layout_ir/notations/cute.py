"""CuTe: `Shape:Stride`, nested tuples, leftmost fastest.

`(2,(8,2),5,4):(320,(1,160),32,8)` is one mode per dim, and in a mode its digits, fine to coarse. Nesting only groups
digits; `_8` is an 8 that the C++ compiler knows. There are no pads: a padded layout prints as the layout of its padded
box, and the extents that are elements are not part of the text.

A layout starts at 0 unless it is composed: `Sw<B,M,S> o offset o layout` adds an offset and XORs address bits
[M+S, M+S+B) into [M, M+B); `Sw<0,0,0>` is no swizzle. The same is printed as `Swizzle<B,M,S>` and `S<B,M,S>`, and by
pycute as `SW_B_M_S`. In the place of the offset there may be a pointer, `smem_ptr[16b](unset)`: the swizzle is then one
of bytes, and of addresses of 16-bit elements it is `Sw<B,M-1,S>`.
"""

from __future__ import annotations

import re
from math import prod
from typing import ClassVar

from layout_ir.algebra.layout import Layout
from layout_ir.algebra.scan import MAX_DEPTH, Scanner
from layout_ir.errors import LayoutError, shape_text
from layout_ir.notations.cute_types import BEGINNING, Swizzle, Tree, read_type
from layout_ir.notations.decomposition import layout_of
from layout_ir.notations.notation import Notation, Subject

_STATIC = re.compile(r"(?<!\w)_(?=\d)", re.ASCII)
"""What stands in front of a number that the C++ compiler knows."""
_SWIZZLES = ("Sw", "Swizzle", "S")


class CuteNotation(Notation):
    """`(2,(8,2),5,4):(320,(1,160),32,8)`, `Sw<3,4,3> o 0 o (8,64):(64,1)`."""

    name: ClassVar[str] = "cute"
    beginning: ClassVar[str] = rf"(Sw|S|Swizzle)<|SW_\d|\w*ptr\[|_\d|\([\d(_,\s)]*:|{BEGINNING}"
    order: ClassVar[str] = "the top-level modes of the shape, first to last"
    about: ClassVar[str] = "CuTe shape:stride of the padded box, with swizzles"
    example: ClassVar[str] = "(2,(8,2),5,4):(320,(1,160),32,8)"
    says: ClassVar[frozenset[str]] = frozenset({"offset", "swizzle", "size"})

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        if re.match(rf"\s*{BEGINNING}", text):
            return self._cpp(text)
        scan = Scanner(_STATIC.sub(" ", text), self.name)
        scan.text = text  # what messages quote; a blank keeps the places
        swizzle, offset = None, 0
        start = scan.token
        if start.text in _SWIZZLES:
            scan.next()
            scan.expect("<")
            bits, base, shift = (self._number(scan, sep) for sep in (",", ",", ">"))
            swizzle = (bits, base, shift) if bits else None
            scan.expect("o")
        elif (of_pycute := re.fullmatch(r"SW_(\d{1,2})_(\d{1,2})_(\d{1,2})", start.text)) is not None:
            scan.next()
            bits, base, shift = map(int, of_pycute.groups())
            if max(bits, base, shift) > 62:
                scan.fail("such a swizzle leaves a 64-bit address", start)
            swizzle = (bits, base, shift) if bits else None
            scan.expect("o")
        if scan.token.kind == "word":
            bits = self._pointer(scan)
            swizzle = None if swizzle is None else _recast(swizzle, bits)
            scan.expect("o")
        elif not scan.at("("):
            before = scan.pos
            offset = scan.integer("the offset")
            if scan.at(":"):
                scan.pos, offset = before, 0  # an extent, of a layout of one mode
            else:
                scan.expect("o")
        sizes = self._tree(scan, "an extent", 1)
        scan.expect(":")
        strides = self._tree(scan, "a stride", None)
        scan.end()
        return _layout(sizes, strides, offset, swizzle, text)

    def _cpp(self, text: str) -> Layout:
        scan = Scanner(text, self.name)
        said = read_type(scan)
        scan.accept(";")
        scan.end()
        swizzle = said.swizzle
        if swizzle is not None and said.bits is not None:
            if said.bits & (said.bits - 1) or said.bits > 128:
                raise LayoutError(
                    f"cute text {text[:60]!r}: elements of {said.bits} bits, a swizzle of bytes is one of powers of two"
                )
            swizzle = _recast(swizzle, said.bits)
        return _layout(said.sizes, said.strides, said.offset, swizzle, text)

    @staticmethod
    def _pointer(scan: Scanner) -> int:
        """Takes `smem_ptr[16b](0x7f00)` or `ptr[16b](unset)`; the bits of an element."""
        start = scan.token
        word = scan.next().text
        if not word.endswith("ptr"):
            scan.fail(
                f"expected a layout, an offset or a pointer such as smem_ptr[16b](unset), found '{word}'",
                start,
            )
        scan.expect("[")
        bits = scan.integer("the bits of an element", low=1)
        if bits & (bits - 1) or bits > 128:
            scan.fail(f"elements of {bits} bits: a swizzle of bytes is one of powers of two", start)
        scan.expect("b", "]", "(")
        while not scan.accept(")"):
            if scan.next().kind == "end":
                scan.expect(")")
        return bits

    @staticmethod
    def _number(scan: Scanner, closing: str) -> int:
        value = scan.integer("a number of the swizzle", low=0)
        if value > 62:
            scan.fail(f"a swizzle by {value} bits leaves a 64-bit address")
        scan.expect(closing)
        return value

    def _tree(self, scan: Scanner, what: str, low: int | None, depth: int = 0) -> Tree:
        if depth > MAX_DEPTH:
            scan.fail(f"more than {MAX_DEPTH} levels of nesting")
        if scan.token.text == "(":
            return scan.sequence("(", ")", lambda: self._tree(scan, what, low, depth + 1))
        value = scan.integer(what, low=low)
        if scan.at("@"):
            scan.fail("a stride that counts coordinates (@) is no address")
        return value

    def _print(self, subject: Subject, dtype: str | None) -> str:
        layout = self.bound(subject)
        sizes: list[str] = []
        strides: list[str] = []
        for digits in layout.digits:
            kept = [d for d in digits if d.count != 1] or [digits[0]] if digits else []
            if any(d.count == 0 for d in kept):
                raise self.refuse(
                    subject, f"extents start at 1 there, and the shape is {shape_text(layout.shape)}"
                )
            sizes.append(_group([d.count for d in kept]))
            strides.append(_group([d.stride for d in kept]))
        text = f"({','.join(sizes)}):({','.join(strides)})"
        if layout.swizzle is None and not layout.offset:
            return text
        bits, base, shift = layout.swizzle or (0, 0, 0)
        return f"Sw<{bits},{base},{shift}> o {layout.offset} o {text}"


def _layout(sizes: Tree, strides: Tree, offset: int, swizzle: Swizzle | None, text: str) -> Layout:
    """The layout of these modes. Raises LayoutError where the two differ in structure."""
    modes = sizes if isinstance(sizes, list) else [sizes]
    steps = strides if isinstance(strides, list) else [strides]
    if isinstance(sizes, list) != isinstance(strides, list) or len(modes) != len(steps):
        raise LayoutError(f"cute text {text[:60]!r}: shape and stride differ in structure")
    if len(modes) > 64:
        raise LayoutError(f"cute text has {len(modes)} modes, at most 64 are supported")
    chains = [_chain(size, step, text) for size, step in zip(modes, steps, strict=True)]
    extents = tuple(prod(n for n, _ in chain) for chain in chains)
    return layout_of(extents, [chain[::-1] for chain in chains], offset=offset, swizzle=swizzle)


def _recast(swizzle: Swizzle, bits: int) -> Swizzle | None:
    """A swizzle of addresses in bytes as one of addresses in elements of so many bits."""
    count, base, shift = swizzle
    base += 3 - (bits.bit_length() - 1)
    if base < 0:
        count, base = count + base, 0
    return (count, base, shift) if count > 0 else None


def _group(values: list[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"({','.join(map(str, values))})"


def _chain(size: Tree, stride: Tree, text: str) -> list[tuple[int, int]]:
    """The digits (count, stride) of a mode, fine to coarse."""
    if isinstance(size, int) and isinstance(stride, int):
        return [(size, stride)]
    if isinstance(size, list) and isinstance(stride, list) and len(size) == len(stride):
        return [digit for n, s in zip(size, stride, strict=True) for digit in _chain(n, s, text)] or [(1, 0)]
    raise LayoutError(f"cute text {text[:60]!r}: shape and stride differ in structure")
