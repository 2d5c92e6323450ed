"""Weights of a model packed in one call: as oneDNN packs them, byte for byte, and as one reorder each would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import layout_ir as li
from layout_ir.api.prepacking import Compensation, WeightPacking, compile_prepack
from layout_ir.arrays.descriptor import TensorDesc
from layout_ir.elements.element_types import element_type
from layout_ir.errors import LayoutError
from layout_ir.notations.onednn import BlockingDesc
from tests.oracles import onednn
from tests.oracles.onednn_weights import convolution_weights, matmul_weights
from tests.processes import run_python

NO_ONEDNN = onednn.executes()
needs_onednn = pytest.mark.skipif(NO_ONEDNN is not None, reason=f"no oneDNN: {NO_ONEDNN}")

BOTH: tuple[Compensation, ...] = ("s8s8", "zero_point")
CONVOLUTIONS: list[tuple[tuple[int, ...], dict[str, Any], tuple[Compensation, ...]]] = [
    ((64, 64, 3, 3), {}, ("s8s8",)),
    ((64, 3, 7, 7), {"stride": 2, "image": 56}, ("s8s8",)),
    ((60, 20, 3, 3), {"src_zero": True}, BOTH),
    ((256, 64, 1, 1), {"src": "ui8", "src_zero": True}, ("zero_point",)),
    ((64, 64, 3, 3), {"src": "ui8"}, ()),
    ((1000, 512, 1, 1), {"src_zero": True}, BOTH),
    ((512, 256, 3, 3), {"src_zero": True}, BOTH),
    ((32, 1, 1, 3, 3), {}, ("s8s8",)),
    ((4, 8, 8, 3, 3), {"src_zero": True}, BOTH),
]
MATMULS: list[tuple[tuple[int, ...], dict[str, Any], tuple[Compensation, ...]]] = [
    ((768, 768), {}, ("s8s8",)),
    ((768, 1024), {"src": "ui8", "src_zero": True}, ("zero_point",)),
    ((100, 50), {"src_zero": True}, BOTH),
]


def _destination(desc: onednn.Desc, dtype: str) -> TensorDesc:
    x = desc.described()
    numbers = x.dims, x.padded_dims, x.padded_offsets, x.offset0, x.strides, x.inner_blks, x.inner_idxs
    return TensorDesc(x.dims, dtype, replace(BlockingDesc(*numbers).layout(), pad="zero"))


def differing(
    desc: onednn.Desc, packing: WeightPacking, x: NDArray[Any], attributes: onednn.Attributes
) -> int | None:
    """How many bytes of ours are not the library's; None where it has no such reorder."""
    ours, theirs = (np.zeros(size, np.int8) for size in (packing.sizes[1], desc.size))
    assert ours.size == theirs.size
    compile_prepack([packing], threads=2)([x], [ours])
    source = onednn.Desc.from_strides(
        x.shape, [step // x.itemsize for step in x.strides], packing.source.dtype
    )
    try:
        onednn.reorder(source, x, desc, theirs, attributes)
    except onednn.OneDNNError:
        return None
    return int((ours != theirs).sum())


def _convolution(
    shape: tuple[int, ...], options: dict[str, Any], sums: tuple[Compensation, ...], halved: float = 1.0
) -> int | None:
    """`differing` for a convolution's weights from f32, with a scale for each output channel."""
    channels = (0, 1) if len(shape) == 5 else (0,)
    x = np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)
    scale = np.abs(x).max(tuple(range(len(channels), x.ndim))).ravel() / 100
    desc = convolution_weights(shape, **options)
    half = halved if "s8s8" in sums else 1.0
    # oneDNN multiplies where a destination's scale divides: its numbers are scales of the source.
    ratio = (1 / scale.astype(np.float64)).astype(np.float32)
    packing = WeightPacking(
        TensorDesc(shape, "f32"), _destination(desc, "i8"), (ratio * half, None), channels, sums
    )
    return differing(desc, packing, x, onednn.Attributes(src_scale=(sum(1 << d for d in channels), ratio)))


