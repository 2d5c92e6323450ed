"""Memory objects: buffers allocated, wrapped and absent; maps; pads; views; NumPy arrays; chunks; quantization."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import sys
import weakref
from fractions import Fraction
from random import Random
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from layout_ir import NONE, Memory
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.arrays.descriptor import TensorDesc
from layout_ir.elements.element_types import element_type
from layout_ir.elements.numpy_types import storage
from layout_ir.errors import LayoutError
from tests.layouts import random_format, random_shape, rngs
from tests.processes import run_python

BLOCKED = TensorDesc((2, 17, 5, 4), "f32", "nChw8c")


def _values(shape: tuple[int, ...], dtype: str = "float32") -> NDArray[Any]:
    return np.arange(1, math.prod(shape) + 1).reshape(shape).astype(dtype)


def _pads(memory: Memory) -> NDArray[Any]:
    """What the pad addresses hold."""
    layout = memory.desc.layout
    return memory.data[np.setdiff1d(layout.addresses(padded=True), layout.addresses())]


def _bytes(count: int) -> NDArray[Any]:
    return np.zeros(count, np.uint8)


def _floats(count: int) -> NDArray[Any]:
    return np.zeros(count // 4, np.float32)


# --- Buffers ---


@given(rngs)
def test_what_is_set_is_read_and_lies_at_its_address(rng: Random):
    rank = rng.randint(0, 4)
    format = random_format(rng, rank, halo=True, chunked=True).with_pad(rng.choice(("undef", "zero", 31)))
    shape = random_shape(rng, rank, 200)
    memory, values = Memory(TensorDesc(shape, "f32", format)), _values(shape)
    memory.set(values)
    assert np.array_equal(memory.numpy(), values)
    assert np.array_equal(memory.data[memory.desc.layout.addresses()], values)
    if memory.desc.pad_value is not None:
        assert (_pads(memory) == memory.desc.pad_value).all()


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8", "i64"])
def test_a_large_tensor_moves_as_a_small_one_does(dtype: str, monkeypatch: pytest.MonkeyPatch):
    rng = Random(dtype)
    for _ in range(25):
        rank = rng.randint(1, 4)
        format = random_format(rng, rank, halo=True, chunked=True).with_pad(rng.choice(("undef", "zero", 31)))
        desc = TensorDesc(random_shape(rng, rank, 3000), dtype, format)
        values = np.array([rng.randint(0, 100) for _ in range(math.prod(desc.layout.shape))])
        found: list[tuple[NDArray[Any], NDArray[Any]]] = []
        for large in (1, 1 << 60):
            monkeypatch.setattr("layout_ir.api.memory._LARGE", large)
            memory = Memory(desc)
            memory.data.view(np.uint8)[:] = 0x5A
            memory.set(values.reshape(desc.layout.shape))
            found.append((memory.data, memory.numpy()))
        assert np.array_equal(found[0][0], found[1][0]) and np.array_equal(found[0][1], found[1][1]), str(
            desc
        )


def test_a_large_tensor_without_a_compiled_move_is_read_by_addresses(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("layout_ir.api.memory._LARGE", 1)
    memory = Memory(TensorDesc((3, 16), "i4", "aB8b"))
    values = np.arange(48).reshape(3, 16) % 8
    memory.set(values)
    assert np.array_equal(memory.numpy(), values)


def test_allocated_memory_is_aligned_zeroed_and_large_enough():
    memory = Memory(BLOCKED)
    assert memory.has_data and memory.data.ctypes.data % 64 == 0
    assert memory.data.nbytes == memory.nbytes == BLOCKED.nbytes == 3840 and not memory.data.any()


def test_pads_hold_the_policy_from_the_start():
    memory = Memory(TensorDesc((1, 5, 2, 2), "f32", "nChw8c", pad=31))
    assert (_pads(memory) == 31).all() and (memory.numpy() == 0).all()


@pytest.mark.parametrize("make", [bytearray, _bytes, _floats])
def test_a_wrapped_buffer_is_shared(make: Any):
    buffer = make(BLOCKED.nbytes)
    memory = Memory(BLOCKED, buffer)
    memory.set(_values((2, 17, 5, 4)))
    assert np.frombuffer(buffer, np.float32)[952] == memory.numpy()[1, 16, 4, 3] == 680


def test_wrapping_does_not_touch_the_contents():
    buffer = np.full(BLOCKED.nbytes // 4, 7, np.float32)
    assert (_pads(Memory(BLOCKED, buffer)) == 7).all()


def test_setting_writes_the_pads_of_a_dirty_buffer():
    memory = Memory(BLOCKED, np.full(BLOCKED.nbytes // 4, 7, np.float32))
    memory.set(1)
    assert (_pads(memory) == 0).all() and (memory.numpy() == 1).all()


def test_absent_memory_takes_a_buffer_later():
    memory = Memory(BLOCKED, NONE)
    assert not memory.has_data
    with pytest.raises(LayoutError, match="holds no buffer: give it one with set_data"):
        memory.numpy()
    memory.set_data(bytearray(3840))
    memory.set(1.0)
    assert memory.numpy().sum() == 680
    memory.set_data(NONE)
    assert not memory.has_data and "no buffer" in repr(memory)


def test_zero_volume_and_zero_descriptor():
    empty = Memory(TensorDesc((2, 0, 3), "f32", "aBc8b"))
    empty.set(np.zeros((2, 0, 3)))
    assert empty.nbytes == 0 and empty.numpy().shape == (2, 0, 3)
    absent = Memory(TensorDesc())
    assert absent.nbytes == 0 and not absent.has_data
    with pytest.raises(LayoutError, match="the zero descriptor describes no tensor"):
        Memory(TensorDesc(), bytearray(4))


@pytest.mark.parametrize(
    "buffer, match",
    [
        (bytearray(3839), "buffer of 3839 bytes for 2x17x5x4 f32 .* which needs 3840"),
        (np.zeros(960, np.int32), "buffer of int32 for elements of f32, which are stored as float32"),
        (np.zeros((960, 2), np.float32)[:, 0], "cannot take an array of strides"),
        (5, "cannot take int as the buffer of"),
        ("text", "cannot take str as the buffer of"),
    ],
)
def test_negative_buffers_that_do_not_fit(buffer: Any, match: str):
    with pytest.raises(LayoutError, match=match):
        Memory(BLOCKED, buffer)


def test_negative_memory_of_an_open_descriptor():
    with pytest.raises(LayoutError, match="its layout is 'any', choose one"):
        Memory(TensorDesc((2, 3), "f32", "any"))
    with pytest.raises(LayoutError, match="known at run time only"):
        Memory(TensorDesc((2, None), "f32", "ab"))


def test_negative_values_of_another_shape():
    with pytest.raises(LayoutError, match=r"an array of shape \(2, 3\) does not fit 2x17x5x4"):
        Memory(BLOCKED).set(np.zeros((2, 3)))


def test_negative_writing_to_a_read_only_buffer():
    memory = Memory(TensorDesc((2, 3), "i8"), bytes(6))
    assert memory.numpy().sum() == 0
    with pytest.raises(LayoutError, match=r"the buffer behind 2x3 i8 .* is read-only"):
        memory.set(1)
    with pytest.raises(LayoutError, match="read-only"), memory.map("rw"):
        pass
    with memory.map("r") as data:
        assert data.size == 6


# --- Map ---


def test_a_map_is_exclusive_and_ends():
    memory = Memory(BLOCKED)
    with memory.map() as data:
        data[952] = 5
        for attempt in (
            memory.numpy,
            lambda: memory.set(0),
            lambda: memory.set_data(NONE),
            lambda: memory.data,
        ):
            with pytest.raises(LayoutError, match="is mapped: leave the map before"):
                attempt()
        with (
            pytest.raises(LayoutError, match="is mapped"),
            memory.submemory((1, 1, 1, 1), (0, 0, 0, 0)).map(),
        ):
            pass
    assert memory.numpy()[1, 16, 4, 3] == 5
    with pytest.raises(ValueError, match="read-only"):
        data[0] = 1


def test_a_map_ends_when_its_body_fails():
    memory = Memory(BLOCKED)
    with pytest.raises(RuntimeError), memory.map():
        raise RuntimeError
    assert memory.numpy().shape == (2, 17, 5, 4)


def test_a_map_restores_the_pads():
    memory = Memory(BLOCKED)
    with memory.map("w") as data:
        data[:] = 9
    assert (memory.numpy() == 9).all() and (_pads(memory) == 0).all()


def test_negative_a_read_only_map_and_an_unknown_mode():
    memory = Memory(BLOCKED)
    with memory.map("r") as data, pytest.raises(ValueError, match="read-only"):
        data[0] = 1
    with pytest.raises(LayoutError, match="map mode 'x' is none of r, w, rw"), memory.map("x"):  # type: ignore[arg-type]
        pass


# --- Views ---


@given(rngs)
def test_views_share_storage(rng: Random):
    rank = rng.randint(1, 4)
    shape = random_shape(rng, rank, 200)
    memory = Memory(TensorDesc(shape, "i32", random_format(rng, rank).with_pad("zero")))
    values = _values(shape, "int32")
    memory.set(values)
    starts = [rng.randrange(x) for x in shape]
    sizes = [rng.randint(1, x - s) for s, x in zip(starts, shape, strict=True)]
    box = tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))
    view = memory.submemory(sizes, starts)
    assert np.array_equal(view.numpy(), values[box])
    view.set(-1)
    values[box] = -1
    assert np.array_equal(memory.numpy(), values)
    assert (_pads(memory) == 0).all()
    order = rng.sample(range(rank), rank)
    assert np.array_equal(memory.permute(order).numpy(), values.transpose(order))
    assert np.array_equal(memory.permute(order).permute_axes(order).numpy(), values)
    assert np.array_equal(memory.reshape((1, *shape)).numpy(), values[None])


# --- NumPy ---


def test_plain_memory_shares_and_blocked_memory_copies():
    plain = Memory(TensorDesc((2, 3, 4, 4), "f32", "nhwc"))
    plain.numpy()[...] = 3
    assert (plain.data == 3).all() and plain.numpy(copy=False).strides == (192, 4, 48, 12)
    assert not np.shares_memory(plain.numpy(copy=True), plain.data)
    with pytest.raises(LayoutError, match="is no array of one stride per dim: it takes a copy"):
        Memory(BLOCKED).numpy(copy=False)


@given(rngs)
def test_every_numpy_array_can_be_wrapped_without_a_copy(rng: Random):
    rank = rng.randint(1, 3)
    array = _values(random_shape(rng, rank, 200)).transpose(rng.sample(range(rank), rank))
    array = array[tuple(slice(None, None, rng.choice((1, 2, -1, -2))) for _ in range(rank))]
    memory = Memory.from_numpy(array)
    assert np.array_equal(memory.numpy(), array)
    assert np.shares_memory(memory.numpy(), array)
    memory.set(array * 2)
    assert np.array_equal(memory.numpy(), array)


def test_from_numpy_converts_where_the_layout_differs():
    array = _values((2, 17, 5, 4))
    memory = Memory.from_numpy(array, "nChw8c")
    assert not np.shares_memory(memory.data, array) and np.array_equal(memory.numpy(), array)
    assert Memory.from_numpy(array, "nchw", copy=False).data.ctypes.data == array.ctypes.data
    assert not np.shares_memory(Memory.from_numpy(array, copy=True).data, array)
    with pytest.raises(LayoutError, match=r"does not lie as 2x17x5x4 f32 .* it takes a copy"):
        Memory.from_numpy(array, "nhwc", copy=False)


def test_one_block_is_taken_as_it_lies():
    array = np.ascontiguousarray(_values((2, 8, 3, 3)).transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert np.shares_memory(Memory.from_numpy(array, "nChw8c", copy=False).data, array)


def test_negative_arrays_without_an_element_type():
    with pytest.raises(LayoutError, match="arrays of complex128 have no element type"):
        Memory.from_numpy(np.zeros(3, np.complex128))


NO_NUMBERS = {
    "dates": np.zeros((2, 3), "M8[D]"),
    "durations": np.zeros((2, 3), "m8[s]"),
    "text": np.full((2, 3), "1"),
    "records": np.zeros((2, 3), [("a", "f4")]),
    "bytes": np.zeros((2, 3), "V2"),
    "complex numbers": np.ones((2, 3), complex),
    "objects": np.full((2, 3), {}, object),
}


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8", "i1"])
@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_negative_tensors_hold_numbers_alone(dtype: str, kind: str):
    memory = Memory(TensorDesc((2, 3), dtype, "ab"))
    for write in (memory.set, memory.set_real):
        with pytest.raises(LayoutError, match=r"holds no numbers|which part of them|array of objects is no"):
            write(NO_NUMBERS[kind])


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f8E5M2", "i8"])
def test_objects_are_the_numbers_that_they_stand_for(dtype: str):
    memory = Memory(TensorDesc((2, 3), dtype, "ab"))
    memory.set(np.full((2, 3), Fraction(3, 2), object))
    assert (memory.real() == (1 if dtype == "i8" else 1.5)).all()


# --- Small types ---


def test_bf16_takes_numbers_and_bits():
    memory = Memory(TensorDesc((3, 3), "bf16", "aB2b", pad=1.5))
    memory.set(np.full((3, 3), 1.0 + 2**-9))
    assert (memory.real() == 1.0).all() and (_pads(memory) == 0x3FC0).all()
    memory.set(np.full((3, 3), 0x4000, np.uint16))
    assert (memory.real() == 2.0).all()


def test_negative_places_on_other_axes_are_in_no_buffer():
    with pytest.raises(LayoutError, match="has places on other axes than memory"):
        Memory(TensorDesc((4, 8), "f32", "(n, c) : [n@lane, c]"))


@pytest.mark.parametrize(
    ("dtype", "code"), [("bf16", 0x40A0), ("f8E4M3FN", 0x4A), ("f8E5M2", 0x45), ("f16", 0x4500)]
)
def test_whole_numbers_are_numbers_whatever_their_array(dtype: str, code: int):
    for five in (5, [5], np.array([5], np.int64), np.array([5], np.uint32), np.array([5.0], np.float16)):
        memory = Memory(TensorDesc((1,), dtype))
        memory.set(five)
        assert int(memory.data.view(f"u{memory.data.itemsize}")[0]) == code
    memory.set(True)
    assert memory.real().tolist() == [1]


@pytest.mark.parametrize(
    "added", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int4", "uint4"]
)
@pytest.mark.parametrize("dtype", ["bf16", "f8E4M3FN", "f8E5M2", "f16", "f32", "i8", "ui4"])
def test_arrays_of_ml_dtypes_hold_numbers(added: str, dtype: str):
    kind = getattr(pytest.importorskip("ml_dtypes"), added, None)
    if kind is None:
        pytest.skip("this ml_dtypes has no such type")
    array = np.array([[1, 4, 6]]).astype(kind)
    memory = Memory(TensorDesc((1, 3), dtype))
    memory.set(array)
    assert memory.real().tolist() == [[1, 4, 6]]
    assert Memory.from_numpy(array, "ba", dtype).real().tolist() == [[1, 4, 6]]
    assert element_type(Memory.from_numpy(array).desc.dtype).array_name == added


def test_numbers_become_bf16_in_one_rounding():
    """Just above a tie of bf16, by less than f32 can tell."""
    memory = Memory(TensorDesc((2,), "bf16"))
    tie = 1 + 2.0**-8
    memory.set([tie, tie * (1 + 2.0**-50)])
    assert memory.numpy().tolist() == [0x3F80, 0x3F81]


def test_eight_bit_floats_take_numbers_and_bits():
    memory = Memory(TensorDesc((3, 3), "f8E4M3FN", "aB2b", pad=1.5))
    memory.set(np.full((3, 3), 1.0625))
    assert (memory.real() == 1.0).all() and (_pads(memory) == 0x3C).all()
    memory.set(np.full((3, 3), 0x40, np.uint8))
    assert (memory.real() == 2.0).all()
    memory.set([[np.inf, 1e9, -465.0]] * 3)
    assert np.isnan(memory.real()).all()


def test_real_numbers_saturate_as_narrow_floats():
    memory = Memory(TensorDesc((4,), "f8E5M2", scale=0.5))
    memory.set_real([1.0, -1e9, 3.0, np.inf])
    assert memory.real().tolist() == [1.0, -28672.0, 3.0, 28672.0]
    memory = Memory(TensorDesc((4,), "f4E2M1FN", scale=2.0))
    memory.set_real([1.0, -1e9, 3.0, 12.0])
    assert memory.real().tolist() == [1.0, -12.0, 3.0, 12.0]


# --- Quantization ---


def test_quantized_memory_has_two_faces():
    memory = Memory(TensorDesc((2, 5), "ui8", "aB4b", scale=0.5, zero_point=128, pad="zp"))
    memory.set_real([[-64, -63.75, 0, 0.25, 63.5], [1e9, -1e9, float("nan"), 0.75, 1.25]])
    assert memory.numpy().tolist() == [[0, 0, 128, 128, 255], [255, 0, 0, 130, 130]]
    assert memory.real().tolist() == [[-64, -64, 0, 0, 63.5], [63.5, -64, -64, 1, 1]]
    # A pad that is the quantized zero reads as 0.0.
    assert (_pads(memory) == 128).all()


@given(rngs)
def test_quantization_rounds_once_to_nearest_even_and_saturates(rng: Random):
    scale, zero_point = rng.choice((0.25, 0.5, 2.0)), rng.randint(-128, 127)
    values = [Fraction(rng.randint(-4000, 4000), rng.choice((4, 8))) for _ in range(20)]
    memory = Memory(TensorDesc((20,), "i8", scale=scale, zero_point=zero_point))
    memory.set_real([float(v) for v in values])
    # Python rounds fractions exactly, ties to even.
    stored = [min(max(round(v / Fraction(scale)) + zero_point, -128), 127) for v in values]
    assert memory.numpy().tolist() == stored
    assert memory.real().tolist() == [(q - zero_point) * scale for q in stored]


# --- Chunks ---

CROUTON = TensorDesc((2, 9, 20, 50), "ui8", "(n, h, w, c) : [n, h, w, c | h:8, w:8, c:32], pad = 31")


def test_chunks_lie_where_the_table_says():
    count = CROUTON.layout.span // 2048
    table = [2048 * (2 * ((k * 7) % count)) for k in range(count)]
    memory = Memory(CROUTON, chunk_table=table)
    values = _values((2, 9, 20, 50), "uint8")
    memory.set(values)
    assert np.array_equal(memory.numpy(), values)
    assert memory.chunk_start((1, 8, 19, 49)) == table[23]
    assert memory.address((1, 8, 19, 49)) == table[23] + 113
    assert memory.data[table[23] + 113] == values[1, 8, 19, 49]
    assert memory.nbytes == max(table) + 2048
    # Gaps between the chunks are nobody's: neither elements nor pads are written there.
    assert not memory.data[2048 : 2 * 2048].any() or table.count(2048)
    view = memory.submemory((1, 2, 3, 4), (1, 7, 17, 40))
    assert view.chunk_start((0, 1, 2, 3)) == memory.chunk_start((1, 8, 19, 43))
    assert np.array_equal(view.numpy(), values[1:2, 7:9, 17:20, 40:44])


def test_without_a_table_chunk_follows_chunk():
    memory = Memory(CROUTON)
    assert memory.chunk_start((1, 8, 19, 49)) == 23 * 2048
    assert memory.address((1, 8, 19, 49)) == 47217


@pytest.mark.parametrize(
    "desc, table, match",
    [
        (BLOCKED, [0], "has no chunks, so a chunk table has no meaning: its format has no bar"),
        (CROUTON, [0, 2048], "chunk table of 2 entries for .* which has 24 chunks"),
        (CROUTON, [1024 * k for k in range(24)], "overlaps or starts below 0: chunks hold 2048 elements"),
        (CROUTON, [2048 * k for k in range(-1, 23)], "overlaps or starts below 0"),
    ],
)
def test_negative_chunk_tables_that_do_not_fit(desc: TensorDesc, table: list[int], match: str):
    with pytest.raises(LayoutError, match=match):
        Memory(desc, chunk_table=table)


def test_negative_chunk_start_without_chunks():
    with pytest.raises(LayoutError, match="has no chunks: its format has no bar"):
        Memory(BLOCKED).chunk_start((0, 0, 0, 0))


def test_negative_a_table_with_an_offset():
    format = Format.parse("(a) : [a | a:4], offset = 4")
    with pytest.raises(LayoutError, match="has offset 4, but a chunk table says where memory starts"):
        Memory(TensorDesc((8,), "f32", format), chunk_table=[0, 4])


# --- Addresses ---


@given(rngs)
def test_every_way_out_reads_the_element_at_its_address(rng: Random):
    """Strides of either sign, overlapping ones and none; swizzles; zero extents: refused, or right to the element."""
    rank = rng.randint(1, 3)
    shape = tuple(rng.choice((0, 1, 2, 3, 5)) for _ in range(rank))
    names = "abc"[:rank]
    factors = [f"{name}*{rng.randint(-9, 9)}" for name in names]
    factors += [
        f"{name}:{rng.choice((2, 3))}*{rng.randint(-9, 9)}"
        for name in rng.sample(names, rng.randint(0, rank))
    ]
    swizzle = rng.choice(("", "", "", ", swizzle = (1, 0, 1)", ", swizzle = (2, 1, 2)"))
    text = f"({', '.join(names)}) : [{', '.join(factors)}], offset = {rng.choice((0, 5, 60, 200))}{swizzle}"
    layout = Format.parse(text).bind(shape)
    where = {i: layout.address(i) for i in np.ndindex(*shape)}
    try:
        memory = Memory(TensorDesc(shape, "i32", layout))
    except LayoutError as error:
        assert "below address 0" in str(error) and layout.first_address < 0
        return
    memory.data[...] = np.arange(memory.data.size)
    arrays = [memory.numpy(), memory.numpy(copy=True), np.asarray(memory)]
    view = memory.strided()
    if view is not None:
        arrays += [view, np.from_dlpack(memory)]  # pyright: ignore
    for array in arrays:
        assert array.shape == shape and all(array[i] == address for i, address in where.items())
    values = np.array([rng.randint(1, 1 << 30) for _ in where], np.int32).reshape(shape)
    if len(set(where.values())) < len(where):
        with pytest.raises(
            LayoutError, match="several elements at one address, so it can be read but not set"
        ):
            memory.set(values)
        assert (memory.data == np.arange(memory.data.size)).all()
    else:
        memory.set(values)
        assert all(memory.data[address] == values[i] == memory.numpy()[i] for i, address in where.items())
        untouched = np.setdiff1d(np.arange(memory.data.size), list(where.values()))
        assert (memory.data[untouched] == untouched).all()


@pytest.mark.parametrize(
    "shape, format",
    [
        ((2, 6), "(a, b) : [a*20, b*4, b:2*-1]"),
        ((2, 3), "(a, b) : [a*3, b*-1]"),
        ((5,), "(a) : [a*-1], offset = 3"),
        ((1,), "(a) : [a:4*-1], pad = zero"),
    ],
)
def test_negative_memory_does_not_begin_below_address_0(shape: tuple[int, ...], format: str):
    desc = TensorDesc(shape, "f32", format)
    for buffer in (None, NONE, np.zeros(100, np.float32)):
        with pytest.raises(
            LayoutError, match=r"below address 0, where a buffer begins: an offset of at least"
        ):
            Memory(desc, buffer)


def test_an_offset_keeps_negative_strides_inside():
    memory = Memory(TensorDesc((2, 6), "f32", "(a, b) : [a*20, b*4, b:2*-1], offset = 1"))
    memory.set(_values((2, 6)))
    assert np.array_equal(memory.numpy(), _values((2, 6)))
    assert memory.data[[1, 0, 5, 4, 9, 8, 21]].tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_negative_setting_what_keeps_two_elements_at_one_address():
    desc = TensorDesc((8, 5, 11, 9), "f32", "(n, c, h, w) : [n, c*200, h, w, c:8]")
    memory = Memory(desc)
    with pytest.raises(LayoutError, match="keeps several elements at one address"):
        memory.set(1)
    assert memory.numpy().shape == (8, 5, 11, 9)  # reading stays


def test_sharing_is_counted_where_the_algebra_does_not_decide(monkeypatch: pytest.MonkeyPatch):
    def undecided(layout: Layout, *, padded: bool = True) -> None: ...

    monkeypatch.setattr(Layout, "is_injective", undecided)
    apart = Memory(TensorDesc((30, 30), "i32", "(a, b) : [a*2, b*61]"))
    apart.set(_values((30, 30), "int32"))
    assert np.array_equal(apart.numpy(), _values((30, 30), "int32"))
    with pytest.raises(LayoutError, match="several elements at one address"):
        Memory(TensorDesc((30, 30), "i32", "(a, b) : [a*4, b*58]")).set(0)


def test_negative_more_memory_than_there_is():
    with pytest.raises(LayoutError, match="cannot allocate"):
        Memory(TensorDesc((1 << 50, 1 << 12), "i8"))


# --- Lifetime ---


def test_arrays_keep_the_buffer_they_were_made_of():
    first = np.arange(1 << 16, dtype=np.float32)
    memory = Memory(TensorDesc((1 << 16,), "f32"), first)
    arrays = [np.asarray(memory), np.array(memory, copy=False), memory.numpy()]
    interface = memory.__array_interface__
    weak = weakref.ref(first)
    del first
    memory.set_data(np.zeros(1 << 16, np.float32))
    gc.collect()
    assert weak() is not None, "the buffer is gone, but arrays show it"
    assert all(array[-1] == 65535 for array in arrays)
    del arrays, interface
    gc.collect()
    assert weak() is None


@pytest.mark.parametrize("format", ["ab", "ba", "(a, b) : [a*20, b*-2], offset = 50"])
@pytest.mark.parametrize("writable", [True, False])
def test_the_array_interface_says_where_the_tensor_lies(format: str, writable: bool):
    row = np.arange(100, dtype=np.int16)
    row.flags.writeable = writable
    memory = Memory(TensorDesc((3, 4), "i16", format), row)

    class Only:  # nothing but the interface, as NumPy takes it before any other protocol
        __array_interface__ = memory.__array_interface__

    array = np.asarray(Only())
    assert np.array_equal(array, memory.desc.layout.addresses()) and np.shares_memory(array, row)
    assert array.flags.writeable == writable


def test_negative_arrays_of_another_type_are_copies():
    memory = Memory(TensorDesc((3,), "f32"))
    assert memory.__array__(np.float64).dtype == np.float64
    with pytest.raises(LayoutError, match="float64 takes a copy"):
        memory.__array__(np.float64, copy=False)


# --- Threads ---


def test_a_map_excludes_other_threads():
    memory = Memory(TensorDesc((4,), "i64"))
    inside: list[int] = []
    worst: list[int] = []
    refused: list[bool] = []

    def work() -> None:
        for _ in range(300):
            try:
                with memory.map() as data:
                    inside.append(1)
                    worst.append(len(inside))
                    data += 1
                    inside.pop()
            except LayoutError:
                refused.append(True)

    threads = [Thread(target=work) for _ in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert max(worst) == 1
    assert memory.numpy().tolist() == [len(worst)] * 4 and len(worst) + len(refused) == 2400


def test_negative_what_another_thread_writes_cannot_be_mapped():
    memory, started, done = Memory(TensorDesc((3,), "f32")), Event(), Event()

    class Slow:
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
            started.set()
            assert done.wait(30)
            return np.ones(3)

    writer = Thread(target=lambda: memory.set(Slow()))
    writer.start()
    assert started.wait(30)
    try:
        with pytest.raises(LayoutError, match="in use by another thread"), memory.map():
            pass
        assert memory.numpy().shape == (3,)  # reading is not kept off
    finally:
        done.set()
        writer.join()
    assert memory.numpy().tolist() == [1, 1, 1]


def test_memory_is_copied_and_pickled():
    memory = Memory(BLOCKED)
    memory.set(_values((2, 17, 5, 4)))
    for other in (copy.deepcopy(memory), pickle.loads(pickle.dumps(memory))):
        assert np.array_equal(other.numpy(), memory.numpy())
        other.set(0)
        assert memory.numpy()[1, 16, 4, 3] == 680


def test_large_tensors_are_moved_by_compiled_reorders_whatever_is_imported_first():
    program = """
