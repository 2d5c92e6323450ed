"""`layout-ir optimize`: layouts for a whole network, what that saves, and what remains."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from layout_ir.drawing.drawn_graph import bytes_text
from layout_ir.errors import LayoutError, printable
from layout_ir.tools.commands.arguments import add_input_shapes, count
from layout_ir.tools.progress_line import ProgressLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp

    from layout_ir.passes.explain_reorders import Explanation
    from layout_ir.passes.reorder_report import Remaining, Report
    from layout_ir.passes.selection.costs.cost_model import CostModel

TARGETS = (
    "host",
    "avx2",
    "avx512",
    "blocked8",
    "blocked16",
    "channels-last",
    "onednn",
    "htp",
    "onnx",
    "megengine-cuda",
    "ort-nchwc",
)

MODEL_TARGETS = ("onnx", "ort-cpu", "ort-cpu-blocked")
"""Targets that take an ONNX model and give one."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that `optimize` and `run` share."""
    parser.add_argument(
        "model",
        help="an ONNX model (.onnx), a program (.mlir), or onnx:NAME, a network that ships with the onnx package",
    )
    add_input_shapes(parser)
    parser.add_argument(
        "--target",
        default="host",
        metavar="NAME",
        help=f"one of {', '.join(TARGETS)}, that of an installed package, or package:name; for an ONNX model that "
        f"stays one: {', '.join(MODEL_TARGETS)} (default: host)",
    )
    parser.add_argument(
        "--solver",
        default="exact",
        metavar="NAME",
        help="exact (proven least cost); or, for comparison, greedy (every op for itself, in program order) or naive "
        "(every op its cheapest option, whatever the reorders cost)",
    )
    parser.add_argument(
        "--costs",
        metavar="FILE",
        action="append",
        help="a cost table in JSON; or measured prices, once for each file of them; or 'calibrated' or 'measured' for "
        "what 'layout-ir calibrate', and with --ops, measured on this machine; or 'onednn-avx2' or 'onednn-avx512', "
        "fitted to prices that were measured elsewhere (default: constants of the target, the same everywhere)",
    )
    parser.add_argument(
        "--measure",
        choices=("off", "deciding", "all"),
        default="off",
        help="measure first, by the installed oneDNN, the prices that decide which layouts are chosen, or all; they "
        "are kept for the next time (default: off)",
    )
    parser.add_argument(
        "--measure-seconds",
        type=float,
        metavar="S",
        help="measure for at most so long (default: 30)",
    )
    parser.add_argument(
        "--allow-unregistered-dialect",
        action="store_true",
        help="take ops of dialects that are not known, in their generic form",
    )


_EPILOG = """\
An ONNX model for the target onnx (any runtime of the standard) or ort-cpu (ONNX Runtime) stays one: its nodes are put
on the orders of dims that move the fewest bytes, and its Transposes go. For ort-cpu-blocked it may also use the blocked
channels of ONNX Runtime, by nodes of its own for processors like this one. Other targets choose memory layouts of a
program.

examples:
  layout-ir optimize model.onnx -o better.onnx --report
  layout-ir optimize model.onnx -o better.onnx --target ort-cpu --html report.html
  layout-ir optimize model.onnx --target avx2 -o model.mlir --elide-constants 16
  layout-ir optimize model.onnx --target avx2 -o model.mlir --emit linalg
"""


