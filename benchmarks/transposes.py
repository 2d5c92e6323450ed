"""Transposes left in ONNX models, and the bytes they move: ours beside what other people's tools leave.

    python benchmarks/transposes.py [MODEL ...] [--time] [--json]
    python benchmarks/transposes.py '*-full' --tools ort-all ours-blocked --time    # blocked channels

A MODEL is a file, a folder with files, or a network of tests/zoo, also as a pattern ('*-nhwc'); by default all networks
there that were converted from NHWC. Per model and tool, Transposes (+ ReorderInput and ReorderOutput where ONNX Runtime
adds them), and the megabytes that they read and write in one run:

    original       the model as it is
    ort-basic, ort-extended, ort-all    the graph that ONNX Runtime writes after its optimizations of that level
    onnxsim, onnxslim, onnxoptimizer    with their default passes
    ours-onnx, ours-ort-cpu, ours-blocked    layout_ir.optimize_onnx for the targets onnx, ort-cpu, ort-cpu-blocked,
                   inputs and outputs kept
    left-of-onnx, left-of-ort-cpu, left-of-blocked    what ONNX Runtime with all optimizations leaves of these

Every result is run and compared with the original: one that differs is "wrong" and beats nobody. A cell without numbers
says why: the tool is missing, crashed, raised an error or took too long. Geometric means are those of the models that
came from NHWC, with a count of 0 taken as 1, which makes them larger and never smaller.

The optimizers come with the extra "optimizers"; one that is not installed is left out, with a line on stderr.

--time adds what a run takes in ONNX Runtime with all optimizations, on 1 and on 2 threads: every tool's result as it
stands, in turns, on the same inputs, until an interval of 95 % decides or the budget is used (backends/onnxruntime).
"original again" is the same model a second time: what it differs by is noise.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import geometric_mean
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.model_files import MODELS_HELP, feeds_for, from_nhwc, machine, model_files
from benchmarks.model_tools import TOOLS, ToolFailure, Worker
from benchmarks.moved_bytes import Arrays, count_moves, largest_difference, nodes_of
from benchmarks.networks import runtime_block
from layout_ir.backends.llvm.runtime.timing import Interval, Times, median_interval
from layout_ir.backends.onnxruntime.session_times import session_times, verdict

onnx: Any = import_module("onnx")  # optional, and without type information

DEFAULT = ("*-nhwc", "*-nhwc-*", "*-onnx2tf", "*-keras")
OURS = ("ours-onnx", "ours-ort-cpu", "ours-blocked")
LEFT = {"left-of-onnx": "ours-onnx", "left-of-ort-cpu": "ours-ort-cpu", "left-of-blocked": "ours-blocked"}
"""Columns for what ONNX Runtime leaves of ours."""
LAID_OUT = ("ours-blocked", *LEFT)
"""Columns for graphs in which blocked channels are chosen, to be compared with those that ONNX Runtime lays out."""
AGAIN = "original again"

TOLERANCE = 1e-3
"""How far outputs may be from the original's, relative to their largest number."""
COARSE_STEP = 1 / 512
"""Models that quantize or have 16-bit floats round a sum to another step when its terms come in another order, and a
deep one makes much of that. Their outputs may be twice as far from the original's as those are moved by a change of
the inputs of half a step of 8 bits: 0.2 of the largest number for a ResNet-18 with random weights, 0.9 for a
MobileNetV2. Where inputs are tokens, those of 16-bit floats may be as far as a change of the weights by one rounding
moves them, twice: 0.008 for a BERT."""


@dataclass(frozen=True)
class Cell:
    """What one tool makes of one model."""

    failure: str = ""
    """Why there is no result, or none that counts; empty where there is."""
    transposes: int = 0
    reorders: int = 0
    nbytes: int = 0
    unsized: int = 0
    """Transposes that `nbytes` is without, since nobody says how often they run."""
    nodes: int = 0
    seconds: float = 0.0
    """What the tool takes in a process that has called it before."""
    difference: float = 0.0
    """The largest of outputs from the original's, relative to the largest number of each."""

    @property
    def moves(self) -> int:
        return self.transposes + self.reorders


@dataclass
class Row:
    name: str
    nhwc: bool
    """Whether the model was converted from NHWC."""
    nodes: int
    cells: dict[str, Cell] = field(default_factory=dict)
    times: dict[int, dict[str, list[float]]] = field(default_factory=dict)
    """Per number of threads, samples of the seconds of a run by tool."""


# One cell, in the worker ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Original:
    path: str
    feeds: Arrays
    outputs: Arrays
    tolerance: float


