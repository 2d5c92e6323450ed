"""What may be measured before layouts are chosen, and for how long. Nothing that measures is imported here."""

from __future__ import annotations

from typing import Literal, get_args

from layout_ir.argument_checks import MOST_THREADS, check_seconds, check_threads
from layout_ir.errors import LayoutError

Measure = Literal["off", "deciding", "all"]
"""What is measured before layouts are chosen: nothing, the prices that decide, all that the problem has."""

MEASURE_SECONDS = 30.0
"""For so long is measured at most, where nothing else is asked."""


def check_measure(measure: str, seconds: float, threads: int) -> None:
    """Raises LayoutError for what cannot be asked of a measurement."""
    if measure not in get_args(Measure):
        raise LayoutError(f"measure = {measure!r} is none of {', '.join(get_args(Measure))}")
    check_seconds("measure_seconds", seconds, finite=True)
    check_threads(threads, MOST_THREADS)
