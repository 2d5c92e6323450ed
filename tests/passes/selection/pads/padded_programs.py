"""Programs on one padded tensor whose ops say what they need of its pads, and the problems that they are."""

from __future__ import annotations

from layout_ir.passes.selection.costs.cost_table import parse_costs
from layout_ir.passes.selection.options.targets import target_named
from layout_ir.passes.selection.problem.selection import Selection
from layout_ir.passes.selection.translation.from_ir import build
from layout_ir.passes.selection.translation.program_solution import solve_program
from tests.programs import parse

TYPE = "tensor<1x17x4x4xf32, #layout.any>"
BLOCKED = "tensor<1x17x4x4xf32, #layout.tag<nChw8c>>"
PLAIN = "tensor<1x17x4x4xf32, #layout.tag<nchw>>"
UNDECIDED = "#layout.format<(n, c, h, w) : [n, c, h, w, c:8]>"
NEEDS_ZERO = (
    "layout.options = [#layout.option<ins = [#layout.tag<nChw8c>], outs = [#layout.tag<nChw8c>], cost = 5>]"
)
NEEDS_NOTHING = f"layout.options = [#layout.option<ins = [{UNDECIDED}], outs = [{UNDECIDED}], cost = 5>]"


def selected(
    body: str, result: str = "%y", costs: object = None, time_limit: float | None = None
) -> tuple[Selection, int]:
    """The problem of `body`, which makes %y of %x, and the least cost; ops count nothing unless they say so."""
    text = f"""func.func @main(%x : {BLOCKED}, %p : i1) -> {TYPE} {{
      {body}
      func.return {result} : {TYPE}
    }}"""
    table = parse_costs(
        {
            "op": [
                {"name": f"nn.{name}", "ins": ["nChw8c"], "outs": ["nChw8c"], "cost": 0}
                for name in ("exp", "relu", "sigmoid", "neg")
            ]
        }
        if costs is None
        else costs,
        "test",
    )
    selection = build(parse(text), target_named("blocked8"), table, time_limit=time_limit)
    return selection, solve_program(selection).cost
