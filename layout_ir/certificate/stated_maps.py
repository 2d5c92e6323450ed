"""Formats that no choice needs, because a map of the formats of values leads away from them.

Each entry of `maps` has a value v and, for each format f of it, a format phi_v(f); of other values, phi_v(f) = f. Where

    1. phi_v(phi_v(f)) = phi_v(f),
    2. no reorder of v from phi_v(f) to phi_v(g) costs more than the one from f to g, and
    3. every op has, for each option, one with the formats that the maps make of those of the option, at no more cost,

each choice becomes one that costs no more and has formats alone that the maps leave as they are: its trees of reorders
become trees, edge by edge. So a bound of all choices with such formats is one of all choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from layout_ir.certificate.stated_problem import Budget, StatedProblem, at, index
from layout_ir.errors import LayoutError


def mapped_problem(problem: StatedProblem, given: Sequence[tuple[int, list[int]]]) -> StatedProblem:
    """The problem with those options alone whose formats the maps leave as they are. Raises LayoutError where `given`
    are no maps for which that has the least cost of all."""
    budget = problem.budget
    maps: dict[int, list[int]] = {}
    for v, targets in given:
        reorder: list[list[int]] = at(problem.values, v)["reorder"]
        if v in maps or len(targets) != len(reorder):
            raise LayoutError(
                f"value {v} has a second map, or one of {len(targets)} formats where it has {len(reorder)}"
            )
        budget.spend(len(reorder) ** 2, "a map of formats")
        if any(targets[index(targets, g)] != g for g in targets):
            raise LayoutError(f"the map of value {v} maps formats that it maps others to")
        for f, row in enumerate(reorder):
            onward = reorder[targets[f]]
            if any(onward[targets[g]] > cost for g, cost in enumerate(row)):
                raise LayoutError(f"the map of value {v} makes some reorder from format {f} cost more")
        maps[v] = targets
    return problem.with_options([_kept(o, op, maps, budget) for o, op in enumerate(problem.ops)])


def _kept(o: int, op: dict[str, Any], maps: dict[int, list[int]], budget: Budget) -> list[Any]:
    """The options of an op that the maps leave as they are."""
    own = [maps.get(v) for v in (*op["operands"], *op["results"])]
    options: list[tuple[list[int], list[int], int]] = op["choices"]
    if not any(own):
        return options
    budget.spend(len(options) * len(own), "the options of a mapped op")
    least: dict[tuple[int, ...], int] = {}
    for ins, outs, cost in options:
        formats = *ins, *outs
        least[formats] = min(cost, least.get(formats, cost))
    kept: list[tuple[list[int], list[int], int]] = []
    for option in options:
        ins, outs, cost = option
        formats = *ins, *outs
        image = tuple([f if phi is None else phi[f] for f, phi in zip(formats, own, strict=True)])
        if image == formats:
            kept.append(option)
        elif not least.get(image, cost + 1) <= cost:
            raise LayoutError(f"op {o} has no option at no more than {cost} for the one that the maps change")
    return kept
