"""`layout-ir calibrate`: what reorders and ops cost on this machine, as a curve or one by one."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from layout_ir.errors import LayoutError, printable
from layout_ir.tools.commands.arguments import add_input_shapes
from layout_ir.tools.progress_line import ProgressLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from layout_ir.api.measured_selection import Measurement
    from layout_ir.passes.selection.costs.calibration import Calibration
    from layout_ir.passes.selection.costs.measured_costs import MeasuredCosts
    from layout_ir.passes.selection.costs.price_table import PriceTable
    from layout_ir.passes.selection.problem.selection import Selection


def add_parser(subparsers: Any) -> None:
    """Adds `layout-ir calibrate` to the commands."""
    parser = subparsers.add_parser(
        "calibrate",
        help="measure what reorders cost on this machine",
        description="Measure compiled reorders and copies from the first cache to memory, and keep the curve in the "
        "user's cache directory, where --costs calibrated finds it. With --reorders, measure every reorder that "
        "the layouts of one network could need, and write them as a cost table. With --ops, measure what every op of "
        "a network takes in oneDNN, in all layouts that it could have, and its reorders: prices, which --costs takes.",
        epilog="examples:\n"
        "  layout-ir calibrate && layout-ir optimize model.onnx --costs calibrated\n"
        "  layout-ir calibrate --profile && layout-ir explain-reorder nchw nhwc --shape 8x64x56x56\n"
        "  layout-ir calibrate --ops model.onnx && layout-ir optimize model.onnx --target onednn --costs measured\n"
        "  layout-ir calibrate --reorders model.onnx -o costs.json && layout-ir optimize model.onnx --costs costs.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--reorders", metavar="MODEL", help="measure the reorders that this network's layouts could need"
    )
    parser.add_argument(
        "--ops",
        metavar="MODEL",
        help="measure what the ops and reorders of this network take in oneDNN; needs the extra 'run'",
    )
    parser.add_argument(
        "--target",
        metavar="NAME",
        help="whose layouts, with --reorders (default: host) and --ops (default: onednn)",
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="on how many threads ops run, with --ops (default: 1)"
    )
    parser.add_argument(
        "--measure-seconds",
        type=float,
        metavar="S",
        help="measure for at most so long, with --ops (default: 600) and --profile (default: 3.5)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where to write (- for standard output; default: the cache, or standard output with --reorders); a file "
        "of prices is added to",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="measure instead what the planner of reorders asks of a machine, and keep it in the cache "
        "(LAYOUT_IR_CACHE) for every later plan; while others compute, --measure-seconds 12 tells more",
    )
    add_input_shapes(parser)
    parser.add_argument(
        "--json", action="store_true", help="print the curve, or the profile, as one JSON object"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measures and writes; returns the exit status. Raises LayoutError for a program that cannot be read."""
    if args.threads is not None and args.ops is None:
        raise LayoutError("--threads is for prices: add --ops MODEL")
    if args.measure_seconds is not None and args.ops is None and not args.profile:
        raise LayoutError("--measure-seconds is for prices and the profile: add --ops MODEL or --profile")
    if args.target is not None and args.ops is None and args.reorders is None:
        raise LayoutError("--target says whose layouts are measured: add --ops or --reorders MODEL")
    if args.ops is not None:
        return _ops(args)
    if args.profile:
        return _profile(args)
    if args.reorders is not None:
        return _reorders(args)
    from layout_ir.files import all_or_none, write_result
    from layout_ir.passes.selection.costs.calibration import calibration_path
    from layout_ir.tools.measuring import calibrate

    path = args.output
    if path is None:
        where = calibration_path()
        where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = str(where)
    with all_or_none(path):
        with ProgressLine("measuring this machine") as line:
            found = calibrate(line.count)
        text = json.dumps(found.to_json(), indent=2) + "\n"
        write_result(text, path)
        if path != "-":
            write_result(text if args.json else _table(found, path), None)
    return 0


