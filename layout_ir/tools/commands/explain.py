"""`layout-ir explain`: everything one may ask of a layout, in words and numbers."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from layout_ir.layout import Layout
    from layout_ir.tools.commands.sayings import Saying

_EPILOG = """\
The factors are listed outermost first, sizes and strides count elements. In the formula / is integer division.

--json prints one object:
  format, tag (null where none says it), dims, shape, padded_shape, dtype
  factors        list of {dim, size, unit, stride, axis, digit}, outermost first; digit is what of the index it takes
  formula        the address of an element, in the names of the dims; places: the same per named axis
  elements, pads, holes (null: unknown), addresses, first_address, nbytes, pad_policy
  chunk_size, chunks          0 where memory is not cut into chunks
  is_dense, is_injective (null: unknown), contiguous (list of the orders in which the elements are contiguous)
  index          per --index {index, address, byte, chunk, chunk_offset}; byte is null below one byte per element
  offset         per --offset {offset, is (element, pad, hole or outside), index, position, holds}
  notations      {name: text}, refused: {name: reason}

examples:
  layout-ir explain nChw8c --shape 2x17x5x4 --index 1,16,4,3 --offset 953
  layout-ir explain htp:R4Crouton --shape 2x9x20x50 --dtype ui8 --json
"""


def add_parser(subparsers: Any) -> None:
    from layout_ir.tools.commands import formats

    parser = subparsers.add_parser(
        "explain",
        help="where every element of a layout is, and how other systems write it",
        description="Explain a layout: factors, strides, padding, size, the formula of an address, other notations.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("format", metavar="FORMAT", help=formats.FORMAT_HELP)
    formats.add_arguments(parser)
    parser.add_argument("--index", action="append", default=[], metavar="1,16,4,3", help="where is this element? (repeatable)")
    parser.add_argument("--offset", action="append", default=[], type=int, metavar="N", help="what lies there? (repeatable)")
    parser.add_argument("--json", action="store_true", help="print one JSON object, for programs; its keys are below")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the explanation. Raises LayoutError or TextError where there is nothing to explain."""
    from layout_ir.tools.commands.explanation import explain
    from layout_ir.tools.commands.formats import pointing, read_index, read_layout
    from layout_ir.tools.commands.sayings import say_all

    layout = read_layout(args)
    dtype = args.dtype or "f32"
    answer = explain(layout, dtype)
    sayings = say_all(layout, dtype)
    answer["index"] = [_at_index(layout, read_index(text), dtype) for text in args.index]
    answer["offset"] = [_at_offset(layout, offset) for offset in args.offset]
    answer["notations"] = {s.notation: s.text for s in sayings if s.text is not None}
    answer["refused"] = {s.notation: s.reason for s in sayings if s.text is None}
    del pointing
    print(json.dumps(answer, indent=2) if args.json else _text(answer, sayings))
    return 0
