"""The table of reorders that are measured.

A shape per memory that should hold it: L2 of a core, the last-level cache, DRAM. Cases of the group `table` are those
that trial kernels were measured on before the compiler was written; `peers` are those in which other libraries are
strong or weak.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError

SIZES = ("L2", "L3", "DRAM")

Shape = tuple[int, ...]

_CROUTON = "(n, h, w, c) : [n, h, w, c, h:8, w:8, c:32]"
_NHWC = "(n, h, w, c) : [n, h, w, c]"


@dataclass(frozen=True)
class Case:
    """A reorder from `src` to `dst` (tags, formats, or layouts of the only shape), with a shape per size."""

    name: str
    src: str | Layout
    dst: str | Layout
    dtype: str
    shapes: Mapping[str, Shape]
    group: str = "table"
    dst_dtype: str = ""
    """The element type of the destination where it is another."""

    @property
    def result_dtype(self) -> str:
        """The element type of the destination."""
        return self.dst_dtype or self.dtype

    def bound(self, size: str) -> tuple[Layout, Layout]:
        """Source and destination at that size. Raises LayoutError where the formats do not fit the shape."""
        src, dst = (
            side if isinstance(side, Layout) else Format.of(side).bind(self.shapes[size])
            for side in (self.src, self.dst)
        )
        return src, dst


def _images(name: str, pair: str, plane: Shape, counts: Shape, dtype: str = "f32", to: str = "") -> Case:
    """Batches of images of one shape, as many as fill each memory."""
    src, dst = pair.split("->")
    shapes = {size: (n, *plane) for size, n in zip(SIZES, counts, strict=True)}
    return Case(name, src, dst, dtype, shapes, dst_dtype=to)


def _peers(name: str, pair: str, l2: Shape, l3: Shape, dram: Shape, dtype: str = "f32", to: str = "") -> Case:
    src, dst = pair.split("->")
    return Case(name, src, dst, dtype, dict(zip(SIZES, (l2, l3, dram), strict=True)), "peers", to)


_TABLE = [
    Case("T", "ab", "ba", "f32", {"L2": (256, 256), "L3": (1024, 2048), "DRAM": (4096, 4096)}),
    Case("T 512", "ab", "ba", "f32", {"L2": (512, 512)}),
    Case("T 4160", "ab", "ba", "f32", {"DRAM": (4160, 4160)}),
    *[
        _images(f"{pair} {','.join(map(str, plane))}", pair, plane, counts)
        for plane, counts in (
            ((64, 56, 56), (1, 10, 96)), ((256, 14, 14), (1, 40, 384)), ((3, 224, 224), (1, 14, 128)),
        )
        for pair in ("nchw->nhwc", "nhwc->nchw")
    ],
    *[
        _images(f"{pair} 64,56,56", pair, (64, 56, 56), (1, 10, 96))
        for pair in ("nchw->nChw8c", "nChw8c->nchw", "nchw->nChw16c", "nChw16c->nchw", "nChw8c->nChw16c")
    ],
    _images("nchw->nChw8c C17", "nchw->nChw8c", (17, 56, 56), (4, 40, 360)),
    Case(
        "oihw->OIhw8i8o", "oihw", "OIhw8i8o", "f32",
        {"L2": (64, 64, 3, 3), "L3": (512, 512, 3, 3), "DRAM": (2048, 1024, 3, 3)},
    ),
    _images("u8 nhwc->nchw 64,56,56", "nhwc->nchw", (64, 56, 56), (4, 40, 384), "ui8"),
    _images("s8 nhwc->crouton 56,56,64", f"{_NHWC}->{_CROUTON}", (56, 56, 64), (4, 40, 384), "i8"),
    Case("f32->bf16", "a", "a", "f32", {"L2": (1 << 18,), "L3": (1 << 21,), "DRAM": (1 << 24,)}, dst_dtype="bf16"),
    _images("nchw f32->nhwc bf16 64,56,56", "nchw->nhwc", (64, 56, 56), (1, 10, 96), "f32", "bf16"),
]  # fmt: skip

_PEERS = [
    _peers("copy C64", "nchw->nchw", (1, 64, 20, 20), (1, 64, 128, 128), (8, 64, 128, 128)),
    _peers("nchw->nhwc C64 pow2", "nchw->nhwc", (1, 64, 16, 16), (1, 64, 128, 128), (8, 64, 128, 128)),
    _peers("nhwc->nchw C64 pow2", "nhwc->nchw", (1, 64, 16, 16), (1, 64, 128, 128), (8, 64, 128, 128)),
    _peers("nchw->nChw8c C3", "nchw->nChw8c", (1, 3, 96, 96), (7, 3, 224, 224), (56, 3, 224, 224)),
    _peers("nchw->nChw16c C256", "nchw->nChw16c", (1, 256, 10, 10), (20, 256, 14, 14), (168, 256, 14, 14)),
    _peers("nChw16c->nchw C256", "nChw16c->nchw", (1, 256, 10, 10), (20, 256, 14, 14), (168, 256, 14, 14)),
    _peers("nChw16c->nchw C17", "nChw16c->nchw", (1, 17, 28, 28), (20, 17, 56, 56), (160, 17, 56, 56)),
    _peers("nhwc->nChw16c C64", "nhwc->nChw16c", (1, 64, 20, 20), (5, 64, 56, 56), (42, 64, 56, 56)),
    _peers("nChw8c->nChw16c C17", "nChw8c->nChw16c", (1, 17, 32, 32), (20, 17, 56, 56), (160, 17, 56, 56)),
    _peers("T non-pow2", "ab->ba", (161, 163), (1001, 1000), (3001, 2999)),
    _peers("oihw->OIhw16i16o", "oihw->OIhw16i16o", (64, 48, 3, 3), (512, 256, 3, 3), (1024, 1024, 3, 3)),
    _peers("oihw->Ohwi32o", "oihw->Ohwi32o", (64, 48, 3, 3), (512, 256, 3, 3), (1024, 1024, 3, 3)),
    _peers("f32->s8 4D", "nchw->nchw", (1, 64, 20, 20), (5, 64, 56, 56), (42, 64, 56, 56), to="i8"),
    _peers("f32->s8 2D", "ab->ab", (160, 160), (1024, 1024), (4096, 2048), to="i8"),
    _peers("nchw f32->nhwc s8 C64", "nchw->nhwc", (1, 64, 20, 20), (5, 64, 56, 56), (42, 64, 56, 56), to="i8"),
    _peers("bf16 nchw->nhwc C64", "nchw->nhwc", (2, 64, 20, 20), (10, 64, 56, 56), (84, 64, 56, 56), "bf16"),
    _peers("s8 nchw->nChw32c C256", "nchw->nChw32c", (1, 256, 20, 20), (80, 256, 14, 14), (640, 256, 14, 14), "i8"),
    _peers("u8 nhwc->nchw C3", "nhwc->nchw", (2, 3, 128, 128), (28, 3, 224, 224), (220, 3, 224, 224), "ui8"),
    _peers("u8 nchw->nhwc C64", "nchw->nhwc", (1, 64, 40, 40), (20, 64, 56, 56), (165, 64, 56, 56), "ui8"),
]  # fmt: skip

CASES: tuple[Case, ...] = (*_TABLE, *_PEERS)


def chosen(names: list[str], sizes: list[str]) -> list[tuple[Case, str]]:
    """Cases whose name contains one of `names` (none: all), at `sizes` (none: all).

    Raises LayoutError for a name that no case has, and for an unknown size.
    """
    for size in sizes:
        if size not in SIZES:
            raise LayoutError(f"unknown size '{size}': known are {', '.join(SIZES)}")
    for name in names:
        if not any(name in case.name for case in CASES):
            raise LayoutError(
                f"no case is named like '{name}': --list names them, and with --shape SRC and DST are your own"
            )
    return [
        (case, size)
        for case in CASES
        if not names or any(name in case.name for name in names)
        for size in case.shapes
        if not sizes or size in sizes
    ]