@needs_onednn
@pytest.mark.parametrize(("shape", "options", "sums"), CONVOLUTIONS, ids=str)
def test_convolutions_of_onednn_get_their_weights_byte_for_byte(
    shape: tuple[int, ...], options: dict[str, Any], sums: tuple[Compensation, ...]
):
    desc = convolution_weights(shape, **options)
    channels = (0, 1) if len(shape) == 5 else (0,)
    if (
        WeightPacking(TensorDesc(shape, "f32"), _destination(desc, "i8"), None, channels, sums).sizes[1]
        != desc.size
    ):
        pytest.skip("the kernels of this CPU take other sums")
    # Without instructions for u8 by s8 (VNNI), the library halves weights of s8s8, so that sums of two fit 16 bits.
    assert _convolution(shape, options, sums) == 0 or _convolution(shape, options, sums, 0.5) == 0


def main() -> int:
    """Prints for every convolution how many bytes differ, weights halved; for a process held to fewer instructions."""
    print([_convolution(*case, 0.5) for case in CONVOLUTIONS])
    return 0


@needs_onednn
@pytest.mark.parametrize("isa", ["AVX2", "AVX512_CORE"])
def test_halved_weights_are_a_scale_that_is_doubled(isa: str):
    result = run_python(
        "-c", "from tests.api.test_prepacking import main; main()", variables={"ONEDNN_MAX_CPU_ISA": isa}
    )
    assert result.stdout.split() == str([0] * len(CONVOLUTIONS)).split()


@needs_onednn
@pytest.mark.parametrize(("shape", "options", "sums"), MATMULS, ids=str)
def test_matmuls_of_onednn_get_their_weights_byte_for_byte(
    shape: tuple[int, ...], options: dict[str, Any], sums: tuple[Compensation, ...]
):
    desc = matmul_weights(shape, **options)
    x = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    packing = WeightPacking(TensorDesc(shape, "i8"), _destination(desc, "i8"), None, (1,), sums)
    if packing.sizes[1] != desc.size:
        pytest.skip("the kernels of this CPU take other sums")
    assert differing(desc, packing, x, onednn.Attributes()) == 0


WEIGHTS = [(64, 64, 3, 3), (60, 20, 3, 3), (300, 256, 1, 1), (64, 3, 7, 7)]


