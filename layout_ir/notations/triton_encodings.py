"""Triton's encodings with names, as images of bits: what each distributed or shared encoding means at a shape.

    #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
    #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
    #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
    #ttg.padded_shared<[128:+4] {order = [1, 0], shape = [16, 128]}>

All are defined for extents that are powers of two, by the index bit that each bit of a place moves. `order` lists dims
from the fastest on. A blocked encoding gives a thread `sizePerThread` neighbours, then lanes and warps theirs, and
where the tensor is larger, further registers. A swizzled one is row-major but for a column that is XORed by `vec` times
the phase of its row, (row / perPhase) mod maxPhase. The one for NVIDIA's matrix units holds boxes of 256 per dim and of
`swizzlingByteWidth` bytes along the fastest, swizzled in pieces of 16 bytes. A padded one is row-major, or any other
order of bits, and skips so many elements after each interval.

Encodings of several CTAs are refused: their layout is that of one CTA and says not which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from layout_ir.algebra.scan import Scanner, Token
from layout_ir.errors import LayoutError, shape_text

Value = int | bool | list["Value"]

Bases = dict[str, list[tuple[int, ...]]]
"""Per input dim (offset, register, lane, warp), the image of each of its bits, least significant first."""

_OF_SEVERAL_CTAS = ("CTAsPerCGA", "CTASplitNum", "CGALayout", "CTAOrder", "block")

ENCODINGS = ("blocked", "swizzled_shared", "shared", "nvmma_shared", "padded_shared")
"""The encodings that are read; `shared` is what swizzled_shared was called before."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """An encoding as it is written."""

    name: str
    fields: Mapping[str, Value]
    places: Mapping[str, tuple[int, int]]
    """The span of the value of each field, for errors."""
    padding: tuple[tuple[int, int], ...] = ()
    """Pairs of an interval and the elements that are skipped after it."""

    def images(self, shape: Sequence[int] | None) -> Bases:
        """What the bits of a place move in a tensor of `shape`. Raises LayoutError where that is not defined."""
        given = self.fields.get("shape")
        if isinstance(given, list):
            own = self._numbers("shape")
            if shape is not None and tuple(shape) != own:
                raise self._error(f" is of {shape_text(own)}, the tensor is {shape_text(shape)}", "shape")
            shape = own
        if shape is None and self.name == "blocked":
            shape = self._span()
        if shape is None and "offset" not in self.fields:
            raise self._error(" means another layout at each shape: give one")
        for extent in shape or ():
            if extent < 1 or extent & (extent - 1):
                raise self._error(
                    f" needs extents that are powers of two, the shape is {shape_text(shape or ())}"
                )
        match self.name:
            case "blocked":
                return self._blocked(shape or ())
            case "nvmma_shared":
                return self._nvmma(shape or ())
            case "padded_shared":
                return self._padded(shape)
            case _:
                return self._swizzled(shape or ())

    # One method per encoding ----------------------------------------------------------------------------------

    def _span(self) -> tuple[int, ...]:
        """The extents that registers, lanes and warps hold once."""
        parts = [self._numbers(name) for name in ("sizePerThread", "threadsPerWarp", "warpsPerCTA")]
        if len({len(part) for part in parts}) > 1:
            lengths = ", ".join(str(len(part)) for part in parts)
            raise self._error(
                f": sizePerThread, threadsPerWarp and warpsPerCTA differ in length: {lengths}", "warpsPerCTA"
            )
        return tuple(a * b * c for a, b, c in zip(*parts, strict=True))

    def _blocked(self, shape: Sequence[int]) -> Bases:
        span, order = self._span(), self._order(shape)
        if len(span) != len(shape):
            raise self._error(f" is of rank {len(span)}, the tensor is {shape_text(shape)}", "sizePerThread")
        small = [d for d in range(len(shape)) if shape[d] < span[d]]
        if small:
            raise self._error(
                f" holds {shape_text(span)}, the tensor is {shape_text(shape)}: several threads hold the same ones, "
                "and replicas have no layout here"
            )
        reached = [1] * len(shape)
        result: Bases = {}
        for axis, name in (
            ("register", "sizePerThread"),
            ("lane", "threadsPerWarp"),
            ("warp", "warpsPerCTA"),
        ):
            sizes = self._numbers(name)
            result[axis] = []
            for dim in order:
                self._power(name, sizes[dim])
                result[axis] += _bits(len(shape), dim, reached[dim], reached[dim] * sizes[dim])
                reached[dim] *= sizes[dim]
        for dim in order:
            result["register"] += _bits(len(shape), dim, reached[dim], shape[dim])
        return result

    def _swizzled(self, shape: Sequence[int]) -> Bases:
        if self.fields.get("hasLeadingOffset"):
            raise self._error(
                " with hasLeadingOffset is what nvmma_shared is now: write that", "hasLeadingOffset"
            )
        order = self._order(shape)
        vec, per_phase, max_phase = (
            self._power(name, self._number(name)) for name in ("vec", "perPhase", "maxPhase")
        )
        result = _bits(len(shape), order[0], 1, shape[order[0]]) if order else []
        for place, dim in enumerate(order[1:]):
            for image in _bits(len(shape), dim, 1, shape[dim]):
                if place == 0:
                    phase = image[dim] // per_phase % max_phase
                    image = _with(image, order[0], vec * phase % shape[order[0]])
                result.append(image)
        return {"offset": result}

    def _nvmma(self, shape: Sequence[int]) -> Bases:
        width, bits = (
            self._number("swizzlingByteWidth"),
            self._power("elementBitWidth", self._number("elementBitWidth")),
        )
        rank, is_transposed = len(shape), bool(self.fields.get("transposed", False))
        if width not in (0, 32, 64, 128):
            raise self._error(
                f": swizzlingByteWidth is {width}, expected 0, 32, 64 or 128", "swizzlingByteWidth"
            )
        if self.fields.get("fp4Padded"):
            raise self._error(
                " with fp4Padded: half of its bytes hold nothing, which no layout of elements says",
                "fp4Padded",
            )
        if rank < 2 or (is_transposed and rank > 2):
            raise self._error(
                f"{', transposed,' if is_transposed else ''} is read for "
                f"{'matrices' if is_transposed else 'rank 2 and more'}, the shape is {shape_text(shape)}",
                "transposed",
            )
        order = [0, 1] if is_transposed else list(reversed(range(rank)))
        inner = order[0]
        box = [min(extent, 256) for extent in shape]
        if width:
            box[inner] = 8 * width // bits
            rows = 1
            for dim in order[1:]:
                rows *= shape[dim]
            if shape[inner] < box[inner] or rows < 8:
                raise self._error(
                    f" holds pieces of 8 rows of {box[inner]} elements at least, the tensor is {shape_text(shape)}"
                )
        result = _bits(rank, inner, 1, box[inner])
        row = 1
        for dim in order[1:]:
            for image in _bits(rank, dim, 1, box[dim]):
                if width and row < 8:
                    per_phase, vec = 128 // width, 128 // bits
                    image = _with(image, inner, vec * (row // per_phase % (width // 16)))
                result.append(image)
                row *= 2
        # What lies outside of the first box: by dim, the last first where nothing is swizzled.
        for dim in range(rank) if width else reversed(range(rank)):
            result += _bits(rank, dim, box[dim], shape[dim])
        return {"offset": result}

    def _padded(self, shape: Sequence[int] | None) -> Bases:
        if "offset" in self.fields:
            images = self.fields["offset"]
            if not isinstance(images, list) or not all(
                isinstance(image, list) and all(type(x) is int for x in image) for image in images
            ):
                raise self._error(": offset is a list of images such as [[0, 1], [1, 0]]", "offset")
            return {
                "offset": [
                    tuple(x for x in image if isinstance(x, int))
                    for image in images
                    if isinstance(image, list)
                ]
            }
        assert shape is not None
        return {
            "offset": [image for dim in self._order(shape) for image in _bits(len(shape), dim, 1, shape[dim])]
        }

    # Fields ---------------------------------------------------------------------------------------------------

    def _error(self, message: str, field: str | None = None) -> LayoutError:
        return LayoutError(f"triton encoding {self.name}{message}", self.places.get(field or ""))

    def _number(self, name: str) -> int:
        value = self.fields.get(name)
        if type(value) is not int or value < 0:
            raise self._error(f" needs {name}, a number: it has {_listed(self.fields)}", name)
        return value

    def _numbers(self, name: str) -> tuple[int, ...]:
        value = self.fields.get(name)
        if not isinstance(value, list) or any(type(x) is not int or x < 0 for x in value):
            raise self._error(f" needs {name}, a list of numbers: it has {_listed(self.fields)}", name)
        return tuple(x for x in value if isinstance(x, int))

    def _order(self, shape: Sequence[int]) -> tuple[int, ...]:
        order = self._numbers("order")
        if sorted(order) != list(range(len(shape))):
            raise self._error(
                f": order {list(order)} is no order of the dims of {shape_text(shape)}", "order"
            )
        return order

    def _power(self, name: str, value: int) -> int:
        if value < 1 or value & (value - 1):
            raise self._error(f": {name} has {value}, which is no power of two", name)
        return value


def _listed(fields: Mapping[str, Value]) -> str:
    return ", ".join(fields) or "no fields"


def _bits(rank: int, dim: int, low: int, high: int) -> list[tuple[int, ...]]:
    """The images of the index bits of `dim` from `low` on, below `high` (both powers of two)."""
    images: list[tuple[int, ...]] = []
    while low < high:
        images.append(tuple(low if d == dim else 0 for d in range(rank)))
        low *= 2
    return images


def _with(image: tuple[int, ...], dim: int, value: int) -> tuple[int, ...]:
    return tuple(value if d == dim else x for d, x in enumerate(image))


def read_encoding(scan: Scanner, name: str) -> Encoding:
    """Takes what stands between the angle brackets of `#ttg.NAME<...>`. Raises LayoutError with the span."""
    padding: list[tuple[int, int]] = []
    if name == "padded_shared":

        def pair() -> None:
            start = scan.token
            interval = scan.integer("an interval", low=1)
            scan.expect(":", "+")
            amount = scan.integer("a padding", low=1)
            if interval & (interval - 1) or any(interval == other for other, _ in padding):
                scan.fail(f"interval {interval} is no power of two, or stands twice", start)
            padding.append((interval, amount))

        scan.sequence("[", "]", pair)
    fields: dict[str, Value] = {}
    places: dict[str, tuple[int, int]] = {}

    def field() -> None:
        start = scan.token
        key = scan.word("a field such as order")
        if key in fields:
            scan.fail(f"field '{key}' stands twice", start)
        scan.expect("=")
        at = scan.token
        fields[key] = _value(scan)
        places[key] = (at.start, scan.tokens[scan.pos - 1].end)
        if key in _OF_SEVERAL_CTAS and key != "CTAOrder":
            _check_one_cta(scan, key, fields[key], at)

    scan.sequence("{", "}", field)
    return Encoding(name, fields, places, tuple(padding))


def _value(scan: Scanner) -> Value:
    if scan.at("["):
        return scan.sequence("[", "]", lambda: _value(scan))
    if scan.accept("true"):
        return True
    if scan.accept("false"):
        return False
    return scan.integer("a value")


def _check_one_cta(scan: Scanner, key: str, value: Value, at: Token) -> None:
    """Raises LayoutError where a field says that the tensor is shared among CTAs."""
    if isinstance(value, list) and all(x == 1 for x in value):
        return
    scan.fail(f"{key} cuts the tensor among several CTAs: a layout here is that of one", at)
