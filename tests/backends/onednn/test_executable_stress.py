"""Many threads on one executable, and memory that returns when executables are dropped."""

from __future__ import annotations

import pytest

from tests.backends.llvm.stress import STATUS
from tests.backends.onednn.executable_stress import SHAPE, dropped, hammer, network
from tests.backends.onednn.small_programs import compare, needs_library, numbers

pytestmark = needs_library


@pytest.mark.parametrize("seconds", [1.0, pytest.param(10.0, marks=pytest.mark.deep)])
def test_eight_threads_on_one_executable_give_the_same_bits(seconds: float):
    outcome = hammer(8, seconds)
    assert outcome.calls >= 8 and outcome.wrong == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_the_network_has_the_result_of_the_reference(threads: int):
    compare(network(), numbers(SHAPE), threads=threads)


@pytest.mark.skipif(not STATUS.exists(), reason="the memory of a process is read from /proc")
def test_executables_that_are_dropped_return_their_memory():
    levels = list(dropped(20, 3))
    assert [alive for _, alive in levels] == [0] * 3
    # The arena, constants and memory objects of one are 0.5 MB: forty that stayed would be 20.
    assert levels[-1][0] - levels[0][0] < 10 << 20
