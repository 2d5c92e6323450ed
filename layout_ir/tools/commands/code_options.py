"""Arguments of the commands that write machine code: for which machine, and into which files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from layout_ir.errors import LayoutError

if TYPE_CHECKING:
    from layout_ir.backends.llvm.machine.machine import Machine

SUFFIXES = {".o": "obj", ".obj": "obj", ".s": "asm", ".ll": "ir"}
"""What is written, by the suffix of the file."""

KINDS = ("obj", "asm", "ir")
"""What can be written: an object file, assembly, LLVM IR."""


def add_target_arguments(parser: argparse.ArgumentParser, listing: str) -> None:
    """Adds --target and --features; `listing` says where the names of the machines are."""
    parser.add_argument(
        "--target", default="host", metavar="NAME", help=f"the machine: one of {listing} (default: host)"
    )
    parser.add_argument(
        "--features", metavar="LIST", help="CPU features to add or to do without: +avx512vbmi,-fma"
    )


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds -o, --emit, --header and --json."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where to write: an object (.o), assembly (.s) or LLVM IR (.ll); - is standard output",
    )
    parser.add_argument("--emit", choices=KINDS, help="what to write, where the suffix does not say")
    parser.add_argument("--header", metavar="FILE", help="where to write the C header")
    parser.add_argument("--json", action="store_true", help="say what was written as one JSON object")


def kind_of_output(args: argparse.Namespace) -> str:
    """What to write: "obj", "asm" or "ir". Raises LayoutError where neither --emit nor the suffix of -o says it."""
    if args.json and args.output in (None, "-"):
        raise LayoutError("--json prints to standard output: name a file for the code, such as -o kernel.o")
    if args.emit is not None:
        if args.output is None and args.emit == "obj":
            raise LayoutError("say where the object goes: -o kernel.o")
        return str(args.emit)
    if args.output is None:
        raise LayoutError("say where the object goes, such as -o kernel.o, or what to print: --emit asm")
    for suffix, kind in SUFFIXES.items():
        if args.output.endswith(suffix):
            return kind
    raise LayoutError(
        f"'{args.output}' does not say what to write: {', '.join(SUFFIXES)} do, or --emit {'|'.join(KINDS)}"
    )


def machine_of(args: argparse.Namespace) -> Machine:
    """The machine of --target with --features. Raises TextError, which points at the wrong part."""
    from layout_ir.backends.llvm.machine.known_cpus import machine_named, with_features
    from layout_ir.tools.commands import TextError
    from layout_ir.tools.commands.formats import pointing

    try:
        machine = machine_named(args.target)
    except LayoutError as error:
        raise TextError(str(error), args.target, (0, len(args.target))) from error
    if args.features is None:
        return machine
    return pointing(args.features, 0, lambda: with_features(machine, args.features))