_known: list[_Original] = []
"""The model that was measured last."""


def measure(tool: str, original: str, source: str, target: str, block: int) -> Cell:
    """Has the tool write `target` from `source`, and counts what moves in it."""
    begin = perf_counter()
    TOOLS[tool].run(Path(source), Path(target))
    seconds = perf_counter() - begin
    if not _known or _known[0].path != original:
        _known[:] = [_measured_original(original, block)]
    (before,) = _known
    model = onnx.load(target)
    moves, outputs = count_moves(model, before.feeds, block)
    difference = largest_difference(outputs, before.outputs)
    return Cell(
        failure=f"wrong by {difference:.0e}" if difference > before.tolerance else "",
        **asdict(moves),
        nodes=len(model.graph.node),
        seconds=seconds,
        difference=difference,
    )


def _measured_original(path: str, block: int) -> _Original:
    model, feeds = onnx.load(path), feeds_for(Path(path))
    _, outputs = count_moves(model, feeds, block)
    tolerance = TOLERANCE
    if _is_coarse(model):
        random = np.random.default_rng(1)
        moved = {name: _moved_by_a_step(array, random) for name, array in feeds.items()}
        tolerance = max(tolerance, 2 * largest_difference(count_moves(model, moved, block)[1], outputs))
        _round_weights(model, random)
        tolerance = max(tolerance, 2 * largest_difference(count_moves(model, feeds, block)[1], outputs))
    return _Original(path, feeds, outputs, tolerance)


def _moved_by_a_step(array: NDArray[Any], random: np.random.Generator) -> NDArray[Any]:
    if array.dtype.kind != "f" or not array.size:
        return array
    change = COARSE_STEP * np.abs(array).max() * random.standard_normal(array.shape)
    return (array + change).astype(array.dtype)


def _round_weights(model: Any, random: np.random.Generator) -> None:
    """Rounds each weight of 16-bit floats to a number beside it, or to itself."""
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT16:
            array: NDArray[Any] = onnx.numpy_helper.to_array(tensor)
            change: NDArray[Any] = array * np.finfo(np.float16).eps * random.uniform(-1, 1, array.shape)
            tensor.CopyFrom(onnx.numpy_helper.from_array((array + change).astype(np.float16), tensor.name))