def _profile(args: argparse.Namespace) -> int:
    from layout_ir.argument_checks import check_seconds
    from layout_ir.backends.llvm.machine.machine import detected
    from layout_ir.backends.llvm.runtime import code_cache
    from layout_ir.backends.llvm.runtime.machine_profiling import WHOLE_SECONDS, measure_profile
    from layout_ir.backends.llvm.runtime.profile_file import (
        VARIABLE,
        calibration_mode,
        keep_profile,
        kept_profile,
    )
    from layout_ir.files import write_result

    if args.reorders is not None or args.output is not None:
        raise LayoutError(
            "--profile is kept in the cache (LAYOUT_IR_CACHE): leave --reorders and --output out"
        )
    seconds = WHOLE_SECONDS if args.measure_seconds is None else args.measure_seconds
    check_seconds("measure_seconds", seconds, finite=True)
    mode = calibration_mode()
    with ProgressLine("measuring this machine"):
        found = measure_profile(seconds)
    keep_profile(found)
    if args.json:
        write_result(json.dumps(found.to_json(), indent=2) + "\n", None)
        return 0
    kept = kept_profile(detected()) is not None
    lines = [f"{name:>28}  {value}" for name, value in found.to_json().items()]
    lines.append(
        f"kept in {code_cache.folder()}" if kept else "not kept: the cache is off or cannot be written"
    )
    if mode == "off":
        lines.append(f"plans do not follow it while {VARIABLE} is off, as it is where CI=true")
    write_result("\n".join(lines) + "\n", None)
    return 0


def _table(found: Calibration, path: str) -> str:
    lines = [f"{found.machine}: a call takes {found.call_ns} ns", ""]
    lines.append(f"  {'bytes':>11}  {'reorder':>12}  {'':>10}  {'copy':>12}")
    for (size, reorder), (_, copy) in zip(found.reorder.points, found.copy.points, strict=True):
        lines.append(
            f"  {size:>11}  {reorder:>9} ns  {size / reorder:>5.1f} GB/s  {copy:>9} ns  {size / copy:>5.1f} GB/s"
        )
    return "\n".join([*lines, "", f"written to {path}", ""])


# Reorder by reorder --------------------------------------------------------------------------------------------------


def _reorders(args: argparse.Namespace) -> int:
    from xdsl.utils.exceptions import DiagnosticException

    from layout_ir.files import all_or_none, check_kept, write_result
    from layout_ir.passes.selection.options.targets import target_named
    from layout_ir.passes.selection.translation.from_ir import build
    from layout_ir.tools.program import load_program, pass_error

    check_kept(args.reorders, args.output)
    with all_or_none(args.output):
        module = load_program(args.reorders, shapes=args.shapes or ())
        try:
            selection = build(module, target_named(args.target or "host"))
        except DiagnosticException as error:
            raise pass_error(error, args.reorders) from error
        with ProgressLine(f"measuring reorders of {printable(args.reorders)}") as line:
            entries = measure_reorders(selection, line.count)
        table = {"unit": "ns", "reorder": entries, "missing": "model"}
        write_result(json.dumps(table, indent=1) + "\n", args.output)
        if args.output not in (None, "-"):
            said = f"{args.reorders}: {len(entries)} reorders measured, written to {args.output}\n"
            write_result(said, None)
    return 0


def measure_reorders(selection: Selection, progress: Callable[[int, int], None]) -> list[dict[str, Any]]:
    """An entry of a cost table for every reorder between Formats that a value of the problem may have.

    Reorders of constants are left out: they happen when the program is built. So are those that have no compiled
    kernel; a table leaves them to the cost model. Where tensors of one shape differ in element type the dearer counts.
    `progress` is told the reorders measured and all of them.
    """
    from layout_ir.algebra.tag import name_of
    from layout_ir.dialects import nn
    from layout_ir.dialects.layout import dtype_of
    from layout_ir.dialects.layout.ops import cast_obstacle
    from layout_ir.passes.selection.options.tensor_formats import bound, shape_of
    from layout_ir.tools.measuring import reorder_time

    pairs: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for value, formats in zip(selection.values, selection.formats, strict=True):
        if isinstance(value.owner, nn.ConstantOp):
            continue
        dtype, shape = dtype_of(value.type), shape_of(value)
        layouts = [(fmt, bound(fmt, value)) for fmt in formats]
        for source, a in layouts:
            for destination, b in layouts:
                if a is not None and b is not None and cast_obstacle(a, b) is not None:
                    pairs.setdefault((source, destination, shape, dtype), (a, b, dtype))
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for k, ((source, destination, shape, _), (a, b, dtype)) in enumerate(pairs.items()):
        try:
            cost = reorder_time(a, b, dtype)
        except LayoutError:
            continue
        entry = {
            "from": name_of(source) or str(source),
            "to": name_of(destination) or str(destination),
            "shape": list(shape),
            "cost": cost,
        }
        key = (source, destination, shape)
        if key not in found or found[key]["cost"] < cost:
            found[key] = entry
        progress(k + 1, len(pairs))
    return list(found.values())


