"""`layout-ir run`: a network before and after optimization, executed and compared."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from layout_ir.errors import LayoutError, printable
from layout_ir.tools.commands.optimize import add_arguments, compared, costs_for, time_text
from layout_ir.tools.commands.runtime_comparison import runtimes
from layout_ir.tools.progress_line import ProgressLine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp

    from layout_ir.tools.before_and_after import Execution


_EPILOG = """\
With --with onnxruntime an ONNX model goes through the installed ONNX Runtime, and what `layout-ir optimize` makes of it
beside it, or the model that --against names: how equal each output is, times in turns, and how many nodes that only
move elements are left once ONNX Runtime has optimized both.

With several runtimes, or --with onednn, a network is compiled for oneDNN (`layout_ir.compile`) and runs beside the
others: equal outputs, times in turns, and a profile of its steps.

examples:
  layout-ir run model.onnx --target avx2 --inputs inputs.npz
  layout-ir run model.onnx --with onnxruntime --threads 1
  layout-ir run model.onnx --with onednn,onnxruntime --threads 2
  layout-ir run model.onnx --with onnxruntime --against better.onnx --shape x=8x3x224x224 --json
"""


def add_parser(subparsers: Any) -> None:
    """Adds the command `run` and its arguments."""
    parser = subparsers.add_parser(
        "run",
        help="execute a network before and after optimization and compare",
        description="Execute a network before and after layout optimization, by oneDNN where that is installed, else "
        "by the reference with compiled reorders, and compare the results. Exit status 1 where they differ.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    parser.add_argument(
        "--inputs", metavar="FILE", help="a .npz with an array per input (default: random ones)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random inputs (default: 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--with",
        dest="runtime",
        type=runtimes,
        metavar="RUNTIME[,RUNTIME...]",
        help="run in onednn, onnxruntime or reference, side by side where several are named. onnxruntime alone runs an "
        "ONNX model and the optimized one; the target is then onnx, ort-cpu (default) or ort-cpu-blocked",
    )
    # None where they are not given: they are for --with alone.
    parser.add_argument(
        "--against", metavar="FILE", help="the model to compare with, instead of an optimized one"
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="of the runtime (default: all that are available)"
    )
    parser.add_argument(
        "--optimization-level",
        choices=("all", "extended", "basic", "disable"),
        help="how much ONNX Runtime optimizes before it runs a model (default: all)",
    )
    parser.add_argument(
        "--repeat-seconds",
        type=float,
        metavar="S",
        help="time both models for at most so long, if six samples take no longer (default: 10)",
    )
    parser.add_argument(
        "--tune",
        action="store_true",
        help="with --with onednn: compile all convolutions plain, in channels last and in blocks, too, run these in "
        "turns for --measure-seconds at most and keep the fastest",
    )
    parser.set_defaults(run=run, target=None)


def run(args: argparse.Namespace) -> int:
    """Prints the times of both programs and the largest difference of their results; status 1 where they differ."""
    from layout_ir.api.program_arguments import entry_point, input_names
    from layout_ir.backends.reference.interpreter import check_types
    from layout_ir.files import check_can_be_read_again
    from layout_ir.tools.program import load_program
    from layout_ir.tools.validation import TOLERANCE, relative_difference

    if args.seed < 0:
        raise LayoutError(f"--seed {args.seed} is below 0: expected a whole number from 0 on")
    if args.tune and "onednn" not in (args.runtime or ()):
        raise LayoutError("--tune runs programs of oneDNN in turns: add onednn to --with")
    if args.runtime is not None:
        for path in (args.model, args.against):
            if path is not None:
                check_can_be_read_again(path)
        from layout_ir.tools.commands import model_comparison, runtime_comparison

        command = model_comparison if args.runtime == ("onnxruntime",) else runtime_comparison
        return command.run(args)
    for name in ("against", "threads", "optimization_level", "repeat_seconds"):
        if getattr(args, name) is not None:
            raise LayoutError(
                f"--{name.replace('_', '-')} is for models in a runtime: add --with onnxruntime"
            )
    args.target = args.target or "host"
    module = load_program(
        args.model, allow_unregistered=args.allow_unregistered_dialect, shapes=args.shapes or ()
    )
    function = entry_point(module, "main")
    check_types(module, function)
    inputs = _inputs(args, function, input_names(function))
    costs = costs_for(module, args)
    with ProgressLine(f"optimizing {printable(args.model)}"):
        report, naive, optimized = compared(module, args, costs)
    by, runs = _executed(args, {"naive": naive, "optimized": optimized}, inputs)
    before, after = (runs[name].results for name in ("naive", "optimized"))
    error = max((relative_difference(a, b) for a, b in zip(before, after, strict=True)), default=0.0)
    agree = error <= TOLERANCE
    if args.json:
        times = {
            name: {"reorders_ms": run.reorders_ms, "total_ms": run.total_ms} for name, run in runs.items()
        }
        print(
            json.dumps(
                {
                    **report.to_json(args.model),
                    "executed": by,
                    "measured": times,
                    "difference": error,
                    "agree": agree,
                },
                indent=2,
            )
        )
    else:
        print(f"{args.model}: {report.ops} ops, target {report.target}, {by}")
        print()
        print(f"             {'reorders':>9}  {'in reorders':>12}  {'in all':>10}")
        for name, traffic in (("naive", report.naive), ("optimized", report.optimized)):
            reorders, total = (time_text(ms * 1e6) for ms in (runs[name].reorders_ms, runs[name].total_ms))
            print(f"  {name:<9}  {traffic.count:>9}  {reorders:>12}  {total:>10}")
        print()
        verdict = "agree" if agree else "DIFFER"
        print(
            f"results {verdict}: largest difference {error:.1e} of the largest result (limit {TOLERANCE:.0e})"
        )
    return 0 if agree else 1


def _executed(
    args: argparse.Namespace, programs: Mapping[str, ModuleOp], inputs: Mapping[str, NDArray[Any]]
) -> tuple[str, dict[str, Execution]]:
    """By what both programs were executed, and how; by the reference where oneDNN is missing or cannot."""
    from layout_ir.backends.onednn.library import unavailable
    from layout_ir.tools.before_and_after import executed_by_library, executed_by_reference

    by = "reorders compiled, other ops by the reference"
    if unavailable() is None:
        try:
            with ProgressLine(f"running {printable(args.model)}, before and after"):
                return executed_by_library(programs, inputs)
        except LayoutError as error:
            by += f" (oneDNN cannot: {printable(str(error))})"
    else:
        by += " (pip install 'layout-ir[run]' for kernels)"
    runs: dict[str, Execution] = {}
    for name, module in programs.items():
        with ProgressLine(f"running {printable(args.model)}, {name}"):
            runs[name] = executed_by_reference(module, inputs)
    return by, runs


def _inputs(args: argparse.Namespace, function: FuncOp, names: list[str]) -> dict[str, Any]:
    """Arrays from the file, or random ones of the argument types."""
    from layout_ir.tools.array_archive import read_arrays
    from layout_ir.tools.validation import random_inputs

    if args.inputs is not None:
        return read_arrays(args.inputs)
    return dict(zip(names, random_inputs(function, args.seed), strict=True))
