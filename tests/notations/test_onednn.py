"""Tags and blocking descriptors, against the real library."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS
from layout_ir.notations.onednn import BlockingDesc, tag_of
from tests.oracles import onednn

ALIASES: dict[str, str] = json.loads(
    (Path(__file__).parents[1] / "cases/onednn_tag_aliases.json").read_text()
)
MISNAMED = ("OhwI24o", "OhwI32o", "gOhwI24o", "gOhwI32o", "gIOhw2i8o16i2o", "gIOdhw2i8o16i2o")

library = pytest.mark.skipif(onednn.available() is not None, reason=str(onednn.available()))
execution = pytest.mark.skipif(onednn.executes() is not None, reason=str(onednn.executes()))


def shapes_for(rank: int, count: int, rng: random.Random) -> list[tuple[int, ...]]:
    """Random shapes with extents of 0 and 1 among them."""
    high = {1: 400, 2: 70, 3: 40, 4: 20, 5: 9, 6: 6}.get(rank, 3)
    return [
        tuple(rng.choice([1, rng.randint(1, high), rng.randint(0, high)]) for _ in range(rank))
        for _ in range(count)
    ]


def as_desc(found: onednn.Described) -> BlockingDesc:
    return BlockingDesc(
        found.dims,
        found.padded_dims,
        found.padded_offsets,
        found.offset0,
        found.strides,
        found.inner_blks,
        found.inner_idxs,
    )


@library
def test_every_tag_of_the_library_has_its_descriptor_on_random_shapes():
    rng = random.Random(20260)
    tags = onednn.tags()
    assert len(tags) >= 700
    compared = 0
    for tag in tags:
        format = Format.from_tag(tag)
        for dims in shapes_for(format.rank, 8, rng):
            real = onednn.Desc.from_tag(dims, tag).described()
            layout = format.bind(dims)
            desc = BlockingDesc.of(layout)
            assert desc == as_desc(real), tag
            assert desc.get_size("f32") == real.size, (tag, dims)
            assert layout.padded_shape == real.padded_dims
            back = as_desc(real).layout()
            assert BlockingDesc.of(back) == desc
            assert back.same_contract(layout)
            compared += 1
    assert compared == 8 * len(tags)


@library
def test_every_tag_is_found_again_from_its_descriptor():
    rng = random.Random(7)
    for tag in onednn.tags():
        format = Format.from_tag(tag)
        assert tag_of(format) == tag
        for dims in shapes_for(format.rank, 4, rng):
            layout = format.bind(dims)
            assert tag_of(layout) == tag
            # From numbers alone other tags may hold too; what comes out must be the library's same descriptor or map.
            found = tag_of(BlockingDesc.of(layout).layout())
            assert Format.from_tag(found).bind(dims).same_store(layout), (tag, found, dims)


@library
def test_every_alias_means_its_canonical_tag():
    known = onednn.tags()
    assert len(ALIASES) == 798
    for alias, tag in ALIASES.items():
        assert tag in known
        assert Format.from_tag(alias).factors == Format.from_tag(tag).factors, alias


def test_names_that_contradict_their_letters_follow_the_library():
    for alias in MISNAMED:
        assert Format.from_tag(alias).factors == Format.from_tag(ALIASES[alias]).factors
    # By its letters this name blocks i, which it does not.
    assert str(Format.from_tag("OhwI24o")) == "(o, i, h, w) : [o, h, w, i, o:24], pad = zero"


@library
def test_strided_descriptors_agree_in_size():
    cases = [
        ((3, 4), (10, 1)),
        ((2, 3), (10, 2)),
        ((3, 1), (10, 2)),
        ((2, 4), (0, 0)),
        ((2, 0, 3), (9, 3, 1)),
        ((5,), (3,)),
    ]
    for dims, strides in cases:
        real = onednn.Desc.from_strides(dims, strides).described()
        assert as_desc(real).get_size("f32") == real.size, (dims, strides)
        assert BlockingDesc.of(as_desc(real).layout()) == as_desc(real)


@library
def test_strides_are_refused_where_the_library_refuses_them():
    rng = random.Random(3)
    taken = refused = 0
    for _ in range(3000):
        rank = rng.randint(1, 4)
        dims = tuple(
            rng.choice((0, 1, 2, 3, 4)) if rng.random() < 0.1 else rng.randint(1, 4) for _ in range(rank)
        )
        strides = [0] * rank
        running = 1
        for dim in rng.sample(range(rank), rank):
            strides[dim] = running * rng.choice((1, 1, 1, 2)) + rng.choice((0, 0, 0, 1, -1, -2))
            running = max(strides[dim] * dims[dim], 1)
        try:
            real = onednn.Desc.from_strides(dims, strides).described()
        except onednn.OneDNNError:
            real = None
        try:
            ours = BlockingDesc(dims, dims, (0,) * rank, 0, tuple(strides))
        except LayoutError as error:
            assert "oneDNN takes no" in str(error)
            ours = None
        assert (ours is None) == (real is None), (dims, strides)
        if ours is not None and real is not None:
            assert ours == as_desc(real)
            assert ours.get_size("f32") == real.size, (dims, strides)
            taken += 1
        else:
            refused += 1
    assert taken > 500
    assert refused > 500


@library
def test_submemory_descriptors_are_read_where_the_library_makes_them():
    parent = onednn.Desc.from_tag((2, 24, 6, 4), "aBcd8b")
    whole = Format.from_tag("nChw8c").bind((2, 24, 6, 4))
    compared = 0
    for starts in product((0, 1), (0, 8, 16), (0, 2), (0, 1)):
        sizes = tuple(d - s for d, s in zip((2, 24, 6, 4), starts, strict=True))
        try:
            real = parent.submemory(sizes, starts).described()
        except onednn.OneDNNError:
            continue
        ours = whole.slice(starts, sizes)
        assert as_desc(real).layout().same_map(ours), (starts, sizes)
        assert BlockingDesc.of(ours) == as_desc(real), (starts, sizes)
        compared += 1
    assert compared >= 20


@execution
def test_reorders_of_the_library_into_tags_read_back_and_pad_with_zeros():
    rng = random.Random(11)
    by_rank = [tag for tag in onednn.tags() if Format.from_tag(tag).rank <= 5]
    chosen = rng.sample(by_rank, 260)
    done = 0
    for tag in chosen:
        format = Format.from_tag(tag)
        high = {1: 60, 2: 40, 3: 24, 4: 12, 5: 7}[format.rank]
        dims = tuple(rng.randint(1, high) for _ in range(format.rank))
        layout = format.bind(dims)
        if layout.extent > 1 << 20:
            dims = tuple(min(d, 4) for d in dims)
            layout = format.bind(dims)
        plain = onednn.Desc.from_tag(dims, "abcde"[: format.rank])
        target = onednn.Desc.from_tag(dims, tag)
        values = np.arange(1, layout.nelems + 1, dtype=np.float32)
        out = np.full(target.size // 4, np.nan, np.float32)
        onednn.reorder(plain, values, target, out)
        assert layout.extent == out.size
        assert np.array_equal(out[layout.addresses()].ravel(), values), (tag, dims)
        pads = np.ones(out.size, bool)
        pads[layout.addresses()] = False
        assert not out[pads].any(), (tag, dims)
        assert layout.pad == ("zero" if pads.any() else layout.pad)
        done += 1
    assert done >= 200


@library
def test_equal_descriptors_have_equal_layouts():
    """Where the library calls two descriptors equal the elements lie at the same addresses; the reverse is weaker."""
    tags = ["abcd", "acdb", "bcda", "aBcd8b", "aBcd16b", "ABcd16a16b", "ABcd4b16a4b"]
    equal = found = 0
    for dims in ((1, 1, 1, 1), (2, 1, 5, 4), (2, 8, 1, 1), (16, 16, 1, 1), (2, 16, 3, 1), (1, 8, 1, 1)):
        for a, b in product(tags, tags):
            same = onednn.Desc.from_tag(dims, a) == onednn.Desc.from_tag(dims, b)
            ours = Format.from_tag(a).bind(dims).same_store(Format.from_tag(b).bind(dims))
            assert ours or not same, (dims, a, b)
            equal += same
            found += ours
    assert found > equal, "canonical digits see more sameness than numbers"


def test_blocked_tags_of_one_block_or_one_pixel_are_plain_strides():
    for tag in ("nChw8c", "nChw16c", "nhwc"):
        for shape in ((1, 8, 3, 3), (2, 16, 1, 1), (2, 5, 3, 2)):
            layout = Format.from_tag(tag).bind(shape)
            again = NOTATIONS["torch"].parse(NOTATIONS["torch"].print(layout))
            assert isinstance(again, Layout)
            assert again.same_map(layout)


def test_negative_two_blocks_of_channels_are_no_strides():
    with pytest.raises(
        LayoutError, match=r"one stride per dim, but dim 'c' of extent 16 has the digits .*\(8, 72\)"
    ):
        NOTATIONS["torch"].print(Format.from_tag("nChw8c").bind((1, 16, 3, 3)))


def test_descriptor_of_a_digit_list_with_a_whole_dim_inside():
    layout = Format.parse("(a, b, c) : [a, c, a:2, b]").bind((6, 3, 5))
    desc = BlockingDesc.of(layout)
    assert (desc.inner_blks, desc.inner_idxs) == ((2, 3), (0, 1))
    assert desc.strides == (30, 3, 6)
    assert desc.layout().same_store(layout)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(a, b) : [a, b, a:2*8, b:4]", "inner blocks are dense"),
        ("(r, c) : [c, r*1024, r:4*64, r:4*256, r:2, c:32]", "inner blocks are dense"),
        ("(a, b) : [a*-4, b], offset = 12", "negative"),
    ],
)
def test_negative_layouts_that_are_no_descriptor_say_why(text: str, reason: str):
    layout = Format.parse(text).bind((64, 32) if "r" in text else (8, 8))
    with pytest.raises(LayoutError, match=reason):
        BlockingDesc.of(layout)


def test_negative_pads_that_are_not_zero_are_refused():
    layout = Format.parse("(n, c) : [n, c, c:8], pad = 31").bind((2, 17))
    for name in ("tag", "onednn"):
        with pytest.raises(LayoutError, match=r"pads hold 31, those of .* hold zeros"):
            NOTATIONS[name].print(layout)


BLOCKED = {
    "dims": (17,), "padded_dims": (24,), "padded_offsets": (0,), "offset0": 0, "strides": (8,),
    "inner_blks": (8,), "inner_idxs": (0,),
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"strides": (-1,)}, "negative"),
        ({"padded_dims": (17,)}, "no multiple"),
        ({"padded_dims": (16,)}, "does not lie at 0 in a padded extent of 16"),
        ({"dims": (17, 2)}, "2 != 1"),
        ({"inner_idxs": (1,)}, r"dims lie in \[0, 1\)"),
        ({"inner_blks": (8, 2)}, "inner_blks has 2 entries, inner_idxs has 1"),
        ({"dims": ()}, "1 to 12 dims, not 0"),
    ],
)
def test_negative_numbers_that_are_no_descriptor(changes: dict[str, object], reason: str):
    BlockingDesc(**BLOCKED)  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match=reason):
        BlockingDesc(**{**BLOCKED, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "no JSON object but list"),
        ("{", "no JSON object"),
        ('{"dims": [2]}', "lacks the field 'strides'"),
        ('{"dims": [2], "strides": ["1"]}', "not an integer"),
        ('{"dims": [2], "strides": 1}', "not a list"),
        ('{"dims": [2], "strides": [1], "flags": 0}', "unknown field 'flags'"),
    ],
)
def test_negative_descriptor_texts_say_what_is_wrong(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        NOTATIONS["onednn"].parse(text)


def test_a_desc_text_reads_back_to_the_same_layout():
    layout = Format.from_tag("OIhw4i16o4i").bind((20, 18, 3, 2))
    again = NOTATIONS["onednn"].parse(NOTATIONS["onednn"].print(layout))
    assert isinstance(again, Layout)
    assert again.same_contract(layout)
    assert layout.address((17, 5, 2, 1)) == 4421


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("src:f32::blocked:abcd:224x56x7x1:f0", "states strides, 224x56x7x1"),
        ("src:f99::blocked:abcd::f0", "unknown element type 'f99'"),
        ("wei:f32::blocked:nChw0c::f0", "block of 0"),
        ("format_tag::nChw0c", "block of 0"),
        ("src:f32::wino:abcd::f0", "no list of letters"),
    ],
)
def test_negative_printed_descriptors(text: str, message: str):
    notation = NOTATIONS["tag"]
    with pytest.raises(LayoutError, match=message) as caught:
        notation.element_type(text)
        notation.parse(text)
    if "0c" in text:
        assert caught.value.span is not None and text[slice(*caught.value.span)].startswith("0")
