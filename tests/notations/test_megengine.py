"""Tensor formats and TensorLayouts, against what NumPy stores when it splits and transposes."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS
from layout_ir.notations.decomposition import from_strides
from layout_ir.notations.megengine import (
    PARAMETERS,
    TENSOR_FORMATS,
    image2d_pack4,
    logical,
    physical,
    physical_dims,
    physical_shape,
)

MEGENGINE = NOTATIONS["megengine"]

# The documented order of the physical dims: outermost first, "/" the outer part and "%" the inner part of a dim.
DOCUMENTED = {
    "NCHW": "N C H W", "NHWC": "N H W C", "NCHWc4": "N C/4 H W C%4", "NCHWc8": "N C/8 H W C%8",
    "NCHWc32": "N C/32 H W C%32", "NCHWc64": "N C/64 H W C%64", "CHWNc4": "C/4 H W N C%4", "NHCWc4": "N H C/4 W C%4",
    "KRSCk4": "K/4 R S C K%4", "GKRSCk4": "G K/4 R S C K%4", "C1RSc4": "C/4 1 R S C%4",
    "KRSCk4c4": "K/4 R S C/4 K%4 C%4", "GKRSCk4c4": "G K/4 R S C/4 K%4 C%4",
    "KCRSk4c4": "K/4 C/4 R S K%4 C%4", "GKCRSk4c4": "G K/4 C/4 R S K%4 C%4",
    "KCRSc4k4": "K/4 C/4 R S C%4 K%4", "GKCRSc4k4": "G K/4 C/4 R S C%4 K%4", "C11RSc4": "C/4 1 1 R S C%4",
    "KCRSc8k8": "K/8 C/8 R S C%8 K%8", "GKCRSc8k8": "G K/8 C/8 R S C%8 K%8", "C11RSc8": "C/8 1 1 R S C%8",
    "KRSCk8": "K/8 R S C K%8", "KCRSc4": "K C/4 R S C%4", "GKCRSc4": "G K C/4 R S C%4",
    "KCRS": "K C R S", "GKCRS": "G K C R S", "C11RS": "C 1 1 R S",
}  # fmt: skip


def shape_for(name: str) -> tuple[int, ...]:
    """A logical shape that the blocks divide; every dim of another extent."""
    names, pieces = physical_dims(name)
    block = [1] * len(names)
    for piece in pieces:
        if piece.size is None:
            block[piece.dim] = piece.unit
    unit = {p.dim for p in pieces if p.size == 1}
    return tuple(
        1 if d in unit else b * k for d, (b, k) in enumerate(zip(block, (2, 3, 2, 4, 3), strict=False))
    )


def stored(name: str, values: np.ndarray) -> np.ndarray:
    """The physical array by the documented order of dims."""
    names, _ = physical_dims(name)
    array, labels = values, [n.upper() if n not in "uv" else "1" for n in names]
    for part in DOCUMENTED[name].split():
        if "/" in part:
            letter, block = part.split("/")
            at = labels.index(letter)
            array = array.reshape(*array.shape[:at], -1, int(block), *array.shape[at + 1 :])
            labels[at : at + 1] = [part, f"{letter}%{block}"]
    order: list[int] = []
    for part in DOCUMENTED[name].split():
        order.append(next(k for k, label in enumerate(labels) if label == part and k not in order))
    return array.transpose(order)


def test_every_tensor_format_is_listed():
    assert set(DOCUMENTED) == set(TENSOR_FORMATS)
    assert len(TENSOR_FORMATS) == 27


@pytest.mark.parametrize("name", TENSOR_FORMATS)
def test_tensor_formats_store_as_documented(name: str):
    shape = shape_for(name)
    values = np.arange(np.prod(shape)).reshape(shape)
    array = stored(name, values)
    layout = MEGENGINE.parse(name, shape)
    assert isinstance(layout, Layout)
    assert np.array_equal(array.ravel()[layout.addresses()], values)
    assert physical_shape(name, shape) == array.shape
    tensor = physical(layout, name)
    assert tensor.shape == array.shape
    assert np.array_equal(tensor.addresses(), np.arange(array.size).reshape(array.shape))
    assert logical(tensor, name).same_map(layout)
    assert MEGENGINE.print(layout) == name


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_names_are_tensor_formats(name: str):
    assert MEGENGINE.parse(name) == MEGENGINE.parse(PARAMETERS[name])


def test_the_examples_of_the_theory():
    shape = (2, 64, 3, 3)
    for name, address in (("NCHW4", 641), ("CHWN4", 133)):
        layout = MEGENGINE.parse(name, shape)
        assert isinstance(layout, Layout)
        assert layout.address((1, 5, 2, 1)) == address


def test_tensor_layouts_print_extents_with_strides():
    layout = from_strides((2, 16, 3, 3, 4), (576, 36, 12, 4, 1))
    assert MEGENGINE.print(layout) == "{2(576),16(36),3(12),3(4),4(1)}"
    strided = from_strides((3, 4), (10, 1))
    assert MEGENGINE.print(strided) == "{3(10),4(1)}"
    again = MEGENGINE.parse("{3(10),4(1)}")
    assert isinstance(again, Layout)
    assert again.same_map(strided)


def test_strided_tensors_have_every_format_that_divides_them():
    layout = Format.from_tag("nchw").bind((2, 8, 3, 3))
    assert [d[0].stride for d in physical(layout, "NCHWc4").digits] == [72, 36, 3, 1, 9]


def test_sub_tensors_of_a_blocked_tensor_keep_their_format():
    whole = MEGENGINE.parse("NCHWc4", (2, 16, 6, 5))
    assert isinstance(whole, Layout)
    part = whole.slice((0, 0, 0, 0), (2, 8, 6, 3))
    text = MEGENGINE.print(part)
    assert text == "NCHWc4 {2(480),2(120),6(20),3(4),4(1)}"
    again = MEGENGINE.parse(text)
    assert isinstance(again, Layout)
    assert again.same_map(part)


def test_rows_of_images_are_aligned():
    layout = image2d_pack4((1, 5, 2, 7, 4), 2, 64)
    assert [d[0].stride for d in layout.digits] == [320, 64, 28, 4, 1]
    assert (layout.span, layout.extent) == (312, 320)
    with pytest.raises(LayoutError, match="align_axis 0 does not cut"):
        image2d_pack4((1, 5), 0, 64)
    with pytest.raises(LayoutError, match="pitch 0 is not positive"):
        image2d_pack4((1, 5), 1, 0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NCHW5", "knows no 'NCHW5'"),
        ("{2(3", r"expected '\)'"),
        ("{" + ",".join(["1(1)"] * 8) + "}", "at most 7 dims, not 8"),
        ("NCHWc4 {2(3)}", "has 5 physical dims, the tensor has 1"),
        ("NCHWc4 {2(576),16(36),3(12),3(4),5(1)}", "a dim of extent 4, the tensor has 5 there"),
        ("XYZ {2(1)}", "unknown tensor format 'XYZ'"),
    ],
)
def test_negative_texts(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        MEGENGINE.parse(text)


def test_negative_channels_that_a_block_does_not_divide():
    with pytest.raises(
        LayoutError, match="extent 17 of dim 'c' is no multiple of 4: format NCHWc4 does not pad"
    ):
        physical_shape("NCHWc4", (2, 17, 3, 3))
    with pytest.raises(LayoutError, match="extent 2 of dim 'u' must be 1"):
        physical_shape("C11RS", (4, 2, 1, 3, 3))
    with pytest.raises(LayoutError, match="padded elsewhere"):
        MEGENGINE.print(Format.from_tag("nChw4c").bind((2, 17, 3, 3)))
    with pytest.raises(LayoutError, match="it has other digits"):
        physical(Format.parse("(n, c, h, w) : [n, c, h, w, c:2]").bind((2, 8, 3, 3)), "NCHWc4")
