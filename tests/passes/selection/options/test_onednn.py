"""oneDNN's kernels as the library states them, and the rule where it cannot be asked."""

from __future__ import annotations

import pytest

from layout_ir.algebra.format import Format
from layout_ir.passes.selection.options import onednn, onednn_query
from layout_ir.passes.selection.options.conv_kernels import ConvKernel
from tests.passes.selection.options.convs import conv_of

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
    kernels = list(onednn.conv_kernels(conv_of(64, 64, dtype="f64")))
    assert [(k.x, k.rate) for k in kernels] == [(LAST, 100), (PLAIN, 62)]


def test_without_the_library_the_rule_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_query, "unavailable", lambda: "it is not there")
    assert onednn.missing() == "oneDNN cannot be asked (it is not there): its rules for AVX2 are used"
    blocks = {64: "Ohwi32o", 72: "Ohwi24o", 40: "Ohwi16o"}
    for outputs, tag in blocks.items():
        first, second = onednn.conv_kernels(conv_of(64, outputs))
        assert first == ConvKernel(LAST, Format.from_tag(tag), LAST, 100)
        assert second.x == PLAIN


def test_negative_where_it_is_there_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_query, "unavailable", lambda: None)
    assert onednn.missing() is None
