"""What every notation must keep: round trips, reasons for refusals, and no crash on any text."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from itertools import islice, permutations, product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS, convert, read
from tests.layouts import random_layout, rngs
from tests.notations.pasted_texts import PASTED
from tests.notations.pasted_texts import SHAPES as pasted_shapes
from tests.seeds import seeds

ALL = sorted(NOTATIONS)
POINTERS = ("torch", "numpy", "memref", "affine", "indexmap", "megengine", "triton")
"""Notations that say addresses and leave the padded box open; all others say it too."""


def check_round_trip(name: str, layout: Layout) -> bool:
    """Whether `name` can say `layout`; if so what it says must be read back as the same."""
    notation = NOTATIONS[name]
    try:
        text = notation.print(layout, "f32")
    except LayoutError as error:
        assert "cannot say" in str(error), (name, str(error))
        return False
    if name == "cute":
        again = notation.parse(text, layout.padded_shape, "f32")
        assert isinstance(again, Layout)
        assert np.array_equal(again.addresses(), layout.addresses(padded=True)), (text, str(layout))
        return True
    again = notation.parse(text, layout.shape, "f32")
    assert isinstance(again, Layout)
    assert again.same_map(layout), (text, str(layout))
    if layout.chunk_rank:
        assert again.chunk_size == layout.chunk_size, (text, str(layout))
    if name not in POINTERS:
        bare = [replace(x, pad="undef", chunk_rank=0) for x in (again, layout)]
        assert bare[0].same_store(bare[1]), (text, str(layout))
    return True


@pytest.mark.parametrize("name", ALL)
def test_the_example_of_each_notation_reads_and_prints(name: str):
    notation = NOTATIONS[name]
    assert notation.name == name
    subject = notation.parse(notation.example)
    text = notation.print(subject, "f32")
    again = notation.parse(text, subject.shape if isinstance(subject, Layout) else None, "f32")
    if isinstance(subject, Layout):
        assert isinstance(again, Layout)
        assert again.same_map(subject)
    else:
        assert again == subject
    if name not in ("megengine", "triton"):  # a plain name, and without an alignment
        assert text == notation.example


def small_formats() -> list[Format]:
    """Every dense format of rank 1 to 3 with at most one block per dim and two in all, in every order."""
    result: list[Format] = []
    for rank in (1, 2, 3):
        blocks = [()] + [((d, b),) for d in range(rank) for b in (2, 3)]
        blocks += [((d, b), (e, 2)) for d in range(rank) for e in range(rank) for b in (2, 3)]
        for order, inner in product(permutations(range(rank)), blocks):
            factors = [Factor(d) for d in order] + [Factor(d, b) for d, b in inner]
            result.append(Format(tuple("abc"[:rank]), tuple(factors)))
    return result


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("part", seeds(1, 5))
def test_every_small_dense_format_survives_a_round_trip_or_is_refused(name: str, part: int):
    said = refused = 0
    # There are powers of 3 of shapes: a part has every fifth shape of one format, and others of the next.
    layouts = ((f, shape) for f in small_formats() for shape in product((1, 2, 5), repeat=f.rank))
    for format, shape in islice(layouts, part, None, 5):
        if check_round_trip(name, format.bind(shape)):
            said += 1
        else:
            refused += 1
    assert said or name in ("acl", "onnxruntime", "openvino"), "these have names for rank 4 and more only"
    if name in ("tag", "onednn", "htp", "xla", "jax", "affine", "indexmap", "cute"):
        assert refused == 0


@pytest.mark.parametrize("name", ALL)
@given(rng=rngs)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_layout_survives_a_round_trip_or_is_refused(name: str, rng: random.Random):
    check_round_trip(name, random_layout(rng, limit=300))


@pytest.mark.parametrize("name", ALL)
@given(rng=rngs)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_format_prints_as_its_layouts_do_or_is_refused(name: str, rng: random.Random):
    layout = random_layout(rng, limit=300)
    format = layout.format
    try:
        text = NOTATIONS[name].print(format, "f32")
    except LayoutError as error:
        assert "cannot say" in str(error)
        return
    again = NOTATIONS[name].parse(text, layout.shape, "f32")
    assert isinstance(again, Layout)
    assert again.same_map(layout), text


ALPHABET = "".join(
    sorted({c for n in ALL for c in NOTATIONS[n].example} | set("()[]{}<>,:*|@-+%/_.?#=\"' 0123456789"))
)


def read_or_refuse(name: str, text: str, shape: tuple[int, ...] | None) -> None:
    """Reading gives a Layout or Format, or raises LayoutError with a span inside the text; anything else is a crash."""
    try:
        subject = NOTATIONS[name].parse(text, shape, "f32")
    except LayoutError as error:
        assert str(error)
        if error.span is not None:
            assert 0 <= error.span[0] <= error.span[1] <= len(text) + 1
        return
    assert isinstance(subject, Layout | Format)
    if shape is not None:
        assert isinstance(subject, Layout)
        assert subject.shape == shape


SHAPES = st.one_of(st.none(), st.lists(st.integers(0, 20), max_size=4).map(tuple))


@pytest.mark.parametrize("name", ALL)
@given(text=st.text(ALPHABET, max_size=40), shape=SHAPES)
@settings(max_examples=75, deadline=None)
def test_random_texts_raise_nothing_but_layout_errors(name: str, text: str, shape: tuple[int, ...] | None):
    read_or_refuse(name, text, shape)


def damaged(data: st.DataObject, example: str) -> str:
    """`example` after a few insertions, replacements, deletions and repetitions."""
    text = list(example)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        kind = data.draw(st.sampled_from("irdx"))
        piece = data.draw(
            st.one_of(st.text(ALPHABET, min_size=1, max_size=3), st.integers(-3, 1 << 70).map(str))
        )
        if kind == "i" or at == len(text):
            text[at:at] = piece
        elif kind == "r":
            text[at : at + 1] = piece
        elif kind == "d":
            del text[at : at + data.draw(st.integers(1, 5))]
        else:
            text[at:at] = text[at : at + data.draw(st.integers(1, 12))]
    return "".join(text)


@pytest.mark.parametrize("name", ALL)
@given(data=st.data(), shape=SHAPES)
@settings(max_examples=75, deadline=None)
def test_damaged_texts_raise_nothing_but_layout_errors(
    name: str, data: st.DataObject, shape: tuple[int, ...] | None
):
    read_or_refuse(name, damaged(data, NOTATIONS[name].example), shape)


@pytest.mark.parametrize("name", sorted(PASTED))
@given(data=st.data(), shape=SHAPES)
@settings(max_examples=75, deadline=None)
def test_damaged_pasted_texts_raise_nothing_but_layout_errors(
    name: str, data: st.DataObject, shape: tuple[int, ...] | None
):
    text = damaged(data, data.draw(st.sampled_from(PASTED[name])))
    read_or_refuse(name, text, shape)
    with contextlib.suppress(LayoutError):
        NOTATIONS[name].element_type(text)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in PASTED for text in PASTED[name]])
def test_pasted_texts_survive_a_round_trip(name: str, text: str):
    """What is read, printed and read again is the same map; a printed text is a text of the notation's own form."""
    notation = NOTATIONS[name]
    shape = pasted_shapes.get(text)
    subject = notation.parse(text, shape, "f32" if shape else notation.element_type(text))
    if isinstance(subject, Format):
        assert notation.parse(notation.print(subject), None) == subject
    elif "padded_shared" in text:
        with pytest.raises(LayoutError, match="132 is no power of two"):
            notation.print(subject, "f32")
    else:
        text = notation.print(replace(subject, pad="zero") if name == "pack" else subject, "f32")
        again = notation.parse(text, subject.shape, "f32")
        assert isinstance(again, Layout)
        assert again.same_map(replace(subject, pad=again.pad))


