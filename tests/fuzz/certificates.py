"""Certificates: mutated proofs. What the checker calls proven must be so, which is found out by trying everything.

The optimum is computed here, from the numbers of the certificate's problem, and shares nothing with the checker.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Iterator, Sequence
from functools import cache
from math import prod
from random import Random
from typing import Any, cast

from layout_ir.certificate.checking import seal, verify
from layout_ir.selection.solver.certificate import certify
from tests.fuzz.kinds import Kind, Wrong
from tests.fuzz.mutation import NUMBERS, VALUES, mutate_json
from tests.selection.problems import (
    cyclic_problem,
    hub_problem,
    random_problem,
    tangled_problem,
    two_format_problem,
)

_MOST = 3000
"""Choices that are tried."""


@cache
def _certificates() -> tuple[str, ...]:
    """Right certificates, with all kinds of proofs."""
    rng = Random(3)
    found = [certify(random_problem(rng, rng.randint(1, 4), 3))[1] for _ in range(12)]
    found += [certify(cyclic_problem(rng, 3, 3))[1] for _ in range(4)]
    found += [certify(hub_problem(rng, 5, 3), table_limit=1 << 8)[1] for _ in range(4)]
    found += [certify(tangled_problem(rng, 5, 2), table_limit=4)[1] for _ in range(12)]
    found += [certify(two_format_problem(rng, 5), table_limit=2)[1] for _ in range(8)]
    return tuple(json.dumps(certificate) for certificate in found)


class Certificates(Kind):
    name = "certificates"
    suffix = ".json"
    chunk = 100

    def make(self, seed: int, number: int) -> bytes:
        rng = self.rng(seed, number)
        certificate: Any = json.loads(rng.choice(_certificates()))
        near = rng.random() < 0.7

        def number_for(n: int) -> int:
            if near:
                return n + rng.choice((-3, -2, -1, 1, 2, 5, -n))
            return rng.choice((n + 1, n - 1, -n, 2 * n, *NUMBERS))

        if rng.random() < 0.97:
            # Near ones keep their form and change numbers.
            parts = list(certificate)
            part = rng.choice(parts) if rng.random() < 0.5 else None
            if part is None or not isinstance(certificate[part], dict | list):
                certificate = mutate_json(rng, certificate, number_for, (0, 1, 2, -1) if near else VALUES)
            else:
                certificate[part] = mutate_json(
                    rng, certificate[part], number_for, (0, 1, 2) if near else VALUES
                )
        if rng.random() < 0.4 and isinstance(certificate, dict):
            # Of something smaller: without a proof, a message, a cluster ...
            given = cast("dict[str, Any]", certificate)
            listed = [cast("list[Any]", v) for v in given.values() if isinstance(v, list) and v]
            if listed:
                items = rng.choice(listed)
                del items[rng.randrange(len(items))]
        return json.dumps({"claim": rng.random() < 0.95, "certificate": certificate}).encode()

    def run(self, data: bytes) -> None:
        given = json.loads(data)
        certificate = given["certificate"]
        if given["claim"] and isinstance(certificate, dict):
            certificate = _claimed(cast("dict[str, Any]", certificate))
        verdict = verify(certificate)
        if certificate["cost"] != verdict.cost or certificate["bound"] != verdict.bound:
            raise Wrong(f"passes with other numbers than {verdict}")
        least = optimum(certificate["problem"])
        if least is None:
            return
        chosen = cost_of(certificate["problem"], certificate["choices"])
        if verdict.cost != chosen:
            raise Wrong(f"the choice costs {chosen}, the checker says {verdict.cost}", "cost")
        if verdict.bound > least:
            raise Wrong(f"the optimum is {least}, the checker has proven {verdict.bound}", "unsound")

    def smaller(self, data: bytes) -> Iterator[bytes]:
        return iter(())


def _claimed(certificate: dict[str, Any]) -> dict[str, Any]:
    """The certificate with the cost and the bound that its numbers give, and a new seal."""
    from layout_ir.certificate.checking import recompute

    verdict = recompute(certificate)
    certificate = {**certificate, "cost": verdict.cost, "bound": verdict.bound}
    return {**certificate, "seal": seal(certificate)}


def optimum(problem: dict[str, Any]) -> int | None:
    """The least cost of all choices; None where they are too many to try."""
    counts = [len(op["choices"]) for op in problem["ops"]]
    if prod(counts) > _MOST or any(len(value["reorder"]) > 5 for value in problem["values"]):
        return None
    return min((cost_of(problem, choice) for choice in itertools.product(*map(range, counts))), default=None)


def cost_of(problem: dict[str, Any], choice: Sequence[int]) -> int:
    """What a choice costs by definition."""
    made: dict[int, int] = {}
    needed: dict[int, set[int]] = {}
    total = 0
    for op, k in zip(problem["ops"], choice, strict=True):
        ins, outs, cost = op["choices"][k]
        total += op["weight"] * cost
        made.update(zip(op["results"], outs, strict=True))
        for value, format in zip(op["operands"], ins, strict=True):
            needed.setdefault(value, set()).add(format)
    for v, value in enumerate(problem["values"]):
        total += value["weight"] * _reach(value["reorder"], made[v], frozenset(needed.get(v, ())))
    return total


def _reach(costs: list[list[int]], root: int, needed: frozenset[int]) -> int:
    """The cheapest way to have all `needed` formats: a search over the sets of formats that one has."""
    queue: list[tuple[int, tuple[int, ...]]] = [(0, (root,))]
    best: dict[tuple[int, ...], int] = {(root,): 0}
    while queue:
        spent, have = heapq.heappop(queue)
        if needed <= set(have):
            return spent
        if best[have] < spent:
            continue
        for new in range(len(costs)):
            if new not in have:
                then = tuple(sorted((*have, new)))
                price = spent + min(costs[f][new] for f in have)
                if price < best.get(then, price + 1):
                    best[then] = price
                    heapq.heappush(queue, (price, then))
    raise Wrong("a format cannot be reached")
