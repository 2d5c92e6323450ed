"""Strided memrefs and affine maps, against the strides' own sum and Python's evaluation of the map."""

from __future__ import annotations

import itertools
import random
import re

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS
from tests.layouts import random_layout
from tests.oracles import mlir

MEMREF, AFFINE = NOTATIONS["memref"], NOTATIONS["affine"]


def test_strided_texts_are_their_sum():
    rng = random.Random(0)
    for _ in range(500):
        rank = rng.randint(1, 4)
        shape = tuple(rng.randint(1, 5) for _ in range(rank))
        strides = tuple(rng.randint(-9, 40) for _ in range(rank))
        offset = rng.randint(0, 9)
        text = f"memref<{'x'.join(map(str, shape))}xf32, strided<[{', '.join(map(str, strides))}], offset: {offset}>>"
        layout = MEMREF.parse(text)
        assert isinstance(layout, Layout)
        for index in itertools.product(*map(range, shape)):
            assert layout.address(index) == offset + sum(s * x for s, x in zip(strides, index, strict=True))
        again = MEMREF.parse(MEMREF.print(layout, "f32"))
        assert isinstance(again, Layout)
        assert again.same_map(layout)


def test_a_memref_without_a_layout_is_row_major():
    layout = MEMREF.parse("memref<2x3x4xf32>")
    assert isinstance(layout, Layout)
    assert layout.is_contiguous()
    assert MEMREF.print(layout) == "strided<[12, 4, 1]>"


def evaluate(text: str, index: tuple[int, ...]) -> list[int]:
    """The results of an affine map at an index, by Python."""
    match = re.fullmatch(r"affine_map<\((.*?)\) -> \((.*)\)>", text)
    assert match, text
    body = match[2].replace("floordiv", "//").replace("mod", "%").replace("ceildiv", "//")
    names = match[1].split(", ")
    return list(eval(f"[{body}]", {"__builtins__": {}}, dict(zip(names, index, strict=True))))


def addresses(text: str, layout: Layout) -> np.ndarray:
    """Of all indices: the results as an index of a row-major array of the padded box."""
    box = [evaluate(text, p) for p in itertools.product(*map(range, layout.padded_shape))]
    extents = tuple(np.array(box).max(axis=0) + 1)
    found = [evaluate(text, x) for x in itertools.product(*map(range, layout.shape))]
    flat = [x[0] if len(extents) == 1 else np.ravel_multi_index(x, extents) for x in found]
    return np.array(flat).reshape(layout.shape)


def test_printed_maps_evaluate_to_the_addresses():
    rng = random.Random(5)
    checked = 0
    for _ in range(300):
        layout = random_layout(rng, rank=rng.randint(1, 3), limit=150)
        if 0 in layout.shape or any(layout.lo):
            continue
        try:
            text = AFFINE.print(layout)
        except LayoutError:
            continue
        assert np.array_equal(addresses(text, layout), layout.addresses()), text
        checked += 1
    assert checked > 80


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("affine_map<(d0, d1) -> (d1, d0)>", (3, 5)),
        ("affine_map<(d0, d1) -> (d0 * 7 + d1)>", (3, 5)),
        ("affine_map<(d0, d1) -> (d1 floordiv 4, d0, d1 mod 4)>", (3, 8)),
        ("affine_map<(d0) -> (d0 floordiv 8, (d0 mod 8) floordiv 2, d0 mod 2)>", (32,)),
        ("affine_map<(d0, d1) -> (d0 * 16 + d1 floordiv 4 * 8 + d1 mod 4)>", (3, 8)),
        ("affine_map<(d0, d1) -> ((d0 * 8 + d1) floordiv 4, d1 mod 4)>", (3, 8)),
        ("affine_map<(d0) -> (d0 * -3 + 40)>", (9,)),
        ("affine_map<(d0) -> (5 + d0 mod 4 * 10 + d0 floordiv 4)>", (12,)),
        ("affine_map<(d0, d1) -> (d0 + 2, d1)>", (3, 5)),
    ],
)
def test_written_maps_are_read_as_their_value(text: str, shape: tuple[int, ...]):
    layout = AFFINE.parse(text, shape)
    assert isinstance(layout, Layout)
    assert layout.padded_shape == shape or any(layout.lo)
    if not any(layout.lo):
        assert np.array_equal(addresses(text, layout), layout.addresses())
    else:
        assert layout.address((0, 0)) == 10


