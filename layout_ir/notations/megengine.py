"""MegEngine: tensor formats by name, and TensorLayout.

A MegEngine tensor in NCHW4 has five dims, {N, C/4, H, W, 4}: its physical dims are its logical dims, and C must be a
multiple of 4 beforehand. Here the logical dims stay (n, c, h, w) and the format says how they are stored. `physical`
and `logical` go between the two views, for TensorLayouts with any strides. Names are those of the graph optimizer
(`NCHWc4`, `KCRSk4c4`) and of the operator parameters (`NCHW4`, `NCHW44`, `CHWN4`, `NHWCD4`) where these name one
activation; NCHW44 and NCHW44_DOT differ in their weights alone. A `1` in a weight name is a dim of extent 1.

A TensorLayout prints as the system prints it, extents with strides in elements: `{2(576),16(36),3(12),3(4),4(1)}`.
With the name of a format in front the same numbers are read as a logical tensor: `NCHWc4 {2(576),...}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.scan import Scanner
from layout_ir.errors import LayoutError, shape_text
from layout_ir.notations.decomposition import (
    PhysicalDim,
    format_of_physical,
    from_strides,
    layout_of,
    strided,
)
from layout_ir.notations.named import NamedNotation
from layout_ir.notations.notation import Subject

TENSOR_FORMATS = (
    "NCHW", "NHWC", "NCHWc4", "NCHWc8", "NCHWc32", "NCHWc64", "CHWNc4", "NHCWc4",
    "KRSCk4", "GKRSCk4", "C1RSc4", "KRSCk4c4", "GKRSCk4c4", "KCRSk4c4", "GKCRSk4c4", "KCRSc4k4", "GKCRSc4k4",
    "C11RSc4", "KCRSc8k8", "GKCRSc8k8", "C11RSc8", "KRSCk8", "KCRSc4", "GKCRSc4", "KCRS", "GKCRS", "C11RS",
)  # fmt: skip
PARAMETERS = {
    "NCHW4": "NCHWc4", "NCHW8": "NCHWc8", "NCHW32": "NCHWc32", "NCHW64": "NCHWc64", "NCHW44": "NCHWc4",
    "NCHW44_DOT": "NCHWc4", "NCHW88": "NCHWc8", "CHWN4": "CHWNc4", "NHWCD4": "NHCWc4",
}  # fmt: skip
"""Formats of operator parameters, and the tensor format of their activations."""

MAX_NDIM = 7
_LOGICAL = ("nchw", "gkcrs", "kcrs", "cuvrs", "curs")


@lru_cache(maxsize=64)
def physical_dims(name: str) -> tuple[tuple[str, ...], tuple[PhysicalDim, ...]]:
    """Logical dim names of a tensor format, and its physical dims, outermost first. Raises LayoutError."""
    name = PARAMETERS.get(name, name)
    if name not in TENSOR_FORMATS:
        raise LayoutError(
            f"unknown tensor format '{name[:40]}': known are {', '.join((*TENSOR_FORMATS, *PARAMETERS))}"
        )
    units = iter("uv")
    parts = [next(units).upper() if part == "1" else part for part in re.findall(r"[A-Z1]|[a-z]\d+", name)]
    letters = {part.lower() for part in parts if part.isupper()}
    names = tuple(next(order for order in _LOGICAL if set(order) == letters))
    blocks = {part[0]: int(part[1:]) for part in parts if part.islower()}
    physical: list[PhysicalDim] = []
    for part in parts:
        letter = part[0].lower()
        if part.isupper():
            physical.append(
                PhysicalDim(names.index(letter), blocks.get(letter, 1), 1 if part in "UV" else None)
            )
        else:
            physical.append(PhysicalDim(names.index(letter), 1, blocks[letter]))
    return names, tuple(physical)


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[Format, ...]]:
    return {name: (format_of_physical(*physical_dims(name)),) for name in (*TENSOR_FORMATS, *PARAMETERS)}


def physical_shape(name: str, shape: Sequence[int]) -> tuple[int, ...]:
    """Extents of the MegEngine tensor that stores a logical tensor of extents `shape`. Raises LayoutError."""
    names, physical = physical_dims(name)
    if len(shape) != len(names):
        raise LayoutError(
            f"rank mismatch between format {name} ({', '.join(names)}) and shape {shape_text(shape)}: "
            f"{len(names)} != {len(shape)}"
        )
    for part in physical:
        if part.size is None and shape[part.dim] % part.unit:
            raise LayoutError(
                f"extent {shape[part.dim]} of dim '{names[part.dim]}' is no multiple of {part.unit}: format {name} "
                "does not pad, another pass does"
            )
        if part.size == 1 and shape[part.dim] != 1:
            raise LayoutError(
                f"extent {shape[part.dim]} of dim '{names[part.dim]}' must be 1 in format {name}"
            )
    return tuple(shape[p.dim] // p.unit if p.size is None else p.size for p in physical)


def physical(layout: Layout, name: str) -> Layout:
    """The MegEngine tensor (one dim per physical dim, any strides) that holds `layout` in format `name`.

    Raises LayoutError where the digits of `layout` are not those of the format.
    """
    extents = physical_shape(name, layout.shape)
    _, physical = physical_dims(name)
    strides: list[int] = []
    for part, extent in zip(physical, extents, strict=True):
        at = part.unit if extent > 1 else 0
        index = tuple(at if d == part.dim else 0 for d in range(layout.rank))
        strides.append(layout.address(index) - layout.address((0,) * layout.rank) if extent > 1 else 1)
    found = from_strides(
        extents, strides, layout.address((0,) * layout.rank) if 0 not in layout.shape else layout.offset
    )
    if not logical(found, name).same_map(layout):
        raise LayoutError(f"megengine cannot say {layout} in format {name}: it has other digits")
    return found


def logical(layout: Layout, name: str) -> Layout:
    """The logical tensor that a MegEngine tensor in format `name` holds. Raises LayoutError where ranks differ."""
    names, physical = physical_dims(name)
    if layout.rank != len(physical):
        raise LayoutError(
            f"format {name} has {len(physical)} physical dims, the tensor has {layout.rank}: {shape_text(layout.shape)}"
        )
    strides, offset = strided(layout, "megengine")
    chains: list[list[tuple[int, int, int]]] = [[] for _ in names]
    for part, extent, stride in zip(physical, layout.shape, strides, strict=True):
        if part.size is not None and part.size != extent:
            raise LayoutError(
                f"format {name} has a dim of extent {part.size}, the tensor has {extent} there: "
                f"{shape_text(layout.shape)}"
            )
        chains[part.dim].append((part.unit, extent, stride))
    shape = [1] * len(names)
    for dim, chain in enumerate(chains):
        chain.sort(reverse=True)
        for _, extent, _ in chain:
            shape[dim] *= extent
    return layout_of(shape, [[(n, s) for _, n, s in chain] for chain in chains], offset=offset, names=names)


def image2d_pack4(shape: Sequence[int], align_axis: int, pitch: int) -> Layout:
    """A TensorLayout of format IMAGE2D_PACK4: dims before `align_axis` count rows, their pitch a multiple of `pitch`.

    The buffer holds whole rows, the last one included. `shape` are physical extents, `pitch` counts elements.
    """
    if not 0 < align_axis < len(shape):
        raise LayoutError(
            f"align_axis {align_axis} does not cut the {len(shape)} dims of {shape_text(shape)} in two"
        )
    if pitch < 1:
        raise LayoutError(f"row pitch {pitch} is not positive")
    strides = [1] * len(shape)
    running = 1
    for dim in reversed(range(len(shape))):
        if dim == align_axis - 1:
            running = -(-running // pitch) * pitch
        strides[dim] = running
        running *= shape[dim]
    return layout_of(shape, [[(n, s)] for n, s in zip(shape, strides, strict=True)], size=running)


class MegEngineNotation(NamedNotation):
    """`NCHWc4`, `NCHW44_DOT`, `{2(576),16(36),3(12),3(4),4(1)}`, `NCHWc4 {2(576),16(36),3(12),3(4),4(1)}`."""

    name: ClassVar[str] = "megengine"
    about: ClassVar[str] = "MegEngine tensor formats and TensorLayouts"
    order: ClassVar[str] = (
        "the logical dims n, c, h, w (o, i, h, w for weights), whatever the order in memory"
    )
    by_index: ClassVar[bool] = False
    example: ClassVar[str] = "NCHWc4 {2(576),16(36),3(12),3(4),4(1)}"
    says: ClassVar[frozenset[str]] = frozenset({"lo", "size"})

    def table(self, dtype: str | None) -> Mapping[str, tuple[Format, ...]]:
        """The tensor formats of MegEngine; they do not depend on `dtype`."""
        return _table()

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        name, _, rest = text.strip().partition("{")
        if not _ and "{" not in text:
            return super()._parse(text, shape, dtype)
        scan = Scanner("{" + rest, self.name)
        entries = scan.sequence("{", "}", lambda: self._entry(scan))
        scan.end()
        if len(entries) > MAX_NDIM:
            raise LayoutError(f"a TensorLayout has at most {MAX_NDIM} dims, not {len(entries)}")
        found = from_strides([n for n, _ in entries], [s for _, s in entries])
        return logical(found, name.strip()) if name.strip() else found

    @staticmethod
    def _entry(scan: Scanner) -> tuple[int, int]:
        extent = scan.integer("an extent", low=0)
        scan.expect("(")
        stride = scan.integer("a stride")
        scan.expect(")")
        return extent, stride

    def _print(self, subject: Subject, dtype: str | None) -> str:
        found = [
            n
            for n in self.names_of(subject, dtype)
            if isinstance(subject, Format) or self._divides(n, subject)
        ]
        # A name of other dims (KCRS for a tensor of pixels) says less than the numbers, if there are numbers.
        if found and (isinstance(subject, Format) or physical_dims(found[0])[0] == subject.names):
            return found[0]
        layout = self.bound(subject)
        if layout.rank <= MAX_NDIM:
            try:
                strides, offset = strided(layout, "megengine")
            except LayoutError:
                pass
            else:
                if offset == 0:
                    return self._numbers(layout.shape, strides)
        if found:
            return found[0]
        for name in TENSOR_FORMATS:
            try:
                tensor = physical(layout, name)
            except LayoutError:
                continue
            strides, offset = strided(tensor, "megengine")
            if offset == 0:
                return f"{name} {self._numbers(tensor.shape, strides)}"
        raise self.refuse(
            layout,
            "it is neither strided nor in a tensor format: extents that a block does not divide are padded elsewhere",
        )

    @staticmethod
    def _divides(name: str, layout: Layout) -> bool:
        try:
            physical_shape(name, layout.shape)
        except LayoutError:
            return False
        return True

    @staticmethod
    def _numbers(shape: Sequence[int], strides: Sequence[int]) -> str:
        return "{" + ",".join(f"{n}({s})" for n, s in zip(shape, strides, strict=True)) + "}"
