"""Products of few rows with a constant matrix: inner products on weights that the library packs.

Where the library's `matmul` is its `gemm`, as with AVX2 in 3.2, it reads the right matrix as it lies: some columns of
many rows, each of them far from the one before. Products of hundreds of rows hide that, those of a few wait for it. Its
`inner_product` packs the matrix into panels of columns that lie one behind the other. With AVX2 (Zen 3), f32, weights
that no cache holds, microseconds by `gemm` and by an inner product:

    rows     768x768     768x3072     3072x768     2048x1000
       1   167   149     509   571    665   594    441   468
       2   357   180    1295   692   1225   655   1133   561
       4   322   174    1080   720   1292   817   1079   585
       8   413   292    1414   997   1195  1117   1301   843
      16   359   359    1349  1107   1431  1928   2055  1915
      32   550   585    1923  2020   1949  3453   2127  2163
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from layout_ir.backends.llvm.machine.machine import PAGE, host
from layout_ir.backends.onednn import memory_descriptors as descriptors
from layout_ir.backends.onednn.library import Refused
from layout_ir.backends.onednn.memory_descriptors import MemoryDescriptor
from layout_ir.backends.onednn.op_primitives.primitive_operands import OpPrimitive, Values
from layout_ir.backends.onednn.primitives import INFERENCE, Argument, PrimitiveDescriptor, Request

_SIZE = 4
"""Bytes of an f32: there are no such products of other elements."""


def inner_product(primitive: OpPrimitive, rows: Collection[int], values: Values) -> OpPrimitive | None:
    """The product `primitive` of a row-major operand with a constant matrix as an inner product; None where that is not
    expected to be faster.

    `rows` are the numbers of rows of all products by that matrix. Where they differ, so do the panels that the library
    packs for each, and the matrix would be stored several times.
    """
    weights = primitive.operands[Argument.WEIGHTS]
    left, wanted, bias, result = primitive.request.arguments
    if weights.constant is None or weights.descriptor is not None or wanted.made_from[1] != "f32":
        return None
    if weights.constant.ndim != 2 or not all(_is_row_major(each) for each in (left, result)):
        return None
    k, n = weights.constant.shape
    if len(rows) > 1 or parts_of(left.blocking().dims[0], k, n) != 1:
        return None
    library, operands = values.library, dict(primitive.operands)
    order = None if weights.order is None else (1 - weights.order[0], weights.order[1])
    operands[Argument.WEIGHTS] = replace(weights, constant=weights.constant.T, order=order)
    if bias is not None:
        bias = descriptors.row_major(library, (n,))
        given = operands[Argument.BIAS]
        row = None if given.constant is None else given.constant.reshape(n)
        operands[Argument.BIAS] = replace(given, descriptor=bias, constant=row)
    packed = descriptors.any_format(library, (n, k))
    request = Request("inner_product_forward", (INFERENCE, left, packed, bias, result))
    try:
        asked = [
            PrimitiveDescriptor(library, each, primitive.post_ops) for each in (primitive.request, request)
        ]
    except Refused:
        return None
    product, inner = (each.implementation for each in asked)
    if not (product.startswith("gemm") and inner.startswith("brgemm")):
        return None
    return replace(primitive, request=request, operands=operands)


def parts_of(rows: int, k: int, n: int) -> int:
    """Into how many parts of `k` a product of so many rows by `k` x `n` is cut to take the least time, 1 where it is
    left whole; 0 where packed weights are not expected to be faster.

    One row: `gemm` reads the matrix from its beginning to its end, which only rows shorter than a page interrupt. By
    256x4096, 768x1536, 2048x2048 and 4096x2048 an inner product takes 1.06 to 1.37 times as long, by 256x512, 768x256,
    2048x512 and 4096x256 0.65 to 0.85.

    More: a core multiplies two vectors of numbers in a cycle and reads one number or so from memory. With more rows
    than these vectors have elements the arithmetic takes longer, at which both are equally good. An inner product goes
    over its left operand in tiles of four rows, again for each panel of columns: the first cache is to hold a tile.
    """
    if rows == 1:
        return int(_SIZE * n < PAGE)
    cpu = host()
    if not 1 < rows <= 2 * cpu.vector // _SIZE:
        return 0
    return -(-k // (cpu.l1 // (_SIZE * min(rows, 4))))


def _is_row_major(descriptor: MemoryDescriptor) -> bool:
    said = descriptor.blocking()
    return len(said.dims) == 2 and not said.inner_blks and said.strides == (max(said.dims[1], 1), 1)