def _weights() -> list[NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    return [rng.normal(0, 1, shape).astype(np.float32) for shape in WEIGHTS]


@pytest.mark.parametrize("dtype", [None, "bf16", "f16", "f8E4M3FN", "i8"])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_weight_is_what_one_reorder_makes_of_it(dtype: str | None, threads: int):
    weights, formats = _weights(), ["OhwI64o4i", "OIhw8i16o2i", "Ohwi64o", "hwio"]
    for x, fmt, found in zip(
        weights, formats, li.prepack(weights, formats, dtype=dtype, threads=threads), strict=True
    ):
        wanted = li.reorder(x, "oihw", li.Format.of(fmt).with_pad("zero"), dtype=dtype)
        assert found.dtype == wanted.dtype and np.array_equal(found, wanted.ravel())


def test_sums_stand_behind_the_weights():
    weights = _weights()
    scales = [np.abs(x).max((1, 2, 3)) / 127 for x in weights]
    packed = li.prepack(weights, "OhwI64o4i", dtype="i8", scales=scales, compensation=BOTH)
    for x, scale, found in zip(weights, scales, packed, strict=True):
        stored = np.clip(np.rint(x / scale[:, None, None, None]), -128, 127).astype(np.int8)
        data = li.reorder(stored, "oihw", li.Format.of("OhwI64o4i").with_pad("zero")).ravel()
        sums = np.zeros((len(x) + 63) // 64 * 64, np.int32)
        sums[: len(x)] = stored.astype(np.int32).sum((1, 2, 3))
        assert np.array_equal(found[: data.size], data)
        assert np.array_equal(found[data.size :].view(np.int32), np.concatenate([-128 * sums, -sums]))


def test_scales_of_groups_are_one_for_each_channel_of_each_group():
    x = np.random.default_rng(0).normal(0, 1, (3, 8, 5, 2, 2)).astype(np.float32)
    scales = np.random.default_rng(1).uniform(0.01, 0.1, 24).astype(np.float32)
    [found] = li.prepack([x], "goihw", dtype="i8", scales=[scales], channels=(0, 1))
    wanted = np.rint(x / scales.reshape(3, 8, 1, 1, 1))
    assert np.array_equal(found, np.clip(wanted, -128, 127).ravel())


@pytest.mark.parametrize("channels", [1, np.int64(1), (1,), [np.int32(1)]])
def test_the_dim_of_the_channels_is_any_whole_number(channels: Any):
    x = np.ones((2, 3, 1, 1), np.float32)
    [found] = li.prepack([x], "oihw", dtype="i8", scales=[[0.5, 0.25, 0.125]], channels=channels)
    assert found.tolist() == [2, 4, 8] * 2


@pytest.mark.parametrize("shape", [(1, 8, 1, 1, 4), (13, 3, 2, 1, 1), (3, 20, 5, 2, 1)])
@pytest.mark.parametrize("compensation", [(), ("s8s8", "zero_point")])
@pytest.mark.parametrize("tag", ["Abcde8a", "Abcde16a", "acbde", "aBdec16b", "aBCde4b16c4b"])
def test_scales_of_groups_leave_zeros_in_the_pads_and_sums_behind_them(
    shape: tuple[int, ...], compensation: tuple[Compensation, ...], tag: str
):
    rng = np.random.default_rng(0)
    x = rng.integers(-20, 21, shape).astype(np.float32)
    scales = rng.choice([0.5, 1.0, 2.0, 4.0], shape[0] * shape[1])
    options: dict[str, Any] = {"dtype": "i8", "channels": (0, 1), "compensation": compensation}
    [found] = li.prepack([x], tag, scales=[scales], **options)
    [wanted] = li.prepack([x / scales.reshape(*shape[:2], 1, 1, 1)], tag, scales=[1.0], **options)
    assert found.nbytes == wanted.nbytes and np.array_equal(found, wanted)


def test_negative_scales_of_groups_in_blocks_whose_channels_are_padded_as_well():
    x = np.ones((3, 5, 7, 1, 1), np.float32)
    with pytest.raises(
        LayoutError, match=r"weight 0: numbers for each channel of dims \(0, 1\) need them to be one"
    ):
        li.prepack([x], "ABcde8a16b", dtype="i8", scales=[np.ones(15)], channels=(0, 1))
    for count in (14, 16):
        with pytest.raises(LayoutError, match=f"weight 0: {count} scales, expected 15, one for each channel"):
            li.prepack([x], "aBcde16b", dtype="i8", scales=[np.ones(count)], channels=(0, 1))


def test_a_compiled_list_is_called_again_with_other_buffers():
    shapes = [(70, 30), (128, 64)]
    packed = li.compile_prepack(
        [
            li.WeightPacking(TensorDesc(s, "f32"), TensorDesc(s, "bf16", "BA16a64b2a"), channels=(1,))
            for s in shapes
        ]
    )
    out: list[NDArray[Any]] = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        sources = [rng.normal(0, 1, s).astype(np.float32) for s in shapes]
        out = [np.zeros(p.sizes[1] // 2, np.uint16) for p in packed.packings]
        packed(sources, out)
        for x, y in zip(sources, out, strict=True):
            assert np.array_equal(y, li.reorder(x, "ab", "BA16a64b2a", dtype="bf16").ravel())
    assert packed.nbytes == sum(4 * a * b for a, b in shapes) + sum(y.nbytes for y in out)


def test_weights_without_elements_and_no_weights_are_packed():
    assert li.prepack([], "ab") == []
    [found] = li.prepack([np.zeros((0, 5), np.float32)], "ab")
    assert found.size == 0


@pytest.mark.parametrize("dtype", ["bf16", "f8E4M3FN", "f8E5M2"])
def test_arrays_of_types_that_ml_dtypes_adds_are_packed(dtype: str):
    kind = np.dtype(getattr(pytest.importorskip("ml_dtypes"), element_type(dtype).array_name))
    x = np.arange(30).reshape(6, 5).astype(kind)
    [bits] = li.prepack([x], "ba")
    assert bits.view(kind).tolist() == x.T.reshape(-1).tolist()
    [numbers] = li.prepack([x], "ba", dtype="f32")
    assert numbers.tolist() == x.T.reshape(-1).tolist()


@pytest.mark.parametrize(
    ("kind", "source_dtype"), [("int4", None), ("int4", "i4"), ("int8", "i4"), ("float4_e2m1fn", None)]
)
def test_negative_an_element_in_each_byte_is_no_element_of_four_bits(kind: str, source_dtype: str | None):
    x = np.zeros((6, 4)).astype(getattr(pytest.importorskip("ml_dtypes"), kind, kind))
    with pytest.raises(
        li.LayoutError, match=f"weight 0: elements of .* share bytes, and those of .* {kind} do not"
    ):
        li.prepack([x], "ba", source_dtype=source_dtype)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"formats": "abc"}, "weight 0: .*rank"),
        ({"formats": ["ab"]}, "formats has 1 entries, expected 2"),
        ({"formats": "ab", "scales": [None, 0.5]}, "weight 1: .*either side"),
        (
            {"formats": "ab", "dtype": "i8", "scales": [0.5, [0.5, 0.25]]},
            "weight 1: .*2 numbers, expected one or 6",
        ),
        ({"formats": "ab", "dtype": "i8", "scales": [0.5, -1.0]}, "weight 1: scale -1.0"),
        ({"formats": "ab", "compensation": ("s8s8",)}, "weight 0: .*those of i8"),
        (
            {"formats": "ab", "dtype": "i8", "compensation": ("sum",)},
            "unknown compensation 'sum': known are s8s8",
        ),
        (
            {"formats": "ab", "dtype": "i8", "channels": 2, "scales": [0.5, 0.5]},
            r"channels \(2,\) are no dims",
        ),
        (
            {"formats": "(a, b) : [a, b, b:4], pad = undef", "dtype": "i8", "compensation": ("s8s8",)},
            "hold undef",
        ),
        ({"formats": "ab", "threads": 0}, "threads = 0 is no number of threads"),
    ],
)
def test_negative_lists_that_cannot_be_packed(options: dict[str, Any], message: str):
    with pytest.raises(li.LayoutError, match=message):
        li.prepack([np.zeros((6, 5), np.float32)] * 2, **options)