@pytest.mark.parametrize("name", ALL)
def test_hostile_texts_are_refused_quickly(name: str):
    for text in (
        "",
        " ",
        "(" * 5000,
        "[" * 5000,
        "{" * 5000,
        "9" * 5000,
        "-" * 5000,
        "a" * 5000,
        "1," * 5000,
        "\x00",
        "é",
        "٣",
    ):
        with pytest.raises(LayoutError):
            NOTATIONS[name].parse(text, None, "f32")


def test_conversions_read_ours_tags_and_every_notation():
    assert convert("nChw8c", "tvm") == "NCHW8c"
    assert convert("(n, c) : [c, n]", "tag") == "cn"
    assert convert("NCHW8c", "tag", source="tvm") == "nChw8c"
    assert convert("nChw8c", "cute", shape=(2, 16, 5, 4)) == "(2,(8,2),5,4):(320,(1,160),32,8)"
    assert isinstance(read("nhwc", shape=(1, 2, 3, 4)), Layout)


@pytest.mark.parametrize(
    ("text", "to", "shape", "reason"),
    [
        ("nchw", "morse", None, "unknown notation 'morse': known are tag, onednn"),
        ("nchw", "torch", None, "bind it to a shape first"),
        (
            "(n, c) : [n, c], offset = 3",
            "tag",
            None,
            "first element lies 3 elements into the buffer, for which tag has no words",
        ),
        ("(n, c) : [n, c:6], lo = [0, 1]", "xla", (2, 5), "pads in front of elements"),
        ("(n, c) : [n | c:8]", "tag", None, "cut into chunks that may lie apart"),
        ("(n, c) : [n, c], swizzle = (1, 0, 1)", "tag", None, r"swizzled by \(1, 0, 1\)"),
        ("(n, c) : [n@lane, c]", "tag", None, "places on the axes lane"),
        (
            "(n, c) : [n, c], size = 99",
            "xla",
            (2, 5),
            "buffer holds 99 elements, more than the layout reaches",
        ),
    ],
)
def test_negative_what_a_notation_has_no_words_for_is_refused(
    text: str, to: str, shape: tuple[int, ...] | None, reason: str
):
    with pytest.raises(LayoutError, match=reason):
        convert(text, to, shape=shape)


def test_negative_a_shape_that_the_text_contradicts():
    with pytest.raises(LayoutError, match="torch text says shape 2x3, asked for was 3x2"):
        NOTATIONS["torch"].parse("size=(2, 3), stride=(3, 1)", (3, 2))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("text", ["nChw8c", "nhwc", "(n, c, h, w) : [n, c, h, w], lo = [0, 3, 0, 1]"])
def test_the_cost_does_not_depend_on_the_number_of_elements(name: str, text: str):
    """At a million times a million elements nothing may be tabulated: this would take hours."""
    layout = Format.of(text).bind((1 << 10, 1 << 20, 1 << 15, 1 << 10))
    try:
        printed = NOTATIONS[name].print(layout, "f32")
    except LayoutError as error:
        assert "cannot say" in str(error)
        return
    again = NOTATIONS[name].parse(printed, None if name == "cute" else layout.shape, "f32")
    assert isinstance(again, Layout)
    last = tuple(n - 1 for n in layout.shape)
    assert again.address(last) == layout.address(last)
