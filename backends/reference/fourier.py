"""STFT with NumPy's transforms, of all frames at once.

The onnx package (1.23) takes one frame after the other, and fails on signals without a dim of one element behind them,
which ONNX Runtime takes and PyTorch exports.
"""

from __future__ import annotations

import numpy as np

from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError


def short_time_transform(
    signal: Array, step: int, window: Array | None, length: int, onesided: bool
) -> Array:
    """(batch, frames, frequencies, real and imaginary part) of a signal (batch, samples, parts), which has one part or
    two, or no such dim. Frame i is the `length` samples from `i * step` on, times the window."""
    samples = signal.shape[1] if signal.ndim in (2, 3) else -1
    if step < 1 or not 1 <= length <= samples or (window is not None and window.shape != (length,)):
        raise LayoutError(
            f"no frames of {length} samples, by steps of {step}, in a signal of shape {signal.shape} "
            f"with a window of shape {None if window is None else window.shape}"
        )
    parts = signal.reshape(*signal.shape[:2], -1).astype(np.float64)
    numbers = parts[..., 0] + 1j * parts[..., 1] if parts.shape[2] == 2 else parts[..., 0]
    frames = np.lib.stride_tricks.sliding_window_view(numbers, length, axis=1)[:, ::step]
    found = np.fft.fft(frames if window is None else frames * window)
    found = found[..., : length // 2 + 1] if onesided else found
    return np.stack([found.real, found.imag], -1).astype(signal.dtype)