def _is_coarse(model: Any) -> bool:
    halves = {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
    if any(tensor.data_type in halves for tensor in model.graph.initializer):
        return True
    return any(
        word in node.op_type for node in nodes_of(model) for word in ("Quantize", "QLinear", "Integer")
    )


# Rows ----------------------------------------------------------------------------------------------------------------


def row_of(path: Path, worker: Worker, tools: Iterable[str], block: int, folder: Path) -> Row:
    """What the tools make of the model in a file; they write to `folder`."""
    row = Row(path.stem, from_nhwc(path.stem), len(onnx.load(path, load_external_data=False).graph.node))

    def cell(tool: str, source: Path, column: str) -> Cell:
        try:
            return worker.call(measure, tool, str(path), str(source), str(folder / f"{column}.onnx"), block)
        except ToolFailure as failure:
            return Cell(failure=str(failure))

    for tool in tools:
        row.cells[tool] = cell(tool, path, tool)
    for column, tool in LEFT.items():
        if tool in row.cells:
            before = row.cells[tool]
            row.cells[column] = before if before.failure else cell("ort-all", folder / f"{tool}.onnx", column)
    return row


def timed_tools(row: Row) -> list[str]:
    """The results that a run of is timed: not what ONNX Runtime itself writes, which it makes of the original too."""
    return [tool for tool in row.cells if not row.cells[tool].failure and tool in TOOLS and tool[:3] != "ort"]


def _session_times(
    files: Mapping[str, str], original: str, threads: int, budget: float, compare: Sequence[str]
) -> Times:
    feeds = feeds_for(Path(original))
    return session_times(files, feeds, threads=threads, seconds=budget, compare=compare)


def add_times(row: Row, path: Path, worker: Worker, folder: Path, threads: int, budget: float) -> None:
    """Times the results in `folder`."""
    tools = timed_tools(row)
    files = {tool: str(folder / f"{tool}.onnx") for tool in tools} | {AGAIN: str(path)}
    compare = [tool for tool in tools if tool in OURS] or ["original"]
    try:
        times = worker.call(_session_times, files, str(path), threads, budget, compare)
    except ToolFailure as failure:
        print(f"{row.name}: no times on {threads} threads, {failure}", file=sys.stderr)
        return
    row.times[threads] = {name: list(samples) for name, samples in times.rounds.items()}


# What the rows say ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """Of one of our columns: in which models somebody leaves less, and what is left of those that were NHWC."""

    column: str
    more_moves: dict[str, str]
    """By model: the count of ours and the least of the others, whose it is; reorders count like Transposes."""
    more_bytes: dict[str, str]
    failures: dict[str, str]


def summary_of(rows: Sequence[Row], column: str) -> Summary:
    """Ours beside the least that any other tool leaves; what is laid out for ONNX Runtime beside what it lays out."""
    others = ("ort-all",) if column in LAID_OUT else tuple(tool for tool in TOOLS if tool not in OURS)
    have = [row for row in rows if column in row.cells]
    return Summary(
        column,
        _beaten(have, column, others, lambda cell: cell.moves),
        _beaten(have, column, others, lambda cell: cell.nbytes),
        {row.name: row.cells[column].failure for row in have if row.cells[column].failure},
    )


def _beaten(
    rows: Sequence[Row], column: str, others: Sequence[str], size: Callable[[Cell], int]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in rows:
        cell = row.cells[column]
        sizes = {tool: size(c) for tool in others if (c := row.cells.get(tool)) is not None and not c.failure}
        if cell.failure or not sizes:
            continue
        least = min(sizes, key=lambda tool: sizes[tool])
        if size(cell) > sizes[least]:
            found[row.name] = f"{size(cell)} > {sizes[least]} ({least})"
    return found


def means_of(rows: Sequence[Row], columns: Sequence[str]) -> tuple[int, dict[str, float]]:
    """How many models from NHWC have a result in every column that has any, and per such column the geometric mean of
    the moves that are left of them; 0 counts as 1."""
    from_there = [row for row in rows if row.nhwc]
    have = [column for column in columns if any(not row.cells[column].failure for row in from_there)]
    chosen = [row for row in from_there if have and not any(row.cells[column].failure for column in have)]
    if not chosen:
        return 0, {}
    moves = {column: [max(row.cells[column].moves, 1) for row in chosen] for column in have}
    return len(chosen), {column: geometric_mean(counts) for column, counts in moves.items()}


# Words ---------------------------------------------------------------------------------------------------------------


def _line(row: Row, columns: Sequence[str], width: int) -> str:
    return f"{row.name:<{width}}" + "".join(f" {_text(row.cells[column]):>17}" for column in columns)


def _text(cell: Cell) -> str:
    if cell.failure:
        return cell.failure[:17]
    count = f"{cell.transposes} + {cell.reorders}" if cell.reorders else str(cell.transposes)
    return f"{count} ({cell.nbytes / 1e6:.2f}{'?' if cell.unsized else ''})"


def _print_times(row: Row) -> None:
    for threads, samples in row.times.items():
        times = Times(samples)
        parts = [
            f"{name} {times.ratio(name, 'original')} {verdict(times.ratio(name, 'original'))}"
            for name in samples
            if name != "original"
        ]
        milliseconds = 1e3 * times.median("original")
        count = len(samples["original"])
        print(
            f"    {threads} thread{'s' * (threads > 1)}: original {milliseconds:.2f} ms, {count} samples; of it"
        )
        for part in parts:
            print(f"        {part}")


def _print_summary(rows: Sequence[Row], columns: Sequence[str]) -> None:
    for column in (*OURS, *LEFT):
        if column not in columns:
            continue
        told = summary_of(rows, column)
        whose = "ONNX Runtime of the original" if column in LAID_OUT else "another tool"
        print(f"\n{column}: beside {whose}, of {len(rows)} models")
        for title, found in (
            ("leaves more moves", told.more_moves),
            ("leaves more bytes", told.more_bytes),
        ):
            print(f"    {title}: {len(found)}")
            for name, text in found.items():
                print(f"        {name}: {text}")
        print(f"    has no result: {len(told.failures)}")
        for why, times in Counter(told.failures.values()).most_common():
            models = [name for name, text in told.failures.items() if text == why]
            print(f"        {why}: {', '.join(models[:3])}{f' and {times - 3} more' if times > 3 else ''}")
    count, means = means_of(rows, columns)
    if means:
        print(f"\nmoves left, geometric mean over {count} models from NHWC, 0 as 1:")
        print("    " + ", ".join(f"{column} {mean:.2f}" for column, mean in means.items()))
    for line in time_lines(rows):
        print(line)


def time_lines(rows: Sequence[Row]) -> list[str]:
    """What the times of all models come to, per number of threads: geometric means of the median ratios to the original
    over the models from NHWC, and the models where ours is slower than another tool's result."""
    lines: list[str] = []
    for threads in sorted({count for row in rows for count in row.times}):
        timed = [(row, Times(row.times[threads])) for row in rows if threads in row.times]
        lines.append(f"\ntime of a run on {threads} thread{'s' * (threads > 1)}:")
        names = dict.fromkeys(name for _, times in timed for name in times.rounds if name != "original")
        for name in names:
            ratios = [t.ratio(name, "original").middle for row, t in timed if row.nhwc and name in t.rounds]
            if ratios:
                mean = geometric_mean(ratios)
                lines.append(f"    {name}: {mean:.3f} of the original, {len(ratios)} models from NHWC")
        for ours in OURS:
            compared = [
                (row.name, other, times.ratio(ours, other))
                for row, times in timed
                for other in times.rounds
                if ours in times.rounds and other not in OURS
            ]
            counts = Counter(verdict(ratio) for *_, ratio in compared)
            if compared:
                lines.append(f"    {ours} beside each: " + ", ".join(f"{n} {v}" for v, n in counts.items()))
            lines += [
                f"        {model}: slower than {other}, {ratio}"
                for model, other, ratio in compared
                if verdict(ratio) == "slower"
            ]
    return lines


def report(rows: Sequence[Row], columns: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Everything as values for JSON; times with their intervals."""
    intervals: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
    for row in rows:
        for threads, samples in row.times.items():
            times = Times(samples)
            intervals.setdefault(row.name, {})[str(threads)] = {
                name: {
                    "seconds": _ends(median_interval(times.rounds[name])),
                    "ratio": _ends(times.ratio(name, "original")),
                }
                for name in samples
            }
    return {
        "environment": dict(environment),
        "models": [asdict(row) for row in rows],
        "times": intervals,
        "summary": [asdict(summary_of(rows, column)) for column in (*OURS, *LEFT) if column in columns],
        "geometric_means": dict(zip(("models", "moves"), means_of(rows, columns), strict=True)),
    }


def _ends(interval: Interval) -> list[float]:
    return [interval.low, interval.middle, interval.high]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Transposes left in ONNX models and the bytes they move, by tool",
        epilog=f"MODEL: {MODELS_HELP}",
    )
    parser.add_argument("models", nargs="*", default=DEFAULT, metavar="MODEL")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS), help="default: all")
    parser.add_argument("--time", action="store_true", help="time a run of each result too")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="to time with (default: 1 2)")
    parser.add_argument("--budget", type=float, default=30, help="seconds of timing per model and threads")
    parser.add_argument("--limit", type=float, default=120, help="seconds that a tool may take")
    parser.add_argument("--memory", type=float, default=12, help="GiB that a tool may take")
    parser.add_argument("--keep", type=Path, help="folder to write all results to, as MODEL/TOOL.onnx")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to a file as well")
    arguments = parser.parse_args()
    tools = ["original"]  # what everything else is compared with
    for name in arguments.tools:
        why = TOOLS[name].missing()
        if why:
            print(f"{name} is left out: {why}", file=sys.stderr)
        elif name != "original":
            tools.append(name)
    columns = [*tools, *(column for column, tool in LEFT.items() if tool in tools)]
    environment = machine() | {TOOLS[tool].package: TOOLS[tool].version() for tool in tools}
    print(", ".join(f"{what} {which}" for what, which in environment.items()))
    print("Transposes + reorders (MB that they read and write)\n")
    width = 40
    print(f"{'model':<{width}}" + "".join(f" {column:>17}" for column in columns))
    rows: list[Row] = []
    memory = int(arguments.memory * (1 << 30))
    # Timing ends by itself, soon after its budget.
    seconds = max(arguments.limit, 3 * arguments.budget + 60)
    with (
        tempfile.TemporaryDirectory() as temporary,
        Worker(arguments.limit, memory) as worker,
        Worker(seconds, memory) as timer,
    ):
        block = runtime_block()
        for path in model_files(arguments.models, Path(temporary)):
            folder = (arguments.keep or Path(temporary, "results")) / path.stem
            folder.mkdir(parents=True, exist_ok=True)
            row = row_of(path, worker, tools, block, folder)
            print(_line(row, columns, width), flush=True)
            if arguments.time and not row.cells["original"].failure:
                for threads in arguments.threads:
                    add_times(row, path, timer, folder, threads, arguments.budget)
                _print_times(row)
            rows.append(row)
            if arguments.json:
                text = json.dumps(report(rows, columns, environment), indent=1)
                partial = arguments.json.with_name(arguments.json.name + ".partial")
                partial.write_text(text)
                partial.rename(arguments.json)
    _print_summary(rows, columns)


if __name__ == "__main__":
    main()
