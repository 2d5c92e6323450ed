"""A certificate checked: its cost and its bound are recomputed and compared with those it states.

`seal` is a digest of everything else: it tells an altered certificate from one that is merely of another problem.
It proves nothing, and nothing else relies on it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, cast

from layout_ir.certificate.bound import Clusters
from layout_ir.certificate.schema import fault
from layout_ir.certificate.stated_cost_functions import StatedCostFunctions
from layout_ir.certificate.stated_maps import mapped_problem
from layout_ir.certificate.stated_problem import INFINITE, Budget, StatedProblem
from layout_ir.errors import LayoutError

ATTRIBUTE = "layout.certificate"
"""The attribute in which a module carries its certificate, as text."""

FORMAT = "layout-ir selection certificate 2"


_WORDS = ("format", "seal", "origin")
"""Entries that prove nothing and may hold text."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was recomputed: the cost of the choice, and the bound of all choices that the problem has.

    `omitted` is how many things the problem leaves out of the choice of its program, as the certificate says itself;
    then nothing is known to be the cheapest.
    """

    cost: int
    bound: int
    omitted: int = 0

    @property
    def is_optimal(self) -> bool:
        """Whether the choice is proven the cheapest that the program has."""
        return self.cost == self.bound and not self.omitted


def seal(certificate: Mapping[str, Any]) -> str:
    """The digest of a certificate, its own entry `seal` left out."""
    rest = {key: value for key, value in certificate.items() if key != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def recompute(certificate: Any, *, is_ours: bool = False) -> Verdict:
    """The cost of the choice and the bound that the messages prove, whatever the certificate states.

    Raises LayoutError where it is malformed, or, unless it `is_ours`, made just now, would take too long.
    """
    try:
        return _recomputed(certificate, is_ours)
    except LayoutError:
        raise
    except (MemoryError, OverflowError) as error:
        raise LayoutError(f"too large to check: {error or type(error).__name__}") from error
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError) as error:
        try:
            reason = fault(certificate)
        except RecursionError:
            reason = None
        raise LayoutError(f"malformed certificate: {reason or f'{type(error).__name__}: {error}'}") from error


def verify(certificate: Any) -> Verdict:
    """Recomputes cost and bound. Raises LayoutError where the certificate is malformed or states other numbers."""
    verdict = recompute(certificate)
    for name, found in (("cost", verdict.cost), ("bound", verdict.bound)):
        if name not in certificate:
            raise LayoutError(f"the certificate states no {name}, its numbers give {found}")
        if certificate[name] != found:
            raise LayoutError(f"the certificate states {name} {certificate[name]}, its numbers give {found}")
    if certificate.get("seal") != seal(certificate):
        raise LayoutError(
            f"the certificate was altered: its seal is {certificate.get('seal')}, its content has {seal(certificate)}"
        )
    return verdict


def _recomputed(certificate: Any, is_ours: bool) -> Verdict:
    if not isinstance(certificate, dict) or cast(dict[str, Any], certificate).get("format") != FORMAT:
        raise LayoutError(f"not a certificate: 'format' is not '{FORMAT}'")
    given = cast(dict[str, Any], certificate)
    numbers = 0
    for key, value in given.items():
        try:
            numbers += 0 if key in _WORDS else _integers(value)
        except LayoutError as error:
            raise LayoutError(f"{key}: {error}") from error
    problem = StatedProblem(given["problem"], Budget(inf if is_ours else numbers))
    bounded = mapped_problem(problem, given["maps"]) if "maps" in given else problem
    clusters = Clusters(
        StatedCostFunctions(bounded, given["sets"]), given["scale"], given["clusters"], given["messages"]
    )
    omitted = given.get("omitted", 0)
    if type(omitted) is not int or omitted < 0:
        raise LayoutError(f"omitted = {omitted!r} is no number of things that were left out")
    return Verdict(problem.cost(given["choices"]), clusters.bound(given["proofs"]), omitted)


def _integers(node: Any) -> int:
    """How many numbers there are: integers and nothing else, no fractions, no true and false, and none too long."""
    if isinstance(node, dict):
        return sum(map(_integers, cast(dict[str, Any], node).values()))
    if isinstance(node, list):
        items = cast(list[Any], node)
        if set(map(type, items)) == {int} and -INFINITE < min(items) <= max(items) < INFINITE:
            return len(items)
        return sum(map(_integers, items))
    if type(node) is int:
        if abs(node) >= INFINITE:
            raise LayoutError(f"a number of {node.bit_length()} bits is more than any cost")
    elif node not in ("op", "value", "link", "tail"):
        raise LayoutError(f"{node!r} is not an integer")
    return 1
