"""TVM layout strings against a table made with NumPy, index maps against Python's own evaluation of the formula."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS
from tests.layouts import random_layout

# Layout string, logical shape, and the stored array as NumPy makes it from a logical one (pads cut off by the shapes).
TABLE = [
    ("NCHW", (2, 3, 4, 5), (2, 3, 4, 5), (0, 1, 2, 3)),
    ("NHWC", (2, 3, 4, 5), (2, 3, 4, 5), (0, 2, 3, 1)),
    ("HWCN", (2, 3, 4, 5), (2, 3, 4, 5), (2, 3, 1, 0)),
    ("NCHW4c", (2, 8, 4, 5), (2, 2, 4, 4, 5), (0, 1, 3, 4, 2)),
    ("NCHW16c", (2, 32, 3, 3), (2, 2, 16, 3, 3), (0, 1, 3, 4, 2)),
    ("NHWC8c", (2, 16, 3, 5), (2, 2, 8, 3, 5), (0, 3, 4, 1, 2)),
    ("NCDHW4c", (1, 8, 2, 3, 4), (1, 2, 4, 2, 3, 4), (0, 1, 3, 4, 5, 2)),
    ("OIHW4i16o", (32, 8, 3, 3), (2, 16, 2, 4, 3, 3), (0, 2, 4, 5, 3, 1)),
    ("OIHW16o4i", (32, 8, 3, 3), (2, 16, 2, 4, 3, 3), (0, 2, 4, 5, 1, 3)),
    ("HWIO", (4, 5, 3, 2), (4, 5, 3, 2), (2, 3, 1, 0)),
    ("NCHW2h2w", (1, 3, 4, 6), (1, 3, 2, 2, 3, 2), (0, 1, 2, 4, 3, 5)),
    ("NC", (4, 6), (4, 6), (0, 1)),
    ("NCW8c", (2, 16, 5), (2, 2, 8, 5), (0, 1, 3, 2)),
    # The left block of an axis counts blocks of the right one: GetStoreRule in TVM's data_layout.cc.
    ("OIHW4i16o4i", (32, 32, 3, 2), (2, 16, 2, 4, 4, 3, 2), (0, 2, 5, 6, 3, 1, 4)),
    ("OIHW8i16o2i", (16, 16, 1, 3), (16, 8, 2, 1, 3), (3, 4, 1, 0, 2)),
]


@pytest.mark.parametrize(("text", "shape", "split", "order"), TABLE)
def test_layout_strings_store_what_the_table_says(
    text: str, shape: tuple[int, ...], split: tuple[int, ...], order: tuple[int, ...]
):
    logical = np.arange(np.prod(shape)).reshape(shape)
    stored = logical.reshape(split).transpose(order).ravel()
    layout = NOTATIONS["tvm"].parse(text, shape)
    assert isinstance(layout, Layout)
    assert np.array_equal(stored[layout.addresses()], logical)
    assert layout.extent == stored.size
    assert NOTATIONS["tvm"].print(layout) == text


def test_channels_that_do_not_divide_round_up():
    layout = NOTATIONS["tvm"].parse("NCHW8c", (2, 17, 5, 4))
    assert isinstance(layout, Layout)
    assert layout.padded_shape == (2, 24, 5, 4)


def test_parts_in_brackets_lie_as_without():
    layout = NOTATIONS["tvm"].parse("NCHW[4c2n]", (24, 8, 3, 5))
    assert isinstance(layout, Layout)
    # sbijective_layout("NCHW", "NCHW[4c2n]") of TVM 0.27 gives the shape (12, 2, 3, 5, 8) and index (10, 1, 1, 2, 2).
    assert layout.address((20, 5, 1, 2)) == (((10 * 2 + 1) * 3 + 1) * 5 + 2) * 8 + 2
    assert layout == NOTATIONS["tvm"].parse("NCHW4c2n", (24, 8, 3, 5))


def test_a_block_outside_of_its_axis_needs_a_shape():
    with pytest.raises(LayoutError, match="give a shape"):
        NOTATIONS["tvm"].parse("N4cCHW")
    layout = NOTATIONS["tvm"].parse("N4cCHW", (2, 8, 3, 5))
    assert isinstance(layout, Layout)
    logical = np.arange(240).reshape(2, 8, 3, 5)
    stored = logical.reshape(2, 2, 4, 3, 5).transpose(0, 2, 1, 3, 4).ravel()
    assert np.array_equal(stored[layout.addresses()], logical)
    assert NOTATIONS["tvm"].print(layout) == "N4cCHW"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("OIHW4j16o4i", "there is no 'J'"),
        ("NC4294967296c2n4294967296c", "sizes lie between 1 and 2.63 - 1, as does their product"),
        ("NCHW16C", "no list of capital letters and blocks"),
        ("NCHW16k", "there is no 'K'"),
        ("NCHWN", "names axis 'N' twice"),
        ("NCHW0c", "sizes lie between 1"),
        ("nchw", "no list of capital letters"),
        ("NCHW\N{FULLWIDTH DIGIT EIGHT}c", "no list of capital letters"),
        ("NCHW[4c]", "no list of capital letters"),
        ("NCHW[4c2n", "no list of capital letters"),
        ("N[CH]W", "no list of capital letters"),
    ],
)
def test_negative_strings_that_are_no_layout(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        NOTATIONS["tvm"].parse(text)


def test_tags_that_block_a_dim_twice_have_the_string_that_kernels_of_8_bits_take():
    assert NOTATIONS["tvm"].print(Format.from_tag("OIhw4i16o4i")) == "OIHW4i16o4i"


def test_negative_a_smaller_block_outside_of_a_larger_one_has_no_string():
    with pytest.raises(LayoutError, match="dim 'c' has a larger block inside of a smaller one"):
        NOTATIONS["tvm"].print(Format.parse("(n, c) : [n, c:2*4, c:2*1, c:2*2]").bind((3, 8)))


def test_negative_dims_whose_order_the_letters_do_not_mean():
    with pytest.raises(LayoutError, match=r"means another logical order of the dims than \(n, h, w, c\)"):
        NOTATIONS["tvm"].print(Format.parse("(n, h, w, c) : [n, h, w, c]"))


def evaluate(text: str, index: tuple[int, ...]) -> list[int]:
    """The results of a printed lambda at an index; the separator counts as nothing."""
    text = text.replace(", AXIS_SEPARATOR", "")
    return list(eval(text, {"__builtins__": {}})(*index))


def row_major(layout: Layout, text: str) -> np.ndarray:
    """Addresses of all indices: the formula's results as indices of a row-major array of the padded box."""
    positions = np.array([evaluate(text, p) for p in itertools.product(*map(range, layout.padded_shape))])
    extents = positions.max(axis=0) + 1
    results = [
        np.ravel_multi_index(evaluate(text, x), tuple(extents))
        for x in itertools.product(*map(range, layout.shape))
    ]
    return np.array(results).reshape(layout.shape)


