"""linalg.pack metadata, executed by the real mlir-opt where it is installed, and by NumPy always."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS
from layout_ir.notations.pack import Pack
from tests.oracles import mlir


def random_pack(rng: random.Random) -> tuple[Pack, tuple[int, ...]]:
    rank = rng.randint(1, 4)
    tiled = rng.sample(range(rank), rng.randint(1, min(rank, 3)))
    tiles = tuple(rng.choice((1, 2, 3, 4, 8)) for _ in tiled)
    pack = Pack(tuple(tiled), tiles, tuple(rng.sample(range(rank), rank)), 0.5)
    return pack, tuple(rng.randint(1, 7) for _ in range(rank))


def numpy_pack(values: NDArray[np.float32], pack: Pack) -> NDArray[np.float32]:
    """Pad, split every tiled dim, transpose: the definition of the op."""
    tile = dict(zip(pack.inner_dims_pos, pack.inner_tiles, strict=True))
    widths = [(0, -n % tile.get(d, 1)) for d, n in enumerate(values.shape)]
    padded = np.pad(values, widths, constant_values=0.5)
    split: list[int] = []
    outer: dict[int, int] = {}
    inner: dict[int, int] = {}
    for d, n in enumerate(padded.shape):
        outer[d] = len(split)
        split.append(n // tile.get(d, 1))
        if d in tile:
            inner[d] = len(split)
            split.append(tile[d])
    order = [outer[d] for d in pack.outer_dims_perm] + [inner[d] for d in pack.inner_dims_pos]
    return padded.reshape(split).transpose(order)


def check(pack: Pack, shape: tuple[int, ...], stored: NDArray[np.float32]) -> None:
    """`stored` holds 1, 2, 3, ... at the addresses of the pack's format, and 0.5 at the pads."""
    layout = pack.format().bind(shape)
    assert pack.packed_shape(shape) == stored.shape
    flat = stored.ravel()
    assert layout.extent == flat.size
    values = np.arange(1, layout.nelems + 1, dtype=np.float32).reshape(shape)
    assert np.array_equal(flat[layout.addresses()], values), (pack, shape)
    pads = np.ones(flat.size, bool)
    pads[layout.addresses()] = False
    assert (flat[pads] == 0.5).all()


def test_packs_store_as_numpy_does():
    rng = random.Random(1)
    for _ in range(300):
        pack, shape = random_pack(rng)
        values = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
        check(pack, shape, numpy_pack(values, pack))
        text = NOTATIONS["pack"].print(pack.format())
        assert NOTATIONS["pack"].parse(text) == pack.format()


@pytest.mark.skipif(mlir.available() is not None, reason=str(mlir.available()))
def test_packs_store_as_the_stock_mlir_does():
    rng = random.Random(2)
    cases = [(Pack((0, 1), (16, 4), (1, 0), 0.5), (20, 18))]
    cases += [random_pack(rng) for _ in range(40)]
    asked = [
        (shape, str(pack).replace("padding_value(0.5)", "padding_value(%p : f32)"), pack.packed_shape(shape))
        for pack, shape in cases
    ]
    for (pack, shape), stored in zip(cases, mlir.run_packs(asked), strict=True):
        check(pack, shape, stored)


def test_the_example_of_the_theory():
    layout = Pack((0, 1), (16, 4), (1, 0)).format(("a", "b")).bind((20, 18))
    assert layout.address((17, 5)) == 197
    assert str(layout.format) == "(a, b) : [b, a, a:16, b:4]"


def test_padding_values_are_pad_policies():
    assert (
        NOTATIONS["pack"]
        .print(Format.from_tag("nChw8c"))
        .startswith("padding_value(0.0) outer_dims_perm = [0, 1, 2, 3]")
    )
    read = NOTATIONS["pack"].parse("padding_value(-inf : f32) inner_dims_pos = [0] inner_tiles = [4]", (5,))
    assert read.pad == float("-inf")
    assert NOTATIONS["pack"].parse("inner_dims_pos = [0] inner_tiles = [4]", (5,)).pad == "undef"


