"""Sums of weights per channel, in every layout that kernels ask for, against NumPy."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm.emission.emit import module_text
from layout_ir.backends.llvm.emission.kernels.channel_sums import emit_channel_sums
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.errors import LayoutError
from tests.backends.llvm.cases import machine_here

CPUS = pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])


def _sums(
    cpu: str, layout: Layout, channels: tuple[int, ...], weights: NDArray[np.int8]
) -> list[NDArray[Any]]:
    """The sums times -128 and times -1 of `weights`, elements of the logical shape."""
    machine = machine_here(cpu)
    memory = np.full(layout.extent, 77, np.int8)
    memory[layout.addresses(padded=True)] = 0
    memory[layout.addresses()] = weights
    found = [np.full(prod(layout.padded_shape[d] for d in channels), 99, np.int32) for _ in range(2)]
    code = Code(module_text([emit_channel_sums(layout, channels, machine)], machine), machine, ["sums"])
    call: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(code.address("sums"))
    call(memory.ctypes.data, found[0].ctypes.data, found[1].ctypes.data)
    for k in range(2):  # either alone
        alone = np.zeros_like(found[k])
        call(memory.ctypes.data, *(alone.ctypes.data if j == k else None for j in range(2)))
        assert np.array_equal(alone, found[k])
    return found


def _wanted(layout: Layout, channels: tuple[int, ...], weights: NDArray[np.int8]) -> NDArray[np.int32]:
    others = tuple(d for d in range(weights.ndim) if d not in channels)
    sums = np.zeros([layout.padded_shape[d] for d in channels], np.int32)
    sums[tuple(slice(weights.shape[d]) for d in channels)] = weights.astype(np.int32).sum(others)
    return sums.ravel()


@CPUS
@pytest.mark.parametrize(
    ("tag", "shape", "channels"),
    [
        ("OhwI64o4i", (70, 13, 3, 3), (0,)), ("OIhw4i16o4i", (40, 33, 2, 2), (0,)),
        ("OhwI48o4i", (100, 40, 1, 1), (0,)),
        ("OIhw2i8o4i", (20, 70, 3, 1), (0,)), ("oihw", (5, 7, 3, 3), (0,)), ("hwio", (3, 3, 6, 10), (0,)),
        ("Ohwi16o", (33, 300, 1, 1), (0,)), ("OIhw16o2i", (40, 9, 3, 3), (0,)), ("BA16a64b4a", (100, 130), (1,)),
        ("ab", (40, 100), (1,)), ("ba", (40, 97), (1,)), ("Goihw16g", (40, 1, 1, 3, 3), (0, 1)),
        ("gOIhw2i8o4i", (3, 10, 9, 2, 2), (0, 1)), ("a", (50,), (0,)), ("aB4b", (3, 7), (0,)),
    ],
)  # fmt: skip
def test_sums_are_those_of_the_weights_and_zero_for_pads(
    cpu: str, tag: str, shape: tuple[int, ...], channels: tuple[int, ...]
):
    layout = replace(Format.of(tag).bind(shape), pad="zero")
    weights = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    found, wanted = _sums(cpu, layout, channels, weights), _wanted(layout, channels, weights)
    assert np.array_equal(found[0], -128 * wanted) and np.array_equal(found[1], -wanted)


@CPUS
@pytest.mark.parametrize("tag", ["BA16a64b4a", "BA16a16b2a", "ab", "Ba8b"])
@pytest.mark.parametrize("least", [-128, 127])
def test_sixteen_bits_do_not_overflow(cpu: str, tag: str, least: int):
    layout = replace(Format.of(tag).bind((4160, 64)), pad="zero")
    weights = np.full((4160, 64), least, np.int8)
    assert (_sums(cpu, layout, (1,), weights)[1] == -least * 4160).all()


def test_a_layout_with_an_offset_and_gaps_is_summed_where_it_lies():
    layout = Format.parse("(a, b) : [a*40, b], offset = 7").bind((5, 30))
    weights = np.random.default_rng(2).integers(-128, 128, (5, 30)).astype(np.int8)
    assert np.array_equal(_sums("x86-64-v3", layout, (1,), weights)[1], -weights.astype(np.int32).sum(0))


def test_negative_pads_that_may_hold_anything():
    with pytest.raises(LayoutError, match="hold undef"):
        emit_channel_sums(
            replace(Format.of("OIhw4i16o4i").bind((17, 3, 3, 3)), pad="undef"),
            (0,),
            machine_here("x86-64-v3"),
        )


def test_negative_addresses_that_are_no_sums_of_strides():
    swizzled = Format.parse("(a, b) : [a, b], swizzle = (2, 1, 3)").bind((8, 64))
    with pytest.raises(LayoutError, match="no sums of weights"):
        emit_channel_sums(swizzled, (1,), machine_here("x86-64-v3"))
