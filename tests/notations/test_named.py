"""Vendor names (TensorRT, cuDNN, cuBLASLt, Arm Compute Library, ONNX Runtime), against formulas written out here."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS
from layout_ir.notations.named import NamedNotation

Index = tuple[int, ...]


def up(n: int, v: int) -> int:
    return -(-n // v) * v


def vectors(v: int) -> Callable[[Index, Index], int]:
    """[N][ceil(C/V)][H][W][V]."""
    return lambda x, s: (((x[0] * (up(s[1], v) // v) + x[1] // v) * s[2] + x[2]) * s[3] + x[3]) * v + x[1] % v


def channels_last(v: int) -> Callable[[Index, Index], int]:
    """[N][H][W][C rounded up to V]."""
    return lambda x, s: ((x[0] * s[2] + x[2]) * s[3] + x[3]) * up(s[1], v) + x[1]


def rows(v: int) -> Callable[[Index, Index], int]:
    """[N][C][H][W rounded up to V]."""
    return lambda x, s: ((x[0] * s[1] + x[1]) * s[2] + x[2]) * up(s[3], v) + x[3]


def weights(by: int, block: int) -> Callable[[Index, Index], int]:
    """[O/by][H][W][I/block][by][block]."""

    def address(x: Index, s: Index) -> int:
        outer = ((x[0] // by * s[2] + x[2]) * s[3] + x[3]) * (up(s[1], block) // block) + x[1] // block
        return (outer * by + x[0] % by) * block + x[1] % block

    return address


def filters(b: int) -> Callable[[Index, Index], int]:
    """[O/B][I/B][H][W][Bi][Bo]."""
    return lambda x, s: (
        ((((x[0] // b * (up(s[1], b) // b) + x[1] // b) * s[2] + x[2]) * s[3] + x[3]) * b + x[1] % b) * b
        + x[0] % b
    )


CASES: list[tuple[str, str, str | None, Callable[[Index, Index], int]]] = [
    ("tensorrt", "kLINEAR", None, rows(1)),
    *(("tensorrt", f"kCHW{v}", None, vectors(v)) for v in (2, 4, 16, 32)),
    ("tensorrt", "kHWC", None, channels_last(1)),
    ("tensorrt", "kHWC8", None, channels_last(8)),
    ("tensorrt", "kHWC16", None, channels_last(16)),
    ("tensorrt", "kDLA_LINEAR", "f16", rows(32)),
    ("tensorrt", "kDLA_LINEAR", "i8", rows(64)),
    ("cudnn", "CUDNN_TENSOR_NCHW", None, rows(1)),
    ("cudnn", "CUDNN_TENSOR_NHWC", None, channels_last(1)),
    ("cudnn", "CUDNN_TENSOR_NCHW_VECT_C/int8x4", None, vectors(4)),
    ("cudnn", "CUDNN_TENSOR_NCHW_VECT_C/int8x32", None, vectors(32)),
    ("acl", "NHWC", None, channels_last(1)),
    *(("acl", f"OHWIo{a}i{b}", None, weights(a, b)) for a, b in ((4, 2), (8, 4), (16, 4), (2, 8))),
    ("acl", "OHWIo8", None, weights(8, 1)),
    ("acl", "OHWIo8i4_bf16", None, weights(8, 4)),
    ("onnxruntime", "NCHWc/8", None, vectors(8)),
    ("onnxruntime", "NCHWc/16", None, vectors(16)),
    ("onnxruntime", "OIHWBiBo/8", None, filters(8)),
]


@pytest.mark.parametrize(
    ("notation", "name", "dtype", "address"), CASES, ids=lambda v: v if isinstance(v, str) else ""
)
@pytest.mark.parametrize("shape", [(2, 5, 3, 7), (3, 32, 2, 2), (11, 2, 3, 7), (1, 1, 1, 1)])
def test_names_follow_their_formulas(
    notation: str, name: str, dtype: str | None, address: Callable[[Index, Index], int], shape: Index
):
    layout = NOTATIONS[notation].parse(name, shape, dtype)
    assert isinstance(layout, Layout)
    for index in product(*map(range, shape)):
        assert layout.address(index) == address(index, shape)


def test_the_examples_of_the_theory():
    shape, index = (2, 5, 3, 7), (1, 4, 2, 6)
    for name, address in (("kCHW4", 332), ("kHWC8", 332), ("kDLA_LINEAR", 934)):
        layout = NOTATIONS["tensorrt"].parse(name, shape, "f16")
        assert isinstance(layout, Layout)
        assert layout.address(index) == address
    layout = NOTATIONS["acl"].parse("OHWIo8i4", (11, 7, 2, 3))
    assert isinstance(layout, Layout)
    assert layout.address((9, 6, 1, 2)) == 742


def test_the_composite_tile_of_cublaslt():
    layout = NOTATIONS["cudnn"].parse("CUBLASLT_ORDER_COL32_2R_4R4", (96, 64))
    assert isinstance(layout, Layout)
    for r, c in product(range(96), range(64)):
        row = r % 32
        inside = (((row % 8) // 2 * 4 + row // 8) * 2 + row % 2) * 32 + c % 32
        assert layout.address((r, c)) == (c // 32 * 3 + r // 32) * 1024 + inside
    plain = NOTATIONS["cudnn"].parse("CUBLASLT_ORDER_COL32", (96, 64))
    assert isinstance(plain, Layout)
    assert all(
        plain.address((r, c)) == (c // 32 * 96 + r) * 32 + c % 32 for r, c in product(range(96), range(64))
    )


@pytest.mark.parametrize("notation", ["tensorrt", "cudnn", "acl", "onnxruntime", "megengine"])
def test_every_name_is_found_again(notation: str):
    named = NOTATIONS[notation]
    assert isinstance(named, NamedNotation)
    for name, formats in named.table("f16").items():
        for format in formats:
            assert name in named.names_of(format, "f16")
            assert name in named.names_of(
                format.bind((33,) * format.rank) if format.rank < 5 else format, "f16"
            )


def test_names_go_by_digits_and_not_by_recipes():
    # One channel: both orders hold, and the recipe's own name comes first.
    tensorrt = NOTATIONS["tensorrt"]
    assert isinstance(tensorrt, NamedNotation)
    assert tensorrt.names_of(Format.from_tag("nhwc").bind((2, 1, 3, 4)))[0] == "kHWC"
    assert "kLINEAR" in tensorrt.names_of(Format.from_tag("nhwc").bind((2, 1, 3, 4)))
    assert tensorrt.print(Format.parse("(n, c, h, w) : [n*60, h*15, w*3, c]").bind((2, 3, 4, 5))) == "kHWC"


@pytest.mark.parametrize(
    ("notation", "name", "shape", "reason"),
    [
        ("tensorrt", "kCHW8", None, "tensorrt knows no 'kCHW8'"),
        ("tensorrt", "kDLA_LINEAR", None, "knows no 'kDLA_LINEAR'"),
        ("tensorrt", "kCHW4", (2, 3), "for tensors of rank 4, not 2"),
        ("onnxruntime", "NCHWc", None, "its names are NCHW, NHWC, NCHWc/8"),
    ],
)
def test_negative_names(notation: str, name: str, shape: Index | None, reason: str):
    with pytest.raises(LayoutError, match=reason):
        NOTATIONS[notation].parse(name, shape)


def test_negative_layouts_without_a_name():
    with pytest.raises(LayoutError, match=r"tensorrt cannot say .* it is none of kLINEAR, kCHW2"):
        NOTATIONS["tensorrt"].print(Format.from_tag("nChw8c"))
    with pytest.raises(LayoutError, match=r"acl cannot say .* no names for rank 2"):
        NOTATIONS["acl"].print(Format.from_tag("nc"))
