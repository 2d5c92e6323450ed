"""Tensor descriptors: oneDNN's where it is right, the algebra's where it is not."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from layout_ir.algebra.format import Format
from layout_ir.arrays.descriptor import TensorDesc
from layout_ir.errors import LayoutError
from tests.layouts import random_format, random_layout, random_shape, random_tag, rngs
from tests.oracles import onednn

needs_onednn = pytest.mark.skipif(onednn.available() is not None, reason=str(onednn.available()))


def _tag(rng: Random, rank: int) -> str:
    return random_tag(rng, rank, (2, 4, 8), 2)[0]


# --- Creation ---


def test_creation_by_tag_text_format_layout_and_strides_is_the_same_value():
    shape, format = (2, 16, 5, 4), Format.from_tag("nhwc")
    by = [
        TensorDesc(shape, "f32", "nhwc"),
        TensorDesc(shape, "float32", "(n, c, h, w) : [n, h, w, c]"),
        TensorDesc(shape, "f32", format),
        TensorDesc(shape, "f32", format.bind(shape)),
        TensorDesc(shape, "f32", strides=(320, 1, 64, 16)),
    ]
    for left, right in itertools.combinations(by, 2):
        assert left == right and hash(left) == hash(right)


def test_the_numbers_of_a_blocked_descriptor():
    d = TensorDesc((2, 17, 5, 4), "f32", "nChw8c")
    assert (d.strides, d.inner_blocks, d.inner_dims) == ((480, 160, 32, 8), (8,), (1,))
    assert (d.padded_shape, d.padded_offsets) == ((2, 24, 5, 4), (0, 0, 0, 0))
    assert (d.offset, d.nbytes, d.nelems) == (0, 3840, 680)
    assert not d.is_zero and not d.is_any and not d.is_runtime


@needs_onednn
def test_tags_have_the_numbers_of_the_library_on_500_random_descriptors():
    rng = Random(12)
    for _ in range(500):
        rank = rng.randint(1, 5)
        tag, shape = _tag(rng, rank), random_shape(rng, rank)
        ours, theirs = TensorDesc(shape, "f32", tag), onednn.Desc.from_string_tag(shape, tag).described()
        assert ours.padded_shape == theirs.padded_dims and ours.strides == theirs.strides
        assert (ours.inner_blocks, ours.inner_dims) == (theirs.inner_blks, theirs.inner_idxs)
        assert ours.nbytes == theirs.size


def test_no_layout_is_row_major():
    assert TensorDesc((2, 3), "f32") == TensorDesc((2, 3), "f32", "ab")


def test_any_is_equal_by_shape_and_type_and_has_no_numbers():
    d = TensorDesc((2, 3), "f32", "any")
    assert d.is_any and d == TensorDesc((2, 3), "f32", "any") != TensorDesc((2, 4), "f32", "any")
    assert d != TensorDesc((2, 3), "f32") and d.nbytes == 0
    assert d.with_layout("ba").strides == (1, 2)
    with pytest.raises(LayoutError, match="its layout is 'any', choose one"):
        _ = d.layout
    with pytest.raises(LayoutError, match="its layout is 'any'"):
        _ = d.strides


def test_the_zero_descriptor_is_no_tensor():
    zero = TensorDesc()
    assert zero.is_zero and zero.nbytes == 0 and zero == TensorDesc() and zero != TensorDesc((), "f32")
    assert str(zero) == "the zero descriptor"
    with pytest.raises(LayoutError, match="it is the zero descriptor"):
        _ = zero.layout


def test_a_scalar_and_an_empty_tensor_are_tensors():
    assert TensorDesc((), "f32").nbytes == 4 and not TensorDesc((), "f32").is_zero
    empty = TensorDesc((2, 0, 4), "f32", "aBc8b")
    assert (empty.nbytes, empty.is_zero) == (0, False)
    # Strides of empty tensors are no difference, which the library sees as one.
    assert empty == TensorDesc((2, 0, 4), "f32", "acb")


@pytest.mark.parametrize("strides", [(4, 1), (5, 1), (1, 2), (1, 3), (8, 2), (0, 1), (1, 0), (0, 0)])
def test_strides_that_keep_elements_apart(strides: tuple[int, int]):
    assert TensorDesc((2, 4), "f32", strides=strides).strides == strides


@needs_onednn
def test_strides_are_accepted_where_the_library_accepts_them():
    for shape in ((2, 4), (1, 3), (3, 1), (2, 2)):
        for strides in itertools.product(range(6), repeat=2):
            try:
                onednn.Desc.from_strides(shape, strides)
            except onednn.OneDNNError:
                continue
            assert TensorDesc(shape, "f32", strides=strides).strides == strides


def test_backward_strides_need_an_offset():
    d = TensorDesc((4,), "f32", strides=(-1,), offset=3)
    assert [d.layout.address((k,)) for k in range(4)] == [3, 2, 1, 0] and d.nbytes == 16
    with pytest.raises(
        LayoutError, match="reach address -3: an offset of at least 3 keeps them in the buffer"
    ):
        TensorDesc((4,), "f32", strides=(-1,))


@pytest.mark.parametrize(
    "arguments, match",
    [
        (((2, -3), "f32"), "extent -3 of shape 2x-3 is negative"),
        (((2, 3),), "a descriptor of shape 2x3 needs an element type"),
        (((2, 3), "f31"), "unknown element type 'f31'"),
        (((2, 3), "f32", "nchw"), r"rank mismatch between \(n, c, h, w\).* and shape 2x3: 4 != 2"),
        (((2, 3), "f32", "abq"), "tag 'abq'"),
        (((2, 3), "f32", Format.from_tag("ab").bind((3, 2))), "has shape 3x2, the descriptor has 2x3"),
        ((3, "f32", "any"), "shape 3 is no row of integers"),
        (((2.5, 3), "f32", "any"), r"shape \(2.5, 3\) is no row of integers"),
        (((1 << 40, 1 << 40), "f32"), r"not below 2\^63"),
    ],
)
def test_negative_descriptors_that_do_not_exist(arguments: tuple[Any, ...], match: str):
    with pytest.raises(LayoutError, match=match):
        TensorDesc(*arguments)
    assert TensorDesc(*arguments, allow_empty=True).is_zero


@pytest.mark.parametrize(
    "dtype, options, match",
    [
        ("f32", {"strides": (3,)}, "rank mismatch between strides 3 and shape 2x3: 1 != 2"),
        ("f32", {"strides": (3, 1), "layout": "ab"}, "are both given"),
        ("f32", {"strides": (1, 1)}, "strides 1x1 of shape 2x3 put several elements at one address"),
        ("f32", {"strides": (1 << 62, 1 << 62)}, r"spans 13835058055282163713 elements: not below 2\^63"),
        ("f32", {"pad": "zp"}, "pad = zp is the quantized zero, which elements of f32 do not have"),
        ("f32", {"zero_point": 3}, "zero point 3 of f32: only integer types are quantized"),
        ("f32", {"scale": -1.0}, "scale -1.0 is not a positive number"),
        ("i8", {"layout": "aB4b", "pad": 0.5}, "pad = 0.5 is no value of element type i8"),
        ("i8", {"layout": "aB4b", "pad": 200}, "integers from -128 to 127"),
        ("i8", {"layout": "aB4b", "pad": float("inf")}, "pad = inf is no value of element type i8"),
    ],
)
def test_negative_options_that_contradict(dtype: str, options: dict[str, Any], match: str):
    with pytest.raises(LayoutError, match=match):
        TensorDesc((2, 3), dtype, **options)


# --- Quantization and pads ---


@pytest.mark.parametrize(
    "options, value",
    [
        ({"pad": "zp", "zero_point": 7}, 7),
        ({"pad": 31}, 31),
        ({"pad": "zero", "zero_point": 7}, 0),
        ({"pad": "undef"}, None),
        ({}, 0),
    ],
)
def test_pad_value_is_what_the_policy_means_for_the_type(options: dict[str, Any], value: int | None):
    assert TensorDesc((2, 3), "i8", "aB4b", **options).pad_value == value


def test_scale_zero_point_and_policy_are_part_of_equality():
    plain = TensorDesc((2, 3), "i8", "aB4b")
    assert plain != TensorDesc((2, 3), "i8", "aB4b", scale=0.5)
    assert plain != TensorDesc((2, 3), "i8", "aB4b", zero_point=1)
    assert plain != TensorDesc((2, 3), "i8", "aB4b", pad=31)
    assert TensorDesc((2, 4), "i8", "aB4b") == TensorDesc((2, 4), "i8", "aB4b", pad=31)


# --- Equality ---


@pytest.mark.parametrize(
    "shape, left, right",
    [
        ((2, 8, 3, 3), "nChw8c", "nhwc"),  # one block is a plain tensor
        ((2, 32, 1, 1), "aBcd16b", "abcd"),  # unit space
        ((4, 1, 5, 5), "nchw", "nhwc"),  # one channel
        ((16, 16, 2, 2), "ABcd16a16b", "ABcd16a16b"),
    ],
)
def test_physically_identical_descriptors_are_equal(shape: tuple[int, ...], left: str, right: str):
    assert TensorDesc(shape, "f32", left) == TensorDesc(shape, "f32", right)


def test_negative_equality_of_other_pads():
    assert TensorDesc((2, 5, 3, 3), "f32", "nChw8c") != TensorDesc(
        (2, 5, 3, 3), "f32", strides=(72, 1, 24, 8)
    )


@needs_onednn
@given(rngs)
def test_descriptors_that_the_library_calls_equal_are_equal(rng: Random):
    shape = tuple(rng.choice((1, 1, 4, 8)) for _ in range(3))
    tags = [_tag(rng, 3) for _ in range(2)]
    theirs = [onednn.Desc.from_string_tag(shape, tag) for tag in tags]
    if theirs[0] == theirs[1]:
        assert TensorDesc(shape, "f32", tags[0]) == TensorDesc(shape, "f32", tags[1])


# --- Size ---


@pytest.mark.parametrize(
    "shape, strides, nbytes",
    [
        ((2, 3), (10, 2), 60),
        ((3, 1), (10, 2), 84),
        ((2, 4), (0, 0), 4),
        ((3, 4), (6, 1), 64),
        ((2, 0), (5, 1), 0),
    ],
)
def test_size_reaches_to_the_last_element(shape: tuple[int, ...], strides: tuple[int, ...], nbytes: int):
    assert TensorDesc(shape, "f32", strides=strides).nbytes == nbytes


@given(rngs)
def test_every_position_lies_inside_the_size(rng: Random):
    rank = rng.randint(1, 4)
    d = TensorDesc(random_shape(rng, rank, 200), "f32", random_format(rng, rank, halo=True).with_pad("zero"))
    addresses = d.layout.addresses(padded=True)
    assert addresses.min() >= 0 and (int(addresses.max()) + 1) * 4 == d.nbytes


def test_four_bit_types_take_half_a_byte():
    assert TensorDesc((3, 3), "i4").nbytes == 5 and TensorDesc((3, 3), "u4").nbytes == 5


# --- Views ---


@given(rngs)
def test_submemory_reshape_and_permute_are_views_of_the_addresses(rng: Random):
    rank = rng.randint(1, 4)
    d = TensorDesc(random_shape(rng, rank, 200), "f32", _tag(rng, rank))
    shape = d.layout.shape
    starts = [rng.randrange(x) for x in shape]
    sizes = [rng.randint(1, x - s) for s, x in zip(starts, shape, strict=True)]
    box = tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))
    assert np.array_equal(d.submemory(sizes, starts).layout.addresses(), d.layout.addresses()[box])
    order = rng.sample(range(rank), rank)
    assert np.array_equal(d.permute(order).layout.addresses(), d.layout.addresses().transpose(order))
    assert d.permute(order).permute_axes(order) == d
    with_unit = (*shape[:1], 1, *shape[1:])
    assert np.array_equal(d.reshape(with_unit).layout.addresses(), d.layout.addresses().reshape(with_unit))


@needs_onednn
@given(rngs)
def test_permute_axes_scatters_as_the_library_does(rng: Random):
    rank = rng.randint(1, 4)
    tag, shape, perm = _tag(rng, rank), random_shape(rng, rank, 200), rng.sample(range(rank), rank)
    theirs = onednn.Desc.from_string_tag(shape, tag).permute_axes(perm).described()
    ours = TensorDesc(shape, "f32", tag).permute_axes(perm)
    assert (ours.shape, ours.strides, ours.inner_blocks) == (theirs.dims, theirs.strides, theirs.inner_blks)


@needs_onednn
def test_submemory_answers_wherever_the_library_does_and_more():
    rng, library = Random(3), 0
    for _ in range(300):
        tag, shape = _tag(rng, 3), random_shape(rng, 3, 300)
        starts = [rng.randrange(x) for x in shape]
        sizes = [rng.randint(1, x - s) for s, x in zip(starts, shape, strict=True)]
        ours = TensorDesc(shape, "f32", tag).submemory(sizes, starts)
        assert ours.shape == tuple(sizes)
        try:
            theirs = onednn.Desc.from_string_tag(shape, tag).submemory(sizes, starts).described()
        except onednn.OneDNNError:
            continue
        library += 1
        assert ours.layout.address((0, 0, 0)) == theirs.offset0
    print(f"submemory of 300 boxes: ours 300, oneDNN {library}")
    assert 0 < library < 300


def test_a_box_inside_promises_no_pads():
    d = TensorDesc((1, 17, 2, 2), "f32", "nChw8c")
    assert d.submemory((1, 9, 2, 2), (0, 8, 0, 0)).pad_value == 0
    assert d.submemory((1, 12, 2, 2), (0, 0, 0, 0)).pad_value is None


def test_reshape_is_not_fooled_by_padded_unit_dims():
    d = TensorDesc((2, 1, 6, 1), "f32", "aBcd4b")
    assert d.reshape((1, 12)).layout.addresses().tolist() == [[4 * k for k in range(12)]]


def test_quantization_survives_views():
    d = TensorDesc((4, 6), "ui8", "ab", scale=0.25, zero_point=128)
    for view in (d.submemory((2, 6), (1, 0)), d.reshape((24,)), d.permute((1, 0)), d.with_layout("ba")):
        assert (view.scale, view.zero_point) == (0.25, 128)


@pytest.mark.parametrize(
    "method, arguments, match",
    [
        ("submemory", ((2, 9), (0, 0)), "leaves dim 1 of extent 6"),
        ("reshape", ((5, 5),), "24 != 25 elements"),
        ("permute", ((0, 0),), "is not a permutation"),
        ("permute_axes", ((0, 2),), r"\[0, 2\] is not a permutation of the 2 dims of 4x6 f32"),
        ("permute_axes", (4,), "perm 4 is no row of integers"),
    ],
)
def test_negative_views_that_do_not_exist(method: str, arguments: tuple[Any, ...], match: str):
    d = TensorDesc((4, 6), "f32")
    with pytest.raises(LayoutError, match=match):
        getattr(d, method)(*arguments)
    assert getattr(d, method)(*arguments, allow_empty=True).is_zero
    with pytest.raises(LayoutError, match="its layout is 'any'"):
        getattr(TensorDesc((4, 6), "f32", "any"), method)(*arguments)


# --- Run time ---


def test_open_extents_leave_open_what_depends_on_them():
    d = TensorDesc((2, None, 3, 4), "f32", "aBcd8b")
    assert d.is_runtime and d.strides == (None, 96, 32, 8) and d.inner_blocks == (8,)
    assert d.padded_shape == (2, None, 3, 4)
    assert d.at((2, 17, 3, 4)) == TensorDesc((2, 17, 3, 4), "f32", "aBcd8b")


@pytest.mark.parametrize(
    "layout",
    [
        "abcd", "acdb", "aBcd8b", "ABcd16b16a2b", "(a, b, c, d) : [a, b, c, d*32768, b:30000], lo = [0, 3, 0, 0]",
        "(a, b, c, d) : [a:9, b, c, d]", "(a, b, c, d) : [d, c, b@lane, a, d:2]",
        "(a, b, c, d) : [a, b, c, d | c:8, d:4]",
    ],
)  # fmt: skip
@pytest.mark.parametrize("open_dims", [(0,), (1,), (3,), (0, 2), (0, 2, 3)])
def test_open_numbers_are_those_that_differ_between_extents(layout: str, open_dims: tuple[int, ...]):
    def shape(extent: int) -> list[int]:
        return [extent if d in open_dims else x for d, x in enumerate((2, 17, 3, 4))]

    d = TensorDesc([None if k in open_dims else x for k, x in enumerate(shape(1))], "f32", layout)
    rests = [f for f in Format.of(layout).factors if f.size is None]
    for name in ("strides", "padded_shape"):
        known = getattr(d, name)
        # Far apart, so that every rest of a dynamic dim has another count; only what has no rest must fit its sizes.
        for small, large in ((1, 40_000), (20_000, 60_000)) if len(rests) == 4 else ((5, 8), (6, 9)):
            numbers = [_numbers(d.at(shape(extent)), name) for extent in (small, large)]
            for a, b, number in zip(*numbers, known, strict=True):
                assert number == (a if a == b else None)
    if "@" not in layout:  # what a descriptor of oneDNN has no word for
        assert d.inner_blocks == d.at(shape(5)).inner_blocks and d.inner_dims == d.at(shape(5)).inner_dims


def _numbers(d: TensorDesc, name: str) -> tuple[int, ...]:
    """Strides by the factors of the layout: of every dim, that of the coarsest."""
    if name == "padded_shape":
        return d.layout.padded_shape
    return tuple(next(f.stride for f in d.layout.factors if f.dim == k) for k in range(d.rank))


def test_any_number_of_extents_may_be_open():
    d = TensorDesc((None,) * 8, "f32", "abcdefgh")
    assert d.strides == (None,) * 7 + (1,) and d.padded_shape == (None,) * 8 and d.inner_blocks == ()


@pytest.mark.parametrize(
    "layout, message",
    [
        ("(a, b) : [b, b:4, a]", "a block of 4 of 'b' lies outside of a dynamic extent"),
        ("(a, b) : [a, b, b:4*2]", "is no blocked layout: its blocks are no dense tile"),
    ],
)
def test_negative_open_extents_without_inner_blocks(layout: str, message: str):
    d = TensorDesc((None, 8), "f32", layout)
    for name in ("strides", "inner_blocks", "inner_dims"):
        with pytest.raises(LayoutError, match=message):
            getattr(d, name)


def test_open_strides_are_given_later():
    d = TensorDesc((2, 3), "f32", strides=(None, 1))
    assert d.is_runtime and d.strides == (None, 1) and d.inner_blocks == ()
    assert d.at((2, 3), (7, 1)) == TensorDesc((2, 3), "f32", strides=(7, 1))


def test_negative_run_time_values_that_contradict():
    d = TensorDesc((2, None), "f32", "ab")
    with pytest.raises(LayoutError, match=r"extents 3x4 do not fit 2x\?, where \? is dynamic"):
        d.at((3, 4))
    with pytest.raises(LayoutError, match="known at run time only"):
        _ = d.nbytes
    with pytest.raises(LayoutError, match="known at run time only"):
        d.reshape((8,))
    with pytest.raises(LayoutError, match=r"strides 8x2 do not fit \?x1"):
        TensorDesc((2, 3), "f32", strides=(None, 1)).at((2, 3), (8, 2))
    with pytest.raises(LayoutError, match="give strides as well"):
        TensorDesc((2, 3), "f32", strides=(None, 1)).at((2, 3))
    with pytest.raises(LayoutError, match="has no dynamic strides"):
        d.at((2, 4), (4, 1))


def test_random_arguments_give_a_descriptor_or_a_layout_error():
    rng, made = Random(77), 0
    numbers = (0, 1, 2, 3, 8, 17, -1, 1 << 31, 1 << 62, 1 << 63, 1 << 64, None)
    for _ in range(20_000):
        rank = rng.randint(0, 3)
        shape = [rng.choice(numbers if rng.random() < 0.3 else (1, 2, 3, 8)) for _ in range(rank)]
        options: dict[str, Any] = {}
        if rng.random() < 0.4:
            options["strides"] = [rng.choice(numbers) for _ in range(rng.choice((rank, rank, rank + 1)))]
            options["offset"] = rng.choice((0, 5, -5, 1 << 63))
        else:
            options["layout"] = rng.choice(
                ("ab", "ba", "aB8b", "Ab3a", "any", "", "nchw", "(a) : [a*0]", None, "(a")
            )
        options["pad"] = rng.choice((None, None, "zp", "undef", 31, 0.5, -1e300, "none"))
        options["zero_point"] = rng.choice((0, 0, 3, 300))
        try:
            d = TensorDesc(shape, rng.choice(("f32", "i8", "u4", "bool", "f31")), **options)
            assert str(d) and hash(d) is not None and d == TensorDesc(shape, d.dtype, **options)
            assert d.is_any or d.is_runtime or d.nbytes >= 0
            assert d.is_any or len(d.strides) == rank
            made += 1
        except LayoutError:
            pass
    assert 1_000 < made < 19_000


def test_descriptors_are_values():
    d = TensorDesc((2, 3), "f32")
    with pytest.raises(AttributeError):
        d.shape = (3, 2)  # type: ignore[misc]
    assert len({d, TensorDesc((2, 3), "f32", "ab"), TensorDesc((2, 3), "f32", "ba")}) == 2
    assert str(TensorDesc((2, None), "u8", "ab")) == "2x? ui8 (a, b) : [a, b]"


# --- Offset and pad, however the layout is given ---


def _spelled(shape: tuple[int, ...]) -> list[Any]:
    tag = "ab"
    return [tag, "(a, b) : [a, b]", Format.from_tag(tag), Format.from_tag(tag).bind(shape), None]


def test_an_offset_moves_every_layout():
    shape = (2, 3)
    want = 5 + np.arange(6).reshape(shape)
    for layout in _spelled(shape):
        d = TensorDesc(shape, "f32", layout, offset=5)
        assert d.offset == 5 and d.nbytes == 4 * 11 and np.array_equal(d.layout.addresses(), want), layout
    assert TensorDesc(shape, "f32", strides=(3, 1), offset=5).offset == 5
    stated = "(a, b) : [a, b], offset = 5"
    assert TensorDesc(shape, "f32", stated).offset == TensorDesc(shape, "f32", stated, offset=5).offset == 5


@pytest.mark.parametrize("layout", ["nc", "(n, c) : [n, c:4]", None])
def test_an_offset_and_a_pad_wait_for_open_extents(layout: str | None):
    d = TensorDesc((None, 4), "f32", layout, offset=7, pad=3)
    assert (d.offset, d.pad_value) == (7, 3)
    assert (d.at((2, 4)).offset, d.at((2, 4)).pad_value) == (7, 3)
    assert d != TensorDesc((None, 4), "f32", layout, pad=3) and d != TensorDesc(
        (None, 4), "f32", layout, offset=7
    )


def test_an_offset_and_a_pad_wait_for_open_strides():
    d = TensorDesc((2, None), "f32", strides=(None, -1), offset=9, pad="zero")
    assert (d.offset, d.pad_value) == (9, 0) and "offset = 9, pad = zero" in str(d)
    bound = d.at((2, 3), (5, -1))
    assert bound.layout.addresses().tolist() == [[9, 8, 7], [14, 13, 12]] and bound.pad_value == 0
    assert d != TensorDesc((2, None), "f32", strides=(None, -1), pad="zero")
    assert TensorDesc((None,), "f32", strides=(1,)).pad_value is None


def test_negative_two_offsets():
    stated = Format.parse("(a, b) : [a, b], offset = 3")
    for layout in (stated, str(stated), stated.bind((2, 3))):
        with pytest.raises(
            LayoutError, match=r"offset 5 and layout .* which states offset 3, are both given"
        ):
            TensorDesc((2, 3), "f32", layout, offset=5)


@pytest.mark.parametrize("lost", [{"offset": 5}, {"pad": "zero"}])
def test_negative_an_offset_or_pad_of_any_layout(lost: dict[str, Any]):
    with pytest.raises(LayoutError, match=r"layout 'any' is still to be chosen, so .* would be lost"):
        TensorDesc((2, 3), "f32", "any", **lost)


def test_negative_a_pad_that_open_extents_cannot_hold():
    for options in ({"layout": "nc"}, {"strides": (None, 1)}):
        with pytest.raises(LayoutError, match="pad = 300 is no value of element type i8"):
            TensorDesc((None, 4), "i8", pad=300, **options)  # type: ignore[arg-type]


def evaluated(text: str) -> TensorDesc:
    return eval(text, {"TensorDesc": TensorDesc})


@given(rngs)
def test_repr_evaluates_to_an_equal_descriptor(rng: Random):
    layout = random_layout(rng)
    quantized = rng.choice(({}, {"scale": 0.1}, {"scale": 2.0, "zero_point": -3}))
    holds_number = not isinstance(layout.pad, str)
    options: dict[str, Any] = {} if holds_number else quantized
    desc = TensorDesc(layout.shape, "f32" if holds_number else "i32", layout, **options)
    assert evaluated(repr(desc)) == desc


@pytest.mark.parametrize(
    "desc",
    [
        TensorDesc(),
        TensorDesc((), "f32"),
        TensorDesc((2, 17), "bf16", "any"),
        TensorDesc((None, 17, 3, 3), "ui8", "nChw8c", pad=4),
        TensorDesc((2, None), "f32", strides=(None, 1), offset=3, pad=float("-inf")),
        TensorDesc((2, 3), "f32", strides=(10, 2)),
    ],
    ids=str,
)
def test_repr_of_every_kind_of_descriptor_evaluates_to_it(desc: TensorDesc):
    assert evaluated(repr(desc)) == desc
    assert evaluated(repr(desc)).is_any == desc.is_any


def test_repr_is_what_one_writes():
    assert repr(TensorDesc((2, 3), "f32", "ba")) == 'TensorDesc((2, 3), "f32", "(a, b) : [b, a]")'
