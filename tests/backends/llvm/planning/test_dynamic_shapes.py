"""A plan for dynamic shapes moves what the layouts say, for every shape that its guards admit; the fallback for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import product
from random import Random
from typing import Any, cast

import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm.planning.dynamic_shapes import (
    DynamicPlan,
    DynamicReorder,
    DynamicShape,
    dynamic_reorder,
)
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.dialects.kernel.plan import Plan, Tile
from layout_ir.dialects.kernel.plan_verifier import check_plan
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError
from layout_ir.symbolic.shape_env import ShapeEnv
from layout_ir.symbolic.symint import SymInt
from tests.backends.llvm.planning.plans import TAGS, WIDE, random_shape
from tests.plan_evaluation import definition, definition_of_conversion, evaluate

REORDERS: list[tuple[str, str, DynamicShape, str, tuple[int, ...]]] = [
    ("ab", "ba", (None, None), "f32", (20, 33)),
    ("nchw", "nhwc", (None, 3, None, 5), "i8", (2, 3, 4, 5)),
    ("nchw", "nChw8c", (1, None, None, 3), "f32", (1, 17, 6, 3)),
    ("nChw8c", "nhwc", (1, None, 4, None), "bf16", (1, 16, 4, 5)),
    ("(a, b) : [a, b, b:4]", "(a, b) : [b, a, a:8]", (None, None), "i32", (16, 9)),
    ("ab", "(a, b) : [b, a], pad = 2, offset = 5, lo = [0, 3]", (None, None), "i8", (9, 20)),
]


def _known(part: Any, shape_env: ShapeEnv, extents: Sequence[int]) -> Any:
    """A part of a plan with the value that every symbolic size has for `extents`."""
    if isinstance(part, SymInt):
        return shape_env.value(part.terms, extents)
    if isinstance(part, tuple):
        return tuple(_known(x, shape_env, extents) for x in cast("tuple[object, ...]", part))
    if is_dataclass(part) and not isinstance(part, type | Conversion):
        return replace(
            part, **{x.name: _known(getattr(part, x.name), shape_env, extents) for x in fields(part)}
        )
    return part


def _at(plan: DynamicPlan, extents: Sequence[int]) -> Plan:
    return _known(plan.plan, plan.shape_env, extents)


def _reorder(src: str, dst: str, shape: DynamicShape, dtype: str) -> DynamicReorder:
    return dynamic_reorder(Format.of(src), Format.of(dst), shape, dtype, WIDE)


def _shapes(shape: DynamicShape, hint: Sequence[int]) -> list[tuple[int, ...]]:
    """Shapes near to the hint and small ones."""
    choices = [
        (known,) if known is not None else (1, 7, max(near - 1, 1), near, near + 1, near + 8)
        for known, near in zip(shape, hint, strict=True)
    ]
    return list(product(*choices))


def _means_what_the_layouts_say(reorder: DynamicReorder, plan: DynamicPlan, extents: tuple[int, ...]) -> bool:
    src, dst = reorder.src.bind(extents), reorder.dst.bind(extents)
    pair, known = reorder.pair, _at(plan, extents)
    pad = None if dst.pad == "undef" else reorder.pad.to_bytes(pair.dst, "little")
    sizes = pair.src_bytes(src.extent), pair.dst_bytes(dst.extent)
    if pair.conversion is None:
        wanted = definition(src, dst, pair.src, pad)
    else:
        wanted = definition_of_conversion(src, dst, pair.conversion, pad)
    return evaluate(known) == wanted and (known.src_bytes, known.dst_bytes) == sizes


@pytest.mark.parametrize("src, dst, shape, dtype, hint", REORDERS)
def test_a_plan_is_right_for_every_shape_that_it_serves(
    src: str, dst: str, shape: DynamicShape, dtype: str, hint: tuple[int, ...]
):
    reorder = _reorder(src, dst, shape, dtype)
    plan = reorder.specialize(hint)
    assert plan.serves(hint)
    served = [extents for extents in _shapes(shape, hint) if plan.serves(extents)]
    assert len(served) > 1
    for extents in served:
        assert _means_what_the_layouts_say(reorder, plan, extents), extents


@pytest.mark.parametrize("seed", range(4))
def test_no_plan_leaves_its_buffers_for_any_shape_that_it_serves(seed: int):
    rng, checked = Random(seed), 0
    while checked < 200:
        hint = random_shape(rng)
        shape = tuple(None if rng.random() < 0.6 else extent for extent in hint)
        src, dst = rng.sample(TAGS, 2)
        plan = _reorder(src, dst, shape, rng.choice(["f32", "bf16", "ui8"])).specialize(hint)
        others = [hint, *(
            tuple(
                known or max(near + rng.choice([0, 0, 1, -1, 16, -16, near]), 1)
                for known, near in zip(shape, hint, strict=True)
            )
            for _ in range(4)
        )]  # fmt: skip
        for extents in others:
            if plan.serves(extents):
                check_plan(_at(plan, extents))
                checked += 1


@pytest.mark.parametrize("src, dst, shape, dtype, hint", REORDERS)
def test_the_fallback_is_right_for_all_shapes(
    src: str, dst: str, shape: DynamicShape, dtype: str, hint: tuple[int, ...]
):
    reorder = _reorder(src, dst, shape, dtype)
    plan = reorder.fallback()
    for extents in _shapes(shape, hint)[::2]:
        assert plan.serves(extents)
        assert _means_what_the_layouts_say(reorder, plan, extents), extents


def test_conversions_keep_their_channels():
    scales = tuple(float(k + 1) for k in range(6))
    conversion = Conversion("f32", "i8", dst_scale=scales, dim=1, channels=6)
    reorder = dynamic_reorder(Format.of("ab"), Format.of("ba"), (None, 6), conversion, WIDE)
    for plan in (reorder.specialize((9, 6)), reorder.fallback()):
        for extents in ((9, 6), (10, 6), (31, 6)):
            assert not plan.serves(extents) or _means_what_the_layouts_say(reorder, plan, extents)


def test_blocks_that_divide_the_hint_are_planned_without_pads():
    reorder = _reorder("nchw", "nChw8c", (1, None, 4, 4), "f32")
    whole, part = reorder.specialize((1, 24, 4, 4)), reorder.specialize((1, 25, 4, 4))
    assert [whole.serves((1, c, 4, 4)) for c in (16, 24, 25)] == [True, True, False]
    assert [part.serves((1, c, 4, 4)) for c in (16, 24, 25, 26)] == [False, False, True, True]
    assert len(whole.plan.steps) < len(part.plan.steps)


def test_negative_the_fallback_has_no_tiles_and_a_plan_for_large_shapes_has():
    reorder = _reorder("ab", "ba", (None, None), "f32")
    assert any(isinstance(step.kernel, Tile) for step in reorder.specialize((64, 64)).plan.steps)
    assert not any(isinstance(step.kernel, Tile) for step in reorder.fallback().plan.steps)
    assert not reorder.specialize((64, 64)).serves((1, 64))


@pytest.mark.parametrize("hint", [(3, 4), (2, 3, 5), (0, 3)])
def test_negative_a_hint_is_a_shape_with_elements(hint: tuple[int, ...]):
    with pytest.raises(LayoutError):
        _reorder("ab", "ba", (None, 3), "f32").specialize(hint)


def test_negative_formats_conversions_and_tables_that_no_kernel_serves():
    ab = Format.of("ab")
    with pytest.raises(LayoutError, match="3 != 2"):
        dynamic_reorder(Format.of("abc"), ab, (None, 3), "f32", WIDE)
    with pytest.raises(LayoutError, match="dst_scale"):
        dynamic_reorder(ab, ab, (None, 3), Conversion("f32", "i8", dst_scale="tensor"), WIDE)
    with pytest.raises(LayoutError, match="dim 0"):
        scales = Conversion("f32", "i8", dst_scale=(1.0, 2.0), dim=0, channels=2)
        dynamic_reorder(ab, ab, (None, 3), scales, WIDE)
    with pytest.raises(LayoutError, match="units"):
        _reorder("(a, b) : [b, a, b:4]", "(a, b) : [a, b, b:8], lo = [0, 3]", (2, None), "f32").fallback()


def test_a_reorder_tells_its_elements_and_blocks():
    reorder = _reorder("nChw8c", "(n, c, h, w) : [n, c, h, w, c:12], pad = 1", (None, None, 3, 3), "f32")
    assert reorder.dtypes == ("f32", "f32")
    assert reorder.pair == ElementPair(4, 4)
    assert reorder.blocks == (1, 24, 1, 1)
    assert reorder.pad == 0x3F800000
