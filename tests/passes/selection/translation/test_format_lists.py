"""Lists of formats are shared, never change, and have no bytes twice."""

from __future__ import annotations

from layout_ir.algebra.format import Format
from layout_ir.passes.selection.translation.format_lists import FormatLists


def test_lists_are_shared_and_never_change():
    lists = FormatLists()
    nchw, nhwc, blocked = (Format.from_tag(tag) for tag in ("nchw", "nhwc", "nChw8c"))
    one = lists.of((1, 16, 8, 8)).adding(nchw)
    two = one.adding(nhwc)
    assert lists.of((1, 16, 8, 8)).adding(nchw) is one and one.adding(nhwc) is two
    assert one.formats == (nchw,) and two.formats == (nchw, nhwc)
    assert two.adding(nhwc) is two and two.number(nhwc) == 1
    assert one.number(nhwc) is None and two.number(blocked) is None


def test_formats_of_the_same_bytes_are_one():
    pixel = FormatLists().of((1, 16, 1, 1)).adding(Format.from_tag("nchw"))
    assert pixel.adding(Format.from_tag("nhwc")) is pixel and pixel.number(Format.from_tag("nhwc")) == 0


def test_negative_formats_that_do_not_fit_are_not_added():
    own = FormatLists().of((1, 16, 8, 8))
    assert own.adding(Format.from_tag("ab")) is own


def test_what_pads_hold_makes_no_format_of_its_own():
    """Formats are split by that later, where it matters."""
    grown = FormatLists().of((1, 17, 1, 1)).adding(Format.from_tag("nChw8c"))
    assert grown.adding(Format.from_tag("nChw8c").with_pad("undef")) is grown


def test_negative_formats_that_differ_in_pads_alone_are_two():
    """17 channels of one pixel lie in a row in all of these, with pads up to 24, 17 and 32."""
    formats = [Format.from_tag(tag) for tag in ("nChw8c", "nchw", "nChw16c")]
    grown = FormatLists().of((1, 17, 1, 1))
    for fmt in formats:
        grown = grown.adding(fmt)
    assert [grown.number(fmt) for fmt in formats] == [0, 1, 2]


def test_each_format_has_the_layout_it_binds_to():
    shape = (2, 3, 4, 5)
    grown = FormatLists().of(shape)
    for tag in ("nchw", "nhwc", "chwn", "nChw8c"):
        grown = grown.adding(Format.from_tag(tag))
    assert [fmt.bind(shape) for fmt in grown.formats] == list(grown.layouts) and len(grown.layouts) == 4
