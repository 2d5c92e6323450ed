"""Copies between arrays of any strides by their machine code, and arrays to copy."""

import ctypes
import random
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from layout_ir.backends.llvm.emission.copy_normalization import BLOCK
from layout_ir.backends.llvm.emission.emit import module_text
from layout_ir.backends.llvm.emission.strided_copy import strided_copy_module
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime.jit import Code

NOTHING, SOUND, SHARES = 0, 1, 2


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
    """An array of 64-bit integers, of one at least."""
    return (ctypes.c_int64 * max(1, len(values)))(*values)


def normalized(dst: np.ndarray, src: np.ndarray, vector: int = 64) -> tuple[int, Any]:
    """What `@normalize` answers, and the block that it wrote."""
    _, normalize, _ = functions(vector)
    block = numbers((0,) * BLOCK)
    rows = numbers(dst.shape), numbers(src.strides), numbers(dst.strides)
    return normalize(block, src.ctypes.data, dst.ctypes.data, dst.itemsize, dst.ndim, *rows), block


def copied(dst: np.ndarray, src: np.ndarray, parts: int = 1, vector: int = 64) -> None:
    """Copies in so many parts, the last of them first."""
    answer, block = normalized(dst, src, vector)
    assert answer != SHARES
    if answer == SOUND:
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
