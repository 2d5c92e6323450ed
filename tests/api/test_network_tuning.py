"""The fastest of several programs, on a clock that nothing but the programs moves; and networks compiled so."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

import layout_ir as li
from layout_ir.api.compiling import compile
from layout_ir.api.network_tuning import fastest, some_inputs
from layout_ir.backends.llvm.runtime import timing
from tests.backends.onednn.small_programs import needs_library
from tests.programs import parse

PROGRAM = """
func.func @main(%x: tensor<1x8x6x6xf32>, %i: tensor<2xi64>) -> tensor<1x2x6x6xf32> {
  %w = nn.constant dense<0.5> : tensor<16x8x3x3xf32>
  %o = layout.reorder %x : tensor<1x8x6x6xf32> -> tensor<1x8x6x6xf32, #layout.any>
  %v = layout.reorder %w : tensor<16x8x3x3xf32> -> tensor<16x8x3x3xf32, #layout.any>
  %a = nn.conv %o, %v pads = [1, 1, 1, 1] : (tensor<1x8x6x6xf32, #layout.any>, tensor<16x8x3x3xf32, #layout.any>)
    -> tensor<1x16x6x6xf32, #layout.any>
  %b = nn.relu %a : tensor<1x16x6x6xf32, #layout.any>
  %c = layout.reorder %b : tensor<1x16x6x6xf32, #layout.any> -> tensor<1x16x6x6xf32>
  %y = nn.gather %c, %i axis = 1 : (tensor<1x16x6x6xf32>, tensor<2xi64>) -> tensor<1x2x6x6xf32>
  func.return %y : tensor<1x2x6x6xf32>
}
"""


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Callable[[], None]]]:
    """Programs that take so many seconds each, up to `noise` of it more."""
    now, rng = [0.0], Random(0)
    monkeypatch.setattr(timing, "perf_counter", lambda: now[0])

    def make(noise: float = 0.0, **seconds: float) -> dict[str, Callable[[], None]]:
        def program(takes: float) -> Callable[[], None]:
            def run() -> None:
                now[0] += takes * (1 + noise * rng.random())

            return run

        return {name: program(takes) for name, takes in seconds.items()}

    return make


def test_a_faster_program_takes_the_place(programs: Callable[..., dict[str, Callable[[], None]]]) -> None:
    name, gain = fastest(programs(noise=0.02, least=0.010, last=0.008, blocks=0.009), 20.0)
    assert name == "last"
    assert gain == pytest.approx(1.25, rel=0.02)


@pytest.mark.parametrize("other", [0.010, 0.0099, 0.012])
def test_negative_without_a_clear_gain_the_first_stays(
    programs: Callable[..., dict[str, Callable[[], None]]], other: float
) -> None:
    assert fastest(programs(noise=0.2, least=0.010, last=other, blocks=other), 5.0) == ("least", 1.0)


def test_negative_one_program_is_not_run(programs: Callable[..., dict[str, Callable[[], None]]]) -> None:
    def never() -> None:
        raise AssertionError

    assert fastest({"least": never}, 1.0) == ("least", 1.0)


@needs_library
def test_inputs_are_numbers_that_any_program_takes() -> None:
    floats, places = some_inputs(compile(parse(PROGRAM)).plan.inputs)
    assert np.isfinite(floats.buffer).all() and floats.buffer.any()
    assert not places.buffer.any()


@needs_library
def test_a_tuned_network_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    module = parse(PROGRAM)
    x, i = np.random.default_rng(1).standard_normal((1, 8, 6, 6), np.float32), np.array([3, 0])
    (want,) = li.run(module, [x, i])
    seen: list[list[str]] = []

    def last(calls: dict[str, Callable[[], object]], seconds: float) -> tuple[str, float]:
        for call in calls.values():
            call()
        seen.append(list(calls))
        return list(calls)[-1], 1.5

    monkeypatch.setattr("layout_ir.api.network_tuning.fastest", last)
    executable = compile(module, tune=True)
    np.testing.assert_allclose(executable([x, i])[0], want, rtol=1e-5, atol=1e-5)
    (kinds,) = seen
    assert len(kinds) > 1
    assert f"{kinds[-1]}, 1.50 times as fast" in executable.describe()


@needs_library
def test_negative_what_is_not_tuned_says_nothing_of_it() -> None:
    assert "times as fast" not in compile(parse(PROGRAM)).describe()
