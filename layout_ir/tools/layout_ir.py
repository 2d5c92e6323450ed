"""`layout-ir`: what one wants to know about a layout or a model, as commands.

Every command prints its result to standard output, `--json` where a program would read it, and ends with status 1
and one diagnostic where the input is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from layout_ir.errors import LayoutError
from layout_ir.tools.commands import COMMANDS, TextError

_EXAMPLES = """\
examples:
  layout-ir optimize model.onnx --target avx2 -o model.mlir   choose layouts, say what remains and why
  layout-ir run model.onnx                                    execute it before and after, compare
  layout-ir explain nChw8c --shape 2x17x5x4 --index 1,16,4,3  where every element is
  layout-ir convert nChw8c --to tvm                           the same layout in another notation
  layout-ir draw nChw8c --shape 1x17x2x2 -o picture.svg       memory order as a picture
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="layout-ir",
        description="Memory layouts of tensors: explain them, convert them, choose them for a whole network.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version())
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        if find_spec(f"layout_ir.tools.commands.{name}") is not None:
            import_module(f"layout_ir.tools.commands.{name}").add_parser(subparsers)
    return parser


def _version() -> str:
    from layout_ir import __version__

    return f"layout-ir {__version__}"


def main(args: Sequence[str] | None = None) -> int:
    """Runs the tool on `args` (default: the command line); returns the exit status."""
    from layout_ir.tools.output import quiet_broken_pipe

    status = 1
    with quiet_broken_pipe():
        try:
            options = _parser().parse_args(args)
            _check_values(options)
            status = int(options.run(options))
        except TextError as error:
            _print_text_error(error)
        except LayoutError as error:
            print(f"error: {error}", file=sys.stderr)
        except BrokenPipeError:
            raise
        except KeyboardInterrupt:
            status = 130
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            print(f"{where}error: {error.strerror or error}", file=sys.stderr)
        except Exception as error:
            if os.environ.get("LAYOUT_IR_TRACEBACK"):
                raise
            status = _print_failure(error)
    return status


def _check_values(options: argparse.Namespace) -> None:
    """Raises LayoutError for `--option=--`, which argparse reads as an option without a value."""
    for name, value in vars(options).items():
        if value == [] or (isinstance(value, list) and [] in value):
            raise LayoutError(f"--{name.replace('_', '-')} needs a value, '--' is none")


def _print_text_error(error: TextError) -> None:
    low, high = error.span or (0, len(error.text))
    caret = " " * low + "^" + "~" * (max(high - low, 1) - 1)
    print(f"error: {error}\n  {error.text}\n  {caret}", file=sys.stderr)


def _print_failure(error: Exception) -> int:
    """Diagnostics of programs have places; anything else is a defect of this package and says so."""
    from layout_ir.tools.program import ProgramError

    if isinstance(error, ProgramError):
        error.render(sys.stderr)
    else:
        print(
            f"error: {type(error).__name__}: {error}; this is a defect of layout-ir, LAYOUT_IR_TRACEBACK=1 shows where",
            file=sys.stderr,
        )
    return 1


if __name__ == "__main__":
    sys.exit(main())