def test_negative_buffers_that_do_not_fit():
    packed = compile_prepack([WeightPacking(TensorDesc((4, 6), "f32"), TensorDesc((4, 6), "f32", "ba"))] * 2)
    x, y = np.zeros((2, 4, 6), np.float32), np.zeros((2, 24), np.float32)
    packed(list(x), list(y))
    packed([x[0], x[0]], list(y))  # a source may be shared
    for sources, targets, message in (
        ([x[0]], list(y), "1 sources and 2 destinations for 2 weights"),
        (list(x), [y[0], y[0]], "overlap"),
        (
            list(x),
            [y[0], x.reshape(2, 24)[0]],
            "source 0 and destination 1 overlap|destination 1 and source 0 overlap",
        ),
        (list(x), [y[0], y[1, :20]], "destination 1 has 80 bytes, expected 96"),
        ([x[0], x[1].T], list(y), "source 1 is not contiguous"),
        ([x[0], x[1].astype(np.float64)], list(y), "source 1 has elements of float64"),
        ([x[0], x[1].tolist()], list(y), "source 1 is of type list"),
    ):
        with pytest.raises(li.LayoutError, match=message):
            packed(sources, targets)


def test_negative_a_weight_is_described_by_descriptors():
    desc: Any = TensorDesc((2, 3), "f32", "ab")
    cases: list[tuple[Any, str]] = [
        ((desc.layout, desc), "source of a weight is a TensorDesc, not Format.parse"),
        ((desc, "ba"), "destination of a weight is a TensorDesc, not 'ba'"),
    ]
    for sides, message in cases:
        with pytest.raises(li.LayoutError, match=message):
            WeightPacking(*sides)
    with pytest.raises(li.LayoutError, match="weight 0: a WeightPacking is needed, not TensorDesc"):
        compile_prepack([desc])
