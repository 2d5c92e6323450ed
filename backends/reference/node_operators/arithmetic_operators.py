"""Operators that compute numbers from numbers: products, rows, levels, transforms."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx.helper
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_qlinear_matmul import QLinearMatMul as _PackageQLinearMatMul
from onnx.reference.ops.op_quantize_linear import QuantizeLinear_21

from layout_ir.backends.reference.dequantization import dequantized
from layout_ir.backends.reference.fourier import short_time_transform
from layout_ir.backends.reference.operator_kernels import IN_NUMPY
from layout_ir.dialects.nn.depthwise_products import DepthwiseIntegerConv
from layout_ir.dialects.nn.integer_products import PackedIntegerConv
from layout_ir.elements.elementwise_formulas import erf
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError, shape_text


class DequantizeLinear(OpRun):
    """DequantizeLinear in all versions of the operator."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        scale: Array,
        zero_point: Array | None = None,
        axis: int | None = None,
        block_size: int | None = None,
        output_dtype: int | None = None,
    ) -> tuple[Array]:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(output_dtype) if output_dtype else None
        return (dequantized(x, scale, zero_point, 1 if axis is None else axis, block_size or 0, dtype),)


class Erf(OpRun):
    """Erf by one function of the C library per element: what the package calls NumPy for takes twice as long."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array]:
        return (erf(np, x),)


class Inverse(OpRun):
    """ONNX Runtime's: of each of the matrices; NaN for one that has none, of which ONNX Runtime says nothing."""

    op_domain = "com.microsoft"

    def _run(self, x: Array) -> tuple[Array]:
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise LayoutError(f"a tensor of {shape_text(x.shape)} is none of square matrices")
        matrices = x.astype(np.float32) if x.dtype == np.float16 else x
        try:
            return (np.linalg.inv(matrices).astype(x.dtype),)
        except np.linalg.LinAlgError:
            if x.ndim == 2:
                return (np.full_like(x, np.nan),)
            return (np.stack([self._run(each)[0] for each in x]),)


class LpNormalization(OpRun):
    """LpNormalization by the sum of magnitudes, and 0 where that is 0: the package (1.23) adds numbers with their
    signs."""

    op_domain = ""

    def _run(self, x: Array, axis: int | None = None, p: int | None = None) -> tuple[Array]:
        numbers = x if x.dtype == np.float64 else x.astype(np.float32)
        norm = np.linalg.norm(numbers, 2 if p is None else p, -1 if axis is None else axis, keepdims=True)
        return (np.divide(numbers, norm, out=np.zeros_like(numbers), where=norm != 0).astype(x.dtype),)


class MatMul(OpRun):
    op_domain = ""
    kernels = IN_NUMPY

    def _run(self, a: Array, b: Array) -> tuple[Array]:
        return (self.kernels.product(a, b),)


class MatMulInteger(OpRun):
    """MatMulInteger with a zero point for each row of a matrix as a vector, too, which the package takes along the
    columns."""

    op_domain = ""

    def _run(
        self, a: Array, b: Array, a_zero_point: Array | None = None, b_zero_point: Array | None = None
    ) -> tuple[Array]:
        factors = [a.astype(np.int32), b.astype(np.int32)]
        if a_zero_point is not None:
            factors[0] -= _of_rows(a_zero_point, a)
        if b_zero_point is not None:
            factors[1] -= b_zero_point
        return (factors[0] @ factors[1],)


class QLinearMatMul(_PackageQLinearMatMul):
    """QLinearMatMul with parameters for each row of a matrix as vectors, too, which the package takes along the
    columns."""

    op_domain = ""

    def _run(
        self, a: Array, a_scale: Array, a_zero_point: Array, b: Array, b_scale: Array, b_zero_point: Array,
        y_scale: Array, y_zero_point: Array,
    ) -> tuple[Array]:  # fmt: skip
        of_a = [_of_rows(side, a) for side in (a_scale, a_zero_point)]
        of_y = [_of_rows(side, a) for side in (y_scale, y_zero_point)]
        package: Any = super()
        return package._run(a, *of_a, b, b_scale, b_zero_point, *of_y)


def _of_rows(parameter: Array, a: Array) -> Array:
    """A parameter of the first factor `a`, or of the product: a vector has a number for each row of a matrix."""
    return parameter[:, None] if a.ndim == 2 and parameter.ndim == 1 and parameter.size > 1 else parameter


class STFT(OpRun):
    op_domain = ""

    def _run(
        self,
        signal: Array,
        step: Array,
        window: Array | None = None,
        length: Array | None = None,
        onesided: int | None = None,
    ) -> tuple[Array]:
        if length is None and window is None:
            raise LayoutError("an STFT has a window or the length of its frames")
        count = int(np.asarray(length).item()) if length is not None else np.asarray(window).size
        step_size = int(np.asarray(step).item())
        return (short_time_transform(signal, step_size, window, count, onesided != 0),)


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _log_softmax(x: Array) -> Array:
    lowered = x - x.max(axis=-1, keepdims=True)
    return lowered - np.log(np.exp(lowered).sum(axis=-1, keepdims=True))


def _hardmax(x: Array) -> Array:
    found = np.zeros_like(x)
    np.put_along_axis(found, np.expand_dims(np.argmax(x, axis=-1), -1), 1, axis=-1)
    return found


_OF_ROWS = {"Softmax": _softmax, "LogSoftmax": _log_softmax, "Hardmax": _hardmax}
"""What the operator of a name computes of each row."""


class RowsRun(OpRun):
    """An operator on rows along a dim; before opset 13 on rows of all dims from one on, which the package does not
    know."""

    op_domain = ""

    def _run(self, x: Array, **attributes: Any) -> tuple[Array]:
        node: Any = self
        function = _OF_ROWS[type(self).__name__]
        given = [each.i for each in node.onnx_node.attribute if each.name == "axis"]
        if node.run_params["opsets"].get("", 13) >= 13:
            axis = given[0] if given else -1
            return (np.moveaxis(function(np.moveaxis(x, axis, -1)), -1, axis),)
        axis = given[0] if given else 1
        first = axis % max(x.ndim, 1)
        rows = x.reshape(*x.shape[:first], prod(x.shape[first:]))
        return (function(rows).reshape(x.shape),)


class IntegerConvOfPackedWeights(OpRun):
    """What the executor makes of convolutions and products of integers."""

    def _run(self, x: Array, weights: Array, *columns: Array, **attributes: Any) -> tuple[Array]:
        return (PackedIntegerConv.of_node(attributes.get)(x, weights, *columns),)


class DepthwiseConvOfIntegers(OpRun):
    """What the executor makes of depthwise convolutions of integers."""

    def _run(
        self, x: Array, zero_point: Array, weights: Array, *columns: Array, **attributes: Any
    ) -> tuple[Array]:
        return (DepthwiseIntegerConv.of_node(attributes.get)(x, zero_point, weights, *columns),)


_OF_RUNTIME: dict[str, Any] = {"op_domain": "com.microsoft", "op_schema": None}
"""The class attributes of an operator of the standard under the name that ONNX Runtime had for it before."""

OPERATORS = (
    DequantizeLinear, Erf, Inverse, LpNormalization, MatMul, MatMulInteger, QLinearMatMul, STFT,
    type("DequantizeLinear", (DequantizeLinear,), _OF_RUNTIME),
    type("QuantizeLinear", (QuantizeLinear_21,), _OF_RUNTIME),
    *(type(name, (RowsRun,), {}) for name in _OF_ROWS),
)  # fmt: skip
