import numpy as np
import pytest

from layout_ir.elements.aligned_arrays import aligned_bytes, aligned_empty, aligned_zeros
from layout_ir.elements.cache_line import LINE

SHAPES = [(), (0, 3), (7,), (3, 5, 11), (1 << 16,), (131, 1009), (1 << 20,)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["u1", "<f2", "<f4", "<i8"])
def test_new_arrays_have_the_shape_and_hold_what_is_written(shape: tuple[int, ...], kind: str) -> None:
    dtype = np.dtype(kind)
    for array in (aligned_empty(shape, dtype), aligned_zeros(shape, dtype)):
        assert (array.shape, array.dtype) == (shape, dtype)
        assert array.flags.c_contiguous and array.flags.writeable and array.flags.aligned
        if array.nbytes > 1 << 17:
            assert array.ctypes.data % LINE == 0
    zeros = aligned_zeros(shape, dtype)
    assert not zeros.any()
    values = (np.arange(zeros.size) % 251).reshape(shape).astype(dtype)
    array = aligned_empty(shape, dtype)
    array[...] = values
    np.testing.assert_array_equal(array, values)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 100_003])
def test_bytes_begin_on_a_line(size: int) -> None:
    for _ in range(8):
        row = aligned_bytes(size)
        assert row.nbytes == size
        assert size == 0 or row.ctypes.data % LINE == 0
