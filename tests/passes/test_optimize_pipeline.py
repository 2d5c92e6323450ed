"""The whole pipeline changes where tensors lie and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layout_ir.api.execute import run
from layout_ir.diagnostics import LocatedError
from layout_ir.dialects.layout import ReorderOp, is_any, is_tensor
from layout_ir.errors import LayoutError
from layout_ir.passes.fold_reorders import fold_reorders
from layout_ir.passes.legalize_pads import legalize_pads
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.prepack_constants import prepack_constants
from layout_ir.passes.propagate import propagate
from layout_ir.passes.reorder_report import traffic
from layout_ir.passes.selection.costs.cost_table import load_costs
from layout_ir.passes.strip import strip
from layout_ir.printing import print_module
from tests.passes.programs import random_program
from tests.programs import TARGETS, parse


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_compute_the_same_before_and_after(seed: int):
    module, shape = random_program(seed, 10)
    module.verify()
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    want = run(module, [x], reorders="reference")
    target = TARGETS[seed % len(TARGETS)]
    for solver in ("exact", "greedy", "naive"):
        optimized = module.clone()
        optimize(optimized, target, solver)
        optimized.verify()
        for reorders in ("reference", "compiled"):
            for got, expected in zip(run(optimized, [x], reorders=reorders), want, strict=True):
                np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_every_step_keeps_the_program_right(seed: int):
    module, shape = random_program(100 + seed, 8)
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    want = run(module, [x], reorders="reference")
    propagate(module, TARGETS[seed % len(TARGETS)])
    moved = traffic(module).time_ns
    for step in (fold_reorders, prepack_constants, legalize_pads, fold_reorders):
        step(module)
        module.verify()
        for got, expected in zip(run(module, [x], reorders="reference"), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
        now = traffic(module).time_ns
        assert now <= moved, f"{step.__name__} made the program worse"
        moved = now


@pytest.mark.parametrize("seed", range(20))
def test_optimized_and_original_strip_to_the_same_text(seed: int):
    module, _ = random_program(200 + seed, 12)
    original = module.clone()
    optimize(module, TARGETS[seed % len(TARGETS)])
    strip(module)
    strip(original)
    assert print_module(module) == print_module(original)


def test_nothing_is_left_to_choose():
    module, _ = random_program(7, 12)
    optimize(module, "blocked8")
    values = [value for op in module.walk() for value in op.results if is_tensor(value.type)]
    assert values and not any(is_any(value.type) for value in values)


def test_folding_twice_changes_nothing():
    module, _ = random_program(8, 12)
    optimize(module, "htp")
    text = print_module(module)
    assert fold_reorders(module) == 0
    assert print_module(module) == text


QUANTIZED = """
func.func @main(%x : tensor<1x24x9x9xf32>) -> tensor<1x24x9x9xf32> {
  %w = nn.constant dense<0.5> : tensor<24x24x3x3xf32, #layout.any>
  %a = nn.conv %x, %w pads = [1, 1, 1, 1] : (tensor<1x24x9x9xf32>, tensor<24x24x3x3xf32, #layout.any>) -> tensor<1x24x9x9xf32, #layout.any>
  %q = layout.reorder %a scale = [1, SCALES] zero_point = [0, 3] dim = 1 : tensor<1x24x9x9xf32, #layout.any> -> tensor<1x24x9x9xi8, #layout.any>
  %r = layout.reorder %q scale = [SCALES, 1] zero_point = [3, 0] dim = 1 : tensor<1x24x9x9xi8, #layout.any> -> tensor<1x24x9x9xf32, #layout.any>
  %s = layout.reorder %r scale = [SCALES, 1] dim = 1 : tensor<1x24x9x9xf32, #layout.any> -> tensor<1x24x9x9xf32, #layout.any>
  %b = nn.conv %s, %w pads = [1, 1, 1, 1] : (tensor<1x24x9x9xf32, #layout.any>, tensor<24x24x3x3xf32, #layout.any>) -> tensor<1x24x9x9xf32, #layout.any>
  %y = layout.reorder %b : tensor<1x24x9x9xf32, #layout.any> -> tensor<1x24x9x9xf32>
  func.return %y : tensor<1x24x9x9xf32>
}
"""  # noqa: E501


@pytest.mark.parametrize("target", TARGETS)
def test_reorders_with_numbers_get_layouts_and_keep_their_numbers(target: str):
    scales = [0.25 * (1 + k % 5) for k in range(24)]
    module = parse(QUANTIZED.replace("SCALES", str(scales)))
    module.verify()
    x = np.random.default_rng(0).integers(-3, 4, (1, 24, 9, 9)).astype(np.float32)
    (want,) = run(module, [x], reorders="reference")
    stripped = module.clone()
    strip(stripped)
    optimize(module, target)
    module.verify()
    converting = [op for op in module.walk() if isinstance(op, ReorderOp) and not op.keeps_elements]
    assert [op.conversion.dim for op in converting] == [1, 1, 1]
    assert not any(is_any(op.result_type) for op in converting)
    for reorders in ("reference", "compiled"):
        np.testing.assert_allclose(run(module, [x], reorders=reorders)[0], want, rtol=1e-5)
    strip(module)
    assert print_module(module) == print_module(stripped)


def test_negative_unknown_target():
    module, _ = random_program(1, 2)
    with pytest.raises(LayoutError, match="unknown target 'vax': targets are host, avx2"):
        optimize(module, "vax")


def test_negative_naive_keeps_its_reorders():
    module, _ = random_program(3, 14)
    best = module.clone()
    propagate(module, "blocked8", "naive")
    optimize(best, "blocked8")
    count = [sum(isinstance(op, ReorderOp) for op in m.walk()) for m in (module, best)]
    assert count[0] > count[1]


_TABLE = """{"unit": "ticks", "missing": "model",
 "reorder": [{"from": "nchw", "to": "nChw8c", "cost": 1}, {"from": "nChw8c", "to": "nchw", "cost": 1}]}"""


def test_a_file_of_costs_is_read_as_its_costs_are(tmp_path: Path):
    table = tmp_path / "costs.json"
    table.write_text(_TABLE)
    module, _ = random_program(3, 14)
    again, named = module.clone(), module.clone()
    solutions = [
        optimize(module, "blocked8", costs=load_costs(str(table))),
        optimize(again, "blocked8", costs=table),
        optimize(named, "blocked8", costs=str(table)),
    ]
    assert solutions[0] == solutions[1] == solutions[2]
    assert str(module) == str(again) == str(named)


def test_negative_a_file_of_costs_that_is_wrong_is_named_with_the_place_in_it(tmp_path: Path):
    table = tmp_path / "costs.json"
    table.write_text('{"unit": "ns"')
    module = parse("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { func.return %x : tensor<3xf32> }")
    with pytest.raises(LayoutError, match=rf"^{re.escape(str(table))}:1:14: "):
        optimize(module, costs=table)
    with pytest.raises(LayoutError, match=rf"^{re.escape(str(tmp_path / 'none.json'))}: cannot be read"):
        optimize(module, costs=tmp_path / "none.json")


@pytest.mark.parametrize("costs", [3, b"costs.json", "costs\0.json", {}], ids=repr)
def test_negative_what_are_no_costs_is_named_where_no_layout_is_open(costs: object):
    module = parse("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { func.return %x : tensor<3xf32> }")
    with pytest.raises(LayoutError, match=r"^costs = "):
        optimize(module, costs=costs)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "wrong",
    [{"solver": "guess"}, {"solver": None}, {"time_limit": -1}, {"target": "none"}, {"attach": "no"}],
    ids=str,
)
def test_negative_arguments_that_no_program_can_have_are_no_errors_of_a_program(wrong: dict[str, Any]):
    module = parse("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { func.return %x : tensor<3xf32> }")
    with pytest.raises(LayoutError, match=str(next(iter(wrong)))) as caught:
        optimize(module, **wrong)
    assert not isinstance(caught.value, LocatedError)
