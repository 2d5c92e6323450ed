"""Normalizations on arrays of the type they are computed in.

Each takes the box with the pads of its reduced dims still in it: they take part, as they do in a kernel that runs over
whole blocks.
"""

from __future__ import annotations

import numpy as np

from layout_ir.elements.numpy_types import Array


def softmax(x: Array, axis: int) -> Array:
    if not x.size:
        return x
    power = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return power / np.sum(power, axis=axis, keepdims=True)


def log_softmax(x: Array, axis: int) -> Array:
    if not x.size:
        return x
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def batch_norm(x: Array, scale: Array, bias: Array, mean: Array, var: Array, epsilon: float) -> Array:
    shape = (1, -1) + (1,) * (x.ndim - 2)
    factor = scale / np.sqrt(var + epsilon)
    return x * factor.reshape(shape) + (bias - mean * factor).reshape(shape)


def lrn(x: Array, size: int, alpha: float, beta: float, bias: float) -> Array:
    """x / (bias + alpha / size * s) ^ beta, s the squares of the channels (dim 1) c - (size-1)//2 to c + size//2."""
    squares = np.square(x)
    total = np.zeros_like(x)
    channels = x.shape[1]
    for shift in range(-((size - 1) // 2), size // 2 + 1):
        low, high = max(-shift, 0), min(channels - shift, channels)
        if low < high:
            total[:, low:high] += squares[:, low + shift : high + shift]
    return x / np.power(bias + alpha / size * total, beta)
