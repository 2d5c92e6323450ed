"""Arguments that several commands take, and their help.

Every start of the tool adds them, so nothing is imported here that reads them: layouts are read by `formats`,
quantization parameters by `quantization_options`.
"""

from __future__ import annotations

import argparse
import math

from layout_ir.errors import LayoutError

FORMAT_HELP = (
    "a tag (nChw8c), a format ('(n, c) : [n, c, c:8]'), or a foreign notation behind its name ('xla:{1,0:T(8,128)}', "
    "htp:R4Crouton), which may be left out where only one notation reads the text; layout-ir convert --list names them"
)

QUANTIZATION_HELP = """\
Elements may be converted on the way, real = (stored - zero point) * scale. --scale and --zero-point take
  0.05              a number of the only side of integers; a list that begins with - as --zero-point=-3,4
  0.5:0.25          of the source and of the destination, either of which may be left out
  0.1,0.2,0.4       one for each index of --dim
  @FILE             the same from an .npy file or from text, numbers between spaces, commas or line ends
  tensor, channel   one for the tensor, or for each index of --dim, that every call brings along
"""


INPUT_SHAPE_HELP = (
    "the shape of an input of an ONNX model, such as x0=1x3x224x224 (x0=() for a scalar); once for each input that has "
    "dynamic dims"
)


def count(text: str) -> int:
    """The whole number from 0 on that an argument says, as argparse asks for it; else raises ArgumentTypeError."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 on")
    return number


def add_input_shapes(parser: argparse.ArgumentParser) -> None:
    """Adds `--shape NAME=EXTENTS`, which every command that reads a model takes, to `parser`; `args.shapes` lists
    them."""
    parser.add_argument(
        "--shape",
        dest="shapes",
        action="append",
        metavar="NAME=1x3x224x224",
        help=INPUT_SHAPE_HELP,
    )


def add_layout_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--shape`, `--dims` and `--dtype`, which every command on layouts takes, to `parser`."""
    parser.add_argument(
        "--shape",
        metavar="2x17x5x4",
        help="extents of the dims, in the order that the notation states (layout-ir convert --list): n, c, h, w for "
        "nChw8c; () for a scalar",
    )
    parser.add_argument(
        "--dims",
        metavar="NAMES",
        help="the dims in the order of --shape, instead of that of the notation: oihw, or o,i,h,w",
    )
    parser.add_argument("--dtype", metavar="TYPE", help="element type: f32, bf16, i8, ui4, ...")


def add_quantization_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--to-dtype`, `--scale`, `--zero-point`, `--dim`, `--beta` and `--saturate` to `parser`."""
    parser.add_argument(
        "--to-dtype", metavar="TYPE", help="the element type to convert to (default: no other)"
    )
    parser.add_argument(
        "--scale", metavar="S", help="scale of the side with integers or narrow floats, or SRC:DST; see below"
    )
    parser.add_argument("--zero-point", metavar="Z", help="zero point of the side with integers, or SRC:DST")
    parser.add_argument(
        "--dim", type=int, metavar="D", help="the dim, from 0, along which channels have numbers"
    )
    parser.add_argument(
        "--beta",
        metavar="B",
        help="add B times what the destination holds; a number, or tensor for any call's",
    )
    parser.add_argument(
        "--saturate",
        action="store_true",
        help="what is too large for a float of 8 bits becomes its greatest number, not infinity or NaN",
    )


def check_timed_run(args: argparse.Namespace) -> None:
    """Raises LayoutError where threads, seconds or inputs of a run that is timed are none that there can be."""
    from layout_ir.backends.llvm.runtime.thread_pool import cpus

    if args.threads is not None and not 1 <= args.threads <= cpus():
        raise LayoutError(f"--threads is {args.threads}: this process may use 1 to {cpus()}")
    seconds = args.repeat_seconds
    if seconds is not None and not (math.isfinite(seconds) and seconds >= 0):
        raise LayoutError(
            f"--repeat-seconds is {seconds}: expected a number of seconds, 0 for the fewest samples"
        )
    if args.inputs is not None and args.shapes:
        raise LayoutError("--shape is for random inputs: the arrays of --inputs have their shapes")
