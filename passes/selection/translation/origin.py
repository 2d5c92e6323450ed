"""Which program a certificate is of, and whether it really is.

A certificate proves that a choice is the cheapest of the problem that it states. Whether that is the problem of some
program, target and cost model the checker of proofs cannot tell: the problem is stated again here, by the code that
stated it first, and compared number by number. So this trusts `from_ir`, and not the certificate.

`origin` of a certificate says where the problem came from: the target, the cost table by name, and, where the program
carries its certificate, the pass that chose and the text of the program before it chose.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp

from layout_ir.certificate.checking import ATTRIBUTE
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.costs.cost_model import CostModel
from layout_ir.passes.selection.options.conv_kernels import Target
from layout_ir.passes.selection.options.targets import target_named
from layout_ir.passes.selection.translation.from_ir import build, is_open
from layout_ir.printing import print_module
from layout_ir.selection.solver.certificate import problem_to_json
from layout_ir.selection.solver.selection_problem import Problem

ELIDED = 16
"""Constants of more elements are not part of the text of a program: no choice depends on their values."""


def text_of(module: ModuleOp) -> str:
    """The program without its certificate and without the values of large constants."""
    certificate = module.attributes.pop(ATTRIBUTE, None)
    try:
        return print_module(module, elide_above=ELIDED)
    finally:
        if certificate is not None:
            module.attributes[ATTRIBUTE] = certificate


def origin_of(target: str, costs: CostModel | None, program: str | None, chosen_by: str) -> dict[str, Any]:
    """What a certificate says of where its problem came from; `program` is the text before `chosen_by` chose."""
    found: dict[str, Any] = {"target": target, "costs": None if costs is None else costs.source}
    if program is not None:
        found |= {"pass": chosen_by, "program": program}
    return found


def check_problem(
    certificate: dict[str, Any], module: ModuleOp, target: str | Target, costs: CostModel | None
) -> None:
    """Raises LayoutError where the problem of `module`, nothing in it chosen yet, is not the certificate's."""
    compare_problems(
        certificate,
        build(module, target_named(target), costs).problem if is_open(module) else Problem((), ()),
    )


def compare_problems(certificate: dict[str, Any], problem: Problem) -> None:
    """Raises LayoutError, naming the first difference, where `problem` is not that of the certificate."""
    ours, stated = problem_to_json(problem), certificate["problem"]
    if ours == stated:
        return
    for kind in ("ops", "values"):
        if len(ours[kind]) != len(stated[kind]):
            raise LayoutError(
                f"the problem of the program has {len(ours[kind])} {kind}, "
                f"that of the certificate {len(stated[kind])}"
            )
        for number, (own, other) in enumerate(zip(ours[kind], stated[kind], strict=True)):
            if own != other:
                raise LayoutError(
                    f"the problem of the program is not that of the certificate: {kind[:-1]} {number} "
                    f"has other options, costs or uses"
                )
    raise LayoutError("the problem of the program is not that of the certificate")
