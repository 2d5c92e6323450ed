"""What the strategies draw is right, executable, and free of the extents that hide mistakes."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.frontends.mlir.verify_module import verify_module
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.testing import assert_same_program, formats, layouts, programs, shapes
from tests.layouts import addresses_by_definition
from tests.programs import parse

checks = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@given(shapes())
@checks
def test_shapes_have_no_extent_of_1_and_no_two_equal_ones(shape: tuple[int, ...]):
    assert 1 <= len(shape) <= 4
    assert min(shape) > 1
    assert len(set(shape)) == len(shape)


def seen(strategy: st.SearchStrategy[tuple[int, ...]]) -> set[tuple[int, ...]]:
    found: set[tuple[int, ...]] = set()

    @given(strategy)
    @settings(max_examples=200, deadline=None)
    def collect(shape: tuple[int, ...]) -> None:
        found.add(shape)

    collect()
    return found


def test_negative_shapes_have_them_where_they_are_asked_for():
    found = seen(shapes(3, unit_extents=True, equal_extents=True))
    assert any(1 in shape for shape in found)
    assert any(len(set(shape)) < 3 for shape in found)
    assert not any(1 in shape for shape in seen(shapes(3, equal_extents=True)))
    assert all(len(set(shape)) == 3 for shape in seen(shapes(3, unit_extents=True)))


def test_negative_shapes_that_do_not_exist_are_refused():
    with pytest.raises(LayoutError, match="no shape of 9 dims has extents from 2 to 9"):
        seen(shapes(9))
    with pytest.raises(LayoutError, match="at most 20 elements"):
        seen(shapes(3, max_elements=20))


@given(formats(3, halos=True))
@checks
def test_formats_are_what_their_text_says(format: Format):
    assert format.rank == 3
    assert Format.parse(str(format)) == format


@given(layouts(halos=True))
@checks
def test_layouts_agree_with_the_definition(layout: Layout):
    assert (layout.addresses() == addresses_by_definition(layout.format, layout.shape)).all()
    assert layout.is_injective()


def test_layouts_have_pads_and_policies_of_each_kind():
    found: Counter[str] = Counter()

    @given(layouts(2))
    @settings(max_examples=200, deadline=None)
    def collect(layout: Layout) -> None:
        found[str(layout.pad) if layout.is_padded else "none"] += 1

    collect()
    assert set(found) == {"none", "undef", "zero", "1"}


TYPE = re.compile(r"tensor<((?:\d+x)*)f32")


@given(programs())
@checks
def test_programs_verify_and_have_no_extent_of_1_and_no_two_equal_ones(text: str):
    assert verify_module(parse(text)) == []
    for extents in TYPE.findall(text):
        shape = [int(extent) for extent in extents.split("x")[:-1]]
        assert min(shape) > 1, text
        assert len(set(shape)) == len(shape), text


def test_programs_have_ops_of_every_kind():
    found: Counter[str] = Counter()

    @given(programs())
    @settings(
        max_examples=120,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    def collect(text: str) -> None:
        found.update(set(re.findall(r"= ([a-z]+\.[a-z_]+)", text)))

    collect()
    assert {"nn.conv", "nn.matmul", "nn.concat", "nn.slice", "nn.softmax", "layout.permute"} <= set(found)
    assert {"nn.max_pool", "nn.avg_pool"} & set(found)


@pytest.mark.parametrize("target", ["blocked8", "channels-last"])
@given(text=programs())
@settings(checks, max_examples=40)
def test_optimizing_keeps_what_programs_compute(target: str, text: str):
    before = parse(text)
    after = before.clone()
    optimize(after, target)
    assert_same_program(before, after)


def test_negative_a_wrong_transformation_of_programs_is_found():
    """Every `relu` is taken out: one program of four has one, and random values are negative as often as not."""
    from layout_ir.dialects.nn import ReluOp

    def take_out(module: ModuleOp) -> None:
        for op in list(module.walk()):
            if isinstance(op, ReluOp):
                op.result.replace_all_uses_with(op.operands[0])

    @given(programs())
    @settings(checks, max_examples=300, database=None, phases=[Phase.generate])  # without making it smaller
    def check(text: str) -> None:
        before = parse(text)
        after = before.clone()
        take_out(after)
        assert_same_program(before, after)

    with pytest.raises(AssertionError, match="differs at index"):
        check()
