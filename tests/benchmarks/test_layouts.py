"""The table of what layouts are worth: the kernels of each chooser, one network measured, and what is explained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import layouts
from benchmarks.layouts import CHOOSERS, OURS, Measured, Row, explained, markdown, measure
from layout_ir.passes.selection.options.conv_kernels import activation
from layout_ir.passes.selection.options.onednn_query import vector_extension
from tests.backends.onednn.small_programs import needs_library
from tests.benchmarks.small_models import picture, save
from tests.passes.selection.options.convs import conv_of

NAMES = [chooser.name for chooser in CHOOSERS]

BLOCK = 16 if vector_extension() == "avx512" else 8
"""Channels of a block that the library has kernels for on this CPU."""


def choice(name: str, median: float = 1.0, explanation: str = "") -> Measured:
    return Measured(name, "", 0.5, median, (median, median, median), 1, 8, 64, 0, explanation)


@needs_library
@pytest.mark.parametrize(
    "name, order, block", [("plain", "ncS", 0), ("channels last", "nSc", 0), (f"by {BLOCK}", "ncS", BLOCK)]
)
def test_a_forced_layout_is_the_only_one(name: str, order: str, block: int):
    (kernel,) = CHOOSERS[NAMES.index(name)].kernels(conv_of(64, 64, image=56))
    expected = activation(2, order, ("c", block)) if block else activation(2, order)
    assert kernel.x == kernel.y == expected


@needs_library
def test_the_first_convolution_goes_from_plain_to_blocks():
    (kernel,) = CHOOSERS[NAMES.index(f"by {BLOCK}")].kernels(conv_of(3, 64, kernel=7, stride=2, image=64))
    assert (kernel.x, kernel.y) == (activation(2, "ncS"), activation(2, "ncS", ("c", BLOCK)))


@needs_library
def test_negative_a_layout_without_a_kernel_is_not_forced():
    """Groups of odd sizes have no kernel on blocks that is not the library's reference."""
    kernels = list(CHOOSERS[NAMES.index("by 8")].kernels(conv_of(272, 68, 4, kernel=1)))
    assert [(kernel.x, kernel.y) for kernel in kernels] == [(activation(2, "ncS"),) * 2]


@needs_library
def test_a_network_is_measured_with_every_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(layouts, "_PROFILED", 1)
    row = measure(str(save(picture(), tmp_path / "picture.onnx")), "picture.onnx", 2, 1, 0.05)
    assert [found.chooser for found in row.choices] == NAMES
    assert all(found.median > 0 and found.predicted > 0 and found.peak_bytes > 0 for found in row.choices)
    ours = row.choices[-1]
    assert ours.ratio == (1.0, 1.0, 1.0)
    for found in row.choices:
        if found.same_as:
            first = next(other for other in row.choices if other.chooser == found.same_as)
            assert found.median == first.median and found.reorders == first.reorders
    assert "picture" in markdown([row])


def test_what_explains_a_difference_is_named_by_the_op_and_what_computes_it():
    ours = {"nn.conv 0": (9000, "gemm"), "nn.conv 1": (1000, "jit"), "all reorders": (500, "reorder")}
    other = {"nn.conv 0": (2000, "jit"), "nn.conv 1": (1000, "jit"), "nn.concat 0": (70, "simple")}
    found = explained(ours, other)
    assert found == "nn.conv 0 9 us by gemm, not 2 by jit; all reorders 0 us by reorder, not 0 by nothing"


def test_a_table_says_where_another_choice_is_faster():
    fast = Row("net", 1, 1, 9, [choice(name) for name in NAMES])
    slow = replace(fast, choices=[choice("plain", 0.9, "nn.conv 0 ..."), *fast.choices[1:]])
    assert "plain takes 0.90 of ours: nn.conv 0" in markdown([slow])
    assert "No choice is faster" in markdown([fast])
    assert next(c for c in fast.choices if c.chooser == OURS).median == 1.0
