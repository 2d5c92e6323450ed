"""Random reorders between the tags of the installed oneDNN: our bytes against those that the library writes.

    python -m tests.fuzz --only onednn --cases 5000 --seed 1

A case is two tags of one rank, in turn one of all that the library lists, a random shape and two element types.
The numbers are small whole ones, which every type holds, or which saturate alike (below 0 in an unsigned type); pads
count. Pairs for which the library has no reorder are left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import prod
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm import compile_many
from layout_ir.elements.numpy_types import narrow, storage
from layout_ir.elements.quantization import Conversion
from tests.fuzz.reorders import Counted
from tests.oracles import onednn

_BATCH = 25
_EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 64, 65)
_MOST = 1 << 16
"""Elements of a destination, pads included."""


@dataclass(frozen=True)
class Case:
    tags: tuple[str, str]
    shape: tuple[int, ...]
    dtypes: tuple[str, str]
    layouts: tuple[Layout, Layout]

    def __str__(self) -> str:
        return f"{self.tags[0]} {self.dtypes[0]} -> {self.tags[1]} {self.dtypes[1]}, {'x'.join(map(str, self.shape))}"


@cache
def _tags() -> tuple[tuple[str, ...], dict[str, int], dict[int, tuple[str, ...]]]:
    """The tags that the library lists, the rank of each, and those of each rank."""
    ranks = {tag: len({letter for letter in tag.lower() if letter.isalpha()}) for tag in onednn.tags()}
    return tuple(ranks), ranks, {rank: tuple(t for t in ranks if ranks[t] == rank) for rank in ranks.values()}


def cases(seed: int, start: int, stop: int) -> Iterator[Case]:
    """Cases [start, stop) of the sequence that `seed` begins; each can be made without those before."""
    names, ranks, of_rank = _tags()
    order = list(names)
    Random(seed).shuffle(order)
    for number in range(start, stop):
        rng = Random(seed << 32 | number)
        while True:
            first = order[number % len(order)]
            rank = ranks[first]
            tags = first, rng.choice(of_rank[rank])
            tags = tags if rng.random() < 0.5 else (tags[1], tags[0])
            shape = tuple(rng.choice(_EXTENTS[: 18 if rank < 5 else 12]) for _ in range(rank))
            src, dst = (Format.from_tag(tag).bind(shape) for tag in tags)
            if max(src.extent, dst.extent, prod(shape)) <= _MOST:
                break
        plain = rng.choice(("f32", "bf16", "i8", "f32"))
        dtypes = (
            (plain, plain)
            if rng.random() < 0.5
            else (rng.choice([*onednn.DTYPES]), rng.choice([*onednn.DTYPES]))
        )
        yield Case(tags, shape, dtypes, (src, dst))


def _numbers(rng: Random, case: Case) -> NDArray[Any]:
    """The source buffer, with 0 in its pads."""
    low = 0 if case.dtypes[0] == "ui8" else -100
    src = case.layouts[0]
    values = np.random.default_rng(rng.randrange(1 << 30)).integers(low, 101, case.shape)
    buffer = np.zeros(src.extent, storage(case.dtypes[0]))
    buffer[src.addresses().ravel()] = narrow(values.astype(np.float64), case.dtypes[0]).ravel()
    return buffer


def run(count: int, seed: int, *, first: int = 0) -> tuple[int, list[str]]:
    """How many of cases [first, first + count) were compared, and what is wrong with them."""
    wrong: list[str] = []
    compared, rng, pending = 0, Random(~(seed << 32 | first)), list(cases(seed, first, first + count))
    for start in range(0, len(pending), _BATCH):
        batch = pending[start : start + _BATCH]
        kernels = compile_many([(*case.layouts, Conversion(*case.dtypes)) for case in batch])
        for case, kernel in zip(batch, kernels, strict=True):
            x = _numbers(rng, case)
            theirs, ours = (np.full(case.layouts[1].extent, 0x5A, storage(case.dtypes[1])) for _ in range(2))
            descs = [
                onednn.Desc.from_tag(case.shape, *pair) for pair in zip(case.tags, case.dtypes, strict=True)
            ]
            try:
                onednn.reorder(descs[0], x, descs[1], theirs)
            except onednn.OneDNNError:
                continue  # the library has none
            kernel(x, ours)
            compared += 1
            if ours.tobytes() != theirs.tobytes():
                places = np.flatnonzero(ours.view(np.uint8) != theirs.view(np.uint8))[:5] // ours.itemsize
                wrong.append(f"{case}: at {places} {ours[places]}, the library has {theirs[places]}")
    return compared, wrong


class OneDNN(Counted):
    name = "onednn"
    size = _BATCH

    def wrong(self, count: int, seed: int, first: int) -> list[str]:
        if onednn.executes() is not None:
            return []  # there is no library to compare with
        return run(count, seed, first=first)[1]
