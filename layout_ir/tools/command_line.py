"""The command line of `layout-ir`: commands that explain, convert, draw, optimize and compile layouts.

Every command prints its result to standard output, `--json` where a program would read it, and ends with status 1
and one diagnostic where the input is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from layout_ir.errors import LayoutError, UnforeseenError, printable, show_traceback
from layout_ir.snippet import snippet
from layout_ir.tools.commands import COMMANDS, TextError
from layout_ir.tools.process import print_usage

_EXAMPLES = """\
examples:
  layout-ir optimize model.onnx --target avx2 -o model.mlir   choose layouts, say what remains and why
  layout-ir run model.onnx                                    execute it before and after, compare
  layout-ir explain nChw8c --shape 2x17x5x4 --index 1,16,4,3  where every element is
  layout-ir convert nChw8c --to tvm                           the same layout in another notation
  layout-ir draw nChw8c --shape 1x17x2x2 -o picture.svg       memory order as a picture
"""


class _Parser(argparse.ArgumentParser):
    def _print_message(self, message: str, file: Any = None) -> None:
        print_usage(message, file)

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="layout-ir",
        description="Memory layouts of tensors: explain them, convert them, choose them for a whole network.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version())
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        import_module(f"layout_ir.tools.commands.{name}").add_parser(subparsers)
    return parser


def _version() -> str:
    from layout_ir.version import __version__

    return f"layout-ir {__version__}"


def run(args: Sequence[str] | None) -> int:
    """Runs the command that `args` name; returns the exit status after printing any error."""
    try:
        options = _parser().parse_args(args)
        _check_values(options)
        return _run(options)
    except LayoutError as error:
        _print_error(error)
        return 1


def _run(options: argparse.Namespace) -> int:
    """Runs the command; returns the exit status after printing any error."""
    try:
        return int(options.run(options))
    except TextError as error:
        low, high = error.span or (0, len(error.text))
        shown = "\n".join(f"  {line}" for line in snippet(error.text, low, high).split("\n"))
        print(f"error: {printable(str(error))}\n{shown}", file=sys.stderr)
    except LayoutError as error:
        _print_error(error)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(printable(f"{where}error: {error.strerror or error}"), file=sys.stderr)
    except Exception as error:
        _print_error(UnforeseenError(f"layout-ir {options.command} failed", error))
    return 1


def _check_values(options: argparse.Namespace) -> None:
    """Raises LayoutError for `--option=--`, which argparse reads as an option without a value."""
    for name, value in vars(options).items():
        if value == [] or (isinstance(value, list) and [] in value):
            raise LayoutError(f"--{name.replace('_', '-')} needs a value, '--' is none")


def _print_error(error: LayoutError) -> None:
    """Prints an error with its place to standard error; a ProgramError with all of its places and lines of source."""
    show_traceback(error)
    if (render := getattr(error, "render", None)) is not None:
        render(sys.stderr)
        return
    # Errors of programs know the place of an op in its source.
    place = getattr(error, "location", None)
    print(printable(f"{'' if place is None else f'{place}: '}error: {error}"), file=sys.stderr)
