"""Writing down why a choice is the cheapest: the numbers that `layout_ir.certificate` checks.

Every elimination is a cluster, and the table it sends on is its message; every table of the core is a cluster, every
variable of the core one of its own, and the cost shifts of the search between them are messages too. What has to be
searched is searched without the formats that maps lead away from, and the maps are written down as well.
`layout_ir.certificate.bound` and `stated_maps` say what the numbers mean and why they prove anything.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from layout_ir.certificate.checking import FORMAT, recompute, seal
from layout_ir.certificate.schema import SCHEMA
from layout_ir.errors import LayoutError
from layout_ir.selection.solver.branch_and_bound import Component, ProofNode
from layout_ir.selection.solver.cost_functions import CostFunctions
from layout_ir.selection.solver.elimination import TABLE_LIMIT, Elimination, prepare
from layout_ir.selection.solver.format_maps import MappedProblem, without_mapped_formats
from layout_ir.selection.solver.lower_bounds import SCALE
from layout_ir.selection.solver.mincut import Cut
from layout_ir.selection.solver.selection_problem import Problem, Solution
from layout_ir.selection.solver.solve import Run, is_searched, run

MOST_WORK = 1 << 18
"""Entries of the tables of an elimination up to which no maps of formats are looked for: the checker takes 0.3
to 0.5 us for each."""

STATED = frozenset(("format", *(name.removesuffix("?") for name in SCHEMA), "cost", "bound", "seal"))
"""The entries that certificates have of their own."""


def certify(
    problem: Problem,
    time_limit: float | None = None,
    table_limit: int = TABLE_LIMIT,
    extra: dict[str, Any] | None = None,
    known: Sequence[int] | None = None,
) -> tuple[Solution, dict[str, Any]]:
    """Solves a problem that is whole, as `layout_ir.selection.certify` does; `known` are choices that `run` begins
    with."""
    extra = checked_extra(extra)
    # What was searched is checked in the end, which takes about as long.
    deadline = None if time_limit is None else time.monotonic() + time_limit / 2
    prepared = prepare(problem, table_limit, deadline)
    is_dear = is_searched(problem, prepared) or prepared[1].work > MOST_WORK
    mapped = without_mapped_formats(problem, deadline) if is_dear else None
    if mapped is not None:
        known, prepared = None if known is None else mapped.mapped(problem, known), None
    left = None if deadline is None else max(deadline - time.monotonic(), 0)
    solved = problem if mapped is None else mapped.problem
    found = run(solved, left, table_limit, record=True, prepared=prepared, known=known)
    if mapped is not None:
        found = replace(
            found, solution=replace(found.solution, choices=mapped.original(found.solution.choices))
        )
    return found.solution, _certificate_of(problem, mapped, found, extra)


def checked_extra(extra: object) -> dict[str, Any]:
    """The entries that a certificate is to have besides its own. Raises LayoutError where they are no dict, have one of
    its own, or an origin that is none."""
    if extra is None:
        return {}
    if not isinstance(extra, Mapping):
        raise LayoutError(f"extra = {extra!r} is no dict of entries of a certificate")
    entries = dict(cast("Mapping[str, Any]", extra))
    for name in entries:
        if name in STATED:
            raise LayoutError(f"extra has an entry {name!r}, which the certificate has itself")
    if not isinstance(entries.get("origin", {}), Mapping):
        raise LayoutError(f"extra: origin = {entries['origin']!r} is no dict")
    return entries


def _certificate_of(
    problem: Problem, mapped: MappedProblem | None, found: Run, extra: dict[str, Any]
) -> dict[str, Any]:
    """The certificate of a recorded run for a problem, or for what maps make of it."""
    solved = problem if mapped is None else mapped.problem
    if found.cut is not None:
        functions = CostFunctions(solved, tails=False)
        clusters, messages, proofs = *_cut_clusters(solved, functions, found.cut), []
    else:
        assert found.elimination is not None
        functions = found.elimination.functions
        clusters, messages, proofs = _clusters(found.elimination, found.components)
    result: dict[str, Any] = {
        "format": FORMAT,
        "problem": problem_to_json(problem),
        **({} if mapped is None else {"maps": _maps_to_json(mapped)}),
        "sets": [
            [v, -1 if sets.tail is None else sets.tail, list(sets.wanted), *([sets.most] * sets.more)]
            for v, sets in functions.demand_sets.items()
        ],
        "clusters": clusters,
        "messages": messages,
        "proofs": proofs,
        "scale": SCALE if found.components else 1,
        "choices": list(found.solution.choices),
        "cost": found.solution.cost,
        **extra,
    }
    # Costs that are as good as forbidden are cut off in the solver and count in full in the checker.
    verdict = recompute(result, is_ours=True)
    assert found.solution.bound is not None and verdict.cost == found.solution.cost
    assert found.solution.bound <= verdict.bound <= verdict.cost
    result["bound"] = verdict.bound
    result["seal"] = seal(result)
    return result


def _maps_to_json(mapped: MappedProblem) -> list[Any]:
    """The maps of formats that are not each to itself, with the numbers of their values."""
    return [[v, list(own)] for v, own in enumerate(mapped.maps) if any(f != g for f, g in enumerate(own))]


def problem_to_json(problem: Problem) -> dict[str, Any]:
    """The entry `problem` of a certificate, ready for JSON: ops with their options, values with their reorder costs."""
    return {
        "ops": [
            {
                "operands": list(op.operands),
                "results": list(op.results),
                "weight": op.weight,
                "choices": [[list(c.ins), list(c.outs), c.cost] for c in op.choices],
            }
            for op in problem.ops
        ],
        "values": [
            {"reorder": [list(row) for row in value.reorder], "weight": value.weight}
            for value in problem.values
        ],
    }


def _clusters(elimination: Elimination, parts: list[Component]) -> tuple[list[Any], list[Any], list[Any]]:
    order, functions = elimination.order, elimination.functions
    scale = SCALE if parts else 1
    constants = [k for k, function in enumerate(functions.functions) if not function.scope]
    clusters: list[Any] = [{"scope": [], "factors": _names(functions, constants)}]
    place: dict[int, int] = {}
    for number, bucket in enumerate(order.buckets):
        if elimination.done[number]:
            place[number] = len(clusters)
            scope = [bucket.variable, *bucket.rest]
            clusters.append({"scope": scope, "factors": _names(functions, bucket.functions)})
    # What is left; the tables of the core in the order of Elimination.core.
    first = len(clusters)
    for k in elimination.left_functions:
        clusters.append({"scope": list(functions.functions[k].scope), "factors": _names(functions, [k])})
    slots = {slot: len(clusters) + k for k, slot in enumerate(elimination.left_slots)}
    clusters += [{"scope": list(order.slots[slot]), "factors": []} for slot in slots]
    alone = {v: len(clusters) + k for k, v in enumerate(order.core_variables)}
    clusters += [{"scope": [v], "factors": []} for v in alone]
    messages: list[Any] = []
    for number, own in place.items():
        bucket = order.buckets[number]
        if bucket.out >= 0:
            consumer = order.consumer[bucket.out]
            target = place[consumer] if consumer in place else slots[bucket.out]
            table = (elimination.messages[number].reshape(-1) * scale).tolist()
            messages.append([own, target, list(bucket.rest), table])
    proofs: list[Any] = []
    for part in parts:
        scopes = [clusters[first + k]["scope"] for k in part.tables]
        variables = sorted({v for scope in scopes for v in scope})
        own = [first + k for k in part.tables]
        proofs.append(
            {"clusters": own + [alone[v] for v in variables], "root": _proof(part.proof, own, scopes, alone)}
        )
    return clusters, messages, proofs


def _cut_clusters(problem: Problem, functions: CostFunctions, cut: Cut) -> tuple[list[Any], list[Any]]:
    """Every cost function is a cluster; what a value charges an op is a message from the value to the op.

    To a value with sets it goes by way of the link, which passes on the best its op can do for each set. Where the
    maker uses its own result, that link is in the cluster of the value.
    """
    clusters: list[Any] = []
    messages: list[Any] = []
    cluster_of: dict[tuple[str, int], int] = {}
    links: list[tuple[int, int]] = []
    makers = [op for op, _ in problem.producers()]
    for k, function in enumerate(functions.functions):
        own = len(clusters)
        if function.kind == "link":
            if function.op == makers[function.number]:
                clusters[cluster_of["value", function.number]]["factors"] += _names(functions, [k])
                continue
            links.append((k, own))
        else:
            cluster_of[function.kind, function.number] = own
        clusters.append({"scope": list(function.scope), "factors": _names(functions, [k])})
    for (op, value), prices in cut.prices.items():
        if ("value", value) in cluster_of and (value not in functions.demand_sets or op == makers[value]):
            messages.append([cluster_of["value", value], cluster_of["op", op], [op], prices])
    for k, own in links:
        function = functions.functions[k]
        prices = cut.prices.get((function.op, function.number), [0])
        if len(prices) > 1:
            messages.append([own, cluster_of["op", function.op], [function.op], prices])
        rows = functions.tables([k])[0].reshape(len(prices), -1) - np.array(prices)[:, None]
        variable = functions.shift + function.number
        least = rows.min(axis=0).tolist()
        messages.append([own, cluster_of["value", function.number], [variable], least])
    return clusters, messages


def _names(functions: CostFunctions, numbers: Sequence[int]) -> list[Any]:
    named = [functions.functions[k] for k in numbers]
    return [[f.kind, f.number, f.op] for f in named]


def _proof(
    node: ProofNode, tables: list[int], scopes: list[list[int]], alone: dict[int, int]
) -> dict[str, Any]:
    messages: list[Any] = []
    for (number, axis), shift in node.shifts.items():
        v = scopes[number][axis]
        if shift.any():
            messages.append([tables[number], alone[v], [v], shift.tolist()])
    result: dict[str, Any] = {"messages": messages}
    if node.dropped:
        result["drop"] = [list(pair) for pair in node.dropped]
    if node.split is not None:
        result["split"] = node.split
        result["cases"] = [_proof(case, tables, scopes, alone) for case in node.cases]
    elif node.then is not None:
        result["then"] = _proof(node.then, tables, scopes, alone)
    return result
