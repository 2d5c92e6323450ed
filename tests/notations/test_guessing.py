"""A text of a notation that nobody named: read where it can mean one thing only."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import HealthCheck, given, settings

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS
from layout_ir.notations.guessing import guess, readings
from tests.layouts import random_layout, rngs
from tests.notations.pasted_texts import PASTED, SHAPES


@pytest.mark.parametrize(
    ("text", "notation"),
    [
        ("bf16[256,256]{1,0:T(8,128)(2,1)}", "xla"),
        ("{1,0:T(8,128)}", "xla"),
        ("Format(layout=Layout(major_to_minor=(1, 0), tiling=None), sharding=NamedSharding(mesh=Mesh('x': 1)))", "jax"),
        ("(_4,_8):(_8,_1)", "cute"),
        ("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)", "cute"),
        ("size=(2, 3), stride=(3, 1)", "torch"),
        ("f32[2, 3][3, 1]cuda:0", "torch"),
        ("shape=(2, 5), strides=(20, 4)", "numpy"),
        ("memref<2x5xf32, strided<[5, 1]>>", "memref"),
        ("affine_map<(d0, d1) -> (d0, d1 floordiv 8, d1 mod 8)>", "affine"),
        ("outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [8]", "pack"),
        ("lambda n, c: [n, c // 4, c % 4]", "indexmap"),
        ("#ttg.shared_linear<{offset = [[0, 1], [1, 0]]}, alignment = 16>", "triton"),
        ("NCHW16c", "tvm"),
        ("R4Crouton", "htp"),
        ("kCHW32", "tensorrt"),
        ("CUDNN_TENSOR_NHWC", "cudnn"),
    ],
)  # fmt: skip
def test_what_only_one_notation_reads_is_read_in_it(text: str, notation: str):
    assert guess(text, dtype="i8" if text == "kCHW32" else None) == notation


def test_negative_two_meanings_are_both_named():
    with pytest.raises(LayoutError) as caught:
        guess("NHWC", (1, 8, 9, 16))
    message = str(caught.value)
    assert "'NHWC' is ambiguous" in message
    assert "acl" in message and "tvm reads (n, h, w, c) : [n, h, w, c] of 1x8x9x16" in message
    assert "--from" in message
    with pytest.raises(
        LayoutError, match=r"torch reads .*c\*4.*; numpy reads .*say --from torch or --from numpy"
    ):
        guess("(1280, 4, 320, 64)", (2, 16, 5, 4))


def test_strides_that_are_no_multiples_of_an_element_are_no_bytes():
    assert guess("(320, 1, 80, 16)", (2, 16, 5, 4)) == "torch"
    assert guess("(320, 1, 80, 16)", (2, 16, 5, 4), "i8") == "torch"  # of bytes and elements alike
    assert guess("(-4, 20)", (2, 5), "f32") == "numpy"  # PyTorch has no negative strides


@pytest.mark.parametrize(
    ("text", "message", "blamed"),
    [
        ("bf16[256,256]{1,0:T(8,128)L(2)}", "qualifier 'L' says more than addresses", "L"),
        ("(f32[2]{0}, s32[])", "a tuple has one layout for each of its elements", "("),
        ("f32[2,<=8]{1,0}", "a dynamic extent has no layout", "<"),
        ("f32[2,3]{1,0:T(*,128)}", r"'\*' fuses a dim", "*"),
        ("Format(layout=AUTO, sharding=None)", "AUTO leaves the layout to the compiler", "AUTO"),
        ("Layout(major_to_minor=(0, 1), strides=(1, 2))", "unexpected field 'strides'", "strides"),
        ("(4,2):(1@0,1@1)", "a stride that counts coordinates", "@"),
        ("Sw<3,4,3> o smem_ptr[12b](unset) o (_8,_64):(_64,_1)", "elements of 12 bits", "smem_ptr"),
        ("linalg.pack %a inner_dims_pos = [1] inner_tiles = [%t] into %b : tensor<2x16xf32> -> tensor<2x2x8xf32>",
         "a value that only the run time knows", "%"),
        ("lambda n, c: [n * c]", "a product of two indices", "*"),
        ("sch.transform_layout(b, lambda n: [n], lambda m: [m])", "a second map", "lambda"),
        ("ChunkedMemoryLayout<4, 0,0, 1,0, 2,0, 9,0>", "names dim 9 of a layout of rank 4", "9"),
        ("memref<2x?xf32, strided<[5, 1]>>", "dynamic extents have no layout", "2"),
        ("#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0], CGALayout = [[0, 1]]}>",
         "several CTAs", "["),
    ],
)  # fmt: skip
def test_negative_a_text_with_a_mistake_has_the_error_of_the_notation_that_it_is_meant_for(
    text: str, message: str, blamed: str
):
    with pytest.raises(LayoutError, match=message) as caught:
        guess(text)
    assert caught.value.span is not None
    assert text[slice(*caught.value.span)].startswith(blamed)


@pytest.mark.parametrize("text", ["foo bar", "%!", "", "{{{{", "(((", "lambda"])
def test_negative_a_text_of_no_notation(text: str):
    with pytest.raises(LayoutError):
        guess(text)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in PASTED for text in PASTED[name]])
def test_pasted_texts_are_guessed(name: str, text: str):
    if text == "(48, 4, 12)":
        with pytest.raises(LayoutError, match=r"torch reads .*; numpy reads"):
            guess(text, SHAPES[text])
    else:
        assert guess(text, SHAPES.get(text)) == name


@given(rng=rngs)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_printed_layout_is_guessed_as_itself_or_named_as_ambiguous(rng: random.Random):
    """Never read as something else in silence."""
    layout = random_layout(rng, limit=300)
    for name, notation in NOTATIONS.items():
        try:
            text = notation.print(layout, "f32")
        except LayoutError:
            continue
        shape = layout.padded_shape if name == "cute" else layout.shape
        order = notation.shape_order(text)
        if order is not None and sorted(order) == sorted(layout.names):
            shape = tuple(shape[layout.names.index(dim)] for dim in order)
        found, _ = readings(text, shape, "f32")
        assert name in [reading.notation for reading in found], text
        try:
            guessed = guess(text, shape, "f32")
        except LayoutError as error:
            assert "ambiguous" in str(error) and name in str(error)
            continue
        (own,) = (reading for reading in found if reading.notation == name)
        (read,) = (reading for reading in found if reading.notation == guessed)
        assert own.means(read)


def test_an_example_or_a_pasted_text_begins_as_its_notation_says():
    for name, notation in NOTATIONS.items():
        texts = notation.example, *PASTED.get(name, ())
        assert any(re.match(notation.beginning, text) for text in texts), name


def test_readings_agree_up_to_names_and_pads():
    found, errors = readings("NCHWc4")
    assert not errors.keys() & {reading.notation for reading in found}
    by_name = {reading.notation: reading for reading in found}
    subject = by_name["megengine"].subject
    assert isinstance(subject, Format | Layout)
    assert by_name["megengine"].means(by_name["megengine"])


@pytest.mark.parametrize(
    "piece", ["(", "[", "{", "9", "a", "1,", "a.", "%a = ", "x[1]", "_1", " ", "lambda ", "#a = "]
)
def test_hostile_texts_are_refused(piece: str):
    """Long and repetitive: a pattern that backtracked would not end."""
    with pytest.raises(LayoutError):
        guess(piece * 4000)
