"""What `layout-ir run --with onnxruntime` does: two ONNX models in ONNX Runtime, side by side."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from layout_ir.errors import LayoutError, printable
from layout_ir.tools.commands.arguments import check_timed_run
from layout_ir.tools.commands.optimize import MODEL_TARGETS, time_text
from layout_ir.tools.progress_line import ProgressLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layout_ir.backends.llvm.runtime.timing import Times
    from layout_ir.backends.onnxruntime.graph_contents import GraphContents
    from layout_ir.tools.output_agreement import OutputAgreement

SECONDS = 10.0
"""For so long models are timed at most, where nothing else is asked: enough to tell two percent on a quiet machine."""

_SIDES = ("before", "after")

_SHOWN = 20
"""Outputs that are listed, those that differ first: some models have hundreds."""


@dataclass(frozen=True)
class _Comparison:
    titles: Mapping[str, str]
    """What the models are called, by side."""
    in_file: Mapping[str, GraphContents]
    left: Mapping[str, GraphContents]
    """What ONNX Runtime runs for them."""
    outputs: Sequence[OutputAgreement]
    times: Times
    verdict: str
    threads: int
    level: str
    environment: Mapping[str, str]
    """The CPU and the versions that times depend on."""

    @property
    def agree(self) -> bool:
        return all(output.is_equal for output in self.outputs)


def run(args: argparse.Namespace) -> int:
    """Prints how equal the outputs of two models are, their times and their graphs; status 1 where outputs differ."""
    from layout_ir.tools.program import shipped_network

    _check(args)
    path = shipped_network(args.model) if args.model.startswith("onnx:") else args.model
    line = ProgressLine(f"running {printable(args.model)} in ONNX Runtime")
    with _other_model(args, path) as (other, titles), line:
        found = _compared(args, {"before": path, "after": other}, titles)
    print(json.dumps(_object(args, found), indent=2) if args.json else "\n".join(_lines(found)))
    return 0 if found.agree else 1


def _check(args: argparse.Namespace) -> None:
    """Raises LayoutError for options that contradict each other or are for programs."""
    from layout_ir.tools.commands.model_optimization import check_options
    from layout_ir.tools.program import is_model

    for path in (args.model, args.against):
        if path is not None and not is_model(path):
            raise LayoutError(f"{path}: ONNX Runtime runs ONNX models, whose files end in .onnx")
    if args.against is not None and args.target is not None:
        raise LayoutError(
            "--target is for a model that is to be optimized, --against names a finished one: give one"
        )
    args.target = args.target or "ort-cpu"
    if args.target not in MODEL_TARGETS:
        raise LayoutError(
            f"the target {args.target} gives no ONNX model for ONNX Runtime: expected {' or '.join(MODEL_TARGETS)}"
        )
    check_options(args)
    check_timed_run(args)


@contextmanager
def _other_model(args: argparse.Namespace, path: str) -> Generator[tuple[str, dict[str, str]]]:
    """The file of the second model and what both are called; an optimized one is there until the end."""
    from layout_ir.api.optimizing import optimize_onnx
    from layout_ir.backends.onnxruntime.runtime_session import onnxruntime
    from layout_ir.tools.program import input_shapes, shipped_network

    onnxruntime()  # before anything that takes long
    name = printable(args.model)
    if args.against is not None:
        other = shipped_network(args.against) if args.against.startswith("onnx:") else args.against
        yield other, {"before": name, "after": printable(args.against)}
        return
    with tempfile.TemporaryDirectory(prefix="layout-ir-") as folder:
        written = os.path.join(folder, "optimized.onnx")
        optimize_onnx(path, args.target, shapes=input_shapes(args.shapes or ())).save(written)
        yield written, {"before": name, "after": f"{name} optimized for {args.target}"}


def _compared(args: argparse.Namespace, files: Mapping[str, str], titles: Mapping[str, str]) -> _Comparison:
    from layout_ir.backends.llvm.machine.machine import processor_name
    from layout_ir.backends.llvm.runtime.thread_pool import cpus
    from layout_ir.backends.onnxruntime.graph_contents import contents_left, contents_of
    from layout_ir.backends.onnxruntime.runtime_session import RuntimeSession, onnxruntime
    from layout_ir.backends.onnxruntime.session_times import session_times, verdict
    from layout_ir.frontends.onnx.model import read_model
    from layout_ir.tools.output_agreement import agreements
    from layout_ir.version import __version__

    threads, level = args.threads or cpus(), args.optimization_level or "all"
    models = {side: read_model(path)[0] for side, path in files.items()}
    feeds = _feeds(args, models["before"])

    def outputs(side: str) -> dict[str, Any]:
        session = RuntimeSession(files[side], titles[side], threads=threads, level=level)
        _check_fed(session, feeds, titles)
        try:
            return session.outputs_of(feeds)
        except LayoutError as error:
            if args.inputs is not None or side != "before":
                raise
            raise LayoutError(f"{error}; {_others_hint(feeds)}") from error

    results = {side: outputs(side) for side in files}
    _check_outputs(results, titles)
    times = session_times(
        files,
        feeds,
        threads=threads,
        seconds=SECONDS if args.repeat_seconds is None else args.repeat_seconds,
        compare=["after"],
        level=level,
        titles=titles,
    )
    return _Comparison(
        titles=titles,
        in_file={side: contents_of(model) for side, model in models.items()},
        left={side: contents_left(path, titles[side], level=level) for side, path in files.items()},
        outputs=agreements(results["before"], results["after"]),
        times=times,
        verdict=verdict(times.ratio("after", to="before")),
        threads=threads,
        level=level,
        environment={
            "cpu": processor_name(),
            "onnxruntime": onnxruntime().__version__,
            "layout-ir": __version__,
        },
    )


def _feeds(args: argparse.Namespace, model: Any) -> dict[str, NDArray[Any]]:
    """Arrays from the file, or random ones."""
    from layout_ir.backends.onnxruntime.runtime_inputs import checked_inputs, random_model_inputs
    from layout_ir.tools.array_archive import read_arrays
    from layout_ir.tools.program import input_shapes

    if args.inputs is not None:
        return checked_inputs(model, read_arrays(args.inputs))
    return random_model_inputs(model, input_shapes(args.shapes or ()), args.seed)


def _others_hint(feeds: Mapping[str, NDArray[Any]]) -> str:
    """How to give other inputs than the random ones, which a model may not be made for."""
    from layout_ir.errors import shape_text

    shapes = ", ".join(f"{printable(name)} {shape_text(array.shape)}" for name, array in feeds.items())
    return f"the random inputs were {shapes or 'none'}: --shape gives other extents, --inputs FILE.npz other values"


def _check_fed(session: Any, feeds: Mapping[str, Any], titles: Mapping[str, str]) -> None:
    """Raises LayoutError where a model has an input that the first has not."""
    for name in session.inputs:
        if name not in feeds:
            known = ", ".join(map(printable, feeds)) or "none"
            raise LayoutError(
                f"input '{printable(name)}' of {session.title} is no input of {titles['before']}, which has {known}: "
                f"the models cannot be compared"
            )


def _check_outputs(results: Mapping[str, Mapping[str, Any]], titles: Mapping[str, str]) -> None:
    """Raises LayoutError where the outputs have other names."""
    for side, other in (_SIDES, _SIDES[::-1]):
        for name in results[side]:
            if name not in results[other]:
                known = ", ".join(map(printable, results[other]))
                raise LayoutError(
                    f"output '{printable(name)}' of {titles[side]} is no output of {titles[other]}, which has {known}: "
                    f"the models cannot be compared"
                )


def _lines(found: _Comparison) -> list[str]:
    where = ", ".join(f"{what} {which}" for what, which in found.environment.items())
    threads = f"{found.threads} thread{'s' * (found.threads > 1)}"
    lines = [
        *(f"{side:<7} {found.titles[side]}" for side in _SIDES),
        f"on      {where}, {threads}, optimization level {found.level}",
        "",
        "           in the file           as ONNX Runtime runs it",
        "           nodes  Transposes     nodes  Transposes  ReorderInputs  ReorderOutputs     median run",
    ]
    for side in _SIDES:
        file, left = found.in_file[side], found.left[side]
        lines.append(
            f"  {side:<7}{file.nodes:>7}  {file.transposes:>10}   {left.nodes:>7}  {left.transposes:>10}  "
            f"{left.reorder_inputs:>13}  {left.reorder_outputs:>14}     {time_text(found.times.median(side) * 1e9):>10}"
        )
    ratio = found.times.ratio("after", to="before")
    count = len(found.times.rounds["after"])
    lines.append("")
    lines.append(
        f"{_SENTENCES[found.verdict]}: a run after takes {ratio.middle:.3f} of one before, [{ratio.low:.3f}, "
        f"{ratio.high:.3f}] in 95 of 100 cases"
    )
    lines.append(
        f"  (median of {count} ratios, each of sessions made anew that run in turns; by order statistics, which assume "
        f"no distribution)"
    )
    lines.append("")
    shown = sorted(found.outputs, key=lambda output: output.is_equal)[:_SHOWN]
    lines += [f"  {_output_line(output)}" for output in shown]
    if len(shown) < len(found.outputs):
        lines.append(f"  ... and {len(found.outputs) - len(shown)} more (--json lists them)")
    different = sum(not output.is_equal for output in found.outputs)
    lines.append(
        f"results DIFFER in {different} of {len(found.outputs)} outputs" if different else "results agree"
    )
    return lines


_SENTENCES = {
    "faster": "faster",
    "slower": "slower",
    "equal": "as fast",
    "undecided": "no difference is shown (--repeat-seconds gives it more time)",
}


def _output_line(output: OutputAgreement) -> str:
    subject = f"{printable(output.name)} ({output.type}): "
    if not output.is_equal:
        limit = f" (limit {output.limit:.0e})" if output.difference is not None else ""
        return f"{subject}DIFFERS: {printable(output.reason)}{limit}"
    if not output.difference:
        return f"{subject}equal"
    return f"{subject}largest difference {output.difference:.1e} of the largest magnitude (limit {output.limit:.0e})"


def _object(args: argparse.Namespace, found: _Comparison) -> dict[str, Any]:
    """The object that `--json` prints; times in milliseconds."""
    ratio = found.times.ratio("after", to="before")
    sides = {
        side: {
            "title": found.titles[side],
            "nodes": found.in_file[side].nodes,
            "transposes": found.in_file[side].transposes,
            "left": asdict(found.left[side]),
            "median_ms": found.times.median(side) * 1e3,
            "samples_ms": [seconds * 1e3 for seconds in found.times.rounds[side]],
        }
        for side in _SIDES
    }
    return {
        "model": args.model,
        "against": args.against,
        "target": None if args.against is not None else args.target,
        **sides,
        "ratio": {"median": ratio.middle, "low": ratio.low, "high": ratio.high, "confidence": 0.95},
        "verdict": found.verdict,
        "agree": found.agree,
        "outputs": [
            {
                "name": output.name,
                "type": output.type,
                "equal": output.is_equal,
                "difference": output.difference,
                "limit": output.limit,
                "reason": output.reason or None,
            }
            for output in found.outputs
        ],
        "threads": found.threads,
        "optimization_level": found.level,
        "environment": dict(found.environment),
    }
