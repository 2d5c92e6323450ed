"""Tensors that are shared with other libraries stay the same tensors, and alive; what cannot be shared says so."""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.api.memory import Memory
from layout_ir.arrays.descriptor import TensorDesc
from layout_ir.errors import LayoutError

torch: Any = pytest.importorskip("torch")

BLOCKED = TensorDesc((2, 17, 5, 4), "f32", "nChw8c")


def _values(shape: tuple[int, ...]) -> NDArray[Any]:
    return np.arange(1, math.prod(shape) + 1).reshape(shape).astype(np.float32)


# --- Life time ---


def _torch_memory(array: NDArray[Any]) -> Memory:
    return Memory.from_torch(torch.from_numpy(array.copy()))


def _byte_memory(array: NDArray[Any]) -> Memory:
    return Memory(TensorDesc(array.shape, "f32"), bytearray(array.tobytes()))


@pytest.mark.parametrize("box", [np.s_[:, :], np.s_[::-1, ::2]])
@pytest.mark.parametrize("take", [Memory.from_numpy, Memory.from_dlpack, _torch_memory, _byte_memory])
def test_what_leaves_memory_keeps_the_buffer_alive(take: Callable[[NDArray[Any]], Memory], box: Any):
    """Nothing else does: 4 MB go back to the system when they are freed, and reading them then is a crash."""
    memory, expected = take(_values((1024, 1024))[box]), _values((1024, 1024))[box]
    left = [memory.numpy(copy=False), np.from_dlpack(memory), memory.torch().numpy()]
    row = memory.data
    del memory
    gc.collect()
    assert all(np.array_equal(array, expected) for array in left)
    assert np.isin(expected[:9, :9], row).all()


# --- Protocols ---


def test_array_interface_and_asarray():
    memory = Memory.from_numpy(_values((3, 4)).T)
    assert np.shares_memory(np.asarray(memory), memory.data) and np.asarray(memory).shape == (4, 3)
    assert memory.__array_interface__["shape"] == (4, 3)
    assert not hasattr(Memory(BLOCKED), "__array_interface__")
    assert np.asarray(Memory(BLOCKED)).shape == (2, 17, 5, 4)
    assert np.asarray(memory, dtype=np.int64).dtype == np.int64


def test_buffer_protocol():
    memory = Memory.from_numpy(_values((3, 4)).T)
    view = memoryview(memory) if sys.version_info >= (3, 12) else memory.__buffer__(0)
    assert (view.shape, view.strides, view.format) == ((4, 3), (4, 16), "f")


def test_negative_blocks_are_no_buffer():
    """Else NumPy, which asks for one before all else, would take the physical row for the tensor."""
    with pytest.raises(BufferError, match="the buffer protocol needs one stride per dim"):
        Memory(BLOCKED).__buffer__(0)


# --- DLPack and torch ---


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint8", "int64", "bool"])
def test_torch_tensors_go_in_and_out_without_a_copy(dtype: str):
    tensor = torch.arange(24).reshape(2, 3, 4).to(getattr(torch, dtype)).transpose(0, 2)
    memory = Memory.from_torch(tensor)
    back, through = memory.torch(copy=False), torch.from_dlpack(memory)
    for other in (back, through):
        assert other.data_ptr() == tensor.data_ptr() and other.dtype == tensor.dtype
        assert other.stride() == tensor.stride() and torch.equal(other, tensor)


def test_channels_last_is_nhwc():
    tensor = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    memory = Memory.from_torch(tensor, "nhwc", copy=False)
    assert memory.desc == TensorDesc((2, 3, 4, 5), "f32", "nhwc")
    assert memory.torch(copy=False).is_contiguous(memory_format=torch.channels_last)


def test_a_tensor_with_a_gradient_comes_without_it():
    assert Memory.from_torch(torch.ones(3, requires_grad=True)).numpy().tolist() == [1, 1, 1]


def test_numbers_that_torch_negates_when_it_reads_them_come_negated():
    """The imaginary part of a conjugate has the memory of the number itself, and DLPack does not hear of the sign."""
    tensor = torch.tensor([[1 + 2j, 3 - 4j]]).conj().imag
    assert tensor.is_neg()
    assert Memory.from_torch(tensor).numpy().tolist() == tensor.tolist() == [[-2, 4]]
    with pytest.raises(LayoutError, match="torch negates the numbers of this tensor when it reads them"):
        Memory.from_dlpack(tensor, copy=False)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "cannot take list through DLPack"),
        (None, "cannot take NoneType through DLPack"),
        (torch.eye(2).to_sparse(), "cannot take Tensor through DLPack"),
    ],
)
def test_negative_what_has_no_dlpack(value: Any, message: str):
    with pytest.raises(LayoutError, match=message):
        Memory.from_dlpack(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.eye(2).to_sparse(), "Tensor is no array to NumPy: can't convert Sparse"),
        (torch.ones(2, 2, requires_grad=True), "Tensor is no array to NumPy: .*requires grad"),
        ([[1, 2], [3]], "list is no array to NumPy"),
        (np.full((2, 2), 1j), "numbers of complex128 do not fit 2x2 f32"),
    ],
)
def test_negative_values_that_are_no_array_of_numbers(value: Any, message: str):
    with pytest.raises(LayoutError, match=message):
        Memory(TensorDesc((2, 2), "f32")).set(value)


def test_blocked_memory_leaves_as_a_copy_only():
    memory = Memory.from_torch(torch.randn(2, 17, 5, 4), "nChw8c")
    assert memory.torch().shape == (2, 17, 5, 4)
    with pytest.raises(LayoutError, match="it takes a copy"):
        memory.torch(copy=False)
    with pytest.raises(BufferError, match="DLPack needs one stride per dim"):
        memory.__dlpack__()


def test_numpy_reads_dlpack_and_dlpack_reads_numpy():
    memory = Memory.from_dlpack(_values((3, 4)))
    assert np.shares_memory(np.from_dlpack(memory), memory.data)
    assert memory.__dlpack_device__() == (1, 0)


def test_numbers_reach_torch_as_the_bf16_that_torch_makes_of_them():
    memory = Memory(TensorDesc((3, 3), "bf16", "ab"))
    expected = torch.linspace(-3, 3, 9).reshape(3, 3)
    memory.set(expected.numpy())
    assert torch.equal(memory.torch(), expected.to(torch.bfloat16))


def test_backward_strides_reach_torch_as_a_copy():
    memory = Memory.from_numpy(_values((4,))[::-1])
    assert memory.torch().tolist() == [4, 3, 2, 1]
    with pytest.raises(LayoutError, match="negative strides, which torch has not"):
        memory.torch(copy=False)
