"""`layout-ir explain`: everything one may ask of a layout, in words and numbers."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from layout_ir.errors import shape_text

if TYPE_CHECKING:
    from layout_ir.tools.commands.notation_table import Entry

_EPILOG = """\
The factors are listed outermost first; sizes and strides count elements. In the formula / is integer division.
--shape and --index have the dims in the order that the notation states (layout-ir convert --list), or that of --dims.
--index and --offset may be given several times.

--json prints one object:
  notation       that of FORMAT; ours is called format
  format, tag (null where none says it), dims, shape, padded_shape, dtype
  factors        list of {factor, dim, size, unit, stride, axis, digit}, outermost first; digit says what it takes
  formula        the address of an element, in the names of the dims; places: the same per named axis
  elements, pads, holes (null: unknown), addresses, first_address, nbytes, pad_policy
  chunk_size, chunks          0 where memory is not cut into chunks
  is_dense, is_injective (null: unknown), contiguous (list of the orders in which the elements are contiguous)
  index          per --index {index, address, byte, chunk, chunk_offset}; byte is null below one byte per element
  offset         per --offset {offset, is (element, pad, hole or outside), index, position, holds}
  notations      {name: text}, refused: {name: reason}

examples:
  layout-ir explain nChw8c --shape 2x17x5x4 --index 1,16,4,3 --offset 953
  layout-ir explain 'bf16[256,256]{1,0:T(8,128)(2,1)}' --index 9,130
  layout-ir explain --from numpy '(320, 4, 64)' --shape 4x16x5 --dtype f32
  layout-ir explain htp:R4Crouton --shape 2x9x20x50 --dtype ui8 --json
"""


def add_parser(subparsers: Any) -> None:
    """Adds the arguments of `layout-ir explain` to the command line."""
    from layout_ir.tools.commands.arguments import FORMAT_HELP, add_layout_arguments

    parser = subparsers.add_parser(
        "explain",
        help="where every element of a layout is, and how other systems write it",
        description="Explain a layout: factors, strides, padding, size, the formula of an address, other notations.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("format", metavar="FORMAT", help=FORMAT_HELP)
    parser.add_argument(
        "--from", dest="source", metavar="NAME", help="the notation of FORMAT, instead of a prefix or a guess"
    )
    add_layout_arguments(parser)
    parser.add_argument("--index", action="append", metavar="1,16,4,3", help="where is this element?")
    parser.add_argument("--offset", action="append", type=int, metavar="N", help="what lies there?")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object, for programs; its keys are below"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the explanation. Raises LayoutError or TextError where there is nothing to explain."""
    from layout_ir.algebra.layout import Layout
    from layout_ir.tools.commands.explanation import at_index, at_offset, explain
    from layout_ir.tools.commands.formats import (
        OURS,
        as_indexed,
        check_notation,
        element_type_of,
        extents_text,
        notation_of,
        read_index,
        read_layout,
        shape_order,
    )
    from layout_ir.tools.commands.notation_table import notation_table

    check_notation("--from", args.source)
    named = read_layout(args, source=args.source)
    layout = as_indexed(named, shape_order(args, args.format, args.source))
    assert isinstance(layout, Layout)
    dtype = element_type_of(args, args.format, args.source) or "f32"
    notation = notation_of(args, args.format, args.source)
    answer = {"notation": notation or OURS, **explain(layout, dtype)}
    answer["index"] = [at_index(layout, read_index(text), dtype) for text in args.index or ()]
    answer["offset"] = [at_offset(layout, offset) for offset in args.offset or ()]
    table = notation_table(named, dtype, layout)
    answer["notations"] = {entry.notation: entry.text for entry in table if entry.text is not None}
    answer["refused"] = {entry.notation: entry.reason for entry in table if entry.text is None}
    stated = extents_text(layout) if args.dims is not None or notation is not None else None
    print(json.dumps(answer, indent=2) if args.json else "\n".join(_text(answer, table, stated, notation)))
    return 0


