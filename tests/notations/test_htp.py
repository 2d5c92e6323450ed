"""Chunked memory layouts, against the rule of the text: round up per dim, then nested loops over the pairs."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS
from layout_ir.notations.htp import NAMES

HTP = NOTATIONS["htp"]


def address(index: Sequence[int], shape: Sequence[int], pairs: Sequence[tuple[int, int]]) -> int:
    """Mixed radix per dim, most significant pair first, and one running product over all pairs."""
    blocks = [1] * len(shape)
    for dim, size in pairs:
        blocks[dim] *= size or 1
    rest = list(index)
    digits: list[tuple[int, int]] = []
    for dim, size in reversed(pairs):
        count = size or -(-shape[dim] // blocks[dim])
        digits.append((rest[dim] % count, count))
        rest[dim] //= count
    total, running = 0, 1
    for digit, count in digits:
        total += digit * running
        running *= count
    return total


@pytest.mark.parametrize("name", [*NAMES, "ChannelMajorCrouton", "SpatialXYMajor"])
@pytest.mark.parametrize("shape", [(1, 3, 5, 30), (2, 9, 10, 33), (1, 8, 8, 32)])
def test_named_layouts_follow_their_pairs(name: str, shape: tuple[int, ...]):
    layout = HTP.parse(name, shape)
    assert isinstance(layout, Layout)
    pairs = NAMES[{"ChannelMajorCrouton": "R4Crouton", "SpatialXYMajor": "R4Crouton2x2"}.get(name, name)]
    for index in itertools.product(*map(range, shape)):
        assert layout.address(index) == address(index, shape, pairs)


def test_random_pairs_follow_the_rule_and_print_again():
    rng = random.Random(0)
    for _ in range(300):
        rank = rng.randint(1, 4)
        pairs = [(dim, 0) for dim in rng.sample(range(rank), rank)]
        pairs += [(rng.randrange(rank), rng.choice((2, 3, 4, 8))) for _ in range(rng.randint(1, 4))]
        text = f"ChunkedMemoryLayout<{rank}, {', '.join(f'{d},{s}' for d, s in pairs)}>"
        format = HTP.parse(text)
        assert HTP.print(format) == text
        shape = tuple(rng.randint(1, 9) for _ in range(rank))
        layout = HTP.parse(text, shape)
        assert isinstance(layout, Layout)
        for index in itertools.product(*map(range, shape)):
            assert layout.address(index) == address(index, shape, pairs)


def test_suffixes_of_names_are_read():
    for text in ("R4Crouton", "R4CroutonLayout", "R4CroutonMemoryLayout"):
        assert str(HTP.parse(text)) == "(n, h, w, c) : [n, h, w, c | h:8, w:8, c:32]"
    assert HTP.parse("FlatMemoryLayout<4>") == HTP.parse("R4FlatMemoryLayout")
    assert HTP.print(HTP.parse("R4Flat")) == "FlatMemoryLayout<4>"


def test_blocked_tags_are_chunks_one_behind_the_other():
    assert HTP.print(Format.from_tag("nChw8c")) == "ChunkedMemoryLayout<4, 0,0, 1,0, 2,0, 3,0, 1,8>"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ChunkedMemoryLayout<2, 0,0>", "dim 1 of 2 has no pair"),
        ("ChunkedMemoryLayout<2, 0,0, 1,8>", "dim 1 of 2 has no pair of size 0"),
        ("ChunkedMemoryLayout<2, 0,0, 0,8, 1,0>", "rests come first"),
        ("ChunkedMemoryLayout<2, 0,0, 1,0, 0,0>", "a dim has one rest"),
        ("ChunkedMemoryLayout<2, 0,0, 2,0>", "names dim 2 of a layout of rank 2"),
        ("ChunkedMemoryLayout<2, 0,0, 1,-4>", "at least 0"),
        ("ChunkedMemoryLayout<99>", "above 64"),
        ("R4Croutons", "unknown name 'R4Croutons'"),
        ("R5Crouton", "unknown name"),
    ],
)
def test_negative_texts(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        HTP.parse(text)


@pytest.mark.parametrize("text", ["(a, b) : [a*9, b]", "(a, b) : [a, a:2, b]", "(a, b) : [a, b:8]"])
def test_negative_formats_without_pairs(text: str):
    with pytest.raises(LayoutError, match="htp cannot say"):
        HTP.print(Format.parse(text))


def test_negative_a_bar_inside_the_blocks():
    with pytest.raises(
        LayoutError, match="its chunks hold 8 elements, but in pairs all blocks together are the chunk"
    ):
        HTP.print(Format.parse("(a, b) : [a, b, a:4 | b:8]"))


def test_every_name_has_the_pairs_of_the_reference():
    path = Path(__file__).parents[1] / "cases" / "reference_layouts.json"
    seen: set[str] = set()
    for entry in json.loads(path.read_text())["layouts"]:
        if "pairs" not in entry or entry["id"].startswith(("htp.weight", "htp.nchw_text", "htp.flat4")):
            continue
        for name in re.findall(r"R4\w+|ChannelMajorCrouton|SpatialXY?Major", entry["name"]):
            layout = HTP.parse(name, entry["shape"])
            assert isinstance(layout, Layout)
            assert layout.same_map(HTP.parse(pairs_text(entry["pairs"]), entry["shape"])), name  # type: ignore[arg-type]
            for text, address in entry["offsets"].items():
                assert layout.address(tuple(map(int, text.split(",")))) == address, name
            seen.add(name.removesuffix("MemoryLayout").removesuffix("Layout"))
    assert seen == {*NAMES, "ChannelMajorCrouton", "SpatialXYMajor"}


def pairs_text(pairs: list[list[int]]) -> str:
    return f"ChunkedMemoryLayout<4, {', '.join(f'{dim},{size}' for dim, size in pairs)}>"
