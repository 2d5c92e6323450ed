"""Libraries that transpose: a reorder as a transpose, and the same bytes from each of them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.transpose_peers import register_all, transpose_of, transpose_peers
from layout_ir.errors import LayoutError
from layout_ir.tools.benchmark.cases import Case
from layout_ir.tools.benchmark.measure import expected, sides
from layout_ir.tools.benchmark.peers import peer, write

CASES = [
    Case("matrix", "ab", "ba", "f32", {"own": (7, 11)}),
    Case("images", "nchw", "nhwc", "ui8", {"own": (2, 9, 5, 3)}),
    Case("halves", "nhwc", "nchw", "bf16", {"own": (2, 9, 5, 3)}),
    Case("blocked", "nchw", "nChw8c", "f32", {"own": (2, 16, 5, 3)}),
    Case("weights", "oihw", "OIhw4i8o", "i8", {"own": (16, 8, 3, 3)}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_transpose_has_the_bytes_of_the_reorder(case: Case):
    src, dst = sides(case, case.bound("own"))
    found = transpose_of(src, dst)
    assert src.data.size == np.prod(found.shape)
    moved = src.data.reshape(found.shape).transpose(found.perm)
    assert moved.shape == found.result
    assert np.array_equal(moved.ravel(), expected(src, dst))


def test_dims_that_stay_together_are_one():
    src, dst = sides(CASES[1], CASES[1].bound("own"))
    found = transpose_of(src, dst)
    assert (found.shape, found.perm) == ((2, 9, 15), (0, 2, 1))


@pytest.mark.parametrize(
    "case, said",
    [
        (Case("pads", "nchw", "nChw8c", "f32", {"own": (2, 16, 5, 3)}), ""),
        (Case("pads", "nChw8c", "nchw", "f32", {"own": (1, 4, 5, 3)}), "pads or holes"),
        (Case("pads", "nchw", "nChw8c", "f32", {"own": (1, 17, 5, 3)}), "strided views|pads or holes"),
        (Case("converted", "ab", "ba", "f32", {"own": (4, 4)}, dst_dtype="i8"), "elements are converted"),
    ],
)
def test_negative_what_is_no_transpose_is_said_to_be_none(case: Case, said: str):
    src, dst = sides(case, case.bound("own"))
    if not said:
        transpose_of(src, dst)
        return
    with pytest.raises(LayoutError, match=said):
        transpose_of(src, dst)


def test_negative_where_nothing_is_transposed_nobody_takes_part():
    register_all()
    src, dst = sides(case := Case("copy", "ab", "ab", "f32", {"own": (4, 4)}), case.bound("own"))
    for name in transpose_peers():
        with pytest.raises(LayoutError, match="nothing is transposed"):
            peer(name, src, dst, 1)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in ("eigen", "xtensor") else [])
        for name in transpose_peers()  # a C++ compiler takes up to a minute for the first case
    ],
)
def test_a_library_writes_the_bytes_of_the_reorder(name: str):
    register_all()
    try:
        transpose_peers()[name].version()
    except LayoutError as error:
        pytest.skip(str(error))
    for case in CASES:
        src, dst = sides(case, case.bound("own"))
        wanted = expected(src, dst)
        try:
            run = peer(name, src, dst, 1)
        except LayoutError as error:  # ONNX Runtime has no Transpose of every type, Eigen not every rank
            assert case.name == "weights", error
            continue
        dst.data[:] = 0
        write(name, run, dst)
        assert np.array_equal(dst.data, wanted), case.name
