"""`layout-ir convert`: one layout, another notation."""

from __future__ import annotations

import argparse
from typing import Any

from layout_ir.errors import LayoutError

_EPILOG = """\
One line is printed, or the reason why the notation cannot say the layout (exit status 1). With --to all every
notation is listed, those that cannot say it with the reason.

--shape gives the extents in the order in which arrays of the notation have their dims (--list states it; for tags it is
n, c, h, w and o, i, h, w), or in that of --dims. How the extents of a foreign text were read is said on stderr. What is
printed for systems that count dims has them in the same order.

examples:
  layout-ir convert nChw8c --to tvm
  layout-ir convert nChw8c --to cute --shape 2x16x5x4
  layout-ir convert '{1,0:T(8,128)}' --from xla --to format --shape 20x200
  layout-ir convert HWIO --from tvm --to numpy --shape 3x3x32x64 --dtype f32
  layout-ir convert nhwc --to jax --shape 1x8x8x16 --dims nhwc
  layout-ir convert htp:R4Crouton --to all --shape 1x9x20x50
"""


def add_parser(subparsers: Any) -> None:
    """Adds the arguments of `layout-ir convert` to the command line."""
    from layout_ir.tools.commands.arguments import FORMAT_HELP, add_layout_arguments

    parser = subparsers.add_parser(
        "convert",
        help="write a layout in the notation of another system",
        description="Write a layout in another notation, or say why that notation cannot.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("format", metavar="FORMAT", nargs="?", help=FORMAT_HELP)
    parser.add_argument(
        "--to", metavar="NAME", help="what to write: one of --list, format (our own text), or all"
    )
    parser.add_argument(
        "--from", dest="source", metavar="NAME", help="the notation of FORMAT, instead of a prefix or a guess"
    )
    parser.add_argument("--list", action="store_true", help="list the notations, with an example of each")
    add_layout_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the layout in another notation. Raises LayoutError or TextError where there is none."""
    from layout_ir.algebra.format import Format
    from layout_ir.notations import NOTATIONS
    from layout_ir.tools.commands.formats import (
        OURS,
        as_indexed,
        check_notation,
        element_type_of,
        note_order,
        read_at_shape,
        shape_order,
    )
    from layout_ir.tools.commands.notation_table import notation_table, table_lines

    if args.list:
        print(_list())
        return 0
    if args.format is None or args.to is None:
        missing = "what to convert" if args.format is None else "which notation to write: --to NAME"
        raise LayoutError(f"say {missing} (layout-ir convert --list names the notations)")
    check_notation("--to", args.to, "all")
    check_notation("--from", args.source)
    source = args.source
    subject = read_at_shape(args, args.format, source)
    dtype = element_type_of(args, args.format, source)
    indexed = as_indexed(subject, shape_order(args, args.format, source))
    if args.to == "all":
        print("\n".join(table_lines(notation_table(subject, dtype, indexed))))
    elif args.to == OURS:
        print(subject if isinstance(subject, Format) else subject.format)
    elif isinstance(subject, Format) and NOTATIONS[args.to].needs_shape:
        raise LayoutError(f"{args.to} writes numbers that depend on the extents of {subject}: give --shape")
    else:
        notation = NOTATIONS[args.to]
        print(notation.print(indexed if notation.by_index else subject, dtype))
    if args.to in ("all", OURS) or NOTATIONS[args.to].by_index:
        note_order(args, args.format, subject, source)
    return 0


def _list() -> str:
    from layout_ir.notations import NOTATIONS
    from layout_ir.tools.commands.formats import OURS

    width = max(map(len, NOTATIONS))
    lines = [f"{OURS:{width}}  our own text form and tags\n{'':{width}}    (n, c) : [n, c, c:8], pad = zero"]
    for name, notation in NOTATIONS.items():
        lines.append(f"{name:{width}}  {notation.about}\n{'':{width}}    {notation.example}")
        lines.append(f"{'':{width}}    --shape: {notation.order}")
    return "\n".join(lines)
