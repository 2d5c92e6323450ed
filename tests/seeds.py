"""Random examples of a test: a few on every run, the others with `pytest -m deep`."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(few: int, most: int, first: int = 0) -> list[Any]:
    """The numbers from `first` on: so `few` of them on every run, and up to `most` where deep tests are asked for."""
    return [
        pytest.param(first + number, marks=() if number < few else pytest.mark.deep) for number in range(most)
    ]
