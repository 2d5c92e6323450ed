"""`layout-ir compile-reorders`: every reorder of a program as one object file with a C interface."""

from __future__ import annotations

import argparse
import json
import os
import re
from typing import TYPE_CHECKING, Any

from layout_ir.tools.commands.code_options import (
    add_file_arguments,
    add_target_arguments,
    kind_of_output,
    machine_of,
)

if TYPE_CHECKING:
    from layout_ir.backends.llvm.aot.reorder_library import ReorderLibrary

_EPILOG = """\
The program is one whose layouts are chosen: what `layout-ir optimize` or `layout-opt -p layout-optimize` writes. Each
distinct reorder becomes two functions, whose names say what is moved:
  void reorder_nchw_to_nChw8c_2x17x5x4_f32(const void *src, void *dst);
  void reorder_nchw_to_nChw8c_2x17x5x4_f32_part(const void *src, void *dst, int64_t part, int64_t parts);
The header says how large the buffers are, what else a caller must know, and which op uses which reorder.

examples:
  layout-ir optimize model.onnx --target avx2 -o model.mlir
  layout-ir compile-reorders model.mlir -o reorders.o --header reorders.h
  layout-ir compile-reorders model.mlir --target aarch64 --prefix net -o reorders.o --header reorders.h --json
"""


def add_parser(subparsers: Any) -> None:
    """Adds the command `compile-reorders` and its arguments."""
    parser = subparsers.add_parser(
        "compile-reorders",
        help="every reorder of a program as one object file with a C interface",
        description="Compile the reorders of a program ahead of time: one function for each distinct reorder.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("program", metavar="PROGRAM", help="an MLIR file (.mlir)")
    add_target_arguments(parser, "layout-ir compile-reorder --list-targets")
    parser.add_argument(
        "--prefix", default="reorder", metavar="NAME", help="what the names begin with (default: reorder)"
    )
    parser.add_argument(
        "--allow-unregistered-dialect",
        action="store_true",
        help="take ops of unknown dialects in their generic form",
    )
    add_file_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Writes the files. Raises LayoutError or TextError, before anything is written, and OSError."""
    from layout_ir.backends.llvm.aot.reorder_library import ReorderLibrary
    from layout_ir.backends.llvm.machine.known_cpus import features_needed
    from layout_ir.files import all_or_none, check_kept, write_result
    from layout_ir.tools.program import load_program

    kind = kind_of_output(args)
    check_kept(args.program, args.output, args.header)
    with all_or_none(args.output, args.header):
        machine = machine_of(args)
        module = load_program(args.program, allow_unregistered=args.allow_unregistered_dialect)
        library = ReorderLibrary.of_program(
            module,
            machine,
            name=_header_name(args.header),
            prefix=args.prefix,
            needs=features_needed(args.target, args.features),
        )
        result = library.object if kind == "obj" else library.assembly if kind == "asm" else library.ir
        write_result(result, args.output)
        if args.header is not None:
            write_result(library.header, args.header)
        if args.json:
            write_result(json.dumps(_summary(args, library, kind, len(result)), indent=2) + "\n", None)
    return 0


def _header_name(path: str | None) -> str:
    """A name in C after that of the header file, so that two such headers can be included together."""
    stem = os.path.splitext(os.path.basename(path or ""))[0]
    return "reorders_" + re.sub(r"\W", "_", stem, flags=re.ASCII) if stem else "reorders"


def _summary(args: argparse.Namespace, library: ReorderLibrary, kind: str, size: int) -> dict[str, object]:
    return {
        "reorders": [
            {
                "name": unit.name,
                "symbols": list(unit.symbols),
                "from": str(unit.formats[0]),
                "to": str(unit.formats[1]),
                "shape": list(unit.shape),
                "dtype": unit.dtype,
                "source_bytes": None if None in unit.shape else int(unit.plans[-1].src_bytes),
                "destination_bytes": None if None in unit.shape else int(unit.plans[-1].dst_bytes),
                "uses": library.places(unit.name),
            }
            for unit in library.units
        ],
        "target": args.target,
        "features": list(library.needs),
        "emit": kind,
        "output": args.output,
        "output_bytes": size,
        "header": args.header,
    }
