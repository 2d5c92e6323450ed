"""`layout-ir verify-certificate`: is a choice of layouts proven to be the cheapest?"""

from __future__ import annotations

import argparse
import sys
from typing import Any

_EPILOG = """\
The certificate carries the selection problem, the choice, and integers that prove a lower bound of every choice.
Both cost and bound are recomputed by additions and comparisons alone; no solver is involved.

status 0   the choice is proven to be the cheapest
status 1   the certificate is malformed or altered, states numbers that are not so, or leaves a gap

--json prints one object: cost, bound, optimal, ops, values
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "verify-certificate",
        help="check the proof that a choice of layouts is the cheapest",
        description="Recompute the cost of a choice of layouts and the bound of all choices, and compare.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "file", help="a certificate (JSON), or a program (.mlir) that has one; - for standard input"
    )
    parser.add_argument("--json", action="store_true", help="print an object instead of a sentence")
    parser.set_defaults(run=run)


def _carried(path: str) -> str:
    """The certificate that the program in `path` carries. Raises LayoutError where it has none."""
    from xdsl.dialects.builtin import StringAttr

    from layout_ir.certificate.checking import ATTRIBUTE
    from layout_ir.errors import LayoutError
    from layout_ir.tools.program import load_program

    text = load_program(path).attributes.get(ATTRIBUTE)
    if not isinstance(text, StringAttr):
        raise LayoutError(
            f"{path}: the module carries no {ATTRIBUTE}: layout-propagate{{attach=true}} writes it"
        )
    return text.data


def run(args: argparse.Namespace) -> int:
    """Raises LayoutError where the file is not a certificate or states numbers that are not so."""
    import json

    from layout_ir.certificate.checking import verify
    from layout_ir.errors import LayoutError

    try:
        if args.file == "-":
            certificate = json.load(sys.stdin)
        elif args.file.endswith(".mlir"):
            certificate = json.loads(_carried(args.file))
        else:
            with open(args.file, encoding="utf-8") as file:
                certificate = json.load(file)
    except (ValueError, RecursionError) as error:
        raise LayoutError(f"{args.file} is not JSON: {error}") from error
    try:
        verdict = verify(certificate)
    except LayoutError as error:
        raise LayoutError(f"{args.file}: {error}") from error
    ops, values = (len(certificate["problem"][key]) for key in ("ops", "values"))
    if args.json:
        result = {"cost": verdict.cost, "bound": verdict.bound, "optimal": verdict.is_optimal}
        print(json.dumps({**result, "ops": ops, "values": values}))
    elif verdict.is_optimal:
        print(f"optimal: cost {verdict.cost} = bound {verdict.bound}, {ops} ops, {values} values")
    if verdict.is_optimal:
        return 0
    if not args.json:
        gap = verdict.cost - verdict.bound
        print(
            f"{args.file}: error: not proven optimal: cost {verdict.cost} is above bound {verdict.bound}, "
            f"a gap of {gap} ({gap / max(verdict.cost, 1):.2%})",
            file=sys.stderr,
        )
    return 1
