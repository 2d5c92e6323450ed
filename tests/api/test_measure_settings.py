"""What can be asked of a measurement."""

from __future__ import annotations

import pytest

from layout_ir.api.measure_settings import MEASURE_SECONDS, check_measure
from layout_ir.errors import LayoutError


@pytest.mark.parametrize("measure", ["off", "deciding", "all"])
def test_what_can_be_asked_for(measure: str) -> None:
    for seconds, threads in ((MEASURE_SECONDS, 1), (0, 2), (0.5, 64)):
        check_measure(measure, seconds, threads)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("some", 1, 1), "measure = 'some' is none of off, deciding, all"),
        (("all", -1, 1), "measure_seconds = -1 is no number of seconds from 0 on"),
        (("all", float("nan"), 1), "measure_seconds = nan is no number"),
        (("all", float("inf"), 1), "measure_seconds = inf is no number"),
        (("all", True, 1), "measure_seconds = True is no number"),
        (("all", 1, 0), "threads = 0 is no number of threads"),
        (("all", 1, 1.5), "threads = 1.5 is no number of threads"),
    ],
)
def test_negative_what_cannot_be_asked_for(arguments: tuple[str, float, int], reason: str) -> None:
    with pytest.raises(LayoutError, match=reason):
        check_measure(*arguments)
