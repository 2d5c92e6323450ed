"""Five programs on which known rules of thumb go wrong, as IR text with `layout.options` and a cost table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.parser import Parser

from layout_ir.dialects.layout import LayoutDialect, ReorderOp
from layout_ir.passes.propagate import propagate
from layout_ir.passes.selection.costs.cost_table import parse_costs

CASES: dict[str, Any] = json.loads((Path(__file__).parents[2] / "cases" / "selection_cases.json").read_text())
SCALE = 100
"""The file has hundredths; costs are whole numbers."""

TAGS = {
    "abcd": "abcd", "aBcd8b": "aBcd8b", "acdb": "acdb", "plain": "nchw", "blocked": "nChw8c",
    "NCHW": "nchw", "NHWC": "nhwc", "NCHW4": "nChw4c", "NCHW64": "nChw64c", "NCHW8": "nChw8c",
}  # fmt: skip


def _tags(case: dict[str, Any]) -> list[str]:
    return [TAGS[name] for name in case["formats"]]


def _shapes(case: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """A shape of its own for every value, so that the table can price its reorders apart.

    128 channels: with 64, nChw64c would be nhwc.
    """
    return {value: (k + 1, 128, 4, 4) for k, value in enumerate(case["reorder"])}


def _program(case: dict[str, Any]) -> str:
    shapes, tags = _shapes(case), _tags(case)

    def type_of(value: str, fixed: dict[str, int]) -> str:
        encoding = f"#layout.tag<{tags[fixed[value]]}>" if value in fixed else "#layout.any"
        return f"tensor<{'x'.join(map(str, shapes[value]))}xf32, {encoding}>"

    inputs, outputs = case["fixed_in"], case["fixed_out"]
    made = [value for op in case["ops"] for value in op["outs"]]
    used = {value for op in case["ops"] for value in op["ins"]}
    ends = [value for value in made if value not in used]
    arguments = ", ".join(f"%{value} : {type_of(value, inputs)}" for value in inputs)
    lines = [f"func.func @main({arguments}) -> ({', '.join(type_of(v, outputs) for v in ends)}) {{"]
    for op in case["ops"]:
        options = ", ".join(
            f"#layout.option<ins = [{_list(option['ins'], tags)}], outs = [{_list(option['outs'], tags)}], "
            f"cost = {round(option['cost'] * SCALE)}>"
            for option in op["options"]
        )
        results = ", ".join(f"%{value}" for value in op["outs"])
        types = ", ".join(type_of(value, inputs) for value in op["ins"])
        lines.append(
            f'  {results} = "test.{op["name"]}"({", ".join(f"%{v}" for v in op["ins"])}) '
            f"{{layout.options = [{options}]}} : ({types}) -> ({', '.join(type_of(v, {}) for v in op['outs'])})"
        )
    final: list[str] = []
    for value in ends:
        if value in outputs:
            lines.append(
                f"  %{value}_out = layout.reorder %{value} : {type_of(value, {})} -> {type_of(value, outputs)}"
            )
        final.append(f"%{value}_out" if value in outputs else f"%{value}")
    types = ", ".join(type_of(value, outputs) for value in ends)
    lines += [f"  func.return {', '.join(final)} : {types}", "}"]
    return "\n".join(lines)


def _list(numbers: list[int], tags: list[str]) -> str:
    return ", ".join(f"#layout.tag<{tags[k]}>" for k in numbers)


def _costs(case: dict[str, Any]) -> Any:
    tags, shapes = _tags(case), _shapes(case)
    entries = [
        {"from": tags[i], "to": tags[j], "shape": list(shapes[value]), "cost": round(matrix[i][j] * SCALE)}
        for value, matrix in case["reorder"].items()
        for i in range(len(tags))
        for j in range(len(tags))
        if i != j
    ]
    return parse_costs({"unit": "us/100", "reorder": entries, "missing": "forbid"}, "selection_cases.json")


def _module(case: dict[str, Any]) -> ModuleOp:
    ctx = Context(allow_unregistered=True)
    for dialect in (Builtin, Func, LayoutDialect):
        ctx.load_dialect(dialect)
    module = Parser(ctx, _program(case)).parse_module()
    module.verify()
    return module


@pytest.mark.parametrize("name", CASES)
def test_the_optimum_is_reached_and_greedy_is_not_better(name: str):
    case = CASES[name]
    expected = case["expected"]
    module = _module(case)
    greedy = propagate(module.clone(), "blocked8", "greedy", _costs(case))
    best = propagate(module, "blocked8", "exact", _costs(case))
    module.verify()
    assert best is not None and greedy is not None
    assert best.cost == best.bound == round(expected["optimum"] * SCALE)
    assert greedy.cost == round(expected["greedy_forward"] * SCALE)


def test_a_reorder_may_go_through_a_format_nobody_asked_for():
    module = _module(CASES["CE5_composite_reorder_steiner"])
    propagate(module, "blocked8", "exact", _costs(CASES["CE5_composite_reorder_steiner"]))
    reorders = [op for op in module.walk() if isinstance(op, ReorderOp)]
    assert len(reorders) == 3, "to nhwc, from there by nChw4c to nchw"


def test_sharing_makes_one_reorder_of_four():
    case = CASES["CE2_fanout_sharing"]
    module = _module(case)
    propagate(module, "blocked8", "exact", _costs(case))
    assert sum(isinstance(op, ReorderOp) for op in module.walk()) == 1
