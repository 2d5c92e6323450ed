"""Tags: the names of formats."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given

from layout_ir.algebra.format import Format
from layout_ir.algebra.tag import name_of, names_for
from layout_ir.errors import LayoutError
from tests.layouts import random_shape, random_tag, rngs


@given(rngs)
def test_a_tag_is_numpy_padding_splitting_and_transposing(rng: Random):
    rank = rng.randint(1, 4)
    tag, order, blocks = random_tag(rng, rank)
    shape = random_shape(rng, rank, 200)
    layout = Format.from_tag(tag).bind(shape)
    # Split every padded dim into (rest, *blocks) of its own, then move the pieces where the tag puts them.
    of_dim = [[k for k, (_, d) in enumerate(blocks) if d == dim] for dim in range(rank)]
    sizes = [int(np.prod([blocks[k][0] for k in own])) for own in of_dim]
    padded = [-(-x // s) * s for x, s in zip(shape, sizes, strict=True)]
    split: list[int] = []
    place: dict[tuple[str, int], int] = {}
    for dim, own in enumerate(of_dim):
        place["outer", dim] = len(split)
        split.append(padded[dim] // sizes[dim])
        for k in own:
            place["block", k] = len(split)
            split.append(blocks[k][0])
    memory = [place["outer", d] for d in order] + [place["block", k] for k in range(len(blocks))]
    physical = np.arange(int(np.prod(padded))).reshape([split[p] for p in memory])
    logical = physical.transpose(np.argsort(memory)).reshape(padded)
    assert np.array_equal(layout.addresses(), logical[tuple(slice(0, x) for x in shape)])
    assert layout.padded_shape == tuple(padded)


@given(rngs)
def test_name_of_reads_back(rng: Random):
    tag, _, _ = random_tag(rng, rng.randint(1, 5))
    format = Format.from_tag(tag)
    assert name_of(format) == tag
    assert name_of(format.with_pad("undef")) == tag


@pytest.mark.parametrize(
    "tag", ["nchw", "nhwc", "chwn", "nChw8c", "OIhw4i16o4i", "gOIdhw16i16o", "ldigo", "x", "mk", "km"]
)
def test_domain_letters_keep_their_names(tag: str):
    assert name_of(Format.from_tag(tag)) == tag


def test_domain_letters_keep_the_logical_order_of_their_tensor():
    assert Format.from_tag("nhwc").names == ("n", "c", "h", "w")
    assert Format.from_tag("nhwc") == Format.from_tag("acdb")
    assert Format.from_tag("hwio").names == ("o", "i", "h", "w")


def test_blocked_tags_promise_zero_pads_and_plain_ones_nothing():
    assert Format.from_tag("nChw8c").pad == "zero" and Format.from_tag("nchw").pad == "undef"


def test_six_names_of_the_header_mean_what_the_library_does():
    assert Format.from_tag("OhwI24o") == Format.from_tag("Acdb24a")
    assert Format.from_tag("gIOdhw2i8o16i2o") == Format.from_tag("aBCdef2c8b16c2b")


def test_a_memory_order_is_not_its_tag():
    # The dims (n, h, w, c) stored in that order are row-major; the tag nhwc transposes the dims (n, c, h, w).
    assert name_of(Format.parse("(n, h, w, c) : [n, h, w, c]")) is None


@pytest.mark.parametrize(
    "text",
    [
        "(a, b) : [a*4, b]",
        "(a) : [a:4]",
        "(a, b) : [a, b], offset = 1",
        "(a) : [a | a:4]",
        "(A) : [A]",
        "(a1) : [a1]",
        "() : []",
    ],
)
def test_negative_formats_without_a_tag(text: str):
    assert name_of(Format.parse(text)) is None


@pytest.mark.parametrize(
    "tag, match, span",
    [
        ("", "it ends too early", (0, 1)),
        ("nchw8", "unexpected '8'", (4, 5)),
        ("nchw-", "unexpected '-'", (4, 5)),
        ("nChw\N{FULLWIDTH DIGIT EIGHT}c", "unexpected '\N{FULLWIDTH DIGIT EIGHT}'", (4, 5)),
        ("nCHW8c", "writes 'H' but dim 'h' is not blocked", (2, 3)),
        ("nchw8c", "writes 'c' but dim 'c' is blocked", (1, 2)),
        ("ncch", "names dim 'c' twice", (2, 3)),
        ("nChw8i", "blocks dim 'i', which 'nChw' does not name", (4, 6)),
        ("nChw0c", "has a block of 0: block sizes lie between 1 and", (4, 6)),
        ("nchq", "uses dims c, h, n, q: neither the first 4 letters of the alphabet nor one of", (0, 4)),
        ("nChw9999999999999999999c", "block sizes lie between 1 and", (4, 24)),
    ],
)
def test_negative_malformed_tags_name_the_place(tag: str, match: str, span: tuple[int, int]):
    with pytest.raises(LayoutError, match=match) as caught:
        Format.from_tag(tag)
    assert caught.value.span == span


def test_random_tags_give_a_format_or_a_layout_error():
    rng = Random(3)
    accepted = 0
    for _ in range(20_000):
        text = "".join(rng.choice("abcdABCDnchwNC0123489 -é٣") for _ in range(rng.randint(0, 10)))
        if rng.random() < 0.5:
            text = random_tag(rng, rng.randint(1, 5))[0] + text[:1]
        try:
            Format.from_tag(text)
            accepted += 1
        except LayoutError as error:
            assert error.span is not None
    assert accepted > 1_000


@pytest.mark.parametrize(
    "rank, names", [(0, ""), (1, "a"), (2, "nc"), (4, "nchw"), (5, "ncdhw"), (6, "abcdef")]
)
def test_names_for_a_rank(rank: int, names: str):
    assert "".join(names_for(rank)) == names


def test_names_beyond_the_alphabet_are_distinct():
    assert len(set(names_for(40))) == 40
