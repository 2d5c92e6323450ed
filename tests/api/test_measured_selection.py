"""Layouts chosen by prices that are measured on the way, and the cache that keeps them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import layout_ir as li
from layout_ir.algebra.tag import name_of
from layout_ir.api import measured_selection
from layout_ir.api.measured_selection import (
    keep_prices,
    kept_prices,
    measured_costs,
    optimize,
)
from layout_ir.backends.onednn import library as binding
from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.op_timing import price_source
from layout_ir.diagnostics import Severity, collect
from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.costs.cost_table import load_costs, parse_costs
from layout_ir.passes.selection.costs.measured_costs import MeasuredCosts
from layout_ir.passes.selection.costs.price_keys import PriceKey
from layout_ir.passes.selection.costs.price_table import Price, PriceSource, PriceTable, prices_path
from layout_ir.passes.selection.translation.priced_selection import OpQuestion, Question
from tests.backends.onednn.small_programs import needs_library
from tests.passes.selection.costs.priced_problems import EXAMPLES, Clock
from tests.programs import parse

pytestmark = needs_library

RESIDUAL = (EXAMPLES / "residual.mlir").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return prices_path()


class Beads:
    """A machine on which ops in one format take a quarter of what is built in, and others four times as long."""

    def __init__(self, quick: str) -> None:
        self.quick = quick
        self.asked: list[PriceKey] = []

    def __call__(
        self, questions: Sequence[tuple[PriceKey, Question]]
    ) -> Iterator[tuple[PriceKey, Price | None]]:
        for key, question in questions:
            self.asked.append(key)
            ns = 1000
            if isinstance(question, OpQuestion):
                is_quick = key.outs[0].lies == self.quick
                ns = question.option.cost // 4 if is_quick else question.option.cost * 4
            yield key, Price(ns, ns, ns)


@pytest.mark.parametrize("quick", ["nchw", "nChw8c"])
def test_layouts_follow_what_was_measured(quick: str) -> None:
    module = parse(RESIDUAL)
    measured = measured_costs(module, "blocked8", answers=Beads(quick), seconds=1e6)
    assert measured.settled is not None and measured.settled.is_settled
    li.optimize(module, "blocked8", costs=measured.costs)
    convs = [op.results[0] for op in module.walk() if isinstance(op, nn.ConvOp)]
    assert len(convs) == 6
    assert {name_of(li.layout_of(value).format) for value in convs} == {quick}


def test_what_was_measured_is_kept_for_the_next_time(cache: Path) -> None:
    first, second = Beads("nchw"), Beads("nchw")
    costs = [
        measured_costs(parse(RESIDUAL), "blocked8", answers=each, seconds=1e6).costs
        for each in (first, second)
    ]
    assert first.asked and not second.asked
    assert costs[0].prices == costs[1].prices
    assert set(kept_prices().of(price_source(library(), 1))) == set(first.asked)
    loaded = load_costs("measured")
    assert isinstance(loaded, MeasuredCosts) and loaded.prices == costs[0].prices


def test_costs_that_were_kept_are_those_that_the_choice_was_made_by(tmp_path: Path) -> None:
    module, proof = parse(RESIDUAL), tmp_path / "proof.json"
    measured = measured_costs(module, "blocked8", answers=Beads("nChw8c"), seconds=1e6)
    solution = li.optimize(module, "blocked8", costs=measured.costs, report=str(proof))
    again = li.optimize(parse(RESIDUAL), "blocked8", costs=load_costs("measured"))
    assert again == solution
    said = json.loads(proof.read_text())["origin"]["prices"]
    source = price_source(library(), 1)
    assert (said["machine"], said["runtime"], said["threads"]) == (source.machine, source.runtime, 1)
    assert said["measured"] > 0 and said["low"] == said["high"]


def test_negative_threads_are_refused_where_no_price_is_measured() -> None:
    with pytest.raises(
        LayoutError, match=r"threads = 4 says on how many threads prices are measured, and none"
    ):
        optimize(parse(RESIDUAL), "blocked8", threads=4)
    assert optimize(parse(RESIDUAL), "blocked8") is not None


def test_prices_are_of_so_many_threads() -> None:
    measured_costs(parse(RESIDUAL), "blocked8", answers=Beads("nchw"), threads=2, seconds=1e6)
    assert [source.threads for source in kept_prices().prices] == [2]


def test_the_library_itself_is_measured_in_the_time_that_is_given() -> None:
    module = parse(RESIDUAL)
    solution = li.optimize(module, "onednn", measure="deciding", measure_seconds=20)
    assert solution is not None and solution.is_optimal
    assert any(price.low < price.high for own in kept_prices().prices.values() for price in own.values())
    assert not any("any" in str(result.type) for op in module.walk() for result in op.results)


def test_a_network_is_compiled_for_the_layouts_that_were_measured() -> None:
    module = parse(RESIDUAL)
    shape = (1, 3, 16, 16)
    image = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    plain, measured = (
        li.compile(module),
        li.compile(module, measure="deciding", measure_seconds=20),
    )
    assert [source.threads for source in kept_prices().prices] == [1]
    (expected,), (found,) = plain([image]), measured([image])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    with pytest.raises(LayoutError, match="measure = 'some' is none of off, deciding, all"):
        li.compile(module, measure="some")  # pyright: ignore[reportArgumentType]


def test_without_measuring_nothing_is_asked_of_the_library(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr(binding, "library", lambda: pytest.fail("the library was asked"))
    plain, given = parse(RESIDUAL), parse(RESIDUAL)
    assert optimize(plain, "blocked8") == li.optimize(given, "blocked8", measure="off")
    assert not cache.exists()


def test_time_ends_it_and_the_choice_is_made_by_what_is_known() -> None:
    measured = measured_costs(parse(RESIDUAL), "blocked8", answers=Beads("nchw"), seconds=8, clock=Clock())
    assert measured.settled is not None and not measured.settled.is_settled
    assert 0 < measured.settled.measured < 8
    assert li.optimize(parse(RESIDUAL), "blocked8", costs=measured.costs) is not None


def test_a_program_without_a_choice_is_not_measured() -> None:
    closed = "func.func @main(%x : tensor<2x3xf32>) -> tensor<2x3xf32> { func.return %x : tensor<2x3xf32> }"
    beads = Beads("nchw")
    assert measured_costs(parse(closed), "blocked8", answers=beads).settled is None and not beads.asked


# What is wrong ------------------------------------------------------------------------------------------------------


def test_negative_costs_of_another_kind_or_source() -> None:
    table = parse_costs({"reorder": []}, "costs")
    with pytest.raises(LayoutError, match="which do not go with a cost model of another kind"):
        measured_costs(parse(RESIDUAL), "blocked8", table)
    other = MeasuredCosts({}, PriceSource("an-abacus", "beads 1.0", 1))
    with pytest.raises(
        LayoutError, match=r"the costs are prices of beads 1.0 on an-abacus, 1 thread, and measured"
    ):
        measured_costs(parse(RESIDUAL), "blocked8", other)


def test_negative_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "_found", lambda: "oneDNN is not installed")
    with pytest.raises(LayoutError, match=r"pip install 'layout-ir\[run\]'"):
        li.optimize(parse(RESIDUAL), "blocked8", measure="deciding")


def test_negative_a_damaged_cache_is_measured_again(cache: Path) -> None:
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text('{"format": "layout-ir prices 1", "tables": [')
    with collect() as said:
        measured_costs(parse(RESIDUAL), "blocked8", answers=Beads("nchw"), seconds=1e6)
    assert {d.severity for d in said} == {Severity.WARNING}
    assert all(d.message.endswith("the prices are measured again") for d in said)
    assert len(kept_prices()) > 0


@pytest.mark.skipif(sys.platform == "win32", reason="no such file there")
def test_negative_a_cache_that_cannot_be_written_is_said_so(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr(measured_selection, "prices_path", lambda: Path("/dev/null/prices.json"))
    with collect() as said:
        keep_prices(PriceTable())
    assert said[-1].message.startswith("the prices are not kept: ")
