"""Targets with kernels of one kind."""

from __future__ import annotations

from dataclasses import replace

from layout_ir.algebra.format import Format
from layout_ir.passes.selection.options.conv_kernels import Target, no_kernels
from layout_ir.passes.selection.options.targets import find_target
from layout_ir.passes.selection.options.uniform_kernels import KINDS, kernels_of, uniform_targets
from tests.passes.selection.options.convs import conv_of

OUTPUTS = {"plain": "nchw", "channels last": "nhwc", "blocks of 8": "nChw8c"}


def test_each_kind_leaves_kernels_with_its_output() -> None:
    targets = uniform_targets(find_target("avx2"))
    assert list(targets) == list(KINDS)
    for kind, tag in OUTPUTS.items():
        found = {kernel.y for kernel in targets[kind].conv_kernels(conv_of(64, 64))}
        assert found == {Format.from_tag(tag)}, kind


def test_negative_a_convolution_without_kernels_of_the_kind_keeps_all() -> None:
    target = find_target("avx2")  # whose blocks are of 8
    conv = conv_of(64, 64)
    assert list(kernels_of(target.conv_kernels, KINDS["blocks of 16"])(conv)) == list(
        target.conv_kernels(conv)
    )


def test_negative_a_target_without_convolutions_has_no_kinds() -> None:
    assert uniform_targets(Target("none", conv_kernels=no_kernels)) == {}


def test_all_else_is_that_of_the_target() -> None:
    target = find_target("avx2")
    for made in uniform_targets(target).values():
        assert replace(made, name=target.name, conv_kernels=target.conv_kernels) == target
