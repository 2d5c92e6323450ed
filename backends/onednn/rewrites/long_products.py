"""Products of few rows by a long constant matrix are sums of products by parts of it.

    x (M, K) * w (K, N) + c     becomes     x[:, :k] * w[:k] + c  +  x[:, k:] * w[k:]

An inner product (`few_row_products`) goes over four rows of its left operand for each panel of the matrix, and falls
behind where the first cache does not hold these. With AVX2 (Zen 3), f32, in microseconds by `gemm`, by one inner
product and by the sum of so many, on weights that no cache holds:

    rows   3072x768               4096x1024              8192x512               11008x512
       2    926  447             1608  883              1842  1172   901 (4)   2696  1714  1321 (6)
       4   1002  593   514 (2)   1698  1261  1100 (2)   1909  1845   995 (4)   2858  2624  1496 (6)
       8   1357  1141  891 (2)   2183  1941  1427 (2)   2328  3419  1526 (4)   3014  4647  1952 (6)
      16   1348  1814  1162 (2)  2380  3303  2056 (2)   2668  6104  2220 (4)   3622  8349  3101 (6)

The sum is a post-op of the later products. The measure: the products that are longer than pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from layout_ir.backends.onednn.library import Library
from layout_ir.backends.onednn.op_group import single_op_group
from layout_ir.backends.onednn.op_primitives.few_row_products import parts_of
from layout_ir.backends.onednn.op_primitives.primitive_operands import Values
from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps
from layout_ir.backends.reference.semantics import layout_at_run_time
from layout_ir.backends.reference.tensor import is_row_major
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of, encoding_of
from layout_ir.dialects.nn.constant import literal
from layout_ir.dialects.nn.tensor_types import tensor_type


def cut_long_products(function: FuncOp, library: Library) -> None:
    """Applies the rule above, in place, to products whose layouts are chosen."""
    values = Values(library)
    for op in list(function.walk()):
        if isinstance(op, nn.MatmulOp | nn.GemmOp) and dtype_of(op.result.type) == "f32":
            _cut(op, values)


def _cut(op: nn.MatmulOp | nn.GemmOp, values: Values) -> None:
    matrix = op.b.owner
    trans_b = isinstance(op, nn.GemmOp) and op.trans_b
    if not isinstance(matrix, nn.ConstantOp) or (isinstance(op, nn.GemmOp) and op.trans_a):
        return
    left, right = values.layout(op.a).shape, values.layout(op.b).shape
    if len(right) != 2 or len(left) < 2 or not all(_is_plain(value) for value in (op.a, op.result)):
        return
    k, n = right[::-1] if trans_b else right
    count = parts_of(prod(left[:-1]), k, n)
    if count < 2 or len(list(op.b.uses)) > 1:  # a matrix that others read is stored once, whole
        return
    whole = single_op_group(op, values).descriptor
    # Other kernels pack the matrix themselves.
    if whole is None or not whole.implementation.startswith("gemm"):
        return
    elements = values.constant(op.b)
    assert elements is not None
    made = InsertedOps(op)
    step = -(-k // (8 * count)) * 8  # of which the library packs whole groups
    total: SSAValue | None = None
    for first in range(0, k, step):
        size = min(step, k - first)
        part = elements[:, first : first + size] if trans_b else elements[first : first + size]
        type = _typed(op.b, part.shape)
        w = made.insert_typed(nn.ConstantOp(literal(type, part.tobytes()), type))
        starts, sizes = (*(0 for _ in left[:-1]), first), (*left[:-1], size)
        x = made.insert_typed(nn.SliceOp(op.a, starts=starts, sizes=sizes, result_type=_typed(op.a, sizes)))
        if isinstance(op, nn.MatmulOp):
            product = nn.MatmulOp(x, w, result_type=op.result.type)
        else:
            addend = [op.c] if op.c is not None and total is None else []
            attributes = {"alpha": op.alpha, "beta": op.beta, "trans_b": trans_b}
            product = nn.GemmOp(x, w, *addend, **attributes, result_type=op.result.type)
        value = made.insert_typed(product)
        found = single_op_group(product, values).primitive
        if found is None or found.request.name != "inner_product_forward":
            made.take_back()
            return
        total = (
            value if total is None else made.insert_typed(nn.AddOp(value, total, result_type=op.result.type))
        )
    assert total is not None
    made.replace(total)
    Rewriter.erase_op(matrix)


def _typed(value: SSAValue, shape: Sequence[int]) -> TensorType[Attribute]:
    """The type of a tensor of another shape that is stored like `value`."""
    return TensorType(tensor_type(value).element_type, shape, encoding_of(value.type))


def _is_plain(value: SSAValue) -> bool:
    layout = layout_at_run_time(value.type)
    return is_row_major(layout) and not layout.is_padded
