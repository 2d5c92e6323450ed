"""`layout-ir calibrate`: what reorders cost on this machine, as a curve or reorder by reorder."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from layout_ir.errors import LayoutError, printable
from layout_ir.tools.commands.arguments import add_input_shapes
from layout_ir.tools.progress_line import ProgressLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from layout_ir.passes.selection.costs.calibration import Calibration
    from layout_ir.passes.selection.problem.selection import Selection


def add_parser(subparsers: Any) -> None:
    """Adds `layout-ir calibrate` to the commands."""
    parser = subparsers.add_parser(
        "calibrate",
        help="measure what reorders cost on this machine",
        description="Measure compiled reorders and copies from the first cache to memory, and keep the curve in the "
        "user's cache directory, where --costs calibrated finds it. With --reorders, measure every reorder that "
        "the layouts of one network could need, and write them as a cost table.",
        epilog="examples:\n"
        "  layout-ir calibrate && layout-ir optimize model.onnx --costs calibrated\n"
        "  layout-ir calibrate --profile && layout-ir explain-reorder nchw nhwc --shape 8x64x56x56\n"
        "  layout-ir calibrate --reorders model.onnx -o costs.json && layout-ir optimize model.onnx --costs costs.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--reorders", metavar="MODEL", help="measure the reorders that this network's layouts could need"
    )
    parser.add_argument(
        "--target", default="host", metavar="NAME", help="whose layouts, with --reorders (default: host)"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where to write (- for standard output; default: the cache, or standard output with --reorders)",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="measure instead, in three seconds, what the planner of reorders asks of a machine, and keep it in the "
        "cache (LAYOUT_IR_CACHE) for every later plan",
    )
    add_input_shapes(parser)
    parser.add_argument(
        "--json", action="store_true", help="print the curve, or the profile, as one JSON object"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measures and writes; returns the exit status. Raises LayoutError for a program that cannot be read."""
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
    from layout_ir.backends.llvm.machine.machine import detected
    from layout_ir.backends.llvm.runtime import code_cache
    from layout_ir.backends.llvm.runtime.machine_profiling import measure_profile
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
    mode = calibration_mode()
    with ProgressLine("measuring this machine"):
        found = measure_profile()
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

    from layout_ir.files import all_or_none, write_result
    from layout_ir.passes.selection.options.targets import target_named
    from layout_ir.passes.selection.translation.from_ir import build
    from layout_ir.tools.program import load_program, pass_error

    with all_or_none(args.output):
        module = load_program(args.reorders, shapes=args.shapes or ())
        try:
            selection = build(module, target_named(args.target))
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