import sys
from layout_ir.api.memory import Memory, _LARGE
from layout_ir.arrays.descriptor import TensorDesc
memory = Memory(TensorDesc((_LARGE // 16, 16), "f32", "Ab2a"))
assert "layout_ir.api.reorder_compilation" not in sys.modules
memory.set(1.0)
assert "layout_ir.api.reorder_compilation" in sys.modules
assert (memory.numpy() == 1).all()
"""
    run_python("-c", program)


def test_negative_a_small_tensor_needs_no_compiler(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("layout_ir.api.reorder_compilation.compile_reorder", None)
    memory = Memory(TensorDesc((3, 16), "f32", "Ab2a"))
    memory.set(np.arange(48, dtype=np.float32).reshape(3, 16))
    assert memory.numpy()[2, 15] == 47


def test_negative_a_shape_describes_no_memory():
    with pytest.raises(LayoutError, match=r"a memory is that of a TensorDesc, not of \(2, 3\)"):
        Memory((2, 3))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "dtype, low, high", [("i8", -128, 127), ("ui8", 0, 255), ("i4", -8, 7), ("ui64", 0, 2**64 - 1)]
)
def test_integers_of_python_are_held_or_refused(dtype: str, low: int, high: int):
    memory = Memory(TensorDesc((2,), dtype, "a"))
    memory.set([low, high])
    assert memory.numpy().tolist() == [low, high]
    for number in (low - 1, high + 1):
        with pytest.raises(LayoutError, match=r"is outside|out of bounds|too large"):
            memory.set([low, number])
    assert memory.numpy().tolist() == [low, high]


@pytest.mark.parametrize(
    "dtype, values",
    [
        ("ui64", [0, 2**64 - 1]),  # together an array of float64 to NumPy
        ("ui64", [2**63 + 1, 1]),
        ("i64", [2**63 - 1, -(2**63)]),
        ("i64", [1.9, -1.9]),
        ("i64", [2**62 + 1, 0.5]),
        ("i8", [True, 2.5]),
    ],
)
def test_numbers_of_python_become_what_numpy_assigns(dtype: str, values: list[float]):
    memory, expected = Memory(TensorDesc((2,), dtype, "a")), np.zeros(2, storage(dtype))
    memory.set(values)
    expected[...] = values
    assert memory.numpy().tolist() == expected.tolist()
    blocked = Memory(TensorDesc((2, 3), dtype, "aB8b"))
    blocked.set([[value] for value in values])
    assert blocked.numpy().tolist() == np.broadcast_to(expected[:, None], (2, 3)).tolist()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_negative_integers_are_finite(number: float):
    memory = Memory(TensorDesc((2,), "i8", "a"))
    with pytest.raises(LayoutError, match=r"cannot convert float .* to integer: the elements of 2 i8"):
        memory.set([1, number])


def test_integers_of_arrays_wrap_around_as_numpys_do():
    memory, expected = Memory(TensorDesc((2,), "i8", "a")), np.zeros(2, np.int8)
    given = np.array([300, -129])
    memory.set(given)
    expected[...] = given
    assert memory.numpy().tolist() == expected.tolist()


def test_any_integer_is_a_truth_value():
    memory = Memory(TensorDesc((3,), "i1", "a"))
    memory.set([0, 5, -1])
    assert memory.numpy().tolist() == [False, True, True]


def test_no_buffer_is_one_value_in_every_process():
    assert pickle.loads(pickle.dumps(NONE)) is NONE and copy.deepcopy(NONE) is NONE
