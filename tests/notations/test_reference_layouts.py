"""Every entry of the oracle of reference layouts, and the page that is generated from it."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Index, Layout, Pad
from layout_ir.notations import NOTATIONS

ROOT = Path(__file__).parents[2]


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "reference_layouts_page", ROOT / "docs" / "reference_layouts.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load_generator()
ENTRIES: list[dict[str, Any]] = GENERATOR.load()
BOUND = [e for e in ENTRIES if e["kind"] in ("layout", "zero")]


def digest(layout: Layout) -> str:
    return hashlib.sha256(np.ascontiguousarray(layout.addresses().astype("<i8")).tobytes()).hexdigest()


def check(entry: dict[str, Any], layout: Layout) -> None:
    """All that the oracle says of the entry."""
    assert list(layout.padded_shape) == entry["padded"]
    assert layout.span == entry["size"]
    assert layout.nelems == entry.get("nelems", layout.nelems)
    if "sha256" in entry:
        assert digest(layout) == entry["sha256"]
    for text, address in entry.get("offsets", {}).items():
        assert layout.address(tuple(map(int, text.split(",")))) == address
    if "pads" in entry:
        assert int(np.prod(layout.padded_shape)) - layout.nelems == entry["pads"]
    for address, index in enumerate(entry.get("mem_head", [])):
        found = layout.inverse(layout.first_address + address)
        if index is None:
            assert not isinstance(found, Index), (entry["id"], address)
        else:
            assert found == Index(tuple(index)), (entry["id"], address)
    for text, (chunk, inside) in entry.get("chunk_offsets", {}).items():
        assert layout.chunk_address(tuple(map(int, text.split(",")))) == (chunk, inside)
    if "alloc" in entry:
        assert layout.extent == entry["alloc"]


def test_the_oracle_is_complete():
    assert len(ENTRIES) == 69
    assert len(BOUND) == 67


@pytest.mark.parametrize("entry", BOUND, ids=lambda e: e["id"])
def test_our_spelling_binds_to_the_addresses_of_the_text(entry: dict[str, Any]):
    layout = GENERATOR.layout_of(entry)
    assert layout is not None
    check(entry, layout)
    # What stands on the page, read again.
    spelled = Format.parse(str(layout.format)).bind(layout.shape)
    assert spelled.same_contract(layout)
    assert layout.same_map(Format.parse(entry["expr"]).bind(layout.shape))


@pytest.mark.parametrize("entry", [e for e in BOUND if "pairs" in e], ids=lambda e: e["id"])
def test_pairs_are_read_as_the_text_writes_them(entry: dict[str, Any]):
    pairs = ", ".join(f"{dim},{size}" for dim, size in entry["pairs"])
    text = f"ChunkedMemoryLayout<{len(entry['shape'])}, {pairs}>"
    layout = NOTATIONS["htp"].parse(text, entry["shape"])
    assert isinstance(layout, Layout)
    check(entry, layout)
    if entry["chunk_elems"] > 1:
        assert layout.chunk_size == entry["chunk_elems"]
        assert NOTATIONS["htp"].print(layout) == text
    assert layout.extent // entry["chunk_elems"] == entry["chunks"]


@pytest.mark.parametrize("entry", [e for e in BOUND if "byte_strides" in e], ids=lambda e: e["id"])
def test_byte_strides_are_read_in_bytes(entry: dict[str, Any]):
    strides = tuple(entry["byte_strides"])
    layout = NOTATIONS["numpy"].parse(f"strides={strides}, itemsize={entry['itemsize']}", entry["shape"])
    assert isinstance(layout, Layout)
    check(entry, layout)
    assert layout.address((1, 2)) * entry["itemsize"] == entry["byte_offset_1_2"]


@pytest.mark.parametrize(
    "entry", [e for e in BOUND if "onednn_size" in e or "onednn_offset0" in e], ids=lambda e: e["id"]
)
def test_numbers_of_the_descriptor_are_those_of_the_text(entry: dict[str, Any]):
    from layout_ir.notations.onednn import BlockingDesc

    desc = BlockingDesc.of(GENERATOR.layout_of(entry))
    if "onednn_size" in entry:
        assert desc.get_size("f32") == 4 * entry["onednn_size"]
    assert desc.offset0 == entry.get("onednn_offset0", 0)


def test_pads_of_the_picture_with_seventeen_channels():
    layout = Format.from_tag("nChw8c").bind((2, 17, 5, 4))
    assert layout.inverse(952) == Index((1, 16, 4, 3))
    assert layout.inverse(953) == Pad((1, 17, 4, 3))


def test_the_page_is_up_to_date_and_lists_every_layout():
    text = (ROOT / "docs" / "reference-layouts.md").read_text()
    assert text == GENERATOR.page(), "run python docs/reference_layouts.py"
    assert sum(line.startswith("| ") and not line.startswith("| layout") for line in text.splitlines()) == 69
