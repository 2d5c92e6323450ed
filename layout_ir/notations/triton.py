"""Triton: linear layouts over bits, where powers of two allow.

A linear layout maps hardware places to indices, bit by bit: `offset = [[0, 1], [0, 2], [1, 0]]` says that address bit 0
moves dim 1 by 1, bit 1 by 2, and bit 2 moves dim 0. Images of several bits are XORed. That is our layout read
backwards: if all digit sizes and strides are powers of two and their bit masks disjoint, address bits are index bits.
An XOR swizzle stays linear, so `swizzle = (bits, base, shift)` is expressed too, and found again when reading.
The encodings with names (`#ttg.blocked`, `swizzled_shared`, `nvmma_shared`, `padded_shared`) are such layouts at a
shape (`triton_encodings`), which a whole type, `!ttg.memdesc<64x128xf16, #ttg....>`, states. They are read and not
printed.

Other input dims (`register`, `lane`, `warp`, `block`) are places and become axes of the same name. Not representable
are sizes that are no powers of two, pads, offsets, and from the other side matrices that are no digits with one XOR.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from layout_ir.algebra.factors import MEMORY, Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.scan import Scanner
from layout_ir.algebra.tag import names_for
from layout_ir.errors import LayoutError, shape_text
from layout_ir.notations.notation import Notation, Subject
from layout_ir.notations.shaped_types import ShapedType, read_shaped_type
from layout_ir.notations.triton_encodings import ENCODINGS, Bases, read_encoding

_DIALECTS = ("ttg", "triton_gpu")
"""Its name, and its name of old."""
_PLACES = ("register", "lane", "warp", "block")
_MAX_BITS = 62


def bases_of(layout: Layout) -> Bases:
    """The images of address bits (under "offset") and of the bits of other axes. Raises LayoutError with the reason."""
    if layout.is_padded:
        raise LayoutError(f"triton cannot say {layout}: its extents {shape_text(layout.shape)} are padded")
    bits: dict[str, dict[int, tuple[int, ...]]] = {}
    for dim, digits in enumerate(layout.digits):
        for digit in digits:
            if digit.count == 1:
                continue
            for value in (digit.count, digit.stride, digit.unit):
                if value < 1 or value & (value - 1):
                    raise LayoutError(f"triton cannot say {layout}: {value} is no power of two")
            for bit in range(digit.count.bit_length() - 1):
                at = (digit.stride << bit).bit_length() - 1
                image = tuple(digit.unit << bit if d == dim else 0 for d in range(layout.rank))
                if at in bits.setdefault(digit.axis, {}):
                    raise LayoutError(
                        f"triton cannot say {layout}: two index bits meet in bit {at} of an address"
                    )
                bits[digit.axis][at] = image
    result: Bases = {}
    for axis, images in bits.items():
        none = (0,) * layout.rank
        result["offset" if axis == MEMORY else axis] = [images.get(k, none) for k in range(max(images) + 1)]
    result.setdefault("offset", [])
    if layout.swizzle is not None:
        result["offset"] = _swizzled(result["offset"], layout, layout.swizzle)
    return result


def _swizzled(
    bases: list[tuple[int, ...]], layout: Layout, swizzle: tuple[int, int, int]
) -> list[tuple[int, ...]]:
    """Images of the bits of swizzled addresses: the swizzle is its own inverse, and linear.

    A bit that no index moves turns no other one. Raises LayoutError where such a one is turned: an image cannot say
    that it is set.
    """
    bits, base, shift = swizzle
    result = list(bases)
    for low in range(base, base + bits):
        high = low + shift
        if high < len(bases) and any(bases[high]):
            if not any(bases[low]):
                raise LayoutError(
                    f"triton cannot say {layout}: its swizzle turns bit {low} of an address, which no index moves"
                )
            result[high] = _xor(bases[high], bases[low])
    return result


def _xor(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    return tuple(x ^ y for x, y in zip(a, b, strict=True))


def layout_of_bases(
    bases: Bases, shape: Sequence[int] | None = None, padding: Sequence[tuple[int, int]] = ()
) -> Layout:
    """The Layout whose images are `bases`. Raises LayoutError where they are no digits with at most one XOR.

    `padding` is a list of (interval, count): so many elements are skipped after each interval of offsets. Intervals are
    powers of two, so that the skipped elements of an offset are the sum of those of its bits.
    """
    images = [image for values in bases.values() for image in values]
    if not images and shape is None:
        raise LayoutError("triton text without images does not say the rank: give a shape")
    rank = len(images[0]) if images else len(shape or ())
    if any(len(image) != rank for image in images):
        raise LayoutError(f"triton images differ in length: {sorted({len(image) for image in images})}")
    if rank > 64:
        raise LayoutError(f"triton images have {rank} entries, at most 64 are supported")
    extents = [1] * rank
    for image in images:
        for dim, value in enumerate(image):
            if value < 0 or value >= 1 << _MAX_BITS:
                raise LayoutError(
                    f"triton image {list(image)} holds {value}: bits of an index lie between 1 and 2^{_MAX_BITS}"
                )
            extents[dim] = max(extents[dim], 1 << value.bit_length())
    offset, swizzle = _unswizzled(bases.get("offset", []))
    if swizzle is not None and padding:
        raise LayoutError(
            "triton images with an XOR and with padding: addresses are swizzled before they are padded"
        )
    placed: list[dict[int, tuple[int, str]]] = [{} for _ in range(rank)]  # per dim: index bit -> stride, axis
    for axis, values in {**bases, "offset": offset}.items():
        for at, image in enumerate(values):
            moved = [(dim, value) for dim, value in enumerate(image) if value]
            if not moved:
                continue
            if len(moved) > 1 or moved[0][1] & (moved[0][1] - 1):
                raise LayoutError(
                    f"triton image {list(image)} of bit {at} of {axis} moves several index bits: no digits, and no "
                    "single XOR"
                )
            dim, bit = moved[0][0], moved[0][1].bit_length() - 1
            if bit in placed[dim]:
                raise LayoutError(
                    f"triton images reach index bit {bit} of dim {dim} twice: replicas have no layout here"
                )
            address = 1 << at
            if axis == "offset":
                address += sum((1 << at) // interval * count for interval, count in padding)
            placed[dim][bit] = (address, MEMORY if axis == "offset" else axis)
    for dim, bits in enumerate(placed):
        if sorted(bits) != list(range(extents[dim].bit_length() - 1)):
            raise LayoutError(
                f"triton images reach index bits {sorted(bits)} of dim {dim}: all of its "
                f"{extents[dim].bit_length() - 1} are needed"
            )
    factors = _merged(placed)
    found = Format(names_for(rank), tuple(factors), swizzle=swizzle).bind(extents)
    if shape is not None and tuple(shape) != found.shape:
        raise LayoutError(
            f"triton text says shape {shape_text(found.shape)}, asked for was {shape_text(shape)}"
        )
    return found


def _merged(placed: list[dict[int, tuple[int, str]]]) -> list[Factor]:
    """Factors by falling stride, of index bits joined where they continue each other."""
    chains: list[list[list[int | str]]] = []
    for bits in placed:
        chain: list[list[int | str]] = []  # size, stride, axis; fine to coarse
        for bit in sorted(bits):
            stride, axis = bits[bit]
            if chain and chain[-1][2] == axis and int(chain[-1][0]) * int(chain[-1][1]) == stride:
                chain[-1][0] = int(chain[-1][0]) * 2
            else:
                chain.append([2, stride, axis])
        chains.append(chain)
    factors: list[Factor] = []
    heads = [True] * len(chains)
    for dim, chain in enumerate(chains):
        if not chain:
            factors.append(Factor(dim))
    while any(chains):
        dim = max((d for d in range(len(chains)) if chains[d]), key=lambda d: int(chains[d][-1][1]))
        size, stride, axis = chains[dim].pop()
        factors.append(Factor(dim, None if heads[dim] else int(size), int(stride), str(axis)))
        heads[dim] = False
    return factors


def _unswizzled(
    bases: list[tuple[int, ...]],
) -> tuple[list[tuple[int, ...]], tuple[int, int, int] | None]:
    """The images before the XOR, and the XOR (bits, base, shift), if one explains all images of several bits."""
    mixed = [k for k, image in enumerate(bases) if sum(value.bit_count() for value in image) > 1]
    if not mixed:
        return bases, None
    first, last = mixed[0], mixed[-1]
    for base in range(first):
        shift = first - base
        bits = last - first + 1
        if shift < bits:
            continue
        plain = list(bases)
        for k in range(bits):
            if any(bases[first + k]):
                plain[first + k] = _xor(bases[first + k], bases[base + k])
        moved = [image for image in plain if any(image)]
        is_plain = all(sum(value.bit_count() for value in image) == 1 for image in moved)
        if is_plain and len(set(moved)) == len(moved):
            return plain, (bits, base, shift)
    return bases, None


class TritonNotation(Notation):
    """`#ttg.shared_linear<{offset = [[0, 1], [1, 0]]}>`, `#ttg.linear<{register = ...}>`, and the other encodings."""

    name: ClassVar[str] = "triton"
    beginning: ClassVar[str] = (
        r"#(ttg|triton_gpu)\.|#\w+\s*=\s*#|!ttg\.|tensor<[^#]*#ttg|\{\s*(offset|register|lane)\s*="
    )
    about: ClassVar[str] = (
        "Triton linear layouts: images of the bits of offset, register, lane, warp; reads blocked and shared ones"
    )
    example: ClassVar[str] = "#ttg.shared_linear<{offset = [[0, 1], [0, 2], [1, 0], [2, 0]]}, alignment = 16>"
    says: ClassVar[frozenset[str]] = frozenset({"swizzle", "axes", "size"})

    def element_type(self, text: str) -> str | None:
        """The element type of `!ttg.memdesc<64x128xf16, ...>`; None where only an encoding stands."""
        scan = Scanner(text, self.name)
        return self._typed(scan).element if self._opens_type(scan) else None

    @staticmethod
    def _opens_type(scan: Scanner) -> bool:
        """Takes `tensor<` or `!ttg.memdesc<`, if that is what the text begins with."""
        if scan.accept("!"):
            start = scan.token
            scan.word("a type such as ttg.memdesc")
            scan.expect(".")
            if not scan.accept("memdesc"):
                scan.fail("memdesc is the type of shared memory", start)
        elif not scan.accept("tensor"):
            return False
        scan.expect("<")
        return True

    @staticmethod
    def _typed(scan: Scanner) -> ShapedType:
        found = read_shaped_type(scan)
        if found.static is None:
            scan.fail("dynamic extents have no layout: write their values in place of '?'")
        scan.expect(",")
        return found

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        scan = Scanner(text, self.name)
        extents = shape
        is_type = self._opens_type(scan)
        if is_type:
            extents = self._typed(scan).static
        wrapped = scan.accept("#")
        if wrapped:
            if scan.token.kind == "word" and scan.token.text not in _DIALECTS:
                scan.next()  # an alias and its definition: #blocked = #ttg.blocked<...>
                scan.expect("=", "#")
            start = scan.token
            if scan.word("ttg") not in _DIALECTS:
                scan.fail(f"'{start.text}' is no dialect of Triton: ttg is read", start)
            scan.expect(".")
            start = scan.token
            name = scan.word("linear or shared_linear")
            if name not in ("linear", "shared_linear", *ENCODINGS):
                known = ", ".join(("linear", "shared_linear", *ENCODINGS))
                scan.fail(f"'{start.text}' is no linear layout: {known} are read", start)
            scan.expect("<")
            if name in ENCODINGS:
                encoding = read_encoding(scan, name)
                self._close(scan, is_type)
                return layout_of_bases(encoding.images(extents), extents, encoding.padding)
        scan.expect("{")
        bases: Bases = {}
        while not scan.accept("}"):
            if bases:
                scan.expect(",")
            start = scan.token
            name = scan.word("an input dim such as offset or lane")
            if name in bases or name == MEMORY:
                scan.fail(f"input dim '{name}' is given twice or is reserved", start)
            scan.expect("=")
            bases[name] = scan.sequence("[", "]", lambda: scan.integers("[", "]", "an image", low=0))
            if len(bases[name]) > _MAX_BITS:
                scan.fail(
                    f"input dim '{name}' has {len(bases[name])} bits, at most {_MAX_BITS} are supported",
                    start,
                )
        if wrapped:
            if scan.accept(","):
                scan.expect("alignment", "=")
                scan.integer("the alignment", low=1)
            self._close(scan, is_type)
        scan.end()
        return layout_of_bases(bases, extents)

    @staticmethod
    def _close(scan: Scanner, is_type: bool) -> None:
        """Takes the end of an encoding, and of the type around it with what the type says of memory."""
        scan.expect(">")
        if not is_type:
            scan.end()
            return
        while scan.accept(","):  # the memory space, mutable, the allocated shape
            while scan.token.kind != "end" and not scan.at(",") and not scan.at(">"):
                scan.next()
        scan.expect(">")
        scan.end()

    def _print(self, subject: Subject, dtype: str | None) -> str:
        layout = self.bound(subject)
        if 0 in layout.shape or prod(layout.shape) >= 1 << _MAX_BITS:
            raise self.refuse(layout, "extents are powers of two there")
        bases = bases_of(layout)
        axes = [axis for axis in bases if axis != "offset"]
        if not axes:
            return f"#ttg.shared_linear<{{offset = {_lists(bases['offset'])}}}>"
        if bases["offset"]:
            axes = ["offset", *axes]
        known = [a for a in _PLACES if a in axes] + [a for a in axes if a not in _PLACES]
        return f"#ttg.linear<{{{', '.join(f'{axis} = {_lists(bases[axis])}' for axis in known)}}}>"


def _lists(images: Sequence[Sequence[int]]) -> str:
    return f"[{', '.join(f'[{chr(44).join(map(str, image))}]'.replace(',', ', ') for image in images)}]"
