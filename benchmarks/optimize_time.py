"""How long optimizing a model takes, beside what ONNX Runtime takes to create a session with all optimizations.

    python benchmarks/optimize_time.py [MODEL ...] [--json FILE]

Both read the same file, in turns, in a process that has done each before, so that neither pays for loading code; what
comes out is not written. By default the models are those of tests/zoo that were converted from NHWC, blocks40-nhwc and
blocks400-nhwc among them, which repeat a block until there are about 1,000 and 10,000 nodes, and the language models in
the widths that were published. Ratios are medians with an interval of 95 %.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.model_files import MODELS_HELP, machine, model_files
from benchmarks.model_tools import TOOLS, ToolFailure, Worker
from layout_ir.backends.llvm.runtime.timing import LEAST_SAMPLES, Interval, median_interval
from layout_ir.backends.onnxruntime.runtime_session import created_session

onnx: Any = import_module("onnx")  # optional, and without type information

FACTOR = 2.0
"""More than this many session creations is too long."""
TARGETS = ("onnx", "ort-cpu")


@dataclass(frozen=True)
class Durations:
    nodes: int
    session: list[float]
    """Seconds of creating a session, one per round."""
    ours: dict[str, list[float]]
    """Per target, seconds of optimizing in the same rounds."""

    def ratio(self, target: str) -> Interval:
        return median_interval([one / two for one, two in zip(self.ours[target], self.session, strict=True)])


def durations(path: str, targets: Sequence[str], budget: float) -> Durations:
    """Runs rounds for `budget` seconds, at least six and at most thirty; one more before them is not counted."""
    optimize: Callable[..., Any] = import_module("layout_ir").optimize_onnx
    calls: dict[str, Callable[[], object]] = {"session": partial(created_session, path)}
    calls |= {target: partial(optimize, path, target=target) for target in targets}
    found: dict[str, list[float]] = {name: [] for name in calls}
    end = perf_counter() + budget
    for index in range(31):
        if index > LEAST_SAMPLES and perf_counter() > end:
            break
        for name, call in calls.items():
            begin = perf_counter()
            call()
            if index:
                found[name].append(perf_counter() - begin)
    nodes = len(onnx.load(path, load_external_data=False).graph.node)
    return Durations(nodes, found.pop("session"), found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="time of optimizing beside ONNX Runtime's session creation",
        epilog=f"MODEL: {MODELS_HELP}",
    )
    parser.add_argument(
        "models", nargs="*", default=("*-nhwc", "*-onnx2tf", "*-keras", "*-full-dynamic"), metavar="MODEL"
    )
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=TARGETS, help="default: all")
    parser.add_argument(
        "--budget", type=float, default=10, help="seconds per model, if six rounds take no longer"
    )
    parser.add_argument("--limit", type=float, default=600, help="seconds that a model may take")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the times to a file as well")
    arguments = parser.parse_args()
    targets: Sequence[str] = arguments.targets
    versions = {name: TOOLS[name].version() for name in ("ours-onnx", "ort-all")}
    environment = {**machine(), "layout-ir": versions["ours-onnx"], "onnxruntime": versions["ort-all"]}
    print(", ".join(f"{what} {which}" for what, which in environment.items()))
    print(f"\n{'model':<40} {'nodes':>6} {'session':>9}" + "".join(f" {target:>30}" for target in targets))
    rows: dict[str, Durations] = {}
    failures = 0
    with tempfile.TemporaryDirectory() as folder, Worker(arguments.limit, 16 << 30) as worker:
        for path in model_files(arguments.models, Path(folder)):
            try:
                row = worker.call(durations, str(path), targets, arguments.budget)
            except ToolFailure as failure:
                print(f"{path.stem:<40} {failure}", flush=True)
                failures += 1
                continue
            rows[path.stem] = row
            ratios = "".join(f" {_text(row, target):>30}" for target in targets)
            session_ms = 1e3 * median_interval(row.session).middle
            print(f"{path.stem:<40} {row.nodes:>6} {session_ms:>6.0f} ms{ratios}", flush=True)
    print(f"\nwithout times: {failures} models")
    for target in targets:
        slow = {name: row.ratio(target) for name, row in rows.items() if row.ratio(target).middle > FACTOR}
        print(f"{target}: more than {FACTOR:g} session creations for {len(slow)} of {len(rows)} models")
        for name, ratio in slow.items():
            print(f"    {name}: {ratio}")
    if arguments.json:
        times = {
            name: {"nodes": row.nodes, "session": row.session, **row.ours, "ratio": _ends(row)}
            for name, row in rows.items()
        }
        arguments.json.write_text(json.dumps({"environment": environment, "models": times}, indent=1))


def _text(row: Durations, target: str) -> str:
    return f"{1e3 * median_interval(row.ours[target]).middle:.0f} ms {row.ratio(target)}"


def _ends(row: Durations) -> dict[str, list[float]]:
    ratios = {target: row.ratio(target) for target in row.ours}
    return {target: [ratio.low, ratio.middle, ratio.high] for target, ratio in ratios.items()}


if __name__ == "__main__":
    main()
