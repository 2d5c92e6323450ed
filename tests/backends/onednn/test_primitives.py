"""What the library answers to requests, and that a primitive is the one that was asked for."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from layout_ir.backends.onednn.library import Refused, library
from layout_ir.backends.onednn.memory_descriptors import any_format, row_major, strided
from layout_ir.backends.onednn.primitives import (
    INFERENCE,
    Algorithm,
    Argument,
    BinaryPostOp,
    EltwisePostOp,
    PrimitiveDescriptor,
    Quantization,
    ReorderPrimitive,
    Request,
    SumPostOp,
    execute,
)
from layout_ir.dialects import nn
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers

pytestmark = needs_library


def product(rows: int = 4, inner: int = 5, columns: int = 3) -> Request:
    """A product whose right operand lies as the library likes."""
    lib = library()
    sides = row_major(lib, (rows, inner)), any_format(lib, (inner, columns)), row_major(lib, (rows, columns))
    return Request("matmul", (sides[0], sides[1], None, sides[2]))


def test_a_product_with_all_kinds_of_post_ops_is_computed():
    lib = library()
    a, b, c = numbers((4, 5)), numbers((5, 3), 1), numbers((4, 3), 2)
    y = np.ones((4, 3), np.float32)
    chain = [
        SumPostOp(), BinaryPostOp(Algorithm.MUL, row_major(lib, (4, 3))), EltwisePostOp(Algorithm.LINEAR, 2.0, 1.0)
    ]  # fmt: skip
    found = PrimitiveDescriptor(lib, product(), chain)
    wanted = found.descriptor(Argument.WEIGHTS)
    packed = np.zeros(wanted.nbytes, np.uint8)
    ReorderPrimitive(row_major(lib, (5, 3)), wanted)(b.ctypes.data, packed.ctypes.data)
    scratchpad = np.zeros(max(found.scratchpad_size, 1), np.uint8)
    given = {
        Argument.SRC: (found.descriptor(Argument.SRC), a), Argument.WEIGHTS: (wanted, packed),
        Argument.DST: (found.descriptor(Argument.DST), y), Argument.SCRATCHPAD: (found.scratchpad(), scratchpad),
        32768 * 2 | 2: (row_major(lib, (4, 3)), c),
    }  # fmt: skip
    memories = [(number, lib.new_memory(d.handle, array.ctypes.data)) for number, (d, array) in given.items()]
    execute(lib, found.primitive(), lib.new_stream(), memories)
    np.testing.assert_allclose(y, 2 * ((a @ b + 1) * c) + 1, rtol=1e-5, atol=1e-5)


def test_negative_a_product_of_extents_that_do_not_fit_is_refused():
    lib = library()
    request = Request(
        "matmul", (row_major(lib, (4, 5)), row_major(lib, (6, 3)), None, row_major(lib, (4, 3)))
    )
    with pytest.raises(Refused, match="matmul"):
        PrimitiveDescriptor(lib, request)


def test_negative_a_softmax_over_a_dim_that_there_is_not_is_refused():
    lib = library()
    flat = row_major(lib, (4, 3))
    with pytest.raises(Refused, match="softmax"):
        PrimitiveDescriptor(lib, Request("softmax_forward", (INFERENCE, Algorithm.SOFTMAX, flat, flat, 5)))


def test_the_reference_of_the_library_is_told_from_its_kernels():
    lib = library()
    flat = row_major(lib, (64,))
    fast = Request("eltwise_forward", (INFERENCE, Algorithm.RELU, flat, flat, 0.0, 0.0))
    assert not PrimitiveDescriptor(lib, fast).is_slow
    x, y = row_major(lib, (2, 3, 4, 5)), row_major(lib, (2, 1, 4, 5))
    slow = PrimitiveDescriptor(lib, Request("reduction", (Algorithm.REDUCE_MUL, x, y, 0.0, 0.0)))
    assert ("ref" in slow.implementation) == slow.is_slow


@pytest.mark.parametrize("orders", [("nchw", "nhwc"), ("nhwc", "nchw")])
def test_descriptors_that_differ_in_strides_of_dims_of_one_element_are_not_mistaken_for_each_other(
    orders: tuple[str, str],
):
    """Release 3.2 had the second of two such convolutions run by the implementation of the first."""
    for order in orders:
        program = Program((2, 17, 1, 1))
        w, b = program.constant(numbers((24, 17, 1, 1), 1)), program.constant(numbers((24,), 2))
        y = program.add(nn.ConvOp, program.argument(0, order), w, b, strides=(1, 2), format=order)
        compare(program.module(y), numbers((2, 17, 1, 1)))


def test_equal_requests_share_one_primitive_while_one_of_them_lives():
    first, second = (PrimitiveDescriptor(library(), product(7, 6, 5), [SumPostOp()]) for _ in range(2))
    shared = first.primitive()
    assert second.primitive() is shared
    # What the primitive owns answers in place of the descriptor that it was made from.
    assert second.implementation and second.descriptor(Argument.DST).blocking().dims == (7, 5)
    gone = weakref.ref(first._found)  # pyright: ignore[reportPrivateUsage]
    del first, second, shared
    gc.collect()
    assert gone() is None


def test_negative_requests_that_differ_have_primitives_of_their_own():
    lib, scale = library(), Quantization(Argument.SCALE_OF | Argument.SRC, 0)
    found = [
        PrimitiveDescriptor(lib, product(7, 6, 5), [SumPostOp()]),
        PrimitiveDescriptor(lib, product(7, 6, 4), [SumPostOp()]),
        PrimitiveDescriptor(lib, product(7, 6, 5)),
        PrimitiveDescriptor(lib, product(7, 6, 5), [EltwisePostOp(Algorithm.RELU)]),
        PrimitiveDescriptor(lib, product(7, 6, 5), [SumPostOp()], [scale]),
    ]
    assert len({id(descriptor.primitive()) for descriptor in found}) == len(found)


def test_negative_strides_of_dims_of_one_element_and_numbers_of_threads_tell_requests_apart():
    lib = library()

    def relu(strides: tuple[int, ...]) -> PrimitiveDescriptor:
        lies = strided(lib, (2, 1, 3), strides)
        return PrimitiveDescriptor(
            lib, Request("eltwise_forward", (INFERENCE, Algorithm.RELU, lies, lies, 0.0, 0.0))
        )

    near, far = relu((3, 3, 1)), relu((3, 1, 1))
    assert near.primitive() is not far.primitive()
    if lib.sets_threads:
        before = lib.threads()
        lib.use_threads(before + 1)
        try:
            assert relu((3, 3, 1)).primitive() is not near.primitive()
        finally:
            lib.use_threads(before)
        assert relu((3, 3, 1)).primitive() is near.primitive()
