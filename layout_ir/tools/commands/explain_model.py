"""`layout-ir explain-model`: the copies in a graph that another compiler wrote, and which of them need not be."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from layout_ir.errors import LayoutError, printable
from layout_ir.tools.commands.arguments import add_input_shapes
from layout_ir.tools.progress_line import ProgressLine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from layout_ir.execution_graphs.copies import Copy
    from layout_ir.execution_graphs.execution_graph import ExecutionGraph, Value

_EPILOG = """\
FILE is recognized by its content:
  an ONNX model, as exported or as ONNX Runtime writes it (optimized_model_filepath)
  TensorRT layer information       trtexec --profilingVerbosity=detailed --exportLayerInfo=FILE
  a oneDNN verbose log             ONEDNN_VERBOSE=profile_exec PROGRAM > FILE
  an OpenVINO execution graph      ov.serialize(compiled_model.get_runtime_model(), FILE)

A copy is avoidable where a rule shows so (the reason says which), forced where both ops have a layout that nothing in
the file has otherwise, at the boundary where it is up to the caller, and undecided where none of this is known. The
orders of dims of an ONNX model are chosen for the whole model: a Transpose that is gone then is avoidable, one that is
left is forced. Bytes are those read and written by all executions.

examples:
  layout-ir explain-model optimized.onnx
  layout-ir explain-model layers.json --profile profile.json --all
  layout-ir explain-model verbose.log --json
  layout-ir explain-model model.onnx --target onnx --html report.html
"""

_SHOWN = 20

_TARGETS = ("onnx", "ort-cpu")


def add_parser(subparsers: Any) -> None:
    """Adds the command `explain-model` and its arguments."""
    parser = subparsers.add_parser(
        "explain-model",
        help="the copies in a graph of ONNX Runtime, TensorRT, oneDNN or OpenVINO, and why they are there",
        description="Explain every copy in what another compiler says it executes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="what the compiler wrote (see below)")
    parser.add_argument(
        "--profile", metavar="FILE", help="times of the layers: what trtexec --exportProfile wrote"
    )
    add_input_shapes(parser)
    parser.add_argument(
        "--target",
        choices=_TARGETS,
        help="who is to run an ONNX model: any runtime of the standard, or ONNX Runtime on a CPU (default: ort-cpu)",
    )
    parser.add_argument("--all", action="store_true", help=f"every copy, not only the {_SHOWN} largest")
    parser.add_argument("--json", action="store_true", help="one JSON object, with every copy")
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="write a page that shows the graph, each value in the colour of its layout, and every copy with its "
        "verdict (needs the extra 'draw')",
    )
    parser.add_argument("--svg", metavar="FILE", help="write the graph as such a picture alone")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the copies, and writes pictures of the graph. Raises LayoutError where the file is none of the kinds, or
    is not valid, and where an option is for another kind."""
    from layout_ir.execution_graphs.recognition import is_onnx, read_graph
    from layout_ir.files import all_or_none, check_kept, write_result
    from layout_ir.tools.program import input_shapes

    draws = args.html is not None or args.svg is not None
    if draws:
        from layout_ir.drawing.graph_placement import check_installed

        check_installed()
    check_kept(args.file, args.html, args.svg)
    shapes = input_shapes(args.shapes or ())
    if args.target is not None and not is_onnx(args.file):
        raise LayoutError(f"{args.file} is no ONNX model: --target says who is to run an ONNX model")
    with ProgressLine(f"reading {printable(args.file)}") as line:
        graph = read_graph(args.file, profile=args.profile, shapes=shapes, progress=line.percent)
    with ProgressLine(f"explaining the copies of {printable(args.file)}"):
        copies = _explained(args.file, graph, args.target or "ort-cpu", shapes)
    if args.json:
        text = json.dumps(_object(args.file, graph, copies), indent=2)
    else:
        text = "\n".join(_table(args.file, graph, copies, len(copies) if args.all else _SHOWN))
    with all_or_none(args.html, args.svg):
        if draws:
            from layout_ir.tools.execution_drawing import draw_explained

            draw_explained(args.file, graph, copies, args.html, args.svg)
        if "-" not in (args.html, args.svg):
            write_result(text + "\n", None)
    if "-" in (args.html, args.svg):
        print(text, file=sys.stderr)
    return 0