def add_parser(subparsers: Any) -> None:
    """Adds the command `optimize` and its arguments."""
    parser = subparsers.add_parser(
        "optimize",
        help="choose layouts for a network and fold its reorders",
        description="Choose a layout for every value of a network at least cost, and say what remains and why.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    parser.set_defaults(target=None)
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="on how many threads ops run whose prices are used or measured (default: 1)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the optimized program (- for standard output); as an ONNX model where FILE ends in .onnx, for the "
        "target onnx unless another is given",
    )
    parser.add_argument(
        "--emit",
        choices=("layouts", "linalg", "loops"),
        default="layouts",
        help="what -o writes: the program with its layouts (default); linalg on plain tensors, or scalar loops over "
        "buffers, both for stock mlir-opt",
    )
    parser.add_argument(
        "--reorders",
        choices=("ops", "pack", "call"),
        default="ops",
        help="what a reorder is in linalg: ops that stock mlir-opt bufferizes (default), linalg.pack and unpack, or a "
        "call of a compiled function; the object file with these is written beside, as FILE with the ending .o",
    )
    for name in ("inputs", "outputs"):
        parser.add_argument(
            f"--{name}",
            choices=("keep", "free"),
            default="keep",
            help=f"whether the {name} of an ONNX model keep their order of dims (default), or callers may be asked for "
            "another one",
        )
    parser.add_argument(
        "--time-limit",
        type=float,
        metavar="S",
        help="search for the orders of dims of an ONNX model for at most so many seconds, inf for as long as it takes "
        "(default: 60); what is found by then is said to be unproven",
    )
    parser.add_argument(
        "--elide-constants",
        type=count,
        metavar="N",
        help="leave out the values of constants of more than N elements",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="list every remaining reorder, not only the first ten, and why it remains: what doing without would cost, "
        "and the cheapest missing capability that would remove it",
    )
    parser.add_argument(
        "--certificate",
        metavar="FILE",
        help="write the proof of the choice, for layout-ir verify-certificate",
    )
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="write a page that shows the network before and after, each value in the colour of its format, and every "
        "remaining reorder with its reason (needs the extra 'draw')",
    )
    parser.add_argument("--svg", metavar="FILE", help="write the optimized network as such a picture alone")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the report; writes the program to `-o`, its certificate to `--certificate`, and pictures of it."""
    from layout_ir.files import all_or_none, check_kept, write_result
    from layout_ir.tools.program import is_model, load_program

    is_for_model = args.output is not None and is_model(args.output)
    if args.target is None:
        args.target = "onnx" if is_for_model else "host"
    goes_out_as_mlir = args.output is not None and not is_for_model
    _check_emits(args)
    if args.target in MODEL_TARGETS and is_model(args.model) and not goes_out_as_mlir:
        from layout_ir.tools.commands import model_optimization

        return model_optimization.run(args)
    for name, given in (
        ("--inputs free", args.inputs == "free"),
        ("--outputs free", args.outputs == "free"),
        ("--time-limit", args.time_limit is not None),
    ):
        if given:
            raise LayoutError(f"{name} is for ONNX models that stay models (--target onnx)")
    if args.threads is not None and args.measure == "off" and args.costs is None:
        raise LayoutError(
            f"--threads {args.threads} says on how many threads prices are measured, and none are used: give --measure "
            "deciding or all, or measured prices by --costs"
        )
    object_file = _object_file(args)
    draws = args.html is not None or args.svg is not None
    if draws:
        from layout_ir.drawing.graph_placement import check_installed

        check_installed()
    files = (args.output, args.certificate, args.html, args.svg, object_file)
    check_kept(args.model, *files[1:])
    with all_or_none(*files):
        with ProgressLine(f"reading {printable(args.model)}"):
            module = load_program(
                args.model, allow_unregistered=args.allow_unregistered_dialect, shapes=args.shapes or ()
            )
        costs = costs_for(module, args)
        with ProgressLine(f"optimizing {printable(args.model)}"):
            report, naive, optimized = compared(module, args, costs)
        if args.output is not None:
            text, code = _written(optimized, args)
            write_result(text, args.output)
            if code is not None:
                write_result(code, object_file)
        explanations = _explanations(optimized, args, costs) if args.report or draws else []
        if draws:
            _draw(report, naive, optimized, explanations, args)
        text = (
            json.dumps(report.to_json(args.model), indent=2)
            if args.json
            else format_report(
                report, args.model, args.report, list(map(str, explanations)) if args.report else ()
            )
        )
        to_stderr = "-" in files
        if not to_stderr:
            write_result(text + "\n", None)
    if to_stderr:
        print(text, file=sys.stderr)
    return 0


def _check_emits(args: argparse.Namespace) -> None:
    """Raises LayoutError where --emit says what the other options do not."""
    from layout_ir.tools.program import is_model

    if args.reorders != "ops" and args.emit != "linalg":
        raise LayoutError(f"--reorders {args.reorders} is for --emit linalg")
    if args.emit == "layouts":
        return
    if args.output is None:
        raise LayoutError(f"--emit {args.emit} says what to write: name a file with -o")
    if is_model(args.output):
        raise LayoutError(f"--emit {args.emit} writes MLIR text, and {args.output} is to be an ONNX model")


def _object_file(args: argparse.Namespace) -> str | None:
    """Where the compiled reorders go, beside the program that calls them."""
    if args.reorders != "call":
        return None
    if args.output == "-":
        raise LayoutError("--reorders call writes an object file beside the program: name a file with -o")
    return f"{os.path.splitext(args.output)[0]}.o"


def _written(optimized: ModuleOp, args: argparse.Namespace) -> tuple[str | bytes, bytes | None]:
    """The program as IR, or as an ONNX model where the file is to be one; and the reorders that it calls, as code."""
    from layout_ir.printing import print_module
    from layout_ir.tools.program import is_model

    if is_model(args.output):
        from layout_ir.api.onnx_export import to_onnx

        return to_onnx(optimized).SerializeToString(), None
    code = None
    if args.emit != "layouts":
        from layout_ir.api.mlir_export import to_mlir, with_reorder_library

        if args.reorders == "call":
            optimized, library = with_reorder_library(optimized)
            code = None if library is None else library.object
        else:
            optimized = to_mlir(optimized, form=args.emit, reorders=args.reorders)
    return print_module(optimized, elide_above=args.elide_constants), code


def _draw(
    report: Report,
    naive: ModuleOp,
    optimized: ModuleOp,
    explanations: Sequence[Explanation],
    args: argparse.Namespace,
) -> None:
    """Writes the page to `--html` and the picture to `--svg`."""
    from layout_ir.files import write_result
    from layout_ir.tools.program_graph import drawn_program, program_pictures

    after = drawn_program(optimized, {found.op: found.reason for found in explanations})
    if args.html is not None:
        from layout_ir.drawing.graph_page import graph_page

        times = " before, ".join(time_text(side.time_ns) for side in (report.naive, report.optimized))
        page = graph_page(
            args.model,
            after,
            before=drawn_program(naive),
            pictures=program_pictures([naive, optimized]),
            notes=[f"target {report.target}, reorders estimated at {times} after", *_proof(report)],
        )
        write_result(page, args.html)
    if args.svg is not None:
        from layout_ir.drawing.graph_svg import graph_svg

        write_result(graph_svg(after), args.svg)


def costs_for(module: ModuleOp, args: argparse.Namespace) -> CostModel | None:
    """The costs that the arguments name, with what is measured for `module` if that is asked for; None for those of the
    target. Warnings and remarks go to standard error."""
    from xdsl.utils.exceptions import DiagnosticException

    from layout_ir.diagnostics import collect
    from layout_ir.passes.selection.costs.cost_table import load_costs
    from layout_ir.rendering import Renderer
    from layout_ir.tools.program import pass_error

    threads = getattr(args, "threads", None)
    with collect() as found:
        try:
            costs = None if args.costs is None else load_costs(args.costs, threads=threads)
            if args.measure == "off":
                if args.measure_seconds is not None and not getattr(args, "tune", False):
                    raise LayoutError("--measure-seconds is for --measure deciding or all")
                return costs
            return _measured(module, args, costs)
        except DiagnosticException as error:
            raise pass_error(error, args.model) from error
        finally:
            for diagnostic in dict.fromkeys(found):
                Renderer(sys.stderr)(diagnostic)


def _measured(module: ModuleOp, args: argparse.Namespace, costs: CostModel | None) -> CostModel:
    from layout_ir.api.measure_settings import MEASURE_SECONDS, check_measure
    from layout_ir.api.measured_selection import measured_costs

    threads = getattr(args, "threads", None) or 1
    seconds = MEASURE_SECONDS if args.measure_seconds is None else args.measure_seconds
    check_measure(args.measure, seconds, threads)
    with ProgressLine(f"measuring what {printable(args.model)} may run as") as line:
        found = measured_costs(
            module, args.target, costs, args.measure, seconds=seconds, threads=threads, progress=line.count
        )
    if found.settled is not None and not found.settled.is_settled:
        print(
            f"measuring ended after {seconds:g} s, before all prices that decide were measured",
            file=sys.stderr,
        )
    return found.costs


def compared(
    module: ModuleOp, args: argparse.Namespace, costs: CostModel | None
) -> tuple[Report, ModuleOp, ModuleOp]:
    """The report, the naive and the optimized program.

    Warnings, and remarks without a place in the program, go to standard error.
    """
    from xdsl.utils.exceptions import DiagnosticException

    from layout_ir.diagnostics import Severity, collect
    from layout_ir.passes.reorder_report import compare
    from layout_ir.rendering import Renderer
    from layout_ir.tools.program import pass_error

    with collect() as found:
        try:
            certificate = getattr(args, "certificate", None)
            return compare(module, args.target, args.solver, costs, certificate=certificate)
        except DiagnosticException as error:
            raise pass_error(error, args.model) from error
        finally:
            # The naive program meets the same obstacles as the optimized one.
            for diagnostic in dict.fromkeys(found):
                if diagnostic.location is None or diagnostic.severity is Severity.WARNING:
                    Renderer(sys.stderr)(diagnostic)


def _explanations(
    optimized: ModuleOp, args: argparse.Namespace, costs: CostModel | None
) -> list[Explanation]:
    """Why each reorder of an activation remains."""
    from layout_ir.passes.explain_reorders import explain

    return explain(optimized, args.target, costs)


def format_report(report: Report, model: str, everything: bool = False, reasons: Sequence[str] = ()) -> str:
    """The report as text; `everything` lists all reorders, `reasons` has a line per reorder on why it remains."""
    naive, best = report.naive, report.optimized
    lines = [
        f"{model}: {report.ops} ops, target {report.target}",
        "",
        f"             {'reorders':>9}  {'moved':>10}  {'estimated':>10}",
        f"  naive      {naive.count:>9}  {bytes_text(naive.nbytes):>10}  {time_text(naive.time_ns):>10}",
        f"  optimized  {best.count:>9}  {bytes_text(best.nbytes):>10}  {time_text(best.time_ns):>10}",
        "",
    ]
    lines += _proof(report)
    if best.remaining:
        lines += ["", "what remains:"]
        shown = best.remaining if everything else best.remaining[:10]
        lines += [_line(entry) for entry in shown]
        if len(shown) < len(best.remaining):
            lines.append(f"  ... and {len(best.remaining) - len(shown)} more (--report lists them)")
    else:
        lines.append("no reorder remains")
    if reasons:
        lines += ["", "why:", *(f"  {reason}" for reason in reasons)]
    return "\n".join(lines)


def _proof(report: Report) -> list[str]:
    """Whether the choice is proven to be of least cost, and what was left out of it."""
    solution = report.solution
    if solution is None:
        return ["nothing was left to choose"]
    cost = f"cost {_cost(solution.cost, report.unit)} (ops and reorders)"
    prices = [] if report.prices is None else report.prices.lines()
    if solution.is_optimal:
        return [f"proven optimal for {report.cost_model}: {cost} equals the lower bound", *prices]
    known = "no bound" if solution.bound is None else f"lower bound {_cost(solution.bound, report.unit)}"
    return [
        f"not proven optimal for {report.cost_model}: {cost}, {known}",
        *(f"  {what}" for what in solution.omitted),
        *prices,
    ]


def _line(entry: Remaining) -> str:
    change = f"{entry.source} -> {entry.destination}"
    return f"  {change}  {bytes_text(entry.nbytes)}  between {entry.producer} and {entry.consumer}"


def _cost(cost: int, unit: str) -> str:
    """A cost of the cost model, which may count in a unit of its own."""
    return time_text(cost, 3) if unit == "ns" else f"{cost} {unit}"


def time_text(ns: float, digits: int = 2) -> str:
    """A time in ns, us or ms, whichever has a readable number of digits."""
    if ns and ns < 1e3:
        return f"{ns:.0f} ns"
    return f"{ns / 1e3:.{digits}f} us" if 0 < ns < 1e6 else f"{ns / 1e6:.{digits}f} ms"
