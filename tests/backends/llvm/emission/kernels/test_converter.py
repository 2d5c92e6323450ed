"""Elements are loaded and stored as they lie in memory; two of them in a byte, the even one in the low half."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.backends.llvm.emission.kernels.converter import Converter, move_of
from layout_ir.backends.llvm.emission.llvm_builder import Builder
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.emission.bodies import run


def _half(pointer: str, b: Builder, half: int) -> str:
    """A pointer to half byte `half` behind `pointer`: twice an address."""
    address = b.put(f"ptrtoint ptr {pointer} to i64")
    twice = b.put(f"add i64 {b.put(f'shl i64 {address}, 1')}, {half}")
    return b.put(f"inttoptr i64 {twice} to ptr")


def _unpacked(data: np.ndarray, *, signed: bool) -> np.ndarray:
    halves = np.stack([data & 15, data >> 4], axis=-1).reshape(-1).astype(np.int8)
    return np.where(halves > 7, halves - 16, halves) if signed else halves


@pytest.mark.parametrize("dtype", ["i4", "ui4"])
def test_half_bytes_are_loaded_alone_and_in_even_numbers(dtype: str):
    data = np.random.default_rng(4).integers(0, 256, 16, np.uint8)
    wanted = _unpacked(data, signed=dtype == "i4")
    for first, size in [(0, 32), (2, 8), (6, 2), *((k, 1) for k in range(6))]:
        b = Builder()
        access = Converter(b, host(), ElementPair.of(Conversion(dtype, "i8"))).src
        b.store(f"<{size} x i8>", access.load(_half("%src", b, first), size), "%dst")
        found = np.zeros(size, np.int8)
        run(b, data, found)
        assert found.tolist() == wanted[first : first + size].tolist()


@pytest.mark.parametrize("first, size", [(0, 32), (2, 8), (0, 1), (1, 1), (7, 1)])
def test_half_bytes_are_stored_and_their_neighbours_kept(first: int, size: int):
    b = Builder()
    access = Converter(b, host(), ElementPair.of(Conversion("i8", "i4"))).dst
    access.store(b.load(f"<{size} x i8>", "%src"), _half("%dst", b, first), size)
    data = np.random.default_rng(5).integers(-8, 8, 32).astype(np.int8)
    found = np.random.default_rng(6).integers(0, 256, 16, np.uint8)
    wanted = _unpacked(found, signed=True)
    wanted[first : first + size] = data[:size]
    run(b, data, found)
    assert _unpacked(found, signed=True).tolist() == wanted.tolist()


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_a_move_keeps_every_bit(width: int):
    b = Builder()
    converter = move_of(b, host(), width)
    value = converter.src.load("%src", 5)
    assert converter.convert(value, 0, [0] * 5) == value
    converter.dst.store(value, "%dst", 5)
    data = np.random.default_rng(width).integers(0, 256, 5 * width, np.uint8)
    found = np.zeros_like(data)
    run(b, data, found)
    assert np.array_equal(found, data)


def test_what_the_destination_holds_is_added():
    b = Builder()
    converter = Converter(b, host(), ElementPair.of(Conversion("f32", "f32", beta=0.5)))
    converter.dst.store(converter.convert(converter.src.load("%src", 4), 0, [0] * 4, "%dst"), "%dst", 4)
    data, found = np.arange(4, dtype=np.float32), np.full(4, 6, np.float32)
    run(b, data, found)
    assert found.tolist() == [3, 4, 5, 6]


def test_bytes_and_halves_of_words_are_packed_where_floats_are_computed():
    avx2 = machine_named("x86-64-v3")

    def packs(src: str, dst: str, scale: float | None = None) -> int:
        conversion = Conversion(src, dst, dst_scale=scale)
        return Converter(Builder(), avx2, ElementPair.of(conversion)).packed_together

    assert packs("f32", "i8") == packs("i8", "ui8", 0.5) == 32
    assert packs("f32", "i16") == packs("bf16", "ui16") == 16


def test_negative_integers_and_doubles_are_not_packed():
    for pair in (("i32", "i8"), ("f64", "i8"), ("f32", "i32")):
        machine = machine_named("x86-64-v3")
        assert not Converter(Builder(), machine, ElementPair.of(Conversion(*pair))).packed_together
    assert not move_of(Builder(), host(), 1).packed_together