def test_printed_index_maps_evaluate_to_the_addresses():
    rng = random.Random(3)
    several = single = 0
    for _ in range(400):
        layout = random_layout(rng, rank=rng.randint(1, 3), limit=200)
        try:
            text = NOTATIONS["indexmap"].print(layout)
        except LayoutError:
            continue
        if 0 in layout.shape:
            continue
        if (
            text.count(",") == layout.rank - 1
            and layout.chunk_rank == 0
            and not text.count(", ") > layout.rank - 1
        ):
            single += 1
            for index in itertools.product(*map(range, layout.shape)):
                assert evaluate(text, index) == [layout.address(index)], text
        elif not any(layout.lo):
            several += 1
            assert np.array_equal(row_major(layout, text), layout.addresses()), text
    assert single > 20
    assert several > 60


@pytest.mark.parametrize(
    ("text", "index", "results"),
    [
        ("lambda i, j: [i // 4, j, i % 4]", (9, 3), (2, 3, 1)),
        ("lambda i, j: [(i * 8 + j) // 8, j % 8]", (3, 5), (3, 5)),
        ("T.index_map(lambda i, j: (i // 16, j // 16, i % 16, j % 16))", (17, 33), (1, 2, 1, 1)),
        ("lambda i: [i // 2 // 3, i // 2 % 3, i % 2]", (11,), (1, 2, 1)),
        ("lambda i: [i % 12 // 4, i // 12, i % 4]", (23,), (2, 1, 3)),
        ("lambda i, j: [j * 2 + i % 2, i // 2]", (5, 1), (3, 2)),
    ],
)
def test_written_index_maps_are_read_as_their_value(
    text: str, index: tuple[int, ...], results: tuple[int, ...]
):
    shape = tuple(24 if len(index) == 1 else 48 for _ in index)
    if "8 + j" in text:
        shape = (48, 8)
    layout = NOTATIONS["indexmap"].parse(text, shape)
    assert isinstance(layout, Layout)
    plain = text.removeprefix("T.index_map(").removesuffix(")") if text.startswith("T") else text
    assert tuple(evaluate(plain, index)) == results
    assert np.array_equal(row_major(layout, plain), layout.addresses())


