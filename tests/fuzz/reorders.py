"""Random reorders between all element types against the NumPy reference, between guard pages.

    python -m tests.fuzz --only reorders --cases 20000 --seed 1

A case is a pair of element types (each in turn), two random layouts of one shape and, half of the time, scales, zero
points and beta of random kinds. Both buffers lie flush against a page that may not be touched, before or behind them,
at any alignment; the destination is random bytes, of which only elements and promised pads may change. A kernel that
leaves its buffers is ended by the page.
"""

from __future__ import annotations

import ctypes
import json
import mmap
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from operator import index
from random import Random
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from layout_ir.algebra.layout import Layout
from layout_ir.arrays.protocols import storage_of
from layout_ir.arrays.storage import gather, scatter
from layout_ir.backends.llvm import compile_many
from layout_ir.backends.llvm.machine.host_facts import llvm
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.reference.conversions import converted
from layout_ir.elements.element_types import bits_of, element_type
from layout_ir.elements.narrow_floats import decoded
from layout_ir.elements.quantization import PARAMETERS, Conversion, computing_type, is_per_channel, rounded
from layout_ir.symbolic.symint import Size
from tests.backends.llvm.cases import random_case
from tests.fuzz.kinds import Kind, Wrong

DTYPES = (
    "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "i4", "i1", "ui64", "ui32", "ui16", "ui8", "ui4",
    "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ", "f4E2M1FN",
)  # fmt: skip
PAIRS = tuple(product(DTYPES, DTYPES))
_INFINITY = {"f64": 0x7FF << 52, "f32": 0xFF << 23, "f16": 0x1F << 10, "bf16": 0xFF << 7}
_BATCH = 25

Array = NDArray[Any]


