"""Linear layouts, against their own definition: the index is the XOR of the images of the bits of a place."""

from __future__ import annotations

import random
from itertools import product

import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS
from layout_ir.notations.triton import Bases, bases_of, layout_of_bases

TRITON = NOTATIONS["triton"]


def apply(bases: Bases, places: dict[str, int], rank: int) -> tuple[int, ...]:
    index = [0] * rank
    for axis, images in bases.items():
        for bit, image in enumerate(images):
            if places.get(axis, 0) >> bit & 1:
                index = [x ^ y for x, y in zip(index, image, strict=True)]
    return tuple(index)


def check(layout: Layout, bases: Bases) -> None:
    for index in product(*map(range, layout.shape)):
        places = {"offset": layout.address(index), **layout.place(index)}
        assert apply(bases, places, layout.rank) == index, (str(layout), bases)


def test_random_powers_of_two_are_linear():
    rng = random.Random(0)
    for _ in range(300):
        rank = rng.randint(1, 3)
        shape = tuple(1 << rng.randint(0, 3) for _ in range(rank))
        factors = [f"{n}" for n in rng.sample("abc"[:rank], rank)]
        factors += [f"{rng.choice('abc'[:rank])}:{rng.choice((2, 4))}" for _ in range(rng.randint(0, 2))]
        layout = Format.parse(f"({', '.join('abc'[:rank])}) : [{', '.join(factors)}]").bind(shape)
        if layout.is_padded:
            continue
        if rng.random() < 0.4 and layout.extent >= 16:
            layout = Format.parse(f"{layout.format}, swizzle = (1, 0, {rng.randint(1, 3)})").bind(shape)
        bases = bases_of(layout)
        check(layout, bases)
        again = TRITON.parse(TRITON.print(layout), shape)
        assert isinstance(again, Layout)
        assert (again.addresses() == layout.addresses()).all()


def test_swizzles_beside_bits_that_no_index_moves_mean_what_they_say_or_are_refused():
    rng = random.Random(2)
    printed = refused = 0
    for _ in range(1500):
        bits = rng.randint(1, 3)
        swizzle = f"Sw<{bits},{rng.randint(0, 3)},{rng.randint(bits, 4)}>"
        shape = [1 << rng.randint(1, 3) for _ in range(rng.randint(1, 3))]
        strides = [1 << rng.randint(0, 6) for _ in shape]
        text = f"{swizzle} o 0 o ({','.join(map(str, shape))}):({','.join(map(str, strides))})"
        try:
            layout = NOTATIONS["cute"].parse(text)
            again = TRITON.parse(TRITON.print(layout))
        except LayoutError as error:
            refused += "triton cannot say" in str(error)
            continue
        assert isinstance(layout, Layout) and isinstance(again, Layout)
        assert again.shape == layout.shape and (again.addresses() == layout.addresses()).all(), text
        printed += 1
    assert printed > 300 and refused > 300


def test_negative_a_swizzle_that_turns_a_bit_of_no_index_is_refused():
    layout = NOTATIONS["cute"].parse("Sw<1,1,1> o 0 o (8):(4)")
    with pytest.raises(LayoutError, match="turns bit 1 of an address, which no index moves"):
        TRITON.print(layout)


def test_permuted_bits_are_read():
    rng = random.Random(1)
    for _ in range(200):
        bits = [(d, b) for d, n in enumerate((3, 2)) for b in range(n)]
        rng.shuffle(bits)
        images = [tuple(1 << b if k == d else 0 for k in range(2)) for d, b in bits]
        layout = layout_of_bases({"offset": images})
        check(layout, {"offset": images})
        assert bases_of(layout)["offset"] == images


def test_the_swizzled_tile_of_128_bytes():
    images = [(0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (0, 32), (1, 8), (2, 16), (4, 32)]
    layout = layout_of_bases({"offset": images})
    assert layout.swizzle == (3, 3, 3)
    assert layout.shape == (8, 64)
    check(layout, {"offset": images})
    text = TRITON.print(layout)
    assert text.startswith(
        "#ttg.shared_linear<{offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32]]}"
    )


def test_places_are_axes():
    text = "#ttg.linear<{register = [[0, 1], [0, 2]], lane = [[1, 0], [2, 0], [4, 0]], warp = [[8, 0]], block = []}>"
    layout = TRITON.parse(text)
    assert isinstance(layout, Layout)
    assert layout.shape == (16, 4)
    assert layout.place((13, 2)) == {"register": 2, "lane": 5, "warp": 1}
    assert TRITON.print(layout) == text.replace(", block = []", "")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#ttg.nvidia_mma<{versionMajor = 3}>", "'nvidia_mma' is no linear layout"),
        ("{offset = [[0, 1], [1]]}", "differ in length"),
        ("{offset = [[0, 1], [0, 1]]}", "twice: replicas"),
        ("{offset = [[0, 1], [0, 4]]}", "all of its 3 are needed"),
        ("{offset = [[0, 3], [0, 1]]}", "several index bits"),
        ("{offset = [], offset = []}", "given twice"),
        ("{offset = []}", "does not say the rank"),
    ],
)
def test_negative_texts(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        TRITON.parse(text)


@pytest.mark.parametrize(
    ("text", "shape", "reason"),
    [
        ("(a, b) : [a, b]", (3, 4), "3 is no power of two"),
        ("(a, b) : [a*5, b]", (4, 4), "5 is no power of two"),
        ("(a, b) : [a, b:8]", (4, 5), "are padded"),
        ("(a, b) : [a*2, b]", (4, 4), "two index bits meet"),
        ("(a) : [a], offset = 4", (4,), "first element lies 4 elements"),
    ],
)
def test_negative_layouts_that_are_not_linear(text: str, shape: tuple[int, ...], reason: str):
    with pytest.raises(LayoutError, match=reason):
        TRITON.print(Format.parse(text).bind(shape))
