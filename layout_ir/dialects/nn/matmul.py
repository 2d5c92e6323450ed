"""Matrix products."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def

from layout_ir.dialects.nn.attributes import flag, number
from layout_ir.dialects.nn.nn_op import NNOp
from layout_ir.dialects.nn.tensor_types import FLOATS, Shape
from layout_ir.elements.elementwise_formulas import broadcast
from layout_ir.errors import LayoutError, shape_text
from layout_ir.interfaces import PadRead


@irdl_op_definition
class MatmulOp(NNOp):
    """NumPy's matmul: the last two dims multiply, leading dims broadcast, a vector is a row (left) or a column."""

    name = "nn.matmul"
    ALLOWED: ClassVar[tuple[str, ...]] = (*FLOATS, "i32", "ui32", "i64", "ui64")

    a = operand_def(TensorType)
    b = operand_def(TensorType)

    def infer(self) -> Shape:
        """(leading dims broadcast, rows of a, columns of b); a vector has no rows or columns."""
        a, b = self.shapes
        if not a or not b:
            raise LayoutError(
                f"{self.name} needs rank 1 or more, but the operands are {shape_text(a)} and {shape_text(b)}"
            )
        inner = b[-2:][0]
        if a[-1] != inner:
            raise LayoutError(
                f"inner extent mismatch between operands {shape_text(a)} and {shape_text(b)}: {a[-1]} != {inner}"
            )
        rows = a[-2:-1]
        columns = b[-1:] if len(b) > 1 else ()
        return (*broadcast(a[:-2], b[:-2]), *rows, *columns)

    def pad_reads(self, operand: int) -> tuple[PadRead, ...]:
        """Zeros in the pads of the inner dim of both operands."""
        rank = len(self.shapes[operand])
        return (PadRead(rank - 1 if operand == 0 else max(rank - 2, 0), 0.0),)


@irdl_op_definition
class GemmOp(NNOp):
    """alpha * A' * B' + beta * C, where A' (M, K) is A or its transpose, B' (K, N) likewise, C broadcasts to (M, N)."""

    name = "nn.gemm"
    ALLOWED: ClassVar[tuple[str, ...]] = (*FLOATS, "i32", "ui32", "i64", "ui64")

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = opt_operand_def(TensorType)

    alpha = number(default=1.0)
    beta = number(default=1.0)
    trans_a = flag(default=False)
    trans_b = flag(default=False)

    def infer(self) -> Shape:
        """The shape of the result, (M, N)."""
        a, b = self.shapes[:2]
        for name, shape in (("a", a), ("b", b)):
            if len(shape) != 2:
                raise LayoutError(
                    f"{self.name} works on matrices, but operand {name} is {shape_text(shape)}: "
                    f"rank {len(shape)} != 2"
                )
        m, k = reversed(a) if self.trans_a else a
        k2, n = reversed(b) if self.trans_b else b
        if k != k2:
            raise LayoutError(
                f"inner extent mismatch between a {shape_text(a)}{' transposed' * self.trans_a} and "
                f"b {shape_text(b)}{' transposed' * self.trans_b}: {k} != {k2}"
            )
        if self.c is not None and broadcast(self.shapes[2], (m, n)) != (m, n):
            raise LayoutError(
                f"c {shape_text(self.shapes[2])} does not broadcast to the result {shape_text((m, n))}"
            )
        return (m, n)

    def pad_reads(self, operand: int) -> tuple[PadRead, ...]:
        """Zeros in the pads of the K dim of a and b; c is read by logical index."""
        if operand > 1:
            return ()
        inner = 1 if operand == 0 else 0
        transposed = self.trans_a if operand == 0 else self.trans_b
        return (PadRead(1 - inner if transposed else inner, 0.0),)
