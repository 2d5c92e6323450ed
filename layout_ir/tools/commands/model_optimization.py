"""What `layout-ir optimize` does with an ONNX model that is to stay one: for a runtime that takes ONNX."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from layout_ir.drawing.drawn_graph import bytes_text
from layout_ir.errors import LayoutError, printable
from layout_ir.tools.progress_line import ProgressLine

if TYPE_CHECKING:
    from layout_ir.passes.onnx.optimized_model import OptimizedModel
    from layout_ir.passes.onnx.remaining import Remaining

_SHOWN = 10


def run(args: argparse.Namespace) -> int:
    """Prints the report; writes the model to `-o`, the proof to `--certificate` and pictures of both graphs."""
    from layout_ir.api.optimizing import optimize_onnx
    from layout_ir.files import all_or_none, check_kept, write_result
    from layout_ir.passes.onnx.optimize_model import SEARCH_SECONDS
    from layout_ir.tools.execution_drawing import draw_models
    from layout_ir.tools.program import input_shapes, shipped_network

    check_options(args)
    if args.threads is not None:
        raise LayoutError(f"--threads is for prices of programs: the target {args.target} measures nothing")
    path = shipped_network(args.model) if args.model.startswith("onnx:") else args.model
    draws = args.html is not None or args.svg is not None
    if draws:
        from layout_ir.drawing.graph_placement import check_installed

        check_installed()
    shapes = input_shapes(args.shapes or ())
    files = (args.output, args.certificate, args.html, args.svg)
    check_kept(args.model, *files[1:])
    with all_or_none(*files):
        with ProgressLine(f"optimizing {printable(args.model)}"):
            result = optimize_onnx(
                path,
                args.target,
                inputs=args.inputs,
                outputs=args.outputs,
                shapes=shapes,
                certificate=args.certificate is not None,
                time_limit=SEARCH_SECONDS if args.time_limit is None else args.time_limit,
            )
        if args.output is not None:
            result.save(args.output)
        if args.certificate is not None:
            write_result(json.dumps(result.certificate), args.certificate)
        if draws:
            notes = [f"target {result.target}", proof(result), *result.notes]
            draw_models(args.model, path, result, args.html, args.svg, notes, shapes)
        text = (
            json.dumps(report_object(args.model, result), indent=2)
            if args.json
            else "\n".join(report_lines(args.model, result, everything=args.report))
        )
        to_stderr = "-" in files
        if not to_stderr:
            write_result(text + "\n", None)
    if to_stderr:
        print(text, file=sys.stderr)
    return 0


def check_options(args: argparse.Namespace) -> None:
    """Raises LayoutError for options that are for programs."""
    for name, given in (
        ("--costs", args.costs is not None),
        ("--measure", args.measure != "off"),
        ("--measure-seconds", args.measure_seconds is not None),
        ("--solver", args.solver != "exact"),
        ("--elide-constants", getattr(args, "elide_constants", None) is not None),
        ("--allow-unregistered-dialect", args.allow_unregistered_dialect),
    ):
        if given:
            raise LayoutError(
                f"{name} is for programs: the target {args.target} takes ONNX models and gives ONNX models"
            )


_ENDED = "the search was ended (--time-limit says when), or a note says what was ruled out"


def proof(result: OptimizedModel) -> str:
    """Whether the orders are proven to be of least cost."""
    if result.solution.is_optimal and not result.solution.omitted:
        return f"proven: of all that the models of its nodes offer, nothing costs {result.target} less"
    left = "; ".join(result.solution.omitted) or _ENDED
    return f"not proven to be of least cost: {left}"


def report_object(model: str, result: OptimizedModel) -> dict[str, Any]:
    """The report as a JSON object."""
    return {
        "model": model,
        "target": result.target,
        "before": {"transposes": result.before.count, "bytes": result.before.nbytes},
        "after": {"transposes": result.after.count, "bytes": result.after.nbytes},
        "proven": result.solution.is_optimal and not result.solution.omitted,
        "cost": result.solution.cost,
        "bound": result.solution.bound,
        "omitted": list(result.solution.omitted),
        "remaining": [
            {
                "value": entry.value,
                "from": list(entry.source),
                "to": list(entry.target),
                "bytes": entry.nbytes,
                "producer": entry.producer,
                "consumers": list(entry.consumers),
                "reason": entry.reason,
                "removed_by": entry.removed_by,
            }
            for entry in result.remaining
        ],
        "asked_of_callers": [
            {"name": entry.name, "order": list(entry.order), "bytes": entry.nbytes}
            for entry in result.obligations
        ],
        "notes": result.notes,
    }


def _move_text(entry: Remaining) -> str:
    """The `perm` of a Transpose, or the two orders of a reorder of blocks."""
    perm = [entry.source.index(d) for d in entry.target]
    if len(entry.source) == len(entry.target):
        return f"({', '.join(map(str, perm))})"
    return " to ".join(f"({', '.join(map(str, order))})" for order in (entry.source, entry.target))


def report_lines(model: str, result: OptimizedModel, *, everything: bool) -> list[str]:
    """The report as text; `everything` lists all remaining Transposes with their reasons."""
    lines = [
        f"{printable(model)}: {len(result.stored.graph.node)} nodes, target {result.target}",
        "",
        f"             {'transposes':>10}  {'moved':>10}",
        f"  before     {result.before.count:>10}  {bytes_text(result.before.nbytes):>10}",
        f"  after      {result.after.count:>10}  {bytes_text(result.after.nbytes):>10}",
        "",
        proof(result),
        *map(printable, result.notes),
    ]
    if result.obligations:
        moved = bytes_text(sum(entry.nbytes for entry in result.obligations))
        lines += ["", f"asked of callers, {moved} where they have the order of the model:"]
        lines += [
            f"  {printable(e.name)} in order ({', '.join(map(str, e.order))})" for e in result.obligations
        ]
    if not result.remaining:
        return [*lines, "", "no Transpose remains"]
    lines += ["", "what remains:"]
    shown = result.remaining if everything else result.remaining[:_SHOWN]
    for entry in shown:
        lines.append(
            f"  {bytes_text(entry.nbytes):>9}  {_move_text(entry)} of {printable(entry.value)}  between "
            f"{printable(entry.producer)} and {printable(', '.join(entry.consumers[:3]))}"
        )
        if everything:
            lines += [
                f"             why: {printable(entry.reason)}",
                f"             needs: {printable(entry.removed_by)}",
            ]
    if len(shown) < len(result.remaining):
        lines.append(f"  ... and {len(result.remaining) - len(shown)} more (--report lists them)")
    return lines
