"""OpenVINO's names, against arrays that NumPy cuts into blocks, and against the tags that store the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS

OPENVINO = NOTATIONS["openvino"]

# Name, shape, the shape cut into slices and blocks, each dim rounded up to whole slices, and their order in memory.
CUT = [
    ("bfyx", (2, 3, 4, 5), (2, 3, 4, 5), (0, 1, 2, 3)),
    ("byxf", (2, 3, 4, 5), (2, 3, 4, 5), (0, 2, 3, 1)),
    ("fyxb", (2, 3, 4, 5), (2, 3, 4, 5), (1, 2, 3, 0)),
    ("bfwzyx", (1, 2, 3, 2, 3, 2), (1, 2, 3, 2, 3, 2), (0, 1, 2, 3, 4, 5)),
    ("b_fs_yx_fsv16", (2, 17, 3, 4), (2, 2, 16, 3, 4), (0, 1, 3, 4, 2)),
    ("b_fs_zyx_fsv4", (2, 7, 2, 3, 4), (2, 2, 4, 2, 3, 4), (0, 1, 3, 4, 5, 2)),
    ("fs_b_yx_fsv32", (2, 33, 3, 2), (2, 2, 32, 3, 2), (1, 0, 3, 4, 2)),
    ("bs_fs_yx_bsv4_fsv2", (5, 3, 2, 3), (2, 4, 2, 2, 2, 3), (0, 2, 4, 5, 1, 3)),
    ("oiyx", (3, 2, 2, 3), (3, 2, 2, 3), (0, 1, 2, 3)),
    ("iyxo", (3, 2, 2, 3), (3, 2, 2, 3), (1, 2, 3, 0)),
    ("os_iyx_osv16", (18, 3, 2, 3), (2, 16, 3, 2, 3), (0, 2, 3, 4, 1)),
    ("os_is_yx_isv16_osv16", (17, 3, 2, 2), (2, 16, 1, 16, 2, 2), (0, 2, 4, 5, 3, 1)),
    ("os_is_yx_isa8_osv8_isv4", (9, 33, 2, 1), (2, 8, 2, 8, 4, 2, 1), (0, 2, 5, 6, 3, 1, 4)),
    ("os_y_is_x_osv8_isv2", (9, 3, 2, 3), (2, 8, 2, 2, 2, 3), (0, 4, 2, 5, 1, 3)),
    ("g_os_zyx_is_osv16_isv16", (2, 3, 5, 1, 2, 3), (2, 1, 16, 1, 16, 1, 2, 3), (0, 1, 5, 6, 7, 3, 2, 4)),
    ("gs_oiyx_gsv4", (5, 1, 1, 2, 3), (2, 4, 1, 1, 2, 3), (0, 2, 3, 4, 5, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape", "cut", "order"), CUT, ids=[case[0] for case in CUT])
def test_names_store_what_numpy_cuts(
    name: str, shape: tuple[int, ...], cut: tuple[int, ...], order: tuple[int, ...]
):
    layout = OPENVINO.parse(name, shape)
    assert isinstance(layout, Layout)
    logical = np.arange(layout.extent).reshape(layout.padded_shape)
    stored = logical.reshape(cut).transpose(order).ravel()
    places = layout.addresses()
    for index in itertools.product(*map(range, shape)):
        assert stored[places[index]] == logical[index]
    assert OPENVINO.print(layout.format) == name


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("nChw16c", "b_fs_yx_fsv16"),
        ("aBcd16b", "b_fs_yx_fsv16"),
        ("nCdhw32c", "b_fs_zyx_fsv32"),
        ("NChw16n16c", "bs_fs_yx_bsv16_fsv16"),
        ("OIhw8i8o4i", "os_is_yx_isa8_osv8_isv4"),
        ("gOihw16o", "g_os_iyx_osv16"),
        ("oidhw", "oizyx"),
    ],
)
def test_tags_have_names(tag: str, name: str):
    assert OPENVINO.print(Format.from_tag(tag)) == name
    read = OPENVINO.parse(name)
    assert isinstance(read, Format)
    assert read.factors == Format.from_tag(tag).factors


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("b_f_yx_fsv16", "blocks of dim 'f', which is not cut into slices"),
        ("b_fs_yx", "slices, which end in one block fsv and no other"),
        ("b_fs_yx_fsa4", "slices, which end in one block fsv and no other"),
        ("b_fs_yx_fsv4_fsv8", "slices, which end in one block fsv and no other"),
        ("b_fs_yx_fsv0", "a block of 0"),
        ("b_fs_yx_fsv99999999", "a block of 99999999"),
        ("gs_oi_yxs_gsv4_yxsv4", "'yxsv4' where a block"),
        ("os_is_yx_osv8_isv4_swizzled_by_4", "'swizzled' where a block"),
        ("b_fs_yx_fsv\N{FULLWIDTH DIGIT FOUR}", "where a block"),
        ("bffx", "names dim 'f' twice"),
        ("bfzx", "has the dims b, f, z, x"),
        ("byx", "has the dims b, y, x"),
        ("", "where a block"),
    ],
)
def test_negative_names(name: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        OPENVINO.parse(name)


@pytest.mark.parametrize(
    ("format", "reason"),
    [
        ("(n, c) : [n, c]", "the dims are n, c"),
        ("(n, c, h, w) : [n, c*64, h*8, w]", "a tag is one rest per dim"),
        ("(t, n, c, h) : [t, n, c, h]", "the dims are t, n, c, h"),
    ],
)
def test_negative_formats_without_a_name(format: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        OPENVINO.print(Format.parse(format))
