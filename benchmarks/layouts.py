"""What the choice of layouts is worth: one executor, one network, and layouts chosen in seven ways.

    python benchmarks/layouts.py [NETWORK ...] [--threads N] [--batch N] [--seconds S] [--tune] [--json]

NETWORK is a file, or `onnx:resnet50` and the like; the default are the networks of the onnx package. Everything is run
by oneDNN (`layout_ir.compile`), with the same fusion and the same memory plan. What differs is who chooses:

    plain          every convolution on nchw
    channels last  every convolution on nhwc
    by 8, by 16    every convolution on channels in blocks of 8 or 16, where it has such a kernel, else on nchw
    wishes         every convolution on what the library answers to `any`, every other op its cheapest option, and the
                   reorders that this takes
    greedy         all options; every op for itself, in program order
    ours           all options, at least cost

With --tune, ours is what `layout_ir.compile(..., tune=True)` keeps: the choice of least cost, unless one of the first
four is faster beyond the noise.

In the first four the ops between convolutions are laid out at least cost around them. Choices that give the same
program are measured once. Times are interleaved, with intervals that hold the true ratio in 95 of 100 cases; a network
has a process of its own. Predicted is the cost that the solver adds up, in the prices of the target `onednn`. Memory is
that of the arena and of the constants as they are packed. Where another choice is faster than ours beyond noise, the
ops that explain it are listed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import layout_ir as li
from layout_ir.algebra.format import Format
from layout_ir.api.execute import entry_point
from layout_ir.api.network_tuning import signature
from layout_ir.backends.llvm.runtime.timing import Limits, Times, race
from layout_ir.backends.onednn.plan_steps import KernelStep, Place, StepTime
from layout_ir.backends.onednn.rewrites.pipeline import rewrite_before_selection
from layout_ir.frontends.onnx import from_onnx
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.selection.options import onednn, onednn_query
from layout_ir.passes.selection.options.conv_kernels import (
    ConvKernel,
    ConvKernels,
    ConvShape,
    Target,
    activation,
    weight,
)
from layout_ir.passes.selection.options.targets import find_target
from layout_ir.tools.program import shipped_network

SHIPPED = (
    "onnx:bvlc_alexnet", "onnx:densenet121", "onnx:inception_v1", "onnx:inception_v2", "onnx:resnet50",
    "onnx:shufflenet", "onnx:squeezenet", "onnx:vgg19", "onnx:zfnet512",
)  # fmt: skip

OURS = "ours"

_BEYOND = 1.01
"""How many times as long ours must take, at the lower end of the interval, to be called slower: two builds of one plan
differ by less."""

_PROFILED = 5


# The choices -------------------------------------------------------------------------------------------------------


def convolutions_in(pairs: Callable[[ConvShape], Sequence[tuple[Format, Format]]]) -> ConvKernels:
    """Kernels of convolutions in the first pair of formats, of input and output, in which the library has a compiled
    one; else in nchw."""

    def kernels(conv: ConvShape) -> Iterator[ConvKernel]:
        plain = activation(conv.spatial_rank, "ncS")
        priced = {(kernel.x, kernel.y): kernel for kernel in onednn.conv_kernels(conv)}
        for x, y in (*pairs(conv), (plain, plain)):
            found = priced.get((x, y))
            if found is None:
                answer = onednn_query.ask(conv, x, y)
                if answer is None or "ref" in answer.implementation:
                    continue
                # A kernel that the target does not offer has the price of those in the same format of the output.
                rates = [kernel.rate for kernel in priced.values() if kernel.y == answer.y]
                w = answer.w or weight(conv.spatial_rank, "oiS")
                found = ConvKernel(answer.x, w, answer.y, max(rates, default=79))
            if found.rate > 1:
                yield found
                return
        yield from priced.values()

    return kernels


def _plain(conv: ConvShape) -> Sequence[tuple[Format, Format]]:
    return ()


def _channels_last(conv: ConvShape) -> Sequence[tuple[Format, Format]]:
    last = activation(conv.spatial_rank, "nSc")
    return ((last, last),)


def _blocked(block: int) -> Callable[[ConvShape], Sequence[tuple[Format, Format]]]:
    def pairs(conv: ConvShape) -> Sequence[tuple[Format, Format]]:
        plain = activation(conv.spatial_rank, "ncS")
        blocks = activation(conv.spatial_rank, "ncS", ("c", block))
        return ((blocks, blocks), (plain, blocks))

    return pairs


def _wished(conv: ConvShape) -> Iterator[ConvKernel]:
    answer = onednn_query.ask(conv, None, None)
    priced = list(onednn.conv_kernels(conv))
    wished = [kernel for kernel in priced if answer and (kernel.x, kernel.y) == (answer.x, answer.y)]
    return iter(wished or priced)


@dataclass(frozen=True)
class Chooser:
    """A way to choose layouts: kernels of convolutions to choose from, and how."""

    name: str
    kernels: ConvKernels
    solver: str = "exact"

    def target(self) -> Target:
        """The target `onednn` with these kernels alone."""
        name = "onednn-" + "".join(letter if letter.isalnum() else "-" for letter in self.name)
        return replace(find_target("onednn"), name=name, conv_kernels=self.kernels)


CHOOSERS = (
    Chooser("plain", convolutions_in(_plain)),
    Chooser("channels last", convolutions_in(_channels_last)),
    Chooser("by 8", convolutions_in(_blocked(8))),
    Chooser("by 16", convolutions_in(_blocked(16))),
    Chooser("wishes", _wished, "naive"),
    Chooser("greedy", onednn.conv_kernels, "greedy"),
    Chooser(OURS, onednn.conv_kernels),
)


# Measuring ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """One network with the layouts of one chooser. Times in milliseconds, memory in bytes."""

    chooser: str
    same_as: str
    """The chooser before it that gave the same program; empty where none did."""
    predicted: float
    median: float
    ratio: tuple[float, float, float]
    """Its time over that of ours: the median, and the ends of the interval."""
    reorders: int
    reorder_bytes: int
    peak_bytes: int
    fallbacks: int
    explanation: str = ""
    """Where it is faster than ours beyond noise: the ops that make the difference."""


@dataclass(frozen=True)
class Row:
    """What the choosers make of one network."""

    network: str
    batch: int
    threads: int
    rounds: int
    choices: list[Measured]


def measure(path: str, name: str, batch: int, threads: int, seconds: float, tune: bool = False) -> Row:
    """The network in the file `path`, run with the layouts of each chooser in turns for so many seconds; with `tune`,
    ours may be another than that of least cost."""
    shapes = _shapes(path, batch)
    executables: dict[str, li.Executable] = {}
    same: dict[str, str] = {}
    predicted: dict[str, float] = {}
    seen: dict[tuple[str, ...], str] = {}
    for chooser in (CHOOSERS[-1], *CHOOSERS[:-1]):
        module = from_onnx(path, shapes=shapes)
        rewrite_before_selection(module, entry_point(module, "main"))
        solution = optimize(module, chooser.target(), chooser.solver)
        predicted[chooser.name] = 0.0 if solution is None else solution.cost / 1e6
        first = seen.setdefault(signature(module), chooser.name)
        same[chooser.name] = first
        if first == chooser.name:
            executables[chooser.name] = li.compile(module, threads=threads)
    if tune:
        executables[OURS] = li.compile(path, shapes=shapes, threads=threads, tune=True)
    feeds = _inputs(path, shapes)
    calls = {name: _call(executable, feeds) for name, executable in executables.items()}
    times = race(
        calls,
        lambda times: max(
            (times.ratio(name, to=OURS).uncertainty for name in calls if name != OURS), default=0.0
        ),
        Limits(precision=0.01, seconds=seconds, fewest=9, most=400),
    )
    profiles = {name: _by_op(_profile(executable, feeds)) for name, executable in executables.items()}
    choices = [
        _measured(chooser.name, same[chooser.name], predicted[chooser.name], executables, times, profiles)
        for chooser in CHOOSERS
    ]
    return Row(name, batch, threads, len(times.rounds[OURS]), choices)


def _measured(
    name: str, first: str, predicted: float, executables: dict[str, li.Executable], times: Times,
    profiles: dict[str, ByOp],
) -> Measured:  # fmt: skip
    plan: Any = executables[first].plan
    reorders = [step for step in plan.steps if isinstance(step, KernelStep)]
    moved = sum(
        place.layout.nbytes(place.dtype)
        for step in reorders
        for _, *pair in step.moves
        for place in pair
        if isinstance(place, Place)
    )
    ratio = times.ratio(first, to=OURS)
    faster = first != OURS and ratio.high < 1 / _BEYOND
    return Measured(
        name,
        first if first != name else "",
        predicted,
        times.median(first) * 1e3,
        (ratio.middle, ratio.low, ratio.high),
        len(reorders),
        moved,
        plan.arena.size + plan.constant_bytes,
        sum(executables[first].fallbacks.values()),
        explained(profiles[OURS], profiles[first]) if faster else "",
    )


ByOp = dict[str, tuple[int, str]]


def explained(mine: ByOp, theirs: ByOp) -> str:
    """The three ops in which the first loses the most time, with what computes them on either side."""
    lost = sorted(mine.keys() | theirs.keys(), key=lambda op: _time(theirs, op) - _time(mine, op))
    return "; ".join(
        f"{op} {_time(mine, op) / 1e3:.0f} us by {_by(mine, op)}, "
        f"not {_time(theirs, op) / 1e3:.0f} by {_by(theirs, op)}"
        for op in lost[:3]
        if _time(mine, op) > _time(theirs, op)
    )


def _by_op(profile: Sequence[StepTime]) -> ByOp:
    """Nanoseconds and implementation of each step by its first op, numbered among those of its name in the program,
    whose order is the same whatever the layouts; reorders as one."""
    found: ByOp = {}
    for step in profile:
        op = step.ops[0]
        name = "all reorders" if op.startswith("layout.") else f"{op} {step.number}"
        found[name] = (found.get(name, (0, ""))[0] + step.nanoseconds, step.implementation)
    return found


def _time(found: ByOp, op: str) -> int:
    return found.get(op, (0, ""))[0]


def _by(found: ByOp, op: str) -> str:
    return found.get(op, (0, "nothing"))[1]


def _call(executable: li.Executable, feeds: dict[str, Any]) -> Callable[[], object]:
    return lambda: executable(feeds)


def _profile(executable: li.Executable, feeds: dict[str, Any]) -> list[StepTime]:
    """Each step with its shortest time of a few calls."""
    calls = [executable.profile(feeds) for _ in range(_PROFILED)]
    return [min(steps, key=lambda step: step.nanoseconds) for steps in zip(*calls, strict=True)]


def _shapes(path: str, batch: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the inputs, with the batch as their first extent where that is open or 1."""
    from layout_ir.frontends.onnx.model import load

    graph = load(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    shapes: dict[str, tuple[int, ...]] = {}
    for value in graph.input:
        if value.name not in constants:
            dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
            shapes[value.name] = tuple(
                batch if number == 0 and extent in (0, 1) else extent or 1
                for number, extent in enumerate(dims)
            )
    return shapes


def _inputs(path: str, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    from layout_ir.backends.onnxruntime.runtime_inputs import random_model_inputs
    from layout_ir.frontends.onnx.model import read_model

    return dict(random_model_inputs(read_model(path)[0], shapes, 0))


# The tables --------------------------------------------------------------------------------------------------------


def markdown(rows: Sequence[Row]) -> str:
    """The times of all choosers as ratios to ours; below, what was predicted, moved and held; and what is slower."""
    names = [chooser.name for chooser in CHOOSERS if chooser.name != OURS]
    lines = [f"| network | ours, ms | {' | '.join(names)} |", f"|---|---{'|---' * len(names)}|"]
    for row in rows:
        by_name = {choice.chooser: choice for choice in row.choices}
        cells = [_cell(by_name[name]) for name in names]
        lines.append(f"| {_title(row)} | {by_name[OURS].median:.2f} | {' | '.join(cells)} |")
    if rows:
        means = [geometric_mean(_ratio(row, name) for row in rows) for name in names]
        lines.append(f"| geometric mean | | {' | '.join(f'{mean:.2f}' for mean in means)} |")
    lines += [
        "",
        "| network | ours predicted, ms | measured | reorders: ours | wishes | MB moved: ours | wishes | peak MB |",
    ]
    lines.append("|---|---|---|---|---|---|---|---|")
    for row in rows:
        ours, wishes = (next(c for c in row.choices if c.chooser == name) for name in (OURS, "wishes"))
        lines.append(
            f"| {_title(row)} | {ours.predicted:.2f} | {ours.median:.2f} | {ours.reorders} | {wishes.reorders} "
            f"| {ours.reorder_bytes / 1e6:.1f} | {wishes.reorder_bytes / 1e6:.1f} | {ours.peak_bytes / 1e6:.1f} |"
        )
    errors = [
        abs(choice.predicted / choice.median - 1)
        for row in rows
        for choice in row.choices
        if choice.predicted
    ]
    if errors:
        lines += ["", f"Predicted and measured differ by {median(errors):.0%} in the median of all choices."]
    slower = [
        f"* {_title(row)}: {choice.chooser} takes {choice.ratio[0]:.2f} of ours: {choice.explanation}"
        for row in rows
        for choice in row.choices
        if choice.explanation
    ]
    lines += ["", *(slower or ["No choice is faster than ours beyond noise."])]
    return "\n".join(lines)


def _title(row: Row) -> str:
    return row.network.removeprefix("onnx:").removesuffix(".onnx") + (
        f" x{row.batch}" if row.batch > 1 else ""
    )


def _ratio(row: Row, name: str) -> float:
    return next(choice.ratio[0] for choice in row.choices if choice.chooser == name)


def _cell(choice: Measured) -> str:
    if choice.same_as == OURS:
        return "="
    middle, low, high = choice.ratio
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", default=SHIPPED, metavar="NETWORK")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help="of timing, per network")
    parser.add_argument(
        "--tune", action="store_true", help="ours may be one of the others, where it is faster"
    )
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    rows: list[Row] = []
    for network in args.networks:
        if args.here:
            path = shipped_network(network) if network.startswith("onnx:") else network
            rows.append(measure(path, Path(network).name, args.batch, args.threads, args.seconds, args.tune))
            continue
        settings = [f"--{name}={getattr(args, name)}" for name in ("threads", "batch", "seconds")]
        settings += ["--tune"] if args.tune else []
        command = [sys.executable, __file__, network, "--here", "--json", *settings]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if run.returncode:
            print(f"{network}: no result, status {run.returncode}", file=sys.stderr)
            continue
        for found in json.loads(run.stdout):
            for choice in found["choices"]:
                choice["ratio"] = tuple(choice["ratio"])
            found["choices"] = [Measured(**choice) for choice in found["choices"]]
            rows.append(Row(**found))
    print(json.dumps([asdict(row) for row in rows], indent=2) if args.json else markdown(rows))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
