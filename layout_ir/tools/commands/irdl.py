"""`layout-ir irdl`: definitions of the dialects, with which stock mlir-opt reads programs of ours."""

from __future__ import annotations

import argparse
from typing import Any

_EPILOG = """\
With the definitions, stock mlir-opt parses and verifies a program of ours and runs its passes on it. The program is
written in the generic form, with the texts of attributes as strings; what comes back is read as it is:

  layout-ir irdl -o dialects.irdl
  layout-opt program.mlir -t 'mlir{for-irdl=true}' | mlir-opt --irdl-file=dialects.irdl --cse | layout-opt

IRDL says how many operands, results and attributes an op has, and of which kind. Optional attributes, shapes and
element types it cannot say: they are checked when layout-opt reads the program again.
"""


def add_parser(subparsers: Any) -> None:
    """Adds the command `irdl` and its arguments."""
    from layout_ir.registry import DIALECTS

    parser = subparsers.add_parser(
        "irdl",
        help="the dialects as definitions in IRDL, for stock mlir-opt",
        description="Print the definitions of dialects in IRDL.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "dialects",
        metavar="DIALECT",
        nargs="*",
        default=sorted(DIALECTS),
        help=f"{', '.join(sorted(DIALECTS))} (default: all of them)",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write (default: standard output)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Writes the definitions. Raises TextError for a dialect that is not ours."""
    from layout_ir.exits.irdl.dialect_definitions import definitions
    from layout_ir.files import write_result
    from layout_ir.registry import DIALECTS
    from layout_ir.tools.commands import TextError

    known = sorted(DIALECTS)
    for name in args.dialects:
        if name not in known:
            raise TextError(f"no dialect '{name}' is defined here: there are {', '.join(known)}", name, None)
    write_result(definitions([DIALECTS[name]() for name in dict.fromkeys(args.dialects)]), args.output)
    return 0
