"""Memory of earlier results: given out again only when nobody has it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.onednn import result_memory
from layout_ir.backends.onednn.result_memory import LARGE, Kind, new_results
from layout_ir.dialects import nn
from layout_ir.elements.cache_line import LINE
from tests.backends.onednn.small_programs import Program, needs_library

COUNT = LARGE // 4
F32 = np.dtype(np.float32)

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[deque[Array]]:
    """What is remembered: nothing at first."""
    memory = deque[Array]()
    monkeypatch.setattr(result_memory, "_remembered", deque([memory]))
    yield memory


def kinds(*counts: int) -> list[Kind]:
    return [((count,), F32) for count in counts]


def address(array: Array) -> int:
    return array.ctypes.data


def test_what_nobody_has_is_given_out_again():
    (first,) = new_results(kinds(COUNT))
    there = address(first)
    first[...] = 1
    del first
    ((second,), (third,)) = new_results([((4, COUNT // 4), F32)]), new_results(kinds(COUNT))
    assert second.shape == (4, COUNT // 4) and address(second) == there
    assert address(third) != there


def part(array: Array) -> Array:
    return array[5:]


def other(array: Array) -> Array:
    return array.view(np.int8).reshape(2, -1)


@pytest.mark.parametrize("look", [np.asarray, part, other, memoryview, iter])
def test_negative_what_somebody_looks_at_is_not(look: Callable[[Array], Any]):
    (first,) = new_results(kinds(COUNT))
    first[...] = 7
    there, kept = address(first), look(first)
    del first
    (second,) = new_results(kinds(COUNT))
    assert address(second) != there
    second[...] = 8
    del second, kept
    assert there in [address(each) for each in (*new_results(kinds(COUNT)), *new_results(kinds(COUNT)))]


def test_results_are_the_inputs_of_the_next_call():
    """As the caches of a decoder are: two memories take turns."""
    seen: list[int] = []
    (past,) = new_results(kinds(COUNT))
    for _ in range(6):
        (present,) = new_results(kinds(COUNT))
        seen.append(address(present))
        past = present
    assert len(set(seen)) == 2 and address(past) == seen[-1]


def test_a_result_may_grow():
    seen = {address(new_results(kinds(COUNT + 100 * step))[0]) for step in range(200)}
    assert len(seen) == 1


def test_memory_that_no_longer_fits_is_forgotten(known: deque[Array]):
    for count in (COUNT, COUNT + COUNT // 2, COUNT):
        new_results(kinds(count))
        assert len(known) == 1 and count * 4 <= known[0].nbytes <= count * 4.5 + LINE


def test_negative_small_results_are_not_remembered(known: deque[Array]):
    assert new_results(kinds(COUNT - 1, 3))[0].base is None
    assert not known


def test_results_of_two_calls_are_remembered(known: deque[Array]):
    kept = [new_results(kinds(COUNT, COUNT, 5)) for _ in range(5)]
    assert len(known) == 4
    assert len({address(array) for results in kept for array in results}) == 15
    del kept
    new_results(kinds(COUNT))
    assert len(known) == 2


def test_threads_have_memory_of_their_own():
    def work(number: int) -> bool:
        right = True
        for _ in range(200):
            (array,) = new_results(kinds(COUNT))
            array[::4096] = number
            right &= bool((array[::4096] == number).all())
        return right

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


@needs_library
def test_results_that_are_kept_stay_as_they_are():
    program = Program((COUNT,))
    executable = li.compile(program.module(program.add(nn.NegOp, program.argument(0))))
    results = [executable([np.full(COUNT, number, np.float32)])[0] for number in range(4)]
    assert [float(result.min()) for result in results] == [float(result.max()) for result in results]
    assert [float(result[0]) for result in results] == [0, -1, -2, -3]
    there = address(results[-1])
    results.clear()
    found = [executable([np.ones(COUNT, np.float32)])[0] for _ in range(2)]
    assert there in map(address, found)
