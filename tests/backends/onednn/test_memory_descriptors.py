"""A descriptor says the layout that it was made of, in the library's own numbers."""

from __future__ import annotations

from dataclasses import replace
from weakref import ref

import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.onednn.library import Refused, library
from layout_ir.backends.onednn.memory_descriptors import (
    any_format,
    conventional_strides,
    described,
    descriptor_of,
    row_major,
    strided,
)
from tests.backends.onednn.small_programs import needs_library

pytestmark = needs_library

TAGS = ("nchw", "nhwc", "nChw8c", "nChw16c", "OIhw8i8o", "OIhw4i16o4i", "Ohwi16o", "hwio")


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("shape", [(2, 17, 5, 4), (16, 32, 1, 3), (1, 1, 1, 1)])
def test_a_descriptor_says_the_layout(tag: str, shape: tuple[int, ...]):
    layout = Format.from_tag(tag).with_pad("undef").bind(shape)
    found = descriptor_of(library(), layout, "f32")
    said = found.blocking().layout()
    assert said.shape == shape
    assert replace(said, pad="undef", names=layout.names).same_map(layout)
    assert found.nbytes == layout.nbytes("f32")


def test_what_is_made_from_equal_numbers_is_one_descriptor_as_long_as_anybody_has_it():
    first = strided(library(), (2, 3), (5, 1))
    assert strided(library(), [2, 3], [5, 1]) is first
    given = first.made_from
    assert given is not None and described(library(), given) is first
    others = strided(library(), (2, 3), (3, 1)), strided(library(), (2, 3), (5, 1), "ui8")
    assert first not in (*others, any_format(library(), (2, 3)))
    gone = ref(first)
    del first
    assert gone() is None and strided(library(), (2, 3), (5, 1)).blocking().strides == (5, 1)


def test_strides_with_holes_are_kept_and_an_offset_is_left_out():
    layout = Format.from_tag("nchw").bind((2, 6, 5, 4)).slice((0, 2, 1, 0), (2, 3, 4, 4))
    said = descriptor_of(library(), layout, "f32").blocking()
    assert (said.dims, said.strides, said.offset0) == ((2, 3, 4, 4), (120, 20, 4, 1), 0)


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("shape", [(2, 17, 5, 4), (16, 32, 1, 3), (1, 1, 1, 1)])
@pytest.mark.parametrize(("dtype", "width"), [("f32", 4), ("i8", 1)])
def test_the_reach_of_a_whole_tensor_is_its_memory(tag: str, shape: tuple[int, ...], dtype: str, width: int):
    layout = Format.from_tag(tag).bind(shape)
    assert descriptor_of(library(), layout, dtype).reach == layout.extent * width


@pytest.mark.parametrize("starts", [(0, 0, 0, 0), (0, 2, 1, 0), (1, 3, 1, 1)])
def test_the_reach_of_a_part_ends_with_its_last_element(starts: tuple[int, ...]):
    part = Format.from_tag("nchw").bind((2, 6, 5, 4)).slice(starts, (1, 3, 4, 3))
    descriptor = descriptor_of(library(), part, "f32")
    assert descriptor.reach == 4 * (int(part.addresses().max()) - part.offset + 1) < descriptor.nbytes


@pytest.mark.parametrize(
    ("extents", "strides", "expected"),
    [
        ((2, 3, 1, 4), (12, 4, 12, 1), (12, 4, 4, 1)),  # [n, h, c, w] is row-major
        ((2, 1, 3, 4), (12, 24, 4, 1), (12, 12, 4, 1)),  # [c, n, h, w] as well
        ((2, 3, 1, 4), (12, 1, 24, 3), (12, 1, 12, 3)),  # [h, n, w, c] is channels-last
        ((2, 8, 1, 1), (8, 1, 8, 8), (8, 1, 8, 8)),  # both: as it stands
        ((2, 8, 1, 1), (8, 1, 1, 1), (8, 1, 1, 1)),
        ((1, 7), (1, 1), (7, 1)),  # one row of a matrix by columns
        ((2, 3, 1, 4), (120, 20, 1, 1), (120, 20, 4, 1)),  # holes are kept
        ((1,), (5,), (1,)),
        ((), (), ()),
    ],
)
def test_dims_of_one_element_stand_where_a_usual_tensor_has_them(
    extents: tuple[int, ...], strides: tuple[int, ...], expected: tuple[int, ...]
):
    assert conventional_strides(extents, strides) == expected


@pytest.mark.parametrize(
    ("extents", "strides"),
    [((2, 3, 5, 4), (60, 4, 12, 1)), ((2, 3, 1, 4), (1, 8, 24, 2)), ((2, 3), (1, 2))],
)
def test_negative_another_order_of_dims_is_kept(extents: tuple[int, ...], strides: tuple[int, ...]):
    assert conventional_strides(extents, strides) == strides


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("(n, c) : [n, c*1, c:3*4]", (2, 12)),  # coarse digits below fine ones
        ("(a, b) : [a, b], lo = [1, 0], size = [4, 5]", (2, 5)),
    ],
)
def test_negative_what_no_descriptor_says_is_refused(text: str, shape: tuple[int, ...]):
    try:
        layout = Format.parse(text).bind(shape)
    except ValueError:
        layout = replace(Format.parse("(a, b) : [a, b]").bind(shape), lo=(1, 0))
    with pytest.raises(Refused):
        descriptor_of(library(), layout, "f32")


def test_negative_overlapping_strides_are_refused():
    with pytest.raises(Refused, match="strides"):
        strided(library(), (4, 4), (2, 1))


def test_an_open_descriptor_is_none_of_a_layout():
    lib = library()
    made = any_format(lib, (2, 3))
    assert not lib.api.dnnl_memory_desc_equal(made.handle, row_major(lib, (2, 3)).handle)
