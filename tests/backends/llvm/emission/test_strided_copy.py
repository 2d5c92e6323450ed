"""Copies between arrays of any strides, against NumPy's assignment, to the byte of everything around them."""

import ctypes
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from layout_ir.backends.llvm.emission.emit import module_text
from layout_ir.backends.llvm.emission.strided_copy import BLOCK, FIELDS, strided_copy_module
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime.jit import Code, object_file

_NOTHING, _SOUND, _SHARES = 0, 1, 2


@cache
def functions(vector: int) -> tuple[Code, Any, Any]:
    """`@normalize` and `@run`, made for registers of that many bytes at most."""
    text = module_text(strided_copy_module(replace(host(), vector=min(vector, host().vector))), host())
    for head in ("define internal i64 @normalize", "define internal void @run("):
        text = text.replace(head, head.replace("internal ", ""))
    code = Code(text, host(), ("normalize", "run"), key=text)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    normalize = ctypes.CFUNCTYPE(number, *[pointer] * 3, number, number, *[pointer] * 3)
    run = ctypes.CFUNCTYPE(None, pointer, pointer, number, number)
    return code, normalize(code.address("normalize")), run(code.address("run"))


def numbers(values: tuple[int, ...]) -> Any:
    return (ctypes.c_int64 * max(1, len(values)))(*values)


def normalized(dst: np.ndarray, src: np.ndarray, vector: int = 64) -> tuple[int, Any]:
    """What `@normalize` answers, and the block that it wrote."""
    _, normalize, _ = functions(vector)
    block = numbers((0,) * BLOCK)
    rows = numbers(dst.shape), numbers(src.strides), numbers(dst.strides)
    return normalize(block, src.ctypes.data, dst.ctypes.data, dst.itemsize, dst.ndim, *rows), block


def copied(dst: np.ndarray, src: np.ndarray, parts: int = 1, vector: int = 64) -> None:
    answer, block = normalized(dst, src, vector)
    assert answer != _SHARES
    if answer == _SOUND:
        for part in reversed(range(parts)):
            functions(vector)[2](block, None, part, parts)


def random_view(rng: random.Random, shape: tuple[int, ...], width: int) -> tuple[np.ndarray, np.ndarray]:
    """An array of random bytes, and a view of that shape on part of it, its axes in any order and direction."""
    order = list(range(len(shape)))
    rng.shuffle(order)
    steps = [rng.choice((1, 1, 1, 1, -1, -1, 2, -2, 3)) for _ in shape]
    gaps = [rng.choice((0, 0, 1, 3)) for _ in shape]
    base_shape = tuple(shape[axis] * abs(steps[axis]) + gaps[axis] for axis in order)
    count = int(np.prod(base_shape, dtype=np.int64)) * width
    base = np.frombuffer(bytearray(rng.randbytes(count)), f"V{width}").reshape(base_shape)
    view = base.transpose(np.argsort(order)) if shape else base
    view = view[(..., *[slice(None, None, step) for step in steps])]
    return base, view[(..., *[slice(0, n) for n in shape])]


def same_place(view: np.ndarray, base: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The view of `other`, a copy of `base`, that `view` is of `base`."""
    offset = view.ctypes.data - base.ctypes.data
    return np.ndarray(view.shape, view.dtype, other.data.cast("B"), offset, view.strides)


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


def test_dims_that_continue_each_other_are_one() -> None:
    a = np.zeros((4, 1, 5, 6), "f4")
    answer, block = normalized(np.empty_like(a), a)
    assert (answer, block[FIELDS["dims"]], block[FIELDS["run"]]) == (_SOUND, 0, a.nbytes)
    src = np.zeros((6, 4, 5), "f4").transpose(1, 2, 0)
    answer, block = normalized(np.empty(src.shape, "f4"), src)
    assert (answer, block[FIELDS["dims"]], block[FIELDS["run"]]) == (_SOUND, 2, 4)


def test_negative_dims_apart_stay_apart() -> None:
    src = np.zeros((4, 7), "f4")[:, :5]
    answer, block = normalized(np.empty(src.shape, "f4"), src)
    assert (answer, block[FIELDS["dims"]], block[FIELDS["run"]]) == (_SOUND, 1, 20)


@pytest.mark.parametrize(
    "dst",
    [
        np.broadcast_to(np.zeros(5, "f4"), (3, 5)),
        np.lib.stride_tricks.as_strided(np.zeros(20, "f4"), (4, 5), (8, 4)),
        np.lib.stride_tricks.as_strided(np.zeros(20, "f4"), (4,), (2,)),
    ],
    ids=["repeated", "windows", "halves"],
)
def test_negative_a_destination_whose_elements_share_addresses_is_told(dst: np.ndarray) -> None:
    assert normalized(dst, np.zeros(dst.shape, "f4"))[0] == _SHARES


def test_nothing_is_to_be_moved_where_an_extent_is_0() -> None:
    a = np.zeros((3, 0, 5), "f4")
    assert normalized(a, a.copy())[0] == _NOTHING


def test_bounds_are_those_of_numpy() -> None:
    rng = random.Random(3)
    for _ in range(200):
        shape = tuple(rng.randint(1, 6) for _ in range(rng.randint(0, 4)))
        (_, src), (_, dst) = random_view(rng, shape, 4), random_view(rng, shape, 4)
        answer, block = normalized(dst, src)
        assert answer == _SOUND
        assert (block[FIELDS["src_low"]], block[FIELDS["src_high"]]) == np.lib.array_utils.byte_bounds(src)
        assert (block[FIELDS["dst"]], block[FIELDS["dst_high"]]) == np.lib.array_utils.byte_bounds(dst)
