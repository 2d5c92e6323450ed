"""Short-time transforms, beside those of torch."""

from __future__ import annotations

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.reference.fourier import short_time_transform

torch = pytest.importorskip("torch", reason="torch is the oracle")


@pytest.mark.parametrize(("step", "length"), [(5, 16), (16, 16), (7, 15), (90, 8)])
@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize("onesided", [False, True])
@pytest.mark.parametrize("shape", [(2, 90), (2, 90, 1)])
def test_frames_of_a_signal(step: int, length: int, window: bool, onesided: bool, shape: tuple[int, ...]):
    signal = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    weights = np.hanning(length).astype(np.float32) if window else None
    found = short_time_transform(signal, step, weights, length, onesided)
    expected = torch.stft(
        torch.from_numpy(signal.reshape(2, 90)), length, step, length,
        torch.ones(length) if weights is None else torch.from_numpy(weights),
        center=False, onesided=onesided, return_complex=True,
    )  # fmt: skip
    expected = torch.view_as_real(expected).transpose(1, 2).numpy()
    assert found.shape == expected.shape and found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "step", "length", "window"),
    [
        ((2, 9), 3, 10, None),
        ((2, 9), 0, 4, None),
        ((2, 9), 3, 0, None),
        ((9,), 3, 4, None),
        ((2, 9), 3, 4, 5),
    ],
)
def test_negative_frames_that_there_are_not(
    shape: tuple[int, ...], step: int, length: int, window: int | None
):
    weights = None if window is None else np.ones(window, np.float32)
    with pytest.raises(li.LayoutError, match="no frames of"):
        short_time_transform(np.zeros(shape, np.float32), step, weights, length, onesided=True)
