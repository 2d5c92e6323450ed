"""Triton's encodings with names, against what Triton itself says of them, and padding against its definition."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import pytest

from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS
from layout_ir.notations.triton import bases_of

TRITON = NOTATIONS["triton"]
CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "cases" / "triton_encodings.json").read_text(encoding="utf-8")
)["cases"]


def read(text: str, shape: tuple[int, ...] | None = None) -> Layout:
    layout = TRITON.parse(text, shape)
    assert isinstance(layout, Layout)
    return layout


def reason(case: dict[str, Any]) -> str | None:
    """Why a case has no layout here, by what the encodings are; None for one that has."""
    text, images = case["text"], [image for images in case.get("bases", {}).values() for image in images]
    if "CGALayout" in text:
        return "several CTAs"
    if "transposed = true" in text and len(case["shape"]) > 2:
        return "transposed, is read for matrices"
    if not all(map(any, images)):
        return "replicas"
    return None


def test_every_encoding_is_what_triton_says_it_is():
    """The images of bits, which Triton computed: of every offset, register, lane and warp at once."""
    said: Counter[str] = Counter()
    for case in CASES:
        why = reason(case)
        if why is not None:
            with pytest.raises(LayoutError, match=why):
                read(case["text"])
            said[why] += 1
        elif "bases" in case:
            layout = read(case["text"])
            assert layout.shape == tuple(case["shape"]), case["text"]
            want = {axis: [tuple(i) for i in images] for axis, images in case["bases"].items() if images}
            assert {axis: images for axis, images in bases_of(layout).items() if images} == want, case["text"]
            said[case["text"].partition("#ttg.")[2].partition("<")[0]] += 1
    assert said.total() == len(CASES) - sum("padded_shared" in case["text"] for case in CASES)
    assert min(said[name] for name in ("blocked", "swizzled_shared", "nvmma_shared")) >= 20


def padded_addresses(
    pairs: list[tuple[int, int]], images: list[tuple[int, ...]], shape: tuple[int, ...]
) -> dict[tuple[int, ...], int]:
    """Where the element at each index is, by laying out one after the other: position, then all paddings before it."""
    found: dict[tuple[int, ...], int] = {}
    address = 0
    for position in range(prod(shape)):
        if position:
            address += 1 + sum(count for interval, count in pairs if position % interval == 0)
        index = [0] * len(shape)
        for bit, image in enumerate(images):
            if position >> bit & 1:
                index = [x ^ y for x, y in zip(index, image, strict=True)]
        found[tuple(index)] = address
    return found


def row_major_images(shape: tuple[int, ...], order: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [
        tuple((1 << bit) * (d == dim) for d in range(len(shape)))
        for dim in order
        for bit in range(shape[dim].bit_length() - 1)
    ]


PADDED = [
    ("[128:+4] {order = [1, 0], shape = [16, 128]}", [(128, 4)], row_major_images((16, 128), (1, 0)), (16, 128)),
    ("[64:+8] {order = [1, 0], shape = [16, 128]}", [(64, 8)], row_major_images((16, 128), (1, 0)), (16, 128)),
    ("[256:+8] {order = [1, 0], shape = [16, 128]}", [(256, 8)], row_major_images((16, 128), (1, 0)), (16, 128)),
    ("[32:+4, 256:+8] {order = [0, 1], shape = [16, 64]}", [(32, 4), (256, 8)],
     row_major_images((16, 64), (0, 1)), (16, 64)),
    ("[512:+16] {order = [2, 1, 0], shape = [4, 16, 64]}", [(512, 16)],
     row_major_images((4, 16, 64), (2, 1, 0)), (4, 16, 64)),
    ("[8:+1] {offset = [[0, 1], [0, 2], [2, 0], [4, 0], [1, 0]], block = []}", [(8, 1)],
     [(0, 1), (0, 2), (2, 0), (4, 0), (1, 0)], (8, 4)),
    ("[2:+2] {offset = [[2], [1]], block = []}", [(2, 2)], [(2,), (1,)], (4,)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "pairs", "images", "shape"), PADDED, ids=[case[0][:20] for case in PADDED])
def test_padded_encodings_skip_what_they_say(
    text: str, pairs: list[tuple[int, int]], images: list[tuple[int, ...]], shape: tuple[int, ...]
):
    layout = read(f"#ttg.padded_shared<{text}>")
    want = padded_addresses(pairs, images, shape)
    assert layout.shape == shape and len(want) == prod(shape)
    for index in product(*map(range, shape)):
        assert layout.address(index) == want[index], index
    # The same inside of the type that Triton prints, where one of our cases has it.
    assert any(text in case["text"] and read(case["text"]).same_map(layout) for case in CASES)


def test_a_text_in_the_way_of_a_program_is_read():
    encoding = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>"
    layout = read(encoding)
    assert layout.shape == (32, 16)
    assert read(f"#blocked = {encoding}") == layout
    assert read(encoding.replace("#ttg", "#triton_gpu")) == layout
    assert (
        read(
            encoding.replace(
                "[1, 0]}", "[1, 0], CTAsPerCGA = [1, 1], CTASplitNum = [1, 1], CTAOrder = [1, 0]}"
            )
        )
        == layout
    )
    assert read(f"tensor<32x16xf16, {encoding}>") == layout
    shared = "{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]"
    new = read(f"#ttg.swizzled_shared<{shared}}}>", (32, 64))
    assert read(f"#triton_gpu.shared<{shared}, hasLeadingOffset = false}}>", (32, 64)) == new


def test_the_element_type_is_that_of_the_type_around():
    assert TRITON.element_type(CASES[0]["text"]) == "f16"
    assert TRITON.element_type("#ttg.shared_linear<{offset = [[1]]}>") is None
    assert TRITON.element_type("tensor<64x!tt.ptr<f16>, #ttg.linear<{register = [[1]]}>>") is None


SWIZZLED = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"


@pytest.mark.parametrize(
    ("text", "shape", "message", "blamed"),
    [
        (SWIZZLED, None, "means another layout at each shape: give one", None),
        (SWIZZLED, (48, 64), "powers of two, the shape is 48x64", None),
        (SWIZZLED, (4, 8, 8), "is no order of the dims of 4x8x8", "[1, 0]"),
        (SWIZZLED.replace("vec = 8", "vec = 7"), (32, 64), "vec has 7, which is no power of two", "7"),
        (SWIZZLED.replace("vec = 8, ", ""), (32, 64), "needs vec, a number: it has perPhase", None),
        (SWIZZLED.replace("vec = 8", "vec = [8]"), (32, 64), "needs vec, a number", "[8]"),
        (SWIZZLED.replace("vec = 8", "vec = 8, vec = 8"), (32, 64), "field 'vec' stands twice", "vec"),
        (SWIZZLED.replace("swizzled_shared", "shared").replace("]}", "], hasLeadingOffset = true}"), (32, 64),
         "is what nvmma_shared is now", "true"),
        (SWIZZLED.replace("]}", "], CGALayout = [[0, 1]]}"), (32, 64), "several CTAs", "["),
        ("#ttg.nvmma_shared<{swizzlingByteWidth = 48, elementBitWidth = 16}>", (64, 64), "48, expected 0, 32", "48"),
        ("#ttg.nvmma_shared<{swizzlingByteWidth = 128, elementBitWidth = 16}>", (64, 32), "8 rows of 64", None),
        ("#ttg.nvmma_shared<{swizzlingByteWidth = 0, elementBitWidth = 16, fp4Padded = true}>", (64, 64),
         "half of its bytes", "true"),
        ("#ttg.padded_shared<[3:+4] {order = [0], shape = [8]}>", None, "no power of two", "3"),
        ("#ttg.padded_shared<[4:+4] {order = [0], shape = [8]}>", (16,), "is of 8, the tensor is 16", "[8]"),
        ("#ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4, 1], order = [0]}>", (256,),
         "differ in length: 1, 1, 2", "[4, 1]"),
        ("#ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>", (16, 16),
         "is no order of the dims of 16x16", "[0]"),
        ("#ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>", (128,),
         "holds 256, the tensor is 128: several threads", None),
        ("#ttg.amd_mfma<{version = 3}>", (32, 32), "'amd_mfma' is no linear layout", "amd_mfma"),
        ("!ttg.memdesc<?x64xf16, " + SWIZZLED + ", #ttg.shared_memory>", None, "dynamic extents", None),
        ("!ttg.memdesc<32x64xf16, " + SWIZZLED + ", #ttg.shared_memory", None, "expected '>'", None),
        ("!tt.ptr<f16>", None, "memdesc is the type of shared memory", "tt"),
    ],
)  # fmt: skip
def test_negative_what_is_no_layout_is_refused_with_its_place(
    text: str, shape: tuple[int, ...] | None, message: str, blamed: str | None
):
    with pytest.raises(LayoutError, match=message.replace("[", r"\[")) as caught:
        read(text, shape)
    if blamed is not None:
        assert caught.value.span is not None
        assert text[slice(*caught.value.span)].startswith(blamed)