def _explained(
    file: str, graph: ExecutionGraph, target: str, shapes: Mapping[str, Sequence[int]]
) -> list[Copy]:
    """The copies; those of an ONNX model decided by its optimization for `target`."""
    from layout_ir.execution_graphs.copies import explain_copies
    from layout_ir.execution_graphs.recognition import is_onnx

    copies = explain_copies(graph)
    if not copies or not is_onnx(file):
        return copies
    from layout_ir.execution_graphs.optimized_copies import decide_transposes
    from layout_ir.passes.onnx.optimize_model import optimize_orders

    result = optimize_orders(file, target, shapes=shapes)
    graph.skipped += result.notes
    return decide_transposes(graph, copies, result)


def _table(file: str, graph: ExecutionGraph, copies: Sequence[Copy], shown: int) -> list[str]:
    ops = sum(node.executions for node in graph.nodes if node.role == "op")
    lines = [f"{printable(file)}: {graph.source}, {ops} ops, {_count(copies)}"]
    if graph.values_are_inferred:
        lines.append("the file lists executions: who wrote what is concluded from shapes, types and layouts")
    lines += graph.skipped
    if not copies:
        return lines
    lines += ["", f"{'':13}{'copies':>7}  {'bytes':>10}  {'time':>10}"]
    for verdict in ("avoidable", "boundary", "undecided", "forced"):
        found = [copy for copy in copies if copy.verdict == verdict]
        if found:
            lines.append(f"  {verdict:11}{_sum(found)}")
    lines.append(f"  {'all':11}{_sum(copies)}")
    for copy in copies[:shown]:
        times = f", {copy.executions} times" if copy.executions > 1 else ""
        lines += [
            "",
            f"{_bytes(copy.nbytes)}  {copy.verdict}  {printable(copy.kind)} {printable(copy.name)}{times}",
            f"  {_moved(copy.source)} to {_moved(copy.destination)}: {printable(copy.change)}",
            f"  between {printable(copy.producer)} and {printable(_listed(copy.consumers))}",
            f"  why: {printable(copy.reason)}",
            f"  remedy: {printable(copy.remedy)}",
        ]
    if shown < len(copies):
        lines += ["", f"... and {len(copies) - shown} more (--all lists them)"]
    return lines


def _count(copies: Sequence[Copy]) -> str:
    executions = sum(copy.executions for copy in copies)
    return "no copy" if not copies else "one copy" if executions == 1 else f"{executions} copies"


def _sum(copies: Sequence[Copy]) -> str:
    """Number, bytes and time of some copies; what is not known of a few is left out and marked."""
    known = [copy.nbytes for copy in copies if copy.nbytes is not None]
    times = [copy.time_us for copy in copies if copy.time_us is not None]
    moved = _bytes(sum(known)) if known or not copies else "?"
    more = "+" if len(known) < len(copies) and known else ""
    time = f"{sum(times) / 1000:.3f} ms" if times else "-"
    return f"{sum(copy.executions for copy in copies):>9}  {moved + more:>10}  {time:>10}"


def _moved(value: Value) -> str:
    from layout_ir.errors import shape_text

    shape = "an unknown shape" if value.shape is None else shape_text(value.shape)
    return f"{value.dtype or 'unknown type'} {shape}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _bytes(count: int | None) -> str:
    if count is None:
        return "? bytes"
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _object(file: str, graph: ExecutionGraph, copies: Sequence[Copy]) -> dict[str, Any]:
    """The object that `--json` prints; times in microseconds, null for what the file does not say."""
    from layout_ir.execution_graphs.copies import totals

    return {
        "file": file,
        "source": graph.source,
        "ops": sum(node.executions for node in graph.nodes if node.role == "op"),
        "inferred": graph.values_are_inferred,
        "skipped": graph.skipped,
        "totals": {
            verdict: {"copies": count, "bytes": nbytes} for verdict, (count, nbytes) in totals(copies).items()
        },
        "copies": [
            {
                "name": copy.name,
                "kind": copy.kind,
                "change": copy.change,
                "from": _value_object(copy.source),
                "to": _value_object(copy.destination),
                "bytes": copy.nbytes,
                "time_us": copy.time_us,
                "executions": copy.executions,
                "because": [copy.producer, list(copy.consumers)],
                "verdict": copy.verdict,
                "reason": copy.reason,
                "remedy": copy.remedy,
            }
            for copy in copies
        ],
    }


def _value_object(value: Value) -> dict[str, Any]:
    return {
        "dtype": value.dtype,
        "shape": None if value.shape is None else list(value.shape),
        "layout": value.layout_name,
        "format": None if value.layout is None else str(value.layout),
    }
