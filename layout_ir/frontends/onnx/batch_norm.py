"""Folding of a batch normalization into the convolution before it.

With constant statistics both are affine per output channel, so

    norm(conv(x, w) + b) = conv(x, w * s) + (b - mean) * s + bias        s = scale / sqrt(var + epsilon)

The new weights are computed in double precision and rounded once. Splats stay splats: where every parameter is
one, so are the new weight and bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.frontends.onnx.constants import collapsed, splat

if TYPE_CHECKING:
    from numpy.typing import NDArray


def fold_into_convolution(
    weight: NDArray[Any],
    bias: NDArray[Any] | None,
    parameters: Sequence[NDArray[Any]],
    epsilon: float,
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """The convolution's new weight and bias for `parameters` scale, bias, mean, var.

    None if an element of them would not be finite: then the two forms differ.
    """
    scale, shift, mean, var = (_double(parameter) for parameter in parameters)
    old = np.float64(0) if bias is None else _double(bias)
    kernel = np.asarray(collapsed(weight))
    with np.errstate(all="ignore"):
        factor = np.asarray(scale / np.sqrt(var + epsilon))
        per_channel = factor.reshape(-1, *(1,) * (weight.ndim - 1)) if factor.ndim else factor
        new_weight = np.empty(np.broadcast_shapes(kernel.shape, per_channel.shape), weight.dtype)
        # Some elements at a time are in double precision: all would be twice the memory, and their products as well.
        np.multiply(kernel, per_channel, out=new_weight, dtype=np.float64, casting="unsafe")
        new_bias = np.asarray((old - mean) * factor + shift).astype(weight.dtype)
    if not (np.all(np.isfinite(new_weight)) and np.all(np.isfinite(new_bias))):
        return None
    return _expanded(new_weight, weight.shape), _expanded(new_bias, weight.shape[:1])


def _double(array: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(collapsed(array)).astype(np.float64)


def _expanded(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    return splat(array, shape) if array.ndim == 0 else np.broadcast_to(array, shape)
