"""Plans chosen by measuring: once, and the same ever after."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.llvm.describe import describe_plan
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.pad_fills import pad_bits
from layout_ir.backends.llvm.planning.planner import candidates
from layout_ir.backends.llvm.runtime import code_cache, timing, tuning
from layout_ir.backends.llvm.runtime.call import choose_plan, plan_reorder
from layout_ir.backends.llvm.runtime.compiled_plan import Reorder
from layout_ir.backends.llvm.runtime.tuning import choose, preferred
from layout_ir.dialects.kernel.plan import Copy, Plan, Step
from layout_ir.errors import LayoutError
from layout_ir.tools.layout_ir import main

PLANS = [Plan(1, 64, 64, (Step((), 0, 0, Copy(size)),)) for size in (16, 32, 64)]
SHAPE = (2, 64, 56, 56)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAYOUT_IR_CACHE", str(tmp_path))
    monkeypatch.setattr(tuning, "_known", {})
    return tmp_path


def _idle(plan: Plan) -> Callable[[Any, Any], None]:
    return lambda src, dst: None


def _winner(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(tuning, "fastest", lambda *_: number)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]


def test_the_fastest_is_kept_for_this_process_and_the_next(monkeypatch: pytest.MonkeyPatch):
    _winner(monkeypatch, 2)
    first = choose(PLANS, host(), 1, _idle)
    assert (first.plan, first.number, first.of, first.remembered) == (PLANS[2], 2, 3, False)
    _winner(monkeypatch, 1)
    assert choose(PLANS, host(), 1, _idle).number == 2
    tuning._known.clear()  # pyright: ignore[reportPrivateUsage]
    again = choose(PLANS, host(), 1, None)
    assert (again.number, again.remembered) == (2, True)


def test_what_is_known_holds_for_one_problem(monkeypatch: pytest.MonkeyPatch):
    _winner(monkeypatch, 2)
    choose(PLANS, host(), 1, _idle)
    _winner(monkeypatch, 1)
    assert choose(PLANS, host(), 2, _idle).number == 1
    assert choose(PLANS, machine_named("haswell"), 1, _idle).number == 1
    assert choose(PLANS[:2], host(), 1, _idle).number == 1


def test_without_a_folder_the_process_remembers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAYOUT_IR_CACHE", "off")
    _winner(monkeypatch, 1)
    choose(PLANS, host(), 1, _idle)
    _winner(monkeypatch, 2)
    assert choose(PLANS, host(), 1, _idle).number == 1


def test_negative_a_damaged_choice_is_made_again(cache: Path, monkeypatch: pytest.MonkeyPatch):
    _winner(monkeypatch, 2)
    choose(PLANS, host(), 1, _idle)
    [file] = cache.iterdir()
    for damaged in (file.read_bytes()[:-1], b"", b"\xff" * 200):
        file.write_bytes(damaged)
        tuning._known.clear()  # pyright: ignore[reportPrivateUsage]
        assert not choose(PLANS, host(), 1, _idle).remembered
    code_cache.write(file.name, b"the text of no plan")
    tuning._known.clear()  # pyright: ignore[reportPrivateUsage]
    assert not choose(PLANS, host(), 1, _idle).remembered


def test_negative_what_is_not_known_and_cannot_be_measured():
    with pytest.raises(LayoutError, match="no choice among 3 plans is remembered for haswell"):
        choose(PLANS, machine_named("haswell"), 1, None)


def test_the_first_choice_loses_only_to_what_is_clearly_faster():
    assert preferred([1.0, 0.99, 1.5]) == 0
    assert preferred([1.0, 0.99, 0.8]) == 2
    assert preferred([1.0]) == 0


def test_slow_plans_are_found_out():
    def slow(src: int, dst: int) -> None:
        sum(range(2000))

    assert tuning.fastest([slow, _idle(PLANS[0]), slow], PLANS[0]) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_a_tuned_reorder_moves_the_same_bytes(threads: int):
    src, dst = (li.Format.of(tag).bind(SHAPE) for tag in ("nchw", "nhwc"))
    x = np.arange(src.extent, dtype=np.float32)
    y = np.empty_like(x)
    kernel = li.compile_reorder(src, dst, threads=threads, tune=True)
    kernel(x, y)
    assert np.array_equal(y.reshape(2, 56, 56, 64), x.reshape(SHAPE).transpose(0, 2, 3, 1))
    choice = choose_plan(src, dst, threads=threads)
    assert choice.remembered
    assert isinstance(kernel, Reorder) and choice.plan == kernel.plan


def test_explain_shows_the_plan_that_is_remembered(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    machine = machine_named("haswell")
    src, dst = (li.Format.of(tag).bind(SHAPE) for tag in ("nchw", "nhwc"))
    plans = candidates(src, dst, ElementPair(4, 4), pad_bits(dst.pad, "f32"), machine)
    args = ["explain-reorder", "nchw", "nhwc", "--shape", "2x64x56x56", "--cpu", "haswell", "--tune"]
    assert main(args) == 1
    assert f"no choice among {len(plans)} plans is remembered for haswell" in capsys.readouterr().err
    _winner(monkeypatch, 1)
    monkeypatch.setattr("layout_ir.backends.llvm.runtime.call.load", lambda plan, *_: _idle(plan))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    choose_plan(src, dst, threads=1, target=machine)
    assert main(args) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"plan chosen among {len(plans)}: number 2, remembered as the fastest",
        *describe_plan(plans[1], machine),
    ]
    assert main([*args, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["choice"], found["choices"]) == (1, len(plans))
    assert describe_plan(plan_reorder(src, dst, target=machine), machine) != lines[1:]


Taking = Callable[[Sequence[float]], Callable[[], None]]
TICK = 2.0**-11
"""About half a millisecond."""


@pytest.fixture
def taking(monkeypatch: pytest.MonkeyPatch) -> Taking:
    """Makes calls that take these times by turns, on a clock that nothing else moves.

    Times are multiples of a power of two, so that sums and differences of them are exact.
    """
    now = 0.0

    def calls(seconds: Sequence[float]) -> Callable[[], None]:
        turns = cycle(seconds)

        def call() -> None:
            nonlocal now
            now += next(turns)

        return call

    monkeypatch.setattr(timing, "perf_counter", lambda: now)
    return calls


def test_a_plan_is_faster_where_the_interval_says_so(taking: Taking):
    assert tuning.is_faster(taking([TICK]), taking([2 * TICK]))
    # One turn in five is disturbed, and more than undoes what the others gain.
    assert tuning.is_faster(taking([*[3 * TICK] * 4, 30 * TICK]), taking([4 * TICK]))


def test_negative_a_plan_that_is_as_fast_or_only_at_times_faster_is_not(taking: Taking):
    assert not tuning.is_faster(taking([2 * TICK]), taking([2 * TICK]))
    # Its best time is the least of all, but most of its turns are no better.
    assert not tuning.is_faster(taking([TICK, *[6 * TICK] * 4]), taking([4 * TICK]))


def test_negative_a_winner_that_loses_the_second_time_is_not_taken(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tuning, "least_times", lambda *_: [1.0, 0.5])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr(tuning, "is_faster", lambda *_: False)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert tuning.fastest([_idle(PLANS[0])] * 2, PLANS[0]) == 0
    monkeypatch.setattr(tuning, "is_faster", lambda *_: True)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert tuning.fastest([_idle(PLANS[0])] * 2, PLANS[0]) == 1