class Guarded:
    """`size` bytes between two pages that may not be touched, flush against one of them."""

    _libc: Any = ctypes.CDLL(None, use_errno=True)

    def __init__(self, size: int, *, at_end: bool) -> None:
        page = mmap.PAGESIZE
        inner = -(-max(size, 1) // page) * page
        self._map = mmap.mmap(-1, inner + 2 * page)
        anchor = (ctypes.c_char * len(self._map)).from_buffer(self._map)
        base = ctypes.addressof(anchor)
        self._libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for at in (base, base + page + inner):
            if self._libc.mprotect(at, page, 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        self.page: Array = np.frombuffer(self._map, np.uint8)[page : page + inner]
        """All that may be touched: the bytes and what rounds them up to pages."""
        self.start = inner - size if at_end else 0
        self.address = base + page + self.start
        self.bytes = self.page[self.start : self.start + size]
        self._anchor = anchor


class Buffers(Protocol):
    """Of a kernel's plan: what is asked of it."""

    @property
    def src_bytes(self) -> Size: ...

    @property
    def dst_bytes(self) -> Size: ...


class Callee(Protocol):
    """A kernel at one shape."""

    @property
    def plan(self) -> Buffers: ...

    def run_part(self, src: int, dst: int, part: int, parts: int, values: dict[str, Array], /) -> None:
        """Share `part` of `parts` of the work between the buffers at two addresses."""


@dataclass(frozen=True)
class Case:
    number: int
    src: Layout
    dst: Layout
    conversion: Conversion
    values: dict[str, Array]
    """Parameters that the call brings along."""

    def __str__(self) -> str:
        shape = "x".join(map(str, self.src.shape))
        return f"case {self.number}: {self.conversion}, {shape}: {self.src.format} -> {self.dst.format}"


def cases(seed: int, start: int, stop: int, *, limit: int = 600) -> Iterator[Case]:
    """Cases [start, stop) of the sequence that `seed` begins; each can be made without those before."""
    for number in range(start, stop):
        rng = Random(seed << 32 | number)
        src, dst = PAIRS[(number * 101 + seed) % len(PAIRS)]
        layouts = random_case(rng, limit=rng.choice((60, limit, limit, 4 * limit)))
        source, target = layouts.src, layouts.dst
        if source.span and source.first_address < 0:
            source = replace(source, offset=source.offset - source.first_address)
        if (target.pad == 31 and bits_of(dst) < 8) or dst == "i1":
            target = replace(target, pad="undef" if target.pad == "undef" else 1)
        conversion, values = random_conversion(rng, src, dst, source.shape)
        if target.pad == "zp" and isinstance(conversion.dst_zero, str | tuple):
            target = replace(target, pad="zero")
        yield Case(number, source, target, conversion, values)


def random_conversion(
    rng: Random, src: str, dst: str, shape: tuple[int, ...]
) -> tuple[Conversion, dict[str, Array]]:
    """A conversion of tensors of `shape`, and the values that a call brings along."""
    saturate = element_type(dst).may_saturate and rng.random() < 0.5
    if rng.random() < 0.5:
        return Conversion(src, dst, saturate=saturate), {}
    dim = rng.randrange(len(shape)) if shape else None
    channels, number = (0 if dim is None else shape[dim]), computing_type(src, dst)
    found: dict[str, Any] = {}
    values: dict[str, Array] = {}
    for name in PARAMETERS:
        several = ["channel", "constants"] if channels and name != "beta" else []
        kind = rng.choice([None, "constant", "tensor", *several])
        count = channels if kind in several else 1
        if name.endswith("zero"):
            dtype = src if name == "src_zero" else dst
            if element_type(dtype).is_float:
                continue
            low, high = map(int, element_type(dtype).range)
            low, high = max(-1000, low), min(1000, high)
            drawn: list[float] = [float(rng.randint(low, high)) for _ in range(count)]
        else:
            drawn = [rng.choice((0.5, 2.0, 1.0, 3.0, 0.1, rng.uniform(0.01, 20))) for _ in range(count)]
        if kind == "constant":
            found[name] = rounded(drawn[0], number)
        elif kind == "constants":
            found[name] = tuple(rounded(x, number) for x in drawn)
        elif kind is not None:
            found[name] = kind
            values[name] = np.array(drawn, np.float32 if number == "f32" else np.float64)
    if any(map(is_per_channel, found.values())):
        return Conversion(src, dst, **found, dim=dim, channels=channels, saturate=saturate), values
    return Conversion(src, dst, **found, saturate=saturate), values


def numbers(rng: Random, dtype: str, count: int) -> Array:
    """Bytes of `count` elements: any bits, ties, bounds of the integer types, subnormals, infinities, NaN."""
    random = np.random.default_rng(rng.randrange(1 << 30))
    raw = random.integers(0, 256, -(-count * bits_of(dtype) // 8), np.uint8)
    if dtype not in _INFINITY or rng.random() < 0.3:
        return raw
    bounds = [2.0**k for k in (7, 8, 15, 16, 31, 32, 63, 64, -14, -24, -25, -126, -133, -149)]
    near = [x + d for x in [*bounds, 65504.0, 65520.0, 3.4e38] for d in (0, -0.5, 0.5, -1, 1)]
    special = [0.0, np.inf, np.nan, 5e-324, 1 + 2.0**-8, 1 + 2.0**-11, 1 + 2.0**-24]
    table = np.array([*near, *special, *(k + 0.5 for k in range(-12, 300))])
    drawn = table[random.integers(0, len(table), count)] * random.choice([-1.0, 1.0], count)
    drawn = np.where(random.random(count) < 0.5, np.round(random.normal(0, 60, count) * 4) / 4, drawn)
    with np.errstate(all="ignore"):
        if dtype == "bf16":
            return (drawn.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        return drawn.astype(storage_of(dtype)).view(np.uint8)


def row(raw: Array, dtype: str) -> Array:
    """Bytes (from an aligned place) as stored elements."""
    kind = np.dtype(np.uint8) if dtype == "i1" else storage_of(dtype)
    return raw[: raw.size // kind.itemsize * kind.itemsize].view(kind)


def same(ours: Array, theirs: Array, dtype: str) -> bool:
    """Equal bits, or NaN in the same places."""
    if element_type(dtype).is_narrow_float:
        return np.array_equal(decoded(ours, dtype), decoded(theirs, dtype), equal_nan=True)
    if dtype not in _INFINITY:
        return np.array_equal(ours, theirs)
    a, b = (np.ascontiguousarray(x).view(f"u{bits_of(dtype) // 8}") for x in (ours, theirs))
    most = (1 << bits_of(dtype) - 1) - 1
    is_nan = [(x & most) > _INFINITY[dtype] for x in (a, b)]
    return bool(((a == b) | (is_nan[0] & is_nan[1])).all())


def expected(case: Case, source: Array, before: Array) -> Array:
    """The bytes of the destination afterwards, computed element by element."""
    src, dst = case.conversion.src, case.conversion.dst
    after = before.copy()
    target = row(after, dst)
    stored = gather(row(source.copy(), src), case.src.addresses(), src)
    old = gather(target, case.dst.addresses(), dst)
    new = converted(stored, case.conversion, case.values, old if case.conversion.beta is not None else None)
    if case.dst.pad != "undef" and case.dst.is_padded:
        zero = case.conversion.dst_zero
        number = (0 if not isinstance(zero, float) else int(zero)) if case.dst.pad == "zp" else case.dst.pad
        pad = np.array([0 if number == "zero" else number], np.float64)
        places = case.dst.addresses(padded=True).ravel()
        element = converted(pad, Conversion("f64", dst))
        scatter(target, np.setdiff1d(places, case.dst.addresses()), element, dst)
    scatter(target, case.dst.addresses(), new, dst)
    return after


def check(case: Case, kernel: Callee, rng: Random) -> str | None:
    """Runs the case; None, or what is wrong."""
    src, dst = case.conversion.src, case.conversion.dst
    source = Guarded(index(kernel.plan.src_bytes), at_end=rng.random() < 0.5)
    target = Guarded(index(kernel.plan.dst_bytes), at_end=rng.random() < 0.5)
    given = numbers(rng, src, index(kernel.plan.src_bytes) * 8 // bits_of(src))
    source.bytes[:] = given[: source.bytes.size]
    target.page[:] = np.frombuffer(rng.randbytes(target.page.size), np.uint8)
    outside = target.page.copy()
    wanted = expected(case, source.bytes, target.bytes)
    kept = source.page.copy()
    parts = rng.choice((1, 1, 2, 3))
    for part in range(parts):
        kernel.run_part(source.address, target.address, part, parts, case.values)
    if not np.array_equal(source.page, kept):
        return f"the source changed: {case}\n{kernel.plan}"
    got = target.bytes.copy()
    outside[target.start : target.start + got.size] = got
    if not np.array_equal(target.page, outside):
        return f"bytes outside of the destination changed: {case}\n{kernel.plan}"
    addresses = case.dst.addresses()
    ours, theirs = (gather(row(x, dst), addresses, dst) for x in (got, wanted))
    if not same(ours, theirs, dst):
        at = np.argwhere(ours != theirs)[:5].tolist()
        taken = gather(row(source.bytes.copy(), src), case.src.addresses(), src)
        pairs = [(taken[tuple(k)], ours[tuple(k)], theirs[tuple(k)]) for k in at]
        return f"{case}\n{kernel.plan}\nat {at}: (source, got, expected) {pairs}"
    # NaN counted as equal above; everything that is no element must have the very bytes.
    for x in (got, wanted):
        scatter(row(x, dst), addresses, np.zeros((), np.int64), dst)
    if not np.array_equal(got, wanted):
        return f"{case}\n{kernel.plan}\nwrong pads or gaps: bytes {np.flatnonzero(got != wanted)[:20]}"
    return None


def machines() -> list[Machine]:
    """The host, with caches so small that everything is streamed, and with narrower registers where it has them."""
    found = [host(), replace(host(), l2=1 << 10, l3=1 << 10)]
    features = llvm.get_host_cpu_features()
    if host().triple.startswith("x86_64"):
        found.append(Machine(host().triple, "x86-64", "", 16))
        if features.get("avx2") and features.get("f16c"):
            narrow = Machine(host().triple, "haswell", "", 32)
            found += [narrow, replace(narrow, l2=1 << 10, l3=1 << 12)]
    return found


def run(count: int, seed: int, *, first: int = 0) -> list[str]:
    """What is wrong with cases [first, first + count), batch by batch on one machine after the other."""
    wrong: list[str] = []
    targets = machines()
    for start in range(first, first + count, _BATCH):
        batch = list(cases(seed, start, min(start + _BATCH, first + count)))
        kernels = compile_many(
            [(c.src, c.dst, c.conversion) for c in batch], target=targets[start // _BATCH % len(targets)]
        )
        for case, kernel in zip(batch, kernels, strict=True):
            problem = check(case, kernel, Random(~case.number))
            wrong += [problem] if problem is not None else []
    return wrong


class Counted(Kind):
    """A kind whose input is a range of the cases that a seed makes."""

    suffix = ".json"
    chunk = 1

    @abstractmethod
    def wrong(self, count: int, seed: int, first: int) -> list[str]:
        """What is wrong with cases [first, first + count), a message each."""

    def run(self, data: bytes) -> None:
        given = json.loads(data)
        if wrong := self.wrong(given["count"], given["seed"], given["first"]):
            raise Wrong("\n\n".join(wrong), "wrong bytes")

    def make(self, seed: int, number: int) -> bytes:
        return json.dumps({"seed": seed, "first": number * self.size, "count": self.size}).encode()

    def smaller(self, data: bytes) -> Iterator[bytes]:
        given = json.loads(data)
        if given["count"] > 1:
            for number in range(given["first"], given["first"] + given["count"]):
                yield json.dumps({**given, "first": number, "count": 1}).encode()


class Reorders(Counted):
    name = "reorders"
    size = _BATCH

    def wrong(self, count: int, seed: int, first: int) -> list[str]:
        return run(count, seed, first=first)
