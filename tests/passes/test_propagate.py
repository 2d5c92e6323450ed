"""Options of layout-propagate that ask for what cannot be given are refused, and a certificate is of this program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.utils.arg_spec import parse_pipeline

from layout_ir.certificate.checking import verify
from layout_ir.diagnostics import PassError
from layout_ir.errors import LayoutError
from layout_ir.passes.propagate import LayoutPropagatePass, propagate
from tests.programs import parse

_OPEN = """
func.func @main(%x : tensor<1x16x8x8xf32, #layout.any>) -> tensor<1x16x8x8xf32, #layout.any> {
  %y = nn.relu %x : tensor<1x16x8x8xf32, #layout.any>
  func.return %y : tensor<1x16x8x8xf32, #layout.any>
}
"""


@pytest.mark.parametrize("solver", ["greedy", "naive"])
def test_negative_a_solver_without_a_bound_has_no_certificate(solver: str, tmp_path: Path):
    with pytest.raises(LayoutError, match=f"solver '{solver}' proves nothing: no certificate"):
        propagate(parse(_OPEN), "blocked8", solver, report=str(tmp_path / "c.json"))
    assert not list(tmp_path.iterdir())


def test_negative_an_unknown_solver_is_refused_where_nothing_is_open():
    with pytest.raises(LayoutError, match="unknown solver 'guess'"):
        propagate(parse("func.func @f() { func.return }"), "blocked8", "guess")


@pytest.mark.parametrize("limit", [-1.0, float("nan"), "5", True])
def test_negative_a_time_limit_that_is_no_number_of_seconds(limit: Any):
    with pytest.raises(LayoutError, match="is no number of seconds from 0 on"):
        propagate(parse(_OPEN), "blocked8", time_limit=limit)


def test_a_time_limit_in_whole_seconds():
    (spec,) = parse_pipeline("layout-propagate{target=blocked8 time_limit=10}")
    module = parse(_OPEN)
    LayoutPropagatePass.from_pass_spec(spec).apply(Context(), module)
    assert "layout.any" not in str(module)


def test_where_nothing_is_open_the_certificate_says_so(tmp_path: Path):
    path = tmp_path / "c.json"
    module = parse(_OPEN)
    propagate(module, "blocked8", report=str(path))
    assert len(json.loads(path.read_text())["problem"]["ops"]) > 0
    assert propagate(module, "blocked8", report=str(path)) is None
    certificate = json.loads(path.read_text())
    assert certificate["problem"]["ops"] == [] and verify(certificate).is_optimal


@pytest.mark.parametrize("options", [{"target": "nope"}, {"solver": "nope"}])
def test_negative_unknown_names_are_refused_where_nothing_is_open(options: dict[str, str]):
    with pytest.raises(LayoutError, match=r"unknown (target|solver) 'nope': (targets|solvers) are"):
        propagate(parse("func.func @f() { func.return }"), **options)  # pyright: ignore


def test_negative_tensors_beyond_the_range_of_costs_are_named_as_the_reason():
    any = f"tensor<{1 << 60}xf32, #layout.any>"
    text = f"func.func @f(%x : {any}) -> {any} {{ %y = nn.relu %x : {any} func.return %y : {any} }}"
    with pytest.raises(
        PassError, match=r"nn\.relu costs \d+ at least, and selection adds up costs below 2\^56"
    ):
        propagate(parse(text), "blocked8")
    small = propagate(parse(text.replace(str(1 << 60), "64")), "blocked8")
    assert small is not None and small.is_optimal
