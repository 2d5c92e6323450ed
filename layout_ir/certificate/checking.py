"""A certificate checked: its cost and its bound are recomputed and compared with those it states.

`seal` is a digest of everything else: it tells an altered certificate from one that is merely of another problem.
It proves nothing, and nothing else relies on it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from layout_ir.certificate.bound import Clusters
from layout_ir.certificate.factors import Factors
from layout_ir.certificate.problem import StatedProblem
from layout_ir.errors import LayoutError

ATTRIBUTE = "layout.certificate"
"""The attribute in which a module carries its certificate, as text."""

FORMAT = "layout-ir selection certificate 2"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was recomputed: the cost of the choice, and the bound of all choices."""

    cost: int
    bound: int

    @property
    def is_optimal(self) -> bool:
        return self.cost == self.bound


def seal(certificate: Mapping[str, Any]) -> str:
    """The digest of a certificate, its own entry `seal` left out."""
    rest = {key: value for key, value in certificate.items() if key != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def recompute(certificate: Any) -> Verdict:
    """The cost of the choice and the bound that the messages prove, whatever the certificate states.

    Raises LayoutError where it is malformed.
    """
    try:
        return _recomputed(certificate)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError) as error:
        if isinstance(error, LayoutError):
            raise
        raise LayoutError(f"malformed certificate: {type(error).__name__}: {error}") from error


def verify(certificate: Any) -> Verdict:
    """Recomputes cost and bound. Raises LayoutError where the certificate is malformed or states other numbers."""
    verdict = recompute(certificate)
    for name, found in (("cost", verdict.cost), ("bound", verdict.bound)):
        if certificate[name] != found:
            raise LayoutError(f"the certificate states {name} {certificate[name]}, its numbers give {found}")
    if certificate["seal"] != seal(certificate):
        raise LayoutError(
            f"the certificate was altered: its seal is {certificate['seal']}, its content has {seal(certificate)}"
        )
    return verdict


def _recomputed(certificate: Any) -> Verdict:
    if not isinstance(certificate, dict) or cast(dict[str, Any], certificate).get("format") != FORMAT:
        raise LayoutError(f"not a certificate: 'format' is not '{FORMAT}'")
    given = cast(dict[str, Any], certificate)
    for key, value in given.items():
        if key not in ("format", "seal"):
            _only_integers(value)
    problem = StatedProblem(given["problem"])
    clusters = Clusters(Factors(problem, given["sets"]), given["scale"], given["clusters"], given["messages"])
    return Verdict(problem.cost(given["choices"]), clusters.bound(given["proofs"]))


def _only_integers(node: Any) -> None:
    """Numbers are integers and nothing else: no fractions, no true and false."""
    if isinstance(node, dict):
        for child in cast(dict[str, Any], node).values():
            _only_integers(child)
    elif isinstance(node, list):
        for child in cast(list[Any], node):
            _only_integers(child)
    elif type(node) is not int and node not in ("op", "value", "link", "tail"):
        raise LayoutError(f"{node!r} is not an integer")
