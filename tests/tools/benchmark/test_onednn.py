"""What oneDNN asks for: tags whose descriptors are the library's own, and nothing where a tag does not say all."""

from __future__ import annotations

import pytest

from layout_ir.errors import LayoutError
from layout_ir.tools.benchmark.onednn import BUILDS, Library, load

SHAPES = (1, 64, 14, 14), (64, 64, 3, 3), (1, 64, 14, 14)


@pytest.fixture(name="library", params=BUILDS)
def _library(request: pytest.FixtureRequest) -> Library:
    found = load(request.param)
    if isinstance(found, LayoutError):
        pytest.skip(str(found))
    return found


def test_a_convolution_asks_for_blocks_of_filters(library: Library):
    source, weights, result = library.convolution_tags(SHAPES, ("f32",) * 3, 1, 1)
    assert (source, result) == ("acdb", "acdb")
    assert weights is not None and "a" in weights and any(map(str.isdigit, weights))
    assert library.reorder_implementation(SHAPES[1], ("abcd", "f32"), (weights, "f32"))


def test_blocked_activations_are_kept_and_the_gradient_is_asked_for(library: Library):
    asked = [
        library.convolution_tags(SHAPES, ("f32",) * 3, 1, 1, source="aBcd8b", backward=backward)
        for backward in (False, True)
    ]
    assert [tags[0] for tags in asked] == ["aBcd8b"] * 2
    assert asked[0][1] != asked[1][1]


def test_a_matmul_asks_for_its_weights(library: Library):
    shapes = (128, 768), (768, 3072), (128, 3072)
    tags = library.matmul_tags(shapes, ("f32",) * 3)
    assert len(tags) == 3 and tags[0] == tags[2] == "ab"


def test_negative_compensation_sums_are_no_tag(library: Library):
    plain = library.convolution_tags(SHAPES, ("ui8", "i8", "ui8"), 1, 1)
    signed = library.convolution_tags(SHAPES, ("i8", "i8", "i8"), 1, 1)
    assert plain[1] is not None
    assert signed[1] is None


def test_negative_what_the_library_lacks_it_says(library: Library):
    with pytest.raises(LayoutError, match=r"no primitive|reference"):
        library.convolution_tags(SHAPES, ("f64",) * 3, 1, 1)
    with pytest.raises(LayoutError, match=r"no elements of i1|no tag any of \(1, 64"):
        library.convolution_tags(SHAPES, ("i1",) * 3, 1, 1)


def test_negative_no_such_reorder(library: Library):
    with pytest.raises(LayoutError, match="no tag zz"):
        library.reorder_implementation((4, 4), ("ab", "f32"), ("zz", "f32"))
