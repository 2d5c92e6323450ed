"""Functions of f64 against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backends.llvm.loops.loop_runs import computed

EXACT = ("exp", "log", "sin", "cos", "power")
CLOSE = ("tan", "tanh", "expm1", "log1p")


def _samples() -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    sizes = 10 ** rng.uniform(-18, 4, 2000)
    special = [0.0, -0.0, 1.0, -1.0, 709.7, 710.0, -745.0, -760.0, 1e300, -1e300, np.inf, -np.inf, np.nan]
    return np.concatenate([sizes, -sizes, rng.uniform(-30, 30, 2000), special])


@pytest.mark.parametrize("name", [*EXACT, *CLOSE])
@pytest.mark.parametrize("width", [16, 32])
def test_a_function_is_numpys(name: str, width: int):
    x = _samples()
    rows = (np.abs(x), np.roll(x, 1)) if name == "power" else (x,)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(*rows)

    def function(np: Any, *given: Any) -> Any:
        return getattr(np, name)(*given)

    found = computed(function, *rows, bytes_of_vector=width, dtype="f64")
    np.testing.assert_allclose(found, wanted, rtol=4e-16 if name in EXACT else 2e-15, atol=0)
    there = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[there]), np.signbit(wanted[there]))