# Op by op ------------------------------------------------------------------------------------------------------------

OPS_SECONDS = 600.0
"""For so long the prices of a network are measured at most, where nothing else is asked."""


def _ops(args: argparse.Namespace) -> int:
    from xdsl.utils.exceptions import DiagnosticException

    from layout_ir.api.measure_settings import check_measure
    from layout_ir.api.measured_selection import keep_prices, measured_costs
    from layout_ir.files import all_or_none, check_kept, write_result
    from layout_ir.passes.selection.costs.price_table import PriceTable
    from layout_ir.tools.program import load_program, pass_error

    if args.reorders is not None or args.profile:
        raise LayoutError("--ops measures the reorders as well: leave --reorders and --profile out")
    seconds = OPS_SECONDS if args.measure_seconds is None else args.measure_seconds
    threads = 1 if args.threads is None else args.threads
    check_measure("all", seconds, threads)
    check_kept(args.ops, args.output)
    before = _prices_in(args.output)
    with all_or_none(args.output):
        module = load_program(args.ops, shapes=args.shapes or ())
        try:
            with ProgressLine(f"measuring ops of {printable(args.ops)}") as line:
                found = measured_costs(
                    module, args.target or "onednn", _first_costs(before, threads), "all", seconds=seconds,
                    threads=threads, progress=line.count, keep=False,
                )  # fmt: skip
        except DiagnosticException as error:
            raise pass_error(error, args.ops) from error
        costs: MeasuredCosts = found.costs
        table = PriceTable({costs.of_source: costs.prices})
        if args.output is None:
            keep_prices(table)
        else:
            before.merge(table)
            write_result(before.text(), args.output)
        if args.output != "-":
            write_result(_prices_text(args, found) + "\n", None)
    return 0


def _prices_in(path: str | None) -> PriceTable:
    """The prices in a file that is to be added to; none where there is no file yet. Raises LayoutError for a file of
    another kind."""
    import os

    from layout_ir.passes.selection.costs.price_table import PriceTable, read_prices

    if path is None or path == "-" or not os.path.isfile(path):
        return PriceTable()
    try:
        return read_prices(path)
    except LayoutError as error:
        raise LayoutError(f"{path}: {error}: it is not replaced by prices") from error


def _first_costs(before: PriceTable, threads: int) -> MeasuredCosts:
    """The prices that need not be measured again: those of the file, or else of the cache."""
    from layout_ir.api.measured_selection import kept_prices
    from layout_ir.backends.onednn.library import library
    from layout_ir.backends.onednn.op_timing import price_source
    from layout_ir.passes.selection.costs.cost_table import MEASURED
    from layout_ir.passes.selection.costs.measured_costs import costs_of

    source = price_source(library(), threads)
    known = before.of(source) or kept_prices().of(source)
    return costs_of(dict(known), source, MEASURED)


def _prices_text(args: argparse.Namespace, found: Measurement) -> str:
    """What was measured, and how well the model that is fitted to it predicts what it was not shown."""
    from layout_ir.passes.selection.costs.price_model import fitted_model
    from layout_ir.passes.selection.costs.price_table import prices_path

    costs, settled = found.costs, found.settled
    measured = 0 if settled is None else settled.measured
    failed = 0 if settled is None else settled.failed
    where = args.output or prices_path()
    lines = [
        f"{printable(args.ops)}: {measured} prices measured, {len(costs.prices)} known of {costs.of_source}"
    ]
    if failed:
        lines.append(f"{failed} options do not run here")
    model = fitted_model(costs.prices)
    groups = {} if model is None else dict(model.groups)
    if groups:
        lines += ["", "a model fitted to them, and its errors on prices that it was not fitted to:"]
        lines.append(f"  {'prices':>6}  {'half within':>11}  {'9 in 10':>8}")
    for group, fit in sorted(groups.items(), key=lambda item: -item[1].count)[:_SHOWN_GROUPS]:
        name = ", ".join(part for part in group if part)
        lines.append(f"  {fit.count:>6}  {fit.median - 1:>10.0%}  {fit.factor - 1:>8.0%}   {name}")
    if len(groups) > _SHOWN_GROUPS:
        lines.append(f"  ... and {len(groups) - _SHOWN_GROUPS} more groups")
    return "\n".join([*lines, "", f"written to {where}"])


_SHOWN_GROUPS = 20