def test_the_separator_is_the_bar():
    text = "lambda n, h, w, c: [n, h // 8, w // 8, c // 32, T.AXIS_SEPARATOR, h % 8, w % 8, c % 32]"
    assert str(NOTATIONS["indexmap"].parse(text)) == "(n, h, w, c) : [n, h, w, c | h:8, w:8, c:32]"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lambda i, j: [i * j]", "product of two indices"),
        ("lambda i, j: [(i + j) % 4]", "no sum of digits of single dims"),
        ("lambda i: [i // 0]", "needs a positive constant"),
        ("lambda i: [k]", "unknown index 'k'"),
        ("lambda i, i: [i]", "names index 'i' twice"),
        ("lambda i: [i // 4, AXIS_SEPARATOR, AXIS_SEPARATOR, i % 4]", "a second separator"),
        ("lambda i: [i // 4, AXIS_SEPARATOR, i]", "a chunk has a fixed size|digits of dim"),
        ("lambda i: [i // 6 , i % 4]", "do not make up its index|do not divide"),
    ],
)
def test_negative_maps_that_are_no_layout(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        NOTATIONS["indexmap"].parse(
            text, None if "AXIS" in text or "6" in text else (4, 4)[: text.count(",") + 1]
        )


@pytest.mark.parametrize(
    "text",
    [
        "T.index_map(lambda n, c: [n, c // 4, c % 4])",
        "tvm.tir.IndexMap.from_func(lambda n, c: [n, c // 4, c % 4], ndim=2)",
        'sch.transform_layout(sch.get_block("b"), ("read", 0), index_map=lambda n, c: (n, c // 4, c % 4))',
        'T.index_map(lambda n, c: (n, c // 4, c % 4), index_dtype="int32")',
    ],
)
def test_a_map_is_read_inside_of_a_call(text: str):
    found = NOTATIONS["indexmap"].parse(text)
    assert found == NOTATIONS["indexmap"].parse("lambda n, c: [n, c // 4, c % 4]")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("T.index_map(lambda n: [n]", "expected '\\)'"),
        ("T.index_map(lambda n: [n], lambda n: [n])", "a second map"),
        ("T.index_map(n)", "expected a lambda"),
        ("5(lambda n: [n])", "expected lambda or a call"),
    ],
)
def test_negative_calls_without_one_map(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        NOTATIONS["indexmap"].parse(text)


def test_negative_a_long_row_of_digits_is_looked_at_once():
    for text in ("9" * 200_000, "[" * 1000 + "9" * 100_000, "N" + "9" * 200_000):
        with pytest.raises(LayoutError, match="is no list of capital letters"):
            NOTATIONS["tvm"].parse(text)