def _text(answer: dict[str, Any], table: list[Entry], stated: str | None, notation: str | None) -> list[str]:
    """The answer as a person reads it.

    `stated` says which dim has which extent where a tag does not, `notation` what a text that is not ours is read as.
    """
    from layout_ir.tools.commands.notation_table import table_lines

    lines = [answer["format"] + (f"    tag {answer['tag']}" if answer["tag"] else ""), ""]
    lines += [f"{'read as':<14}{notation}"] if notation is not None else []
    lines += [f"{'dims':<14}{stated}"] if stated is not None else []
    lines += [f"{name:<14}{value}".rstrip() for name, value in _figures(answer)]
    lines += ["", *_factors(answer), "", f"address = {answer['formula']}"]
    lines += [f"{axis} = {formula}" for axis, formula in answer["places"].items()]
    found = [_index_line(entry) for entry in answer["index"]] + [
        _offset_line(entry) for entry in answer["offset"]
    ]
    if found:
        lines += ["", *found]
    return [*lines, "", "in", *table_lines(table)]


def _figures(answer: dict[str, Any]) -> list[tuple[str, str]]:
    says = {True: "yes", False: "no", None: "unknown"}
    padded = (
        ""
        if answer["shape"] == answer["padded_shape"]
        else f", padded to {shape_text(answer['padded_shape'])}"
    )
    words = {"undef": "anything", "zero": "zero", "zp": "the zero point"}
    policy = words.get(str(answer["pad_policy"]), answer["pad_policy"])
    pads = f"{answer['pads']}, each holds {policy}" if answer["pads"] else "0"
    figures = [
        ("shape", shape_text(answer["shape"]) + padded),
        ("elements", str(answer["elements"])),
        ("pads", pads),
        ("holes", says[None] if answer["holes"] is None else str(answer["holes"])),
        ("addresses", f"{answer['addresses']}, {answer['nbytes']} bytes of {answer['dtype']}"),
    ]
    if answer["first_address"]:
        figures.append(("first", f"address {answer['first_address']}"))
    if answer["chunk_size"]:
        figures.append(("chunks", f"{answer['chunks']} of {answer['chunk_size']} elements"))
    orders = ", ".join(answer["contiguous"])
    return [
        *figures,
        ("dense", says[answer["is_dense"]]),
        ("injective", says[answer["is_injective"]]),
        ("contiguous", f"yes, as {orders}" if orders else "no"),
    ]


def _factors(answer: dict[str, Any]) -> list[str]:
    """The factors as a table."""
    rows = [("factor", "size", "stride", "takes")]
    for factor in answer["factors"]:
        axis = "" if factor["axis"] == "m" else f" on {factor['axis']}"
        rows.append((factor["factor"], str(factor["size"]), str(factor["stride"]) + axis, factor["digit"]))
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    lines: list[str] = []
    for name, size, stride, digit in rows:
        line = f"{name:<{widths[0]}}  {size:>{widths[1]}}  {stride:>{widths[2]}}  {digit}"
        lines.append(line.rstrip())
    return lines


def _index_line(entry: dict[str, Any]) -> str:
    text = f"index ({', '.join(map(str, entry['index']))}) is at address {entry['address']}"
    if entry["byte"] is not None:
        text += f", byte {entry['byte']}"
    if entry["chunk"] is not None:
        text += f": chunk {entry['chunk']}, offset {entry['chunk_offset']}"
    return text


def _offset_line(entry: dict[str, Any]) -> str:
    text = f"address {entry['offset']} holds "
    match entry["is"]:
        case "element":
            return text + f"element ({', '.join(map(str, entry['index']))})"
        case "pad":
            position = ", ".join(map(str, entry["position"]))
            return text + f"a pad ({entry['holds']}), position ({position}) of the padded box"
        case "hole":
            return text + "nothing: a hole"
        case _:
            return f"address {entry['offset']} is outside the buffer"
