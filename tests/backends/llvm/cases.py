"""Random reorders, and what each must leave in memory.

The oracle knows `Layout.addresses` and nothing else: elements are gathered from the source and scattered into a
poisoned destination, pads (addresses of the padded box that hold no element) get the policy's value where there is
one, and every other byte keeps its poison. Sources are random bytes, pads and gaps included, so that reading one
shows.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm.machine.known_cpus import local_machine
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.errors import LayoutError


def machine_here(name: str) -> Machine:
    """The machine of that name; skips the test where its code does not run."""
    try:
        return local_machine(name)
    except LayoutError as error:
        pytest.skip(str(error))


WIDTHS = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i8": 1, "ui8": 1, "i32": 4, "i64": 8, "i1": 1}
EXTENTS = (0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 24, 25, 31, 32, 33, 48, 63, 64, 65, 100)
BLOCKS = (2, 3, 4, 5, 6, 8, 8, 12, 16, 16, 32)
POISON = 0xA5
CANARY = 128
"""Bytes in front of and behind both buffers."""


@dataclass(frozen=True)
class Case:
    src: Layout
    dst: Layout
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype} {'x'.join(map(str, self.src.shape))}: {self.src.format} -> {self.dst.format}"


def _shape(rng: Random, rank: int, limit: int) -> tuple[int, ...]:
    shape: list[int] = []
    for _ in range(rank):
        room = [x for x in EXTENTS if x * math.prod(shape) <= limit and (x or rng.random() < 0.05)]
        shape.append(rng.choice(room or [1]))
    rng.shuffle(shape)
    return tuple(shape)


def _format(rng: Random, rank: int, *, plain: bool) -> Format:
    names = tuple("abcdef"[:rank])
    outer = [Factor(dim) for dim in range(rank)]
    rng.shuffle(outer)
    if plain or not rank:
        return Format(names, tuple(outer))
    inner = [Factor(rng.randrange(rank), rng.choice(BLOCKS)) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    factors, chunk = [*outer, *inner], list[Factor]()
    kind = rng.random()
    if kind < 0.2:
        factors = [
            Factor(f.dim, f.size, rng.randint(-30, 200) if rng.random() < 0.4 else None) for f in factors
        ]
    elif kind < 0.35 and inner:
        at = rng.randrange(rank, len(factors))
        factors, chunk = factors[:at], factors[at:]
    lo = tuple(rng.choice((0, 0, 1, 2, 5)) for _ in range(rank)) if rng.random() < 0.25 else ()
    pad = rng.choice(("undef", "zero", "zero", "zp", 31))
    return Format(names, tuple(factors), tuple(chunk), pad, rng.choice((0, 0, 0, 3, 16)), lo)


def _layout(rng: Random, shape: tuple[int, ...], limit: int, *, destination: bool, dtype: str) -> Layout:
    """A layout of up to 64 times `limit` elements, all addresses from 0 on, no shared address in a destination."""
    while True:
        layout = _format(rng, len(shape), plain=rng.random() < 0.3).bind(shape)
        if dtype == "i1" and layout.pad == 31:
            layout = replace(layout, pad=1)
        if layout.span > 64 * limit:
            continue
        if layout.first_address < 0:
            layout = replace(layout, offset=layout.offset - layout.first_address)
        if destination:
            places = layout.addresses(padded=True)
            if len(np.unique(places)) != places.size:
                continue
        elif rng.random() < 0.1 and shape and not any(layout.lo):
            layout = _sliced(rng, layout)
        return layout


def _sliced(rng: Random, layout: Layout) -> Layout:
    """The same shape as a window into a larger tensor."""
    extra = [rng.choice((0, 0, 1, 5)) for _ in layout.shape]
    whole = layout.format.with_pad("undef").bind([x + y for x, y in zip(layout.shape, extra, strict=True)])
    if whole.first_address < 0:
        whole = replace(whole, offset=whole.offset - whole.first_address)
    return whole.slice([rng.randint(0, y) for y in extra], layout.shape)


def random_case(rng: Random, *, limit: int = 3000) -> Case:
    rank = rng.choice((0, 1, 2, 2, 3, 3, 4, 4, 5, 6)) if rng.random() > 0.02 else 0
    shape = _shape(rng, rank, limit)
    dtype = rng.choice(list(WIDTHS))
    return Case(
        _layout(rng, shape, limit, destination=False, dtype=dtype),
        _layout(rng, shape, limit, destination=True, dtype=dtype),
        dtype,
    )


def pad_bytes(policy: str | float, dtype: str) -> bytes:
    """An element of a pad, written by hand for the policies that the cases use."""
    value = 0 if policy in ("zero", "zp") else policy
    if dtype == "bf16":
        return struct.pack("<f", value)[2:]
    code = {"f64": "<d", "f32": "<f", "f16": "<e", "i32": "<i", "i64": "<q"}.get(dtype, "<b")
    return struct.pack(code, value if code in ("<d", "<f", "<e") else int(value))


def buffers(rng: Random, case: Case) -> tuple[NDArray[Any], NDArray[Any], int, int]:
    """Bytes with canaries around source and destination, and where each begins: misaligned half of the time."""
    width = WIDTHS[case.dtype]
    slack = rng.choice((0, 0, width, 1))
    fill = np.random.default_rng(rng.randrange(1 << 30))
    src = fill.integers(0, 256, case.src.extent * width + 2 * CANARY + 1, np.uint8)
    dst = np.full(case.dst.extent * width + 2 * CANARY + 1, POISON, np.uint8)
    return src, dst, CANARY + slack, CANARY + rng.choice((0, 0, slack))


def expected(case: Case, src: NDArray[Any], dst: NDArray[Any], src_at: int, dst_at: int) -> NDArray[Any]:
    """All bytes of the destination afterwards."""
    width = WIDTHS[case.dtype]
    result = dst.copy()
    lanes = np.arange(width)
    if case.dst.pad != "undef":
        places = case.dst.addresses(padded=True).reshape(-1, 1) * width + dst_at + lanes
        held = np.zeros(len(dst), bool)
        held[case.dst.addresses().reshape(-1, 1) * width + dst_at + lanes] = True
        pads = places[~held[places[:, 0]]] if len(places) else places
        result[pads] = np.frombuffer(pad_bytes(case.dst.pad, case.dtype), np.uint8)
    take = case.src.addresses().reshape(-1, 1) * width + src_at + lanes
    put = case.dst.addresses().reshape(-1, 1) * width + dst_at + lanes
    result[put] = src[take]
    return result
