"""`layout-ir draw`: the memory of a layout as a picture."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import Any

from layout_ir.errors import LayoutError

_EPILOG = """\
Memory is drawn in address order, each cell labelled with the index that lies there; pads are hatched, chunks framed.
Below, a plane of the index space with the path that memory takes through it. Large layouts are sampled, and say so.
Without -o the picture is made of characters; colours are used on a terminal unless NO_COLOR is set.

examples:
  layout-ir draw nChw8c --shape 2x17x5x4
  layout-ir draw nChw8c --shape 2x17x5x4 -o nChw8c.svg
  layout-ir draw htp:R4Crouton --shape 1x9x12x40 --rows 80 -o crouton.png
"""


def add_parser(subparsers: Any) -> None:
    """Adds the arguments of `layout-ir draw` to the command line."""
    from layout_ir.tools.commands.arguments import FORMAT_HELP, add_layout_arguments

    parser = subparsers.add_parser(
        "draw",
        help="memory order as a picture: SVG, PNG, or in the terminal",
        description="Draw the memory of a layout, pads and chunks marked.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("format", metavar="FORMAT", help=FORMAT_HELP)
    add_layout_arguments(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="FILE.svg or FILE.png (PNG needs the extra 'draw')"
    )
    parser.add_argument(
        "--rows", type=int, metavar="N", help="show about N rows of memory, 4 to 256 (default: 48, or 40)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Draws the layout. Raises LayoutError or TextError for what is none, OSError for a file that cannot be written."""
    from layout_ir.algebra.layout import Layout
    from layout_ir.tools.commands.formats import as_indexed, note_order, read_layout, shape_order

    kind = _kind(args.output)
    if args.rows is not None and args.rows < 4:
        raise LayoutError(
            f"--rows {args.rows} is too few: at least 4 are needed to show where memory begins and ends"
        )
    named = read_layout(args)
    note_order(args, args.format, named)
    layout = as_indexed(named, shape_order(args, args.format))
    assert isinstance(layout, Layout)
    if kind is None:
        from layout_ir.drawing.terminal import to_terminal
        from layout_ir.files import write_result

        text = to_terminal(
            layout,
            args.format,
            width=shutil.get_terminal_size((100, 24)).columns,
            rows=args.rows or 40,
            colours=sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
            charset=_charset(),
        )
        write_result(text, None)
        return 0
    from layout_ir.drawing.compose import compose
    from layout_ir.files import write_result

    picture = compose(layout, args.format, rows=args.rows or 48)
    if kind == ".svg":
        from layout_ir.drawing.svg import to_svg

        write_result(to_svg(picture), args.output)
    else:
        from layout_ir.drawing.png import to_png

        write_result(to_png(picture), args.output)
    return 0


def _kind(path: str | None) -> str | None:
    """The kind of file that `path` asks for; None: no file."""
    if path is None or path == "-":
        return None
    kind = os.path.splitext(path)[1].lower()
    if kind not in (".svg", ".png"):
        raise LayoutError(f"cannot draw '{path}': '{kind or 'no ending'}' is neither .svg nor .png")
    return kind


def _charset() -> Any:
    """Shades and lines where standard output can write them."""
    from layout_ir.drawing.terminal import ASCII, UNICODE

    try:
        "".join((UNICODE.pad, UNICODE.bar, UNICODE.rule)).encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE
