"""oneDNN's kernels as the library states them, and the rule where it cannot be asked."""

from __future__ import annotations

import pytest

from layout_ir.algebra.format import Format
from layout_ir.passes.selection.costs.cost_table import load_costs
from layout_ir.passes.selection.costs.measured_costs import MeasuredCosts
from layout_ir.passes.selection.options import onednn, onednn_query
from layout_ir.passes.selection.options.targets import find_target
from layout_ir.passes.selection.translation.from_ir import build
from tests.passes.selection.costs.priced_problems import EXAMPLES
from tests.passes.selection.options.convs import conv_of
from tests.programs import parse

asked = pytest.mark.skipif(onednn_query.unavailable() is not None, reason=str(onednn_query.unavailable()))
LAST, PLAIN = Format.from_tag("nhwc"), Format.from_tag("nchw")


@asked
def test_any_is_the_fastest_and_row_major_is_there() -> None:
    kernels = {(k.x, k.y): k for k in onednn.conv_kernels(conv_of(64, 64, image=56))}
    answer = onednn_query.ask(conv_of(64, 64, image=56), None, None)
    assert answer is not None
    assert kernels[answer.x, answer.y].rate == max(k.rate for k in kernels.values())
    assert (PLAIN, PLAIN) in kernels


@asked
def test_the_library_is_asked_once_per_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    conv = conv_of(40, 56)
    first = list(onednn.conv_kernels(conv))
    monkeypatch.delattr(onednn_query, "ask")
    assert list(onednn.conv_kernels(conv)) == first


@asked
def test_element_types_without_an_answer_follow_the_rule() -> None:
    conv = conv_of(64, 64, dtype="f64")
    assert list(onednn.conv_kernels(conv)) == list(find_target("avx2").conv_kernels(conv))


def test_without_the_library_the_rule_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_query, "unavailable", lambda: "it is not there")
    assert onednn.missing() == "oneDNN cannot be asked (it is not there): its rules for AVX2 are used"
    for conv in (conv_of(64, 40), conv_of(3, 64, kernel=7), conv_of(32, 32, 32)):
        assert list(onednn.conv_kernels(conv)) == list(find_target("avx2").conv_kernels(conv))


def test_negative_where_it_is_there_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_query, "unavailable", lambda: None)
    assert onednn.missing() is None


@pytest.mark.parametrize("extension", ["avx2", "avx512"])
def test_its_costs_are_the_prices_that_the_model_for_its_instructions_says(
    extension: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onednn_query, "vector_extension", lambda: extension)
    module = parse((EXAMPLES / "residual.mlir").read_text(encoding="utf-8"))
    named = load_costs(f"onednn-{extension}")
    assert isinstance(named, MeasuredCosts)
    for target in (find_target("onednn"), find_target(extension)):
        assert build(module, target).problem == build(module, target, named).problem


def test_negative_other_instructions_have_other_prices() -> None:
    module = parse((EXAMPLES / "residual.mlir").read_text(encoding="utf-8"))
    target = find_target("avx2")
    assert build(module, target).problem != build(module, target, load_costs("onednn-avx512")).problem


def test_negative_without_the_library_its_instructions_are_avx2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_query, "unavailable", lambda: "it is not there")
    assert onednn_query.vector_extension() == "avx2"