def test_a_phase_is_pads_in_front():
    layout = AFFINE.parse("affine_map<(d0) -> ((d0 + 3) floordiv 4, (d0 + 3) mod 4)>", (6,))
    assert isinstance(layout, Layout)
    assert layout.lo == (3,)
    assert [layout.address((x,)) for x in range(6)] == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("memref<2x?xf32>", "dynamic extents have no layout"),
        ("memref<2x3xf32, strided<[?, 1]>>", "dynamic stride or offset"),
        ("memref<2x3xf32, strided<[3, 1], offset: ?>>", "dynamic stride or offset"),
        ("memref<2x3xf32, strided<[3]>>", "2 != 1"),
        ("memref<2x3xq7>", "unknown element type"),
        ("memref<2x3xf32, 1>", "expected strided"),
        ("strided<[3, 1]>", "give a shape"),
        ("memref<2x3xf32", "expected '>'"),
    ],
)
def test_negative_memref_texts(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        MEMREF.parse(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("affine_map<(d0)[s0] -> (d0 + s0)>", "symbols have no value"),
        ("affine_map<(d0, d1) -> (d0 * d1)>", "product of two indices"),
        ("affine_map<(d0, d1) -> ((d0 + d1) mod 4)>", "no sum of digits of single dims"),
        ("affine_map<(d0, d1) -> (d2)>", "unknown index 'd2'"),
        ("affine_map<(d0, d0) -> (d0)>", "names a dim twice"),
        ("affine_map<(d0) -> (d0 mod d0)>", "needs a positive constant"),
        ("affine_map<(d0, d1) -> (d0 * 5 + d1)>", "give one"),
    ],
)
def test_negative_affine_texts(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        AFFINE.parse(text)


def test_negative_maps_whose_units_do_not_divide():
    with pytest.raises(LayoutError, match="units of 4 and of 6, which do not divide"):
        AFFINE.parse("affine_map<(d0) -> (d0 floordiv 6 * 100 + d0 mod 4)>", (24,))


def test_blocked_formats_print_one_result_per_physical_dim():
    assert (
        AFFINE.print(Format.from_tag("nChw8c"))
        == "affine_map<(d0, d1, d2, d3) -> (d0, d1 floordiv 8, d2, d3, d1 mod 8)>"
    )


@pytest.mark.skipif(mlir.available() is not None, reason=str(mlir.available()))
def test_the_stock_mlir_reads_what_is_printed():
    rng = random.Random(8)
    types: list[str] = []
    maps: list[str] = []
    while len(types) < 60 or len(maps) < 60:
        layout = random_layout(rng, rank=rng.randint(1, 4), limit=300)
        if 0 in layout.shape:
            continue
        for notation, texts in ((MEMREF, types), (AFFINE, maps)):
            try:
                texts.append(notation.print(layout, "f32"))
            except LayoutError:
                continue
    functions = [f"func.func private @f{k}({text})" for k, text in enumerate(types)]
    attributes = ", ".join(f"test.a{k} = {text}" for k, text in enumerate(maps))
    printed = mlir.reprint(f"module attributes {{{attributes}}} {{\n" + "\n".join(functions) + "\n}")
    # Types come back as they were, apart from strides that MLIR leaves out because they are the default.
    again = re.findall(r"func.func private @f(\d+)\((.*)\)", printed)
    assert len(again) == len(types)
    for number, text in again:
        ours, theirs = MEMREF.parse(types[int(number)]), MEMREF.parse(text)
        assert isinstance(ours, Layout)
        assert isinstance(theirs, Layout)
        assert ours.same_map(theirs)
    # Maps are simplified by MLIR and must still mean the same.
    aliases = dict(re.findall(r"#(\w+) = (affine_map<.*>)", printed))
    found = re.findall(r"test\.a(\d+) = (?:#(\w+)|(affine_map<.*?\)>))", printed)
    assert len(found) == len(maps)
    for number, alias, inline in found:
        theirs = aliases[alias] if alias else inline
        rank = theirs.split(")")[0].count("d")
        for index in itertools.product(range(3), repeat=rank):
            assert evaluate(theirs, index) == evaluate(maps[int(number)], index)


@pytest.mark.parametrize("name", ["memref", "torch", "tag", "tvm"])
def test_what_is_printed_of_large_numbers_reads_back(name: str):
    large = (1 << 62) + 8
    layouts = [
        Format.parse("(a) : [a]").bind((large,)),
        Format.parse(f"(a, b) : [a, b, b:{large}]").bind((1, large)),
    ]
    for layout in layouts:
        subject = layout if name in ("memref", "torch") else layout.format
        try:
            text = NOTATIONS[name].print(subject, "i8")
        except LayoutError:
            continue
        back = NOTATIONS[name].parse(text, layout.shape, "i8")
        assert isinstance(back, Layout) and back.same_map(layout), text


def test_negative_numbers_that_no_layout_has():
    for name, text in (
        ("memref", f"memref<{1 << 63}xi8>"),
        ("tag", f"aB{1 << 63}b"),
        ("tvm", f"AB{1 << 63}b"),
    ):
        with pytest.raises(LayoutError, match=r"2\^63"):
            NOTATIONS[name].parse(text, None, "i8")


@pytest.mark.parametrize("shape", [(4, 4), (1, 4), (3, 2)])
def test_a_dim_that_no_result_depends_on_is_nowhere_apart(shape: tuple[int, int]):
    for text in ("affine_map<(d0, d1) -> (0, d1)>", "affine_map<(d0, d1) -> (d1)>"):
        layout = AFFINE.parse(text, shape)
        assert isinstance(layout, Layout)
        assert [layout.address(i) for i in np.ndindex(shape)] == [j for _, j in np.ndindex(shape)]
    assert MEMREF.parse(
        f"memref<{shape[0]}x{shape[1]}xf32, affine_map<(d0, d1) -> (0, d1)>>"
    ) == AFFINE.parse("affine_map<(d0, d1) -> (0, d1)>", shape)


def test_negative_a_dim_that_no_result_depends_on_has_no_place_without_a_shape():
    with pytest.raises(LayoutError, match="give one"):
        AFFINE.parse("affine_map<(d0, d1) -> (0, d1)>")
