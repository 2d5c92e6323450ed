"""The table of targets: names, kernels, and what each does to one convolution."""

from __future__ import annotations

import pytest

from layout_ir.algebra.format import Format
from layout_ir.diagnostics import collect
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.options import onednn_query, targets
from layout_ir.passes.selection.options.conv_kernels import ConvShape
from layout_ir.passes.selection.options.targets import NAMES, target_named
from layout_ir.tools.commands.optimize import TARGETS
from tests.passes.selection.options.convs import conv_of

EVERY = (*NAMES, "ort-nchwc8", "ort-nchwc16")
CONVS = [
    conv_of(3, 64, kernel=7, stride=2, image=224),
    conv_of(64, 64),
    conv_of(24, 60, kernel=1),
    conv_of(32, 32, 32),
    conv_of(48, 96, 4),
    conv_of(16, 16, rank=1),
    conv_of(16, 16, rank=3, image=6),
    conv_of(64, 64, dtype="bf16"),
]


def test_the_help_text_lists_the_targets() -> None:
    assert TARGETS == NAMES


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("conv", CONVS, ids=str)
def test_every_target_has_a_kernel_that_fits(name: str, conv: ConvShape) -> None:
    kernels = list(target_named(name).conv_kernels(conv))
    assert kernels
    for kernel in kernels:
        kernel.x.bind((conv.batch, conv.channels, *conv.image))
        kernel.w.bind((conv.outputs, conv.inputs_per_group, *conv.kernel))
        assert kernel.y.rank == conv.spatial_rank + 2
        assert kernel.rate >= 1


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("avx2", "nChw8c"),
        ("avx512", "nChw16c"),
        ("channels-last", "nhwc"),
        ("ort-nchwc8", "nChw8c"),
        ("ort-nchwc16", "nChw16c"),
        ("megengine-cuda", "nchw"),
    ],
)
def test_the_fastest_kernel_is_the_one_the_target_is_known_for(name: str, tag: str) -> None:
    fastest = max(target_named(name).conv_kernels(conv_of(64, 64)), key=lambda kernel: kernel.rate)
    assert fastest.x == fastest.y == Format.from_tag(tag)


def test_host_and_the_block_of_onnx_runtime_follow_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    for host, block in (("avx512", 16), ("avx2", 8), ("channels-last", 8)):
        monkeypatch.setattr(targets, "_host", lambda host=host: host)
        assert target_named("host").name == host
        assert target_named("ort-nchwc").name == f"ort-nchwc{block}"


def test_a_library_that_cannot_be_asked_is_remarked_upon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_query, "unavailable", lambda: "it is not installed")
    with collect() as said:
        target = target_named("onednn")
    assert [d.message for d in said] == [
        "target onednn: oneDNN cannot be asked (it is not installed): its rules for AVX2 are used"
    ]
    tags = [kernel.y for kernel in target.conv_kernels(conv_of(64, 64))]
    assert tags == [Format.from_tag("nhwc"), Format.from_tag("nchw")]


def test_negative_other_targets_are_silent() -> None:
    with collect() as said:
        for name in ("avx2", "htp", "ort-nchwc8", "host"):
            target_named(name)
    assert said == []


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(LayoutError, match=r"^unknown target 'sparc': targets are host, avx2, .*, ort-nchwc$"):
        target_named("sparc")
