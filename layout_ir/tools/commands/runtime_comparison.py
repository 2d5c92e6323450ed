"""What `layout-ir run --with onednn,...` does: one network in several runtimes, side by side.

    onednn        by `layout_ir.compile`, with its profile
    onnxruntime   the ONNX model as it is
    reference     by `layout_ir.run`, ops in NumPy

Outputs are compared with those of the last runtime that is named; times are taken in turns. Where they differ, each is
compared with ONNX Runtime without its optimizations, too: what it fuses on 8-bit integers saturates on some CPUs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from layout_ir.errors import LayoutError, printable
from layout_ir.tools.commands.arguments import check_timed_run
from layout_ir.tools.commands.optimize import costs_for, time_text
from layout_ir.tools.progress_line import ProgressLine

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ModuleOp

    from layout_ir.api.executable import Executable
    from layout_ir.backends.llvm.runtime.timing import Times
    from layout_ir.backends.onednn.plan_steps import StepTime
    from layout_ir.tools.output_agreement import OutputAgreement

RUNTIMES = ("onednn", "onnxruntime", "reference")
"""The runtimes that --with takes."""

SECONDS = 5.0
"""For so long runtimes are timed at most, where nothing else is asked."""

_ROUNDS = 50
_PROFILED = 5
_SHOWN = 15
"""Steps of the profile that are listed, the longest first."""


@dataclass(frozen=True)
class _Found:
    outputs: Mapping[str, Sequence[OutputAgreement]]
    """By runtime, how equal its outputs are to those of the last one."""
    unoptimized: Mapping[str, Sequence[OutputAgreement]]
    """By runtime, how equal its outputs are to those of ONNX Runtime without its optimizations; empty where outputs
    agree, or ONNX Runtime is not asked for."""
    times: Times
    executable: Executable | None
    profile: Sequence[StepTime]

    @property
    def agree(self) -> bool:
        return _agree(self.outputs)


def _agree(found: Mapping[str, Sequence[OutputAgreement]]) -> bool:
    return all(output.is_equal for outputs in found.values() for output in outputs)


def runtimes(text: str) -> tuple[str, ...]:
    """The runtimes of a list with commas. Raises ArgumentTypeError for one that is unknown or named twice."""
    names = tuple(text.split(","))
    for name in names:
        if name not in RUNTIMES:
            raise argparse.ArgumentTypeError(f"unknown runtime '{name}': runtimes are {', '.join(RUNTIMES)}")
        if names.count(name) > 1:
            raise argparse.ArgumentTypeError(f"runtime '{name}' is named twice")
    return names


def run(args: argparse.Namespace) -> int:
    """Prints how equal the outputs of the runtimes are, their times, and a profile; status 1 where outputs differ."""
    _check(args)
    with ProgressLine(f"running {printable(args.model)} with {', '.join(args.runtime)}"):
        found = _compared(args)
    print(json.dumps(_object(args, found), indent=2) if args.json else "\n".join(_lines(args, found)))
    return 0 if found.agree else 1


def _check(args: argparse.Namespace) -> None:
    """Raises LayoutError for options that contradict each other, before anything that takes long."""
    from layout_ir.tools.program import is_model

    if args.against is not None:
        raise LayoutError("--against compares two models in ONNX Runtime: give --with onnxruntime alone")
    if args.optimization_level is not None:
        raise LayoutError(
            "--optimization-level is for two models in ONNX Runtime: give --with onnxruntime alone"
        )
    if args.target is not None and "onednn" not in args.runtime:
        raise LayoutError("--target is what layouts are chosen for: add onednn to --with")
    if args.tune and (args.costs or args.measure != "off"):
        raise LayoutError(
            "--tune chooses layouts by running them, --costs and --measure by prices: leave one out"
        )
    check_timed_run(args)
    if "onednn" in args.runtime:
        from layout_ir.backends.onednn.library import library

        library()
    if "onnxruntime" in args.runtime:
        from layout_ir.backends.onnxruntime.runtime_session import onnxruntime

        onnxruntime()
        if not is_model(args.model):
            raise LayoutError(f"{args.model}: ONNX Runtime runs ONNX models, whose files end in .onnx")


def _compared(args: argparse.Namespace) -> _Found:
    from layout_ir.backends.llvm.runtime.timing import LEAST_SAMPLES, Limits, race
    from layout_ir.tools.output_agreement import agreements

    program, feeds, path = _program(args)
    calls: dict[str, Callable[[], Mapping[str, Any]]] = {}
    executable: Executable | None = None
    for name in args.runtime:
        if name == "onednn":
            executable = _executable(args, program, feeds)
            calls[name] = _named(executable, feeds)
        elif name == "onnxruntime":
            calls[name] = _session(args, path, feeds)
        else:
            calls[name] = _reference(program, feeds)
    results = {name: call() for name, call in calls.items()}
    last = args.runtime[-1]
    outputs = {name: agreements(results[last], results[name]) for name in args.runtime if name != last}
    unoptimized: dict[str, Sequence[OutputAgreement]] = {}
    if "onnxruntime" in calls and not _agree(outputs):
        plain = _session(args, path, feeds, level="disable")()
        unoptimized = {name: agreements(plain, result) for name, result in results.items()}
    seconds = SECONDS if args.repeat_seconds is None else args.repeat_seconds
    times = race(
        calls, lambda _: 1.0, Limits(seconds=seconds, precision=0.0, fewest=LEAST_SAMPLES, most=_ROUNDS)
    )
    has_profile = executable is not None and not executable.is_in_parts
    profile = executable.profile(feeds, calls=_PROFILED) if executable is not None and has_profile else []
    return _Found(outputs, unoptimized, times, executable, profile)


def _program(args: argparse.Namespace) -> tuple[ModuleOp | str, dict[str, NDArray[Any]], str]:
    """The program, inputs for it by name, and the file; the file itself for a model that is compiled in parts."""
    from layout_ir.api.program_arguments import entry_point, input_names
    from layout_ir.tools.array_archive import read_arrays
    from layout_ir.tools.program import input_shapes, is_model, load_program, shipped_network
    from layout_ir.tools.validation import random_inputs

    if not is_model(args.model):
        module = load_program(args.model, shapes=args.shapes or ())
        function = entry_point(module, "main")
        names = input_names(function)
        if args.inputs is not None:
            return module, read_arrays(args.inputs), args.model
        return module, dict(zip(names, random_inputs(function, args.seed), strict=True)), args.model
    from layout_ir.backends.onnxruntime.runtime_inputs import checked_inputs, random_model_inputs
    from layout_ir.frontends.onnx import from_onnx
    from layout_ir.frontends.onnx.import_error import OnnxImportError, is_unknown_type
    from layout_ir.frontends.onnx.model import read_model

    path = shipped_network(args.model) if args.model.startswith("onnx:") else args.model
    model = read_model(path)[0]
    if args.inputs is not None:
        feeds = checked_inputs(model, read_arrays(args.inputs))
    else:
        feeds = random_model_inputs(model, input_shapes(args.shapes or ()), args.seed)
    shapes = {name: array.shape for name, array in feeds.items()}
    try:
        return from_onnx(path, shapes=shapes, keep_quantized=True), feeds, path
    except OnnxImportError as error:
        if not is_unknown_type(error) or "reference" in args.runtime or args.costs or args.measure != "off":
            raise
        return path, feeds, path


def _executable(
    args: argparse.Namespace, program: ModuleOp | str, feeds: Mapping[str, NDArray[Any]]
) -> Executable:
    from layout_ir.api.compiling import compile
    from layout_ir.api.measure_settings import MEASURE_SECONDS
    from layout_ir.backends.llvm.runtime.thread_pool import cpus
    from layout_ir.passes.optimize_pipeline import optimize

    args.target = args.target or "onednn"
    args.threads = args.threads or cpus()
    seconds = MEASURE_SECONDS if args.measure_seconds is None else args.measure_seconds
    if isinstance(program, str):
        shapes = {name: array.shape for name, array in feeds.items()}
        executable = compile(program, args.target, threads=args.threads, shapes=shapes)
        executable(feeds)  # its parts are compiled as they are reached
        return executable
    costs = costs_for(program, args)
    if costs is not None:
        program = program.clone()
        optimize(program, args.target, costs=costs)
    return compile(program, args.target, threads=args.threads, tune=args.tune, measure_seconds=seconds)


def _named(executable: Executable, feeds: dict[str, NDArray[Any]]) -> Callable[[], Mapping[str, Any]]:
    names = executable.output_names
    return lambda: dict(zip(names, executable(feeds), strict=True))


def _session(
    args: argparse.Namespace, path: str, feeds: Mapping[str, NDArray[Any]], *, level: str = "all"
) -> Callable[[], Mapping[str, Any]]:
    from layout_ir.backends.llvm.runtime.thread_pool import cpus
    from layout_ir.backends.onnxruntime.runtime_session import RuntimeSession

    session = RuntimeSession(path, printable(args.model), threads=args.threads or cpus(), level=level)
    return lambda: session.outputs_of(feeds)


def _reference(program: ModuleOp | str, feeds: dict[str, NDArray[Any]]) -> Callable[[], Mapping[str, Any]]:
    from layout_ir.api.execute import run as execute
    from layout_ir.api.program_arguments import entry_point, result_names

    assert not isinstance(program, str)
    names = result_names(entry_point(program, "main"))
    constants: dict[Any, Any] = {}
    return lambda: dict(zip(names, execute(program, feeds, constants=constants), strict=True))


def _lines(args: argparse.Namespace, found: _Found) -> list[str]:
    last = args.runtime[-1]
    lines = [f"{printable(args.model)}", ""]
    if found.executable is not None:
        lines += [found.executable.describe(), ""]
    lines.append(f"             {'median run':>12}  of one of {last}")
    for name in args.runtime:
        ratio = "" if name == last else f"  {found.times.ratio(name, to=last)}"
        lines.append(f"  {name:<11}{time_text(found.times.median(name) * 1e9):>12}{ratio}")
    rounds = len(found.times.rounds[last])
    lines += [f"  ({rounds} rounds in turns; intervals hold the true ratio in 95 of 100 cases)", ""]
    if found.profile:
        lines += [*_profile_lines(found.profile), ""]
    for name, outputs in found.outputs.items():
        lines.append(_verdict(name, outputs, last))
        wrong = [output for output in outputs if not output.is_equal]
        lines += [f"  {printable(output.name)}: {printable(output.reason)}" for output in wrong[:_SHOWN]]
    for name, outputs in found.unoptimized.items():
        lines.append(_verdict(name, outputs, "onnxruntime without its optimizations"))
    return lines


def _verdict(name: str, outputs: Sequence[OutputAgreement], other: str) -> str:
    worst = max((output.difference or 0.0 for output in outputs), default=0.0)
    wrong = sum(not output.is_equal for output in outputs)
    verdict = f"DIFFERS in {wrong} of {len(outputs)} outputs" if wrong else "agrees"
    return f"{name} {verdict} with {other}: largest difference {worst:.1e} of the largest magnitude"


def _profile_lines(profile: Sequence[StepTime]) -> list[str]:
    total = sum(step.nanoseconds for step in profile) or 1
    shown = sorted(profile, key=lambda step: -step.nanoseconds)[:_SHOWN]
    lines = [f"{'time':>12} {'share':>6} {'bytes':>12}  what, by which implementation, in which layouts"]
    for step in shown:
        layouts = " -> ".join(dict.fromkeys(step.layouts))
        lines.append(
            f"{time_text(step.nanoseconds):>12} {step.nanoseconds / total:>6.1%} {step.nbytes:>12}  "
            f"{' + '.join(step.ops)}, {step.implementation}, {layouts}"
        )
    rest = len(profile) - len(shown)
    return [*lines, f"  ... and {rest} more (--json lists them)"] if rest else lines


def _object(args: argparse.Namespace, found: _Found) -> dict[str, Any]:
    """The object that `--json` prints; times in nanoseconds."""
    last = args.runtime[-1]
    measured: dict[str, Any] = {}
    for name in args.runtime:
        ratio = found.times.ratio(name, to=last)
        measured[name] = {
            "median_ns": found.times.median(name) * 1e9,
            "samples_ns": [seconds * 1e9 for seconds in found.times.rounds[name]],
            "ratio": {"median": ratio.middle, "low": ratio.low, "high": ratio.high, "confidence": 0.95},
            "outputs": _output_objects(found.outputs.get(name, ())),
        }
        if name in found.unoptimized:
            measured[name]["outputs_beside_unoptimized"] = _output_objects(found.unoptimized[name])
    return {
        "model": args.model,
        "compared_with": last,
        "agree": found.agree,
        "runtimes": measured,
        "fallbacks": None if found.executable is None else found.executable.fallbacks,
        "profile": [
            {
                "ops": step.ops, "implementation": step.implementation, "layouts": step.layouts,
                "bytes": step.nbytes, "ns": step.nanoseconds,
            }
            for step in found.profile
        ],
    }  # fmt: skip


def _output_objects(outputs: Sequence[OutputAgreement]) -> list[dict[str, Any]]:
    return [
        {"name": o.name, "type": o.type, "equal": o.is_equal, "difference": o.difference, "limit": o.limit}
        for o in outputs
    ]