def test_plain_transposes_are_packs_without_tiles():
    assert (
        NOTATIONS["pack"].print(Format.from_tag("nhwc"))
        == "outer_dims_perm = [0, 2, 3, 1] inner_dims_pos = [] inner_tiles = []"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("inner_dims_pos = [1] inner_tiles = [8]", "does not say the rank"),
        ("outer_dims_perm = [0, 0] inner_dims_pos = [1] inner_tiles = [8]", "no permutation of 2 dims"),
        (
            "outer_dims_perm = [0, 1] inner_dims_pos = [2] inner_tiles = [8]",
            "names dim 2 of a tensor of rank 2",
        ),
        ("outer_dims_perm = [0, 1] inner_dims_pos = [1, 1] inner_tiles = [8, 2]", "names dim 1 twice"),
        ("outer_dims_perm = [0, 1] inner_dims_pos = [1] inner_tiles = [8, 2]", "1 != 2"),
        ("outer_dims_perm = [0, 1] inner_dims_pos = [1] inner_tiles = [0]", "tiles start at 1"),
        ("outer_dims_perm = [0, 1] inner_tiles = [8]", "needs inner_dims_pos and inner_tiles"),
        ("padding_value(x) outer_dims_perm = [0] inner_dims_pos = [0] inner_tiles = [8]", "'x' is no number"),
        ("inner_tiles = [?]", "expected inner_tiles"),
    ],
)
def test_negative_texts_that_are_no_pack(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        NOTATIONS["pack"].parse(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(o, i) : [o, i, i:4, o:16, i:4]", "dim 'i' has 2 blocks, a pack has one tile per dim"),
        ("(a, b) : [a*9, b]", "strides of its own"),
        ("(a, b) : [a, b:8]", "fixed capacity"),
    ],
)
def test_negative_formats_that_one_pack_cannot_make(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        Pack.of(Format.parse(text))


def test_negative_pads_without_a_value():
    blocked = Format.parse("(n, c) : [n, c, c:8]")
    with pytest.raises(LayoutError, match="a tile that rounds up needs a value"):
        NOTATIONS["pack"].print(blocked.bind((2, 17)))
    assert (
        NOTATIONS["pack"].print(blocked.bind((2, 16)))
        == "outer_dims_perm = [0, 1] inner_dims_pos = [1] inner_tiles = [8]"
    )
    with pytest.raises(LayoutError, match="needs the value"):
        NOTATIONS["pack"].print(blocked.with_pad("zp"))


LINE = (
    "%p = linalg.pack %s PADDINGouter_dims_perm = [1, 0] inner_dims_pos = [0, 1] inner_tiles = [4, 8] "
    "into %d : tensor<9x16xi8> -> tensor<2x3x4x8xi8>"
)


def test_a_whole_line_says_what_its_fields_say_at_its_shape():
    """Against NumPy's own pack of the same fields, element by element."""
    line = LINE.replace("PADDING", "padding_value(%c : i8) ")
    layout = NOTATIONS["pack"].parse(line)
    assert isinstance(layout, Layout) and layout.shape == (9, 16) and layout.pad == "undef"
    values = np.arange(9 * 16, dtype=np.float32).reshape(9, 16) + 1
    packed = numpy_pack(values, Pack((0, 1), (4, 8), (1, 0), 0.5))
    assert packed.shape == (2, 3, 4, 8)
    assert np.array_equal(packed.reshape(-1)[layout.addresses()], values)
    assert layout.extent == packed.size
    for other in (
        line.removeprefix("%p = "),
        line.replace("linalg", "tensor"),
        line.replace("padding_value(%c : i8) ", ""),
        line.replace("9x16", "9x?").replace("tensor<2x3", "tensor<?x3"),
        line.replace("tensor<", "memref<"),
    ):
        found = NOTATIONS["pack"].parse(other, (9, 16))
        assert isinstance(found, Layout) and found.same_map(layout), other
    assert NOTATIONS["pack"].element_type(line) == "i8"
    assert NOTATIONS["pack"].element_type("inner_dims_pos = [1] inner_tiles = [8]") is None


def test_a_line_of_unpack_is_about_its_source():
    line = "linalg.unpack %s inner_dims_pos = [1] inner_tiles = [8] into %d : tensor<4x3x8xi8> -> tensor<4x20xi8>"
    found = NOTATIONS["pack"].parse(line)
    assert isinstance(found, Layout) and found.shape == (4, 20)
    assert str(found.format) == "(n, c) : [n, c, c:8]"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (LINE.replace("2x3x4x8", "3x2x4x8"), "says that 9x16 is 3x2x4x8 once packed, its tiles make 2x3x4x8"),
        (LINE.replace("[4, 8]", "[%t, 8]"), "a value that only the run time knows"),
        (LINE.replace("linalg.pack", "linalg.generic"), "'generic' has no tiles"),
        (LINE.replace("-> tensor<2x3x4x8xi8>", ""), "expected '->'"),
        (LINE.replace(" into", " nofold into"), "unexpected field 'nofold'"),
        (LINE.replace("9x16", "9x16x2"), "rank mismatch"),
    ],
)
def test_negative_lines_that_say_two_things_or_nothing(line: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        NOTATIONS["pack"].parse(line.replace("PADDING", ""))
