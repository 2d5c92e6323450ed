"""`layout-ir bench`: how fast reorders are on this machine, beside its memory and other libraries."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from layout_ir.errors import LayoutError
from layout_ir.tools.progress_line import ProgressLine

if TYPE_CHECKING:
    from layout_ir.tools.benchmark.cases import Case

_EPILOG = """\
Rates are GB/s of source and destination bytes, pads included, of the median call; `share` is of the faster of a plain
and a streaming copy of as many bytes, `lead` is against the fastest of the libraries that are installed (NumPy, torch,
oneDNN). Contenders take turns until the ratios are known to 2 in 100, or for --seconds, nine rounds at least. What
several threads did while they shared a core is measured again, for ten seconds at most; then it counts and is named.

examples:
  layout-ir bench                                   the table of reorders, at sizes of L2, L3 and DRAM
  layout-ir bench nChw8c u8 --size L3               cases whose name contains one of the words
  layout-ir bench --list                            their names
  layout-ir bench --cpu x86-64-v3                   the same with code for AVX2
  layout-ir bench nchw nhwc --shape 8x3x224x224     a reorder of your own
  layout-ir bench nchw nChw16c --shape 1x64x56x56 --dtype i8 --threads 2 --json
"""


def add_parser(subparsers: Any) -> None:
    """Adds `layout-ir bench` to the commands."""
    from layout_ir.tools.commands.arguments import add_layout_arguments

    parser = subparsers.add_parser(
        "bench",
        help="measure reorders beside memcpy, NumPy, torch and oneDNN",
        description="Measure compiled reorders on this machine.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "cases",
        metavar="CASE",
        nargs="*",
        default=(),
        help="words in the names of cases; with --shape: SRC and DST",
    )
    add_layout_arguments(parser)
    parser.add_argument(
        "--dst-dtype", metavar="TYPE", help="element type of the destination, where it is another"
    )
    parser.add_argument(
        "--size", action="append", metavar="L2|L3|DRAM", help="only this size; may be given again"
    )
    parser.add_argument(
        "--threads", metavar="N", default="1", help="threads that share a reorder (default: 1)"
    )
    parser.add_argument(
        "--peers", metavar="NAMES", help="comma-separated: numpy, torch, onednn, onednn-omp (default: all)"
    )
    parser.add_argument("--seconds", metavar="S", default="2", help="per case, about (default: 2)")
    parser.add_argument(
        "--cpu",
        metavar="NAME",
        default="host",
        help="compile for a CPU whose code runs here, as x86-64-v3 does where there is AVX-512; torch and oneDNN are "
        "held to its registers (default: host)",
    )
    parser.add_argument("--tune", action="store_true", help="measure a few kernels and keep the fastest")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--json", action="store_true", help="a list of objects, one per case and size")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measures and prints. Raises LayoutError or TextError for what cannot be measured."""
    from layout_ir.backends.llvm.machine.known_cpus import local_machine
    from layout_ir.backends.llvm.runtime.timing import Limits
    from layout_ir.tools.benchmark.cases import CASES, chosen
    from layout_ir.tools.benchmark.measure import Result, confine, measure
    from layout_ir.tools.benchmark.peers import hold_to
    from layout_ir.tools.benchmark.summary import line, machine_lines, summary, to_json

    if args.list:
        print("\n".join(f"{case.name:32}{' '.join(case.shapes)}" for case in CASES))
        return 0
    threads, libraries = _threads(args.threads), _libraries(args.peers)
    limits = Limits(seconds=_seconds(args.seconds))
    if args.shape is not None:
        work = [_own_case(args)]
    elif args.dtype or args.dst_dtype:
        raise LayoutError("--dtype and --dst-dtype are for a reorder of your own: give SRC, DST and --shape")
    else:
        work = chosen(list(args.cases), args.size or [])
    machine = local_machine(args.cpu)
    hold_to(machine)
    confine(threads)
    results: list[Result] = []
    for k, (case, size) in enumerate(work):
        with ProgressLine(f"{k + 1}/{len(work)} {case.name}"):
            found = measure(case, size, threads, libraries, limits, tune=args.tune, machine=machine)
        if not args.json:
            print(
                "\n".join([*([] if results else machine_lines(libraries, machine)), line(found)]), flush=True
            )
        results.append(found)
    if args.json:
        print(json.dumps([to_json(r) for r in results], indent=1))
    elif len(results) > 1:
        print("\n".join(summary(results)))
    return 0 if all(r.equal for r in results) else 1


def _own_case(args: argparse.Namespace) -> tuple[Case, str]:
    """The reorder that the command line describes."""
    from layout_ir.elements.element_types import canonical_name
    from layout_ir.tools.benchmark.cases import Case
    from layout_ir.tools.commands.formats import common_element_type, noted_layout

    if len(args.cases) != 2:
        raise LayoutError(f"with --shape there are two layouts, SRC and DST, not {len(args.cases)}")
    if args.size:
        raise LayoutError("--size is for the cases of the table: --shape says how large your own is")
    src, dst = (noted_layout(args, text) for text in args.cases)
    dtype = canonical_name(common_element_type(args, *args.cases) or "f32")
    to = canonical_name(args.dst_dtype or dtype)
    name = f"{args.cases[0]}->{args.cases[1]} {args.shape} {dtype}" + (f"->{to}" if to != dtype else "")
    return Case(name, src, dst, dtype, {"own": src.shape}, "own", "" if to == dtype else to), "own"


def _threads(text: str) -> int:
    from layout_ir.backends.llvm.runtime.thread_pool import cpus

    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= cpus():
        raise LayoutError(f"--threads is '{text}': this process may use 1 to {cpus()}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 3600:
        raise LayoutError(f"--seconds is '{text}': a number from 0 to 3600 is needed")
    return value


def _libraries(text: str | None) -> list[str]:
    from layout_ir.tools.benchmark.peers import NAMES

    names = list(NAMES) if text is None else [name for name in text.split(",") if name]
    for name in names:
        if name not in NAMES:
            raise LayoutError(f"unknown library '{name}': known are {', '.join(NAMES)}")
    return names
