"""What may be measured before layouts are chosen, and for how long. Nothing that measures is imported here."""

from __future__ import annotations

import math
from typing import Literal, cast, get_args

from layout_ir.errors import LayoutError

Measure = Literal["off", "deciding", "all"]
"""What is measured before layouts are chosen: nothing, the prices that decide, all that the problem has."""

MEASURE_SECONDS = 30.0
"""For so long is measured at most, where nothing else is asked."""


def check_measure(measure: str, seconds: float, threads: int) -> None:
    """Raises LayoutError for what cannot be asked of a measurement."""
    if measure not in get_args(Measure):
        raise LayoutError(f"measure = {measure!r} is none of {', '.join(get_args(Measure))}")
    given = cast("object", seconds)
    if not isinstance(given, int | float) or isinstance(given, bool) or not 0 <= given < math.inf:
        raise LayoutError(f"measure_seconds = {given!r} is no number of seconds from 0 on")
    count = cast("object", threads)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise LayoutError(f"threads = {count!r} is no number of threads: expected a whole number from 1 on")
