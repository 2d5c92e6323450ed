"""The table of targets: names, kernels, and what each does to one convolution."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from layout_ir.algebra.format import Format
from layout_ir.diagnostics import collect
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.options import onednn_query, targets
from layout_ir.passes.selection.options.conv_kernels import ConvShape, Target, row_major_kernel
from layout_ir.passes.selection.options.targets import (
    find_target,
    register_target,
    target_named,
    target_names,
)
from layout_ir.tools.commands.optimize import TARGETS
from tests.passes.selection.options.convs import conv_of

EVERY = (*target_names(), "ort-nchwc8", "ort-nchwc16")
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
    assert target_names() == TARGETS


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
        ("blocked8", "nChw8c"),
        ("blocked16", "nChw16c"),
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
    assert tags == [Format.from_tag(tag) for tag in ("nhwc", "nChw8c", "nchw")]


def test_negative_other_targets_are_silent() -> None:
    with collect() as said:
        for name in ("blocked8", "htp", "ort-nchwc8", "host"):
            target_named(name)
    assert said == []


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        LayoutError,
        match=r"^unknown target 'sparc': targets are host, avx2, .*, ort-nchwc, or package:name of one's own$",
    ):
        target_named("sparc")


def test_a_registered_target_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_targets", dict(vars(targets)["_targets"]))
    own = Target("toy", "row-major convolutions", lambda conv: [row_major_kernel(conv, 1)])
    with pytest.raises(LayoutError, match="unknown target 'toy'"):
        find_target("toy")
    register_target(own)
    assert target_named("toy") is own
    assert "toy" in target_names()


@pytest.mark.parametrize("name", ["blocked8", "host", "ort-nchwc"])
def test_negative_a_name_that_is_taken_is_refused(name: str) -> None:
    before = target_names()
    with pytest.raises(LayoutError, match=f"there is a target '{name}' already"):
        register_target(Target(name, "", lambda conv: ()))
    assert target_names() == before


@pytest.mark.parametrize("name", ["", "a b", "npu:NPU", "-x"])
def test_negative_what_is_no_name_is_refused(name: Any) -> None:
    with pytest.raises(LayoutError, match="is no name of a target"):
        register_target(Target(name))


def test_a_target_stands_for_itself() -> None:
    own = Target("own")
    assert find_target(own) is own


MODULE = """\
from layout_ir.extend import Target
NPU = Target("npu")
OTHER = Target("other")
def made():
    return NPU
def broken():
    raise RuntimeError("no device")
number = 5
"""


@pytest.mark.parametrize("entry", ["theirs:NPU", "theirs:made"])
def test_a_target_of_an_installed_package_is_found_by_its_name(
    install: Callable[..., None], entry: str
) -> None:
    install(MODULE, targets=f"npu = {entry}")
    assert "npu" in target_names() and "theirs" not in sys.modules
    assert find_target("npu").name == "npu"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("theirs:OTHER", "'npu' is a target named 'other'"),
        ("theirs:number", "'npu' is of type int, expected a Target"),
        ("theirs:broken", "'npu': RuntimeError: no device"),
        ("theirs:missing", "'npu' of package theirs cannot be loaded"),
    ],
)
def test_negative_what_a_package_names_is_a_target(
    install: Callable[..., None], entry: str, message: str
) -> None:
    install(MODULE, targets=f"npu = {entry}")
    with pytest.raises(LayoutError, match=f"^layout_ir.targets: {message}"):
        find_target("npu")


def test_a_target_of_any_package_is_found_by_package_and_name(install: Callable[..., None]) -> None:
    install(MODULE)
    assert find_target("theirs:NPU").name == "npu"
    assert find_target("theirs:made") is find_target("theirs:NPU")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("theirs:missing", "theirs has no missing: its targets are NPU, OTHER"),
        ("theirs:number", "is of type int, expected a Target"),
        ("theirs:broken", "RuntimeError: no device"),
        ("there is:none", "expected package:name"),
        ("theirs:", "expected package:name"),
        (":NPU", "expected package:name"),
        ("theirs:NPU.name", "expected package:name"),
        ("thiers:NPU", "importing thiers: ModuleNotFoundError"),
    ],
)
def test_negative_a_package_without_the_target_is_an_error(
    install: Callable[..., None], name: str, message: str
) -> None:
    install(MODULE)
    with pytest.raises(LayoutError, match=f"^target '{name}'.* *{message}"):
        find_target(name)
