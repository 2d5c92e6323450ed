"""XLA and JAX layouts, against the documented formula of tiled shapes written out here."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS
from layout_ir.notations.xla import subject_of


def linear_index(
    index: Sequence[int], shape: Sequence[int], major_to_minor: Sequence[int], tiles: Sequence[Sequence[int]]
) -> tuple[int, int]:
    """(address, elements in all) by tiling the physical shape, one tile after the other."""
    place = [index[d] for d in major_to_minor]
    extent = [shape[d] for d in major_to_minor]
    for tile in tiles:
        k = len(extent) - len(tile)
        head_p, tail_p, head_e, tail_e = place[:k], place[k:], extent[:k], extent[k:]
        place = (
            head_p
            + [p // t for p, t in zip(tail_p, tile, strict=True)]
            + [p % t for p, t in zip(tail_p, tile, strict=True)]
        )
        extent = head_e + [math.ceil(e / t) for e, t in zip(tail_e, tile, strict=True)] + list(tile)
    address = 0
    for p, e in zip(place, extent, strict=True):
        address = address * e + p
    return address, math.prod(extent)


def agree(layout: Layout, dims: Sequence[int], tiles: Sequence[Sequence[int]]) -> None:
    for index in itertools.product(*map(range, layout.shape)):
        address, size = linear_index(index, layout.shape, dims, tiles)
        assert layout.address(index) == address, (index, dims, tiles, str(layout))
        assert layout.extent == size, (dims, tiles, str(layout))


def test_random_tilings_follow_the_formula_or_are_refused():
    rng = random.Random(4)
    read = refused = irregular = 0
    for _ in range(1500):
        rank = rng.randint(1, 3)
        dims = rng.sample(range(rank), rank)
        tiles: list[tuple[int, ...]] = []
        width = rank
        for _ in range(rng.randint(0, 3)):
            k = rng.randint(1, width)
            tiles.append(tuple(rng.choice((1, 2, 2, 3, 4, 6, 8)) for _ in range(k)))
            width = rank if not tiles else max(k, 1)
        shape = tuple(rng.randint(1, 9) for _ in range(rank))
        try:
            found = subject_of(dims, tuple(tiles), shape)
        except LayoutError as error:
            assert "do not divide" in str(error) or "depend on the shape" in str(error), str(error)
            refused += 1
            continue
        if isinstance(found, Layout):
            irregular += 1
        else:
            found = found.bind(shape)
            again = NOTATIONS["xla"].parse(NOTATIONS["xla"].print(found), shape)
            assert isinstance(again, Layout)
            assert again.same_store(found)
        read += 1
        agree(found, dims, tiles)
    assert read > 1000
    assert irregular > 10


def test_the_documented_examples():
    layout = NOTATIONS["xla"].parse("{1,0:T(2,2)}", (3, 5))
    assert isinstance(layout, Layout)
    assert layout.address((2, 3)) == 17
    layout = NOTATIONS["xla"].parse("{1,0:T(8,128)(2,1)}", (20, 200))
    assert isinstance(layout, Layout)
    assert layout.padded_shape == (24, 256)
    assert layout.address((9, 130)) == 3077
    assert str(NOTATIONS["xla"].parse("{1,0:T(8,128)(2,1)}")) == "(n, c) : [n, c, n:4, c:128, n:2]"


def test_xla_and_jax_say_the_same():
    for text in ("{1,0:T(8,128)(2,1)}", "{0,1}", "{3,1,2,0:T(8,128)}", "{2,1,0:T(4)(2)}"):
        format = NOTATIONS["xla"].parse(text)
        assert NOTATIONS["jax"].parse(NOTATIONS["jax"].print(format)) == format


JAX = [
    ('Layout(major_to_minor=(3, 0, 1, 2), tiling=((4,), (2,)))', '{2,1,0,3:T(4)(2)}'),
    ('Layout(major_to_minor=(1, 2, 0), tiling=((2, 4, 8),))', '{0,2,1:T(2,4,8)}'),
    ('Layout(major_to_minor=(1, 0), tiling=None)', '{0,1}'),
    ('Layout(major_to_minor=(2, 0, 1), tiling=None)', '{1,0,2}'),
    ('Layout(major_to_minor=(0,), tiling=((4,), (2,)))', '{0:T(4)(2)}'),
    ('Layout(major_to_minor=(2, 0, 1), tiling=((4,), (2,)))', '{1,0,2:T(4)(2)}'),
    ('Layout(major_to_minor=(0, 2, 1), tiling=((4,), (2,)))', '{1,2,0:T(4)(2)}'),
    ('Layout(major_to_minor=(0,), tiling=None)', '{0}'),
    ('Layout(major_to_minor=(1, 0), tiling=((8, 128),))', '{0,1:T(8,128)}'),
    ('Layout(major_to_minor=(0, 1), tiling=None)', '{1,0}'),
    ('Layout(major_to_minor=(0, 3, 1, 2), tiling=None)', '{2,1,3,0}'),
    ('Layout(major_to_minor=(2, 1, 0), tiling=((2, 4, 8),))', '{0,1,2:T(2,4,8)}'),
]  # fmt: skip
"""Layouts as JAX 0.10.2 prints them, and as it hands them to XLA."""


@pytest.mark.parametrize(("text", "handed_over"), JAX)
def test_jax_texts_mean_what_jax_hands_to_xla(text: str, handed_over: str):
    format = NOTATIONS["xla"].parse(handed_over)
    for written in (
        text,
        f"{text[:-1]}, sub_byte_element_size_in_bits=0)",
        text.replace("Layout", "DeviceLocalLayout").replace("tiling", "_tiling"),
        f"Format(layout={text}, sharding=SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device))",
        f"Format({text}, NamedSharding(mesh=Mesh('x': 1), spec=P('x',)))",
    ):
        assert NOTATIONS["jax"].parse(written) == format, written


@pytest.mark.parametrize(
    ("text", "dims", "tiles"),
    [
        ("bf16[20,200]{1,0:T(8,128)(2,1)}", (0, 1), ((8, 128), (2, 1))),
        ("s8[9,20,40]{0,2,1:T(4,8)S(1)}", (1, 2, 0), ((4, 8),)),
        ("f32[3,5,7]", (0, 1, 2), ()),
        ("%fusion.3 = f32[5,7]{0,1} fusion(f32[5,7]{1,0} %p), kind=kLoop", (1, 0), ()),
        ("ROOT %r = pred[12]{0:T(8)(4)} copy(%a)", (0,), ((8,), (4,))),
    ],
)
def test_whole_shapes_follow_the_formula(
    text: str, dims: tuple[int, ...], tiles: tuple[tuple[int, ...], ...]
):
    layout = NOTATIONS["xla"].parse(text)
    assert isinstance(layout, Layout)
    assert layout.shape == tuple(map(int, text.partition("[")[2].partition("]")[0].split(",")))
    agree(layout, dims, tiles)


def test_the_element_type_of_a_shape_is_known():
    assert NOTATIONS["xla"].element_type("%p = bf16[2,3]{1,0} parameter(0)") == "bf16"
    assert NOTATIONS["xla"].element_type("pred[4]") == "i1"
    assert NOTATIONS["xla"].element_type("{1,0}") is None
    scalar = NOTATIONS["xla"].parse("f32[]", (), "f32")
    assert isinstance(scalar, Layout) and scalar.shape == ()


@pytest.mark.parametrize(
    ("text", "shape", "dtype", "reason"),
    [
        ("bf16[256,256]{1,0}", None, "f32", "says elements of bf16, asked for were f32"),
        ("bf16[256,256]{1,0}", (256, 255), None, "says shape 256x256, asked for was 256x255"),
        ("bf16[256,256]{0}", None, None, "has 1 dims, the shape 256x256 has 2"),
        ("(f32[2]{0}, s32[])", None, None, "a tuple has one layout for each of its elements"),
        ("%t = (f32[2]{0}) tuple(%a)", None, None, "a tuple has one layout"),
        ("token[]", None, None, "a token has no elements"),
        ("f32[<=8]{0}", None, None, "a dynamic extent has no layout"),
        ("q7[8]{0}", None, None, "unknown element type 'q7'"),
        ("f32[2,3]{1,0} x", None, None, "behind the end"),
        ("f32[2,3]{1,0:L(8)}", None, None, "says more than addresses"),
    ],
)
def test_negative_shapes_that_have_no_layout(
    text: str, shape: tuple[int, ...] | None, dtype: str | None, reason: str
):
    with pytest.raises(LayoutError, match=reason):
        NOTATIONS["xla"].parse(text, shape, dtype)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Layout.AUTO", "AUTO leaves the layout to the compiler"),
        ("Format(layout=None, sharding=None)", "None leaves the layout to the compiler"),
        ("Format(Layout((0, 1)), x", "found the end"),
        ("Sharding((0, 1))", "neither Layout nor Format"),
        ("Layout((0, 0))", "no permutation"),
    ],
)
def test_negative_jax_texts_without_a_layout(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        NOTATIONS["jax"].parse(text)


def test_element_and_space_qualifiers_do_not_change_addresses():
    assert NOTATIONS["xla"].parse("{1,0:T(8,128)(2,1)E(4)S(1)}") == NOTATIONS["xla"].parse(
        "{1,0:T(8,128)(2,1)}"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{1,0:T(*,128)}", r"'\*' fuses a dim with the next minor one"),
        ("{1,0:T(6,128)(4,1)}", "cuts 6 into blocks of 4: it rounds up"),
        ("{1,1}", "no permutation of 2 dims"),
        ("{1,0:T(2,2,2)}", "more dims than the 2 dims it is applied to"),
        ("{1,0:L(128)}", "says more than addresses"),
        ("{1,0:T(0,2)}", "at least 1 is needed"),
        ("{1,0", "expected ',', found the end"),
    ],
)
def test_negative_texts_that_are_no_layout_here(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        NOTATIONS["xla"].parse(text)


def test_a_tiling_that_does_not_divide_is_read_at_shapes_where_it_is_digits():
    layout = NOTATIONS["xla"].parse("{0:T(6)(4)}", (13,))
    assert isinstance(layout, Layout)
    agree(layout, (0,), ((6,), (4,)))  # blocks of 6, 8 apart
    with pytest.raises(LayoutError, match="do not divide"):
        NOTATIONS["xla"].parse("{1,0:T(6,2)(4,1)}", (13, 4))  # units 1, 4 and 6


def test_negative_strides_with_holes_have_no_tiles():
    with pytest.raises(LayoutError, match=r"xla cannot say .* strides of its own"):
        NOTATIONS["xla"].print(Format.parse("(a, b) : [a*9, b]").bind((2, 5)))
