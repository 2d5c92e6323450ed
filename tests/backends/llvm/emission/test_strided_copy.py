"""Copies between arrays of any strides, against NumPy's assignment, to the byte of everything around them."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from layout_ir.backends.llvm.emission.emit import module_text
from layout_ir.backends.llvm.emission.strided_copy import strided_copy_module
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.backends.llvm.runtime.jit import object_file
from tests.backends.llvm.emission.strided_copies import copied, random_view, same_place

EXTENTS: tuple[Callable[[random.Random], int], ...] = (
    lambda rng: rng.choice((1, 2, 3, 4, 5, 8)),
    lambda rng: rng.choice((7, 15, 16, 17, 31, 33)),
    lambda rng: rng.choice((1, 63, 64, 65, 129, 200)),
)


@pytest.mark.parametrize("vector", [16, 32, 64])
def test_a_copy_is_that_of_numpy_and_writes_nothing_else(vector: int) -> None:
    rng = random.Random(vector)
    for _ in range(1500):
        dims = rng.randint(0, 5)
        most = {0: 3, 1: 3, 2: 3, 3: 2}.get(dims, 1)
        shape = tuple(EXTENTS[rng.randrange(most)](rng) for _ in range(dims))
        width = rng.choice((1, 2, 4, 8, 16, 3, 5, 10, 12, 24, 32, 48))
        _, src = random_view(rng, shape, width)
        if dims and rng.random() < 0.2:
            axis = rng.randrange(dims)
            src = np.broadcast_to(src.take([0], axis), shape)
        base, dst = random_view(rng, shape, width)
        wanted = base.copy()
        same_place(dst, base, wanted)[...] = src
        copied(dst, src, rng.choice((1, 1, 2, 3, 7)), vector)
        assert base.tobytes() == wanted.tobytes(), (shape, width, src.strides, dst.strides)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize(
    "axes", [(1, 0), (0, 2, 1), (1, 2, 0), (2, 0, 1), (2, 1, 0), (0, 3, 1, 2), (0, 2, 3, 1)]
)
@pytest.mark.parametrize("ways", [2, 3, 4, 48])
def test_transposes_of_few_and_of_many(width: int, axes: tuple[int, ...], ways: int) -> None:
    """Few channels take interleaves, many take tiles; each element knows where it came from."""
    shape = (70, ways) if len(axes) == 2 else (ways, 9, 67) if len(axes) == 3 else (2, ways, 9, 35)
    count = int(np.prod(shape))
    values = np.arange(count, dtype=np.uint64).astype(f"u{min(width, 8)}")
    src = np.repeat(values, width // values.itemsize).view(f"V{width}").reshape(shape).transpose(axes)
    dst = np.zeros(src.shape, src.dtype)
    copied(dst, src)
    assert dst.tobytes() == src.tobytes()


@pytest.mark.parametrize("name", ["x86-64-v3", "aarch64"])
def test_other_processors_have_the_code_too(name: str) -> None:
    machine = machine_named(name)
    assert object_file(module_text(strided_copy_module(machine), machine), machine).startswith(b"\x7fELF")
