"""The same reorder by other libraries, for comparison.

NumPy and torch copy between strided views of one element order; where a block is partly pads they copy the elements
and leave the pads, which is less than is asked for. oneDNN knows the layouts by their tags. Each of them converts
element types in its own way; whoever writes other bytes than the definition of the reorder is not compared with.
`PEERS` has one entry per library; a benchmark adds more with `register`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.algebra.layout import Layout
from layout_ir.algebra.refinement import TableLoop, refine
from layout_ir.algebra.tag import name_of
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.planning.index_splitting import Domain, IndexSet, split
from layout_ir.dialects.kernel.plan import Level, Loop
from layout_ir.errors import LayoutError
from layout_ir.symbolic.symint import Size
from layout_ir.tools.benchmark import onednn

Array = NDArray[Any]
Call = Callable[[], object]

_ISA = {
    16: {"ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default"},
    32: {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
}
"""What tells oneDNN and torch to use no wider registers, of 16 or 32 bytes. They look once, when they are loaded."""


def hold_to(machine: Machine) -> None:
    """Lets the libraries use what `machine` has, in this process, where that is less than this CPU has."""
    if machine.vector < host().vector:
        os.environ.update(_ISA.get(machine.vector, {}))


class Side:
    """A buffer, and what it means."""

    def __init__(self, layout: Layout, dtype: str, data: Array) -> None:
        self.layout = layout
        self.dtype = dtype
        self.data = data
        """Elements in NumPy's type, bf16 as its bits."""


@dataclass(frozen=True)
class Peer:
    """A library, or one of its functions, that may do the same reorder."""

    version: Callable[[], str]
    """The release that is installed. Raises LayoutError where none can be used."""
    prepare: Callable[[Side, Side, int], Call]
    """The reorder on so many threads. Raises LayoutError, which says why that is not possible here."""
    allocates: bool = False
    """Whether a call returns a new array of the destination's elements in order, instead of writing to it."""


def peer(name: str, src: Side, dst: Side, threads: int) -> Call:
    """The reorder as `name` does it. Raises LayoutError, which says why that is not possible here."""
    return PEERS[name].prepare(src, dst, threads)


def version(name: str) -> str:
    """Which release of the library is installed. Raises LayoutError where none can be used."""
    return PEERS[name].version()


def write(name: str, run: Call, dst: Side) -> None:
    """Runs a call of `name` once, so that the destination holds the result where the call returns it, too."""
    result = run()
    if PEERS[name].allocates:
        dst.data[:] = np.asarray(result).ravel().view(dst.data.dtype)


def register(name: str, library: Peer) -> None:
    """Has `library` take part where its name is among those that are asked for."""
    PEERS[name] = library


# NumPy and torch -----------------------------------------------------------------------------------------------------


def _domains(src: Layout, dst: Layout) -> list[Domain]:
    """Domains of all elements, in elements. Raises LayoutError where a loop needs a table, or domains are many."""
    nest = refine(src, dst)
    parts: list[list[Domain]] = []
    for dim in nest.dims:
        levels: list[Level] = []
        for loop in dim.loops:
            if isinstance(loop, TableLoop):
                raise LayoutError("blocks conflict: no strided view shows the elements of both in one order")
            levels.append(Level(loop.unit, Loop(loop.count, loop.src, loop.dst)))
        parts.append(split(IndexSet(levels, dim.low, dim.low + dim.extent)))
    if prod(map(len, parts)) > 4:
        raise LayoutError(f"it takes {prod(map(len, parts))} strided views")
    return [
        Domain(
            nest.src_base + sum(part.src for part in parts_of_dims),
            nest.dst_base + sum(part.dst for part in parts_of_dims),
            tuple(loop for part in parts_of_dims for loop in reversed(part.loops)),
        )
        for parts_of_dims in product(*parts)
    ]


def views(src: Side, dst: Side) -> Iterator[tuple[Array, Array]]:
    """Pairs of views that show the same elements in the same order, one dim per loop; four pairs at most.

    Raises LayoutError where there are none, or more.
    """
    for domain in _domains(src.layout, dst.layout):
        loops = [item for item in domain.loops if isinstance(item, Loop)]
        counts = [loop.count for loop in loops]
        yield (
            _strided(src.data, domain.src, counts, [loop.src for loop in loops]),
            _strided(dst.data, domain.dst, counts, [loop.dst for loop in loops]),
        )


def _strided(data: Array, start: Size, counts: Sequence[Size], steps: Sequence[Size]) -> Array:
    return np.lib.stride_tricks.as_strided(
        data[start:], list(map(index, counts)), [index(step) * data.itemsize for step in steps]
    )


def _numpy(src: Side, dst: Side) -> Call:
    if src.dtype != dst.dtype and "bf16" in (src.dtype, dst.dtype):
        raise LayoutError("NumPy has no bf16")
    calls = [partial(np.copyto, d, s, casting="unsafe") for s, d in views(src, dst)]
    return _together(calls)


def _together(calls: Sequence[Call]) -> Call:
    if len(calls) == 1:
        return calls[0]

    def run() -> None:
        for call in calls:
            call()

    return run


def import_torch() -> Any:
    """The module. Raises LayoutError where it is not installed."""
    try:
        import torch
    except ImportError as error:
        raise LayoutError(f"torch is not installed: {error}") from None
    return torch


def _torch(src: Side, dst: Side, threads: int) -> Call:
    torch = import_torch()
    torch.set_num_threads(threads)

    def tensor(side: Side, view: Array) -> Any:
        flat = torch.from_numpy(side.data.view(np.int16) if side.dtype == "bf16" else side.data)
        flat = flat.view(torch.bfloat16) if side.dtype == "bf16" else flat
        start = (view.ctypes.data - side.data.ctypes.data) // view.itemsize
        return torch.as_strided(flat, view.shape, [step // view.itemsize for step in view.strides], start)

    return _together([partial(tensor(dst, d).copy_, tensor(src, s)) for s, d in views(src, dst)])


# oneDNN --------------------------------------------------------------------------------------------------------------


def _onednn(build: str, src: Side, dst: Side, threads: int) -> Call:
    library = onednn.load(build)
    if isinstance(library, LayoutError):
        raise library
    library.limit(threads)
    sides = [(_tag(side.layout), side.dtype, int(side.data.ctypes.data)) for side in (src, dst)]
    return library.reorder(src.layout.shape, sides[0], sides[1])


def _tag(layout: Layout) -> str:
    """The layout's tag in letters a, b, c for dims 0, 1, 2, as oneDNN reads it."""
    name = name_of(layout.format)
    if name is None:
        raise LayoutError(f"oneDNN has no tag for {layout.format}")
    letters = dict(zip(layout.names, "abcdefghijkl", strict=False))
    letters |= {key.upper(): value.upper() for key, value in letters.items()}
    return "".join(letters.get(character, character) for character in name)


def _onednn_version(build: str) -> str:
    library = onednn.load(build)
    if isinstance(library, LayoutError):
        raise library
    return library.version


PEERS: dict[str, Peer] = {
    "numpy": Peer(lambda: np.__version__, lambda src, dst, threads: _numpy(src, dst)),
    "torch": Peer(lambda: str(import_torch().__version__), _torch),
    **{build: Peer(partial(_onednn_version, build), partial(_onednn, build)) for build in onednn.BUILDS},
}
"""What takes part, by name: NumPy's copyto, torch's copy_, the reorders of oneDNN."""

NAMES = tuple(PEERS)
"""The libraries that `layout-ir bench` compares with."""
