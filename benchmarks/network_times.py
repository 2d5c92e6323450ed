"""How long networks take, beside ONNX Runtime, OpenVINO and torch.compile; whether outputs are equal; and the memory.

    python benchmarks/network_times.py [NETWORK ...] [--batch 1,8] [--threads 1,2] [--with onnxruntime,openvino,torch]
                                       [--measure] [--seconds S] [--json]

NETWORK is `onnx:resnet50` and the like (networks of the onnx package, whose batch is 1), a file, or the name of a
network of `tests.zoo`, which is built with random weights and needs torch; the default are the nine of the onnx package
and thirty of the zoo. Each row has a process of its own, in which the runtimes take turns on as many threads each.
Ratios are the time of a peer over ours, above 1 where we are faster, with intervals that hold the true one in 95 of 100
cases. Outputs are compared with those of ONNX Runtime without its optimizations, in units of the largest magnitude: its
kernels for integers, which it puts in by optimizing, saturate at 16 bits on a CPU without VNNI. With `--measure`,
layouts are chosen by measured prices.

The first call is that of a model as it comes, in brackets one that was compiled before and is read from a folder, and
ONNX Runtime's with the session that it needs.

Memory is what a process has after three calls and at its peak, Python and libraries included: one per runtime, and one
that reads what was compiled before from a folder. Kernels were compiled before, too.

For rows of 1 ms or more in which a peer takes less than 0.95 of our time, the longest steps are listed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import geometric_mean
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

SHIPPED = tuple(
    f"onnx:{name}"
    for name in (
        "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet",
        "vgg19", "zfnet512",
    )
)  # fmt: skip

ZOO = {
    "resnet18": 224, "resnext50": 224, "se_resnet50": 224, "res2net50": 224, "densenet121-full": 0,
    "inception_v3": 224, "xception": 224, "nasnet": 224, "convnext_tiny": 224, "repvgg": 224, "mobilenet_v1": 224,
    "mobilenet_v2": 224, "mobilenet_v3_small": 224, "mobilenet_v3_large": 224, "efficientnet_b0-full": 0,
    "shufflenet_v2": 224, "ghostnet-full": 0, "yolov8-full": 0, "unet_transposed": 128, "unet_resized": 128,
    "unet_3d": 0, "wavenet": 0, "vit_tiny": 0, "swin_tiny": 0, "maxvit": 0, "segformer": 128, "bert": 0, "gpt2": 0,
    "diffusion_unet": 0, "resnet18-qdq": 0,
}  # fmt: skip
"""Networks of the zoo, and the size of their pictures where it is not the zoo's own."""

PEERS = ("onnxruntime", "openvino", "torch")
OURS = "layout-ir"
CACHED = "layout-ir, read from a cache"

EQUAL = 1e-4
"""The largest difference of outputs that are equal, relative to the largest magnitude."""

_BATCH = 0.02
"""Seconds of calls behind each other, behind one that is not counted: what counts is a call like the one before it."""

_SLOW = 0.95
_SHORT = 1.0
"""Milliseconds of a call from which a row counts in the means of times."""


@dataclass(frozen=True)
class Memory:
    """Bytes of a process: what it held after three calls, and at its peak."""

    held: int
    peak: int


@dataclass(frozen=True)
class Row:
    """One network at one batch size on so many threads. Times in milliseconds."""

    network: str
    batch: int
    threads: int
    times: dict[str, float]
    ratios: dict[str, tuple[float, float, float]]
    """By peer, its time over ours: the median and the ends of the interval."""
    created: dict[str, float]
    """How long it took until the first outputs were there."""
    difference: float
    arena: int
    arena_bound: int
    constants: int
    fallbacks: dict[str, int]
    steps: list[str]
    """The steps that take the most time."""
    memory: dict[str, Memory] = field(default_factory=dict[str, Memory])


# Models ------------------------------------------------------------------------------------------------------------


def model_file(name: str, batch: int, folder: Path) -> Path:
    """The file of a network at a batch size. Raises LayoutError for one whose batch is fixed."""
    from layout_ir.errors import LayoutError
    from layout_ir.tools.program import shipped_network

    if name.startswith("onnx:") or name.endswith(".onnx"):
        if batch != 1:
            raise LayoutError(f"{name}: the batch of a file is fixed")
        return Path(shipped_network(name) if name.startswith("onnx:") else name)
    from tests.zoo import NETWORKS, draw

    takes = _takes(name, batch)
    path = folder / f"{name}-{batch}.onnx"
    plain = name.removesuffix("-qdq")
    known = NETWORKS[plain]
    base = getattr(known.build, "args", ())
    if len(base) < 3:
        if batch != 1:
            raise LayoutError(f"{name}: the batch of a derived network is fixed")
        return NETWORKS[name].save(folder)
    from tests.zoo.torch_export import export

    model = export(known.family, base[1], draw(takes, 0), "script", {})
    if plain != name:
        from tests.zoo.precision import static_qdq

        model = static_qdq(model, [draw(takes, seed) for seed in range(3)])
    path.write_bytes(model.SerializeToString())
    return path


def _takes(name: str, batch: int) -> dict[str, Any]:
    """The inputs of a network of the zoo at a batch size, pictures in the size of the table."""
    from tests.zoo import NETWORKS

    size = ZOO.get(name, 0)
    takes: dict[str, Any] = {}
    for key, given in NETWORKS[name].takes.items():
        shape = (batch, *given.shape[1:])
        takes[key] = replace(given, shape=(*shape[:2], size, size) if size and len(shape) == 4 else shape)
    return takes


# Runtimes ----------------------------------------------------------------------------------------------------------

Call = Callable[[], Sequence[Any]]


def _ours(path: Path, name: str, feeds: Mapping[str, Any], threads: int, measure: bool) -> tuple[Any, Call]:
    import layout_ir as li

    shapes = {key: value.shape for key, value in feeds.items()}
    # The file, not a program: who has a program keeps its weights beside those that are packed.
    executable = li.compile(
        str(path),
        threads=threads,
        shapes=shapes,
        measure="deciding" if measure else "off",
        measure_seconds=30,
    )
    return executable, lambda: executable(feeds)


def _onnxruntime(
    path: Path, name: str, feeds: Mapping[str, Any], threads: int, measure: bool
) -> tuple[Any, Call]:
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session, lambda: session.run(None, feeds)


def _openvino(
    path: Path, name: str, feeds: Mapping[str, Any], threads: int, measure: bool
) -> tuple[Any, Call]:
    openvino: Any = import_module("openvino")
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    model = openvino.Core().read_model(str(path))
    model.reshape({key: list(value.shape) for key, value in feeds.items()})
    compiled: Any = openvino.compile_model(model, "CPU", settings)
    request: Any = compiled.create_infer_request()

    def call() -> Sequence[Any]:
        found = request.infer(feeds)
        return [found[output] for output in compiled.outputs]

    return compiled, call


def _torch(path: Path, name: str, feeds: Mapping[str, Any], threads: int, measure: bool) -> tuple[Any, Call]:
    """The network of the zoo from which the file was made, compiled by torch with weights of its own."""
    from tests.zoo import NETWORKS

    torch: Any = import_module("torch")
    torch.set_num_threads(threads)
    builder = getattr(import_module(f"tests.zoo.{NETWORKS[name].family}"), NETWORKS[name].build.args[1])  # type: ignore[attr-defined]
    network = torch.compile(builder().eval())
    inputs = [torch.from_numpy(value) for value in feeds.values()]

    def call() -> Sequence[Any]:
        with torch.no_grad():
            network(*inputs)
        return []

    return network, call


RUNTIMES = {OURS: _ours, "onnxruntime": _onnxruntime, "openvino": _openvino, "torch": _torch}


def _feeds(path: Path, name: str, batch: int) -> dict[str, Any]:
    from layout_ir.backends.onnxruntime.runtime_inputs import random_model_inputs
    from layout_ir.frontends.onnx.model import read_model

    if name in ZOO and not name.endswith("qdq"):
        from tests.zoo import draw

        return draw(_takes(name, batch), 0)
    return dict(random_model_inputs(read_model(str(path))[0], {}, 0))


# A row, in a process of its own ------------------------------------------------------------------------------------


def measured(name: str, batch: int, threads: int, peers: Sequence[str], seconds: float, measure: bool) -> Row:
    """One row of the table."""
    from layout_ir.backends.llvm.runtime.timing import Limits, race

    with tempfile.TemporaryDirectory() as folder:
        path = model_file(name, batch, Path(folder))
        feeds = _feeds(path, name, batch)
        objects: dict[str, Any] = {}
        calls: dict[str, Call] = {}
        created: dict[str, float] = {}
        for runtime in (OURS, *peers):
            if runtime == "torch" and (name not in ZOO or name.endswith("qdq")):
                continue
            start = perf_counter()
            objects[runtime], calls[runtime] = RUNTIMES[runtime](path, name, feeds, threads, measure)
            calls[runtime]()
            created[runtime] = (perf_counter() - start) * 1e3
        created[CACHED] = _read_again(path, feeds, threads, Path(folder))
        differs = float("nan")
        if "onnxruntime" in calls:
            differs = difference(_expected(path, feeds), calls[OURS]())
    times = race(
        calls,
        lambda times: max(
            (times.ratio(peer, to=OURS).uncertainty for peer in calls if peer != OURS), default=0.0
        ),
        Limits(precision=0.02, seconds=seconds, fewest=9, most=400, batch=_BATCH),
        pause=0.002 if threads > 1 else 0.0,  # the threads of the one before go to sleep
    )
    ratios = {peer: times.ratio(peer, to=OURS) for peer in calls if peer != OURS}
    executable = objects[OURS]
    plan = executable.plan
    return Row(
        name, batch, threads,
        {runtime: times.median(runtime) * 1e3 for runtime in calls},
        {peer: (ratio.middle, ratio.low, ratio.high) for peer, ratio in ratios.items()},
        created,
        differs,
        plan.arena.size, plan.arena.lower_bound, plan.constant_bytes, executable.fallbacks,
        longest_steps(executable, feeds),
    )  # fmt: skip


def _read_again(path: Path, feeds: Mapping[str, Any], threads: int, folder: Path) -> float:
    """The milliseconds in which a model that was compiled before is read, and called once."""
    import layout_ir as li

    shapes = {key: value.shape for key, value in feeds.items()}
    compiled = partial(li.compile, str(path), threads=threads, shapes=shapes, cache_dir=folder / "compiled")
    compiled()
    start = perf_counter()
    compiled()(feeds)
    return (perf_counter() - start) * 1e3


def _expected(path: Path, feeds: Mapping[str, Any]) -> Sequence[Any]:
    """The outputs of ONNX Runtime without its optimizations."""
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feeds)


def difference(expected: Sequence[Any], found: Sequence[Any]) -> float:
    """The largest difference of outputs, relative to the largest magnitude of each."""
    worst = 0.0
    for a, b in zip(expected, found, strict=True):
        scale = max(float(np.max(np.abs(a), initial=0)), 1e-30)
        worst = max(worst, float(np.max(np.abs(a.astype(np.float64) - b), initial=0)) / scale)
    return worst


def longest_steps(executable: Any, feeds: Mapping[str, Any]) -> list[str]:
    """The three kinds of steps that take the most time, with their share."""
    profiles = [executable.profile(feeds) for _ in range(5)]
    steps = [min(same, key=lambda step: step.nanoseconds) for same in zip(*profiles, strict=True)]
    total = sum(step.nanoseconds for step in steps) or 1
    shares: dict[str, int] = {}
    for step in steps:
        kind = f"{step.ops[0]} by {step.implementation}"
        shares[kind] = shares.get(kind, 0) + step.nanoseconds
    longest = sorted(shares.items(), key=lambda item: -item[1])[:3]
    return [f"{kind} {share / total:.0%}" for kind, share in longest]


def memory_of_processes(name: str, batch: int, threads: int) -> dict[str, Memory]:
    """What a process of each runtime has. Another one makes the model."""
    found: dict[str, Memory] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = model_file(name, batch, Path(folder))
        np.savez(Path(folder) / "feeds.npz", **_feeds(path, name, batch))
        for runtime in (OURS, CACHED, CACHED, "onnxruntime"):  # the first that reads has to compile
            has = _child(f"--memory-of={runtime}", str(path), folder, f"--threads={threads}")
            if has is not None:
                found[runtime] = Memory(**has)
    return found


def memory(path: Path, folder: Path, threads: int, runtime: str) -> Memory:
    """What this process has when it has run a model three times on the inputs that are in `folder`."""
    with np.load(folder / "feeds.npz") as found:
        feeds = dict(found)
    if runtime == CACHED:
        import layout_ir as li

        shapes = {key: value.shape for key, value in feeds.items()}
        executable = li.compile(str(path), threads=threads, shapes=shapes, cache_dir=folder / "compiled")
        call: Call = partial(executable, feeds)
    else:
        _kept, call = RUNTIMES[runtime](path, "", feeds, threads, False)
    for _ in range(3):
        call()
    return Memory(_status("VmRSS"), _status("VmHWM"))


def _status(key: str) -> int:
    """Bytes of this process in memory: `VmRSS` now, `VmHWM` at the peak. (getrusage counts what forked it as well.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


# The table ---------------------------------------------------------------------------------------------------------


def markdown(rows: Sequence[Row], peers: Sequence[str]) -> str:
    """Times, ratios, means, memory, and the reason of each row in which a peer is faster."""
    heads = [
        "network",
        "batch",
        "threads",
        "ours, ms",
        *peers,
        "difference",
        "first call, ms (read, ONNX Runtime)",
        "arena / bound, MB",
    ]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        ratios = [_ratio(row.ratios.get(peer)) for peer in peers]
        cells = [
            _title(row), str(row.batch), str(row.threads), f"{row.times[OURS]:.2f}", *ratios,
            f"{row.difference:.0e}" + ("" if row.difference <= EQUAL else " NOT EQUAL"),
            f"{row.created[OURS]:.0f} ({row.created[CACHED]:.0f}, {row.created.get('onnxruntime', 0):.0f})",
            f"{row.arena / 1e6:.1f} / {row.arena_bound / 1e6:.1f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for threads in sorted({row.threads for row in rows}):
        counted = [row for row in rows if row.threads == threads and row.times[OURS] >= _SHORT]
        for peer in peers:
            ratios = [row.ratios[peer][0] for row in counted if peer in row.ratios]
            if ratios:
                lines.append(
                    f"Geometric mean of {peer} over ours, {len(ratios)} rows of 1 ms or more, {threads} thread(s): "
                    f"{geometric_mean(ratios):.2f}"
                )
    if any(row.memory for row in rows):
        lines += [
            "",
            "| network | batch | MiB held, at the peak: read | compiled | ONNX Runtime |",
            "|---" * 5 + "|",
        ]
        lines += [
            f"| {_title(row)} | {row.batch} | {_sizes(row, CACHED)} | {_sizes(row, OURS)} "
            f"| {_sizes(row, 'onnxruntime')} |"
            for row in rows
            if row.memory
        ]
    slow = [
        f"* {_title(row)}, batch {row.batch}, {row.threads} thread(s): "
        f"{', '.join(f'{p} {row.ratios[p][0]:.2f}' for p in row.ratios if row.ratios[p][0] < _SLOW)}; "
        f"{', '.join(row.steps)}"
        + (f"; by the reference: {', '.join(row.fallbacks)}" if row.fallbacks else "")
        for row in rows
        if row.times[OURS] >= _SHORT and any(ratio[0] < _SLOW for ratio in row.ratios.values())
    ]
    return "\n".join([*lines, "", *slow])


def _ratio(ratio: tuple[float, float, float] | None) -> str:
    return "" if ratio is None else f"{ratio[0]:.2f} ({ratio[1]:.2f} to {ratio[2]:.2f})"


def _sizes(row: Row, runtime: str) -> str:
    found = row.memory.get(runtime)
    return "" if found is None else f"{found.held / 2**20:.0f}, {found.peak / 2**20:.0f}"


def _title(row: Row) -> str:
    return Path(row.network.removeprefix("onnx:")).name.removesuffix(".onnx")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    parser.add_argument("--batch", default="1")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--with", dest="peers", default="onnxruntime,openvino")
    parser.add_argument("--measure", action="store_true", help="layouts by measured prices")
    parser.add_argument("--memory", action="store_true", help="also the memory of processes")
    parser.add_argument("--seconds", type=float, default=4.0, help="of timing, per row")
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.add_argument("--row", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    args = parser.parse_args()
    peers = [peer for peer in args.peers.split(",") if find_spec(peer) is not None]
    batches, threads = ([int(n) for n in given.split(",")] for given in (args.batch, args.threads))
    if args.memory_of:
        path, folder = map(Path, args.networks)
        print(json.dumps(asdict(memory(path, folder, threads[0], args.memory_of))))
        return 0
    if args.row:
        row = measured(args.networks[0], batches[0], threads[0], peers, args.seconds, args.measure)
        print(json.dumps(asdict(row)))
        return 0
    rows: list[Row] = []
    for name in args.networks or (*SHIPPED, *ZOO):
        for batch in batches:
            for count in threads:
                settings = [name, f"--batch={batch}", f"--threads={count}", f"--with={','.join(peers)}"]
                settings += [f"--seconds={args.seconds}", *(["--measure"] if args.measure else [])]
                found = _child("--row", *settings)
                if found is None:
                    continue
                has = memory_of_processes(name, batch, count) if args.memory and count == threads[0] else {}
                found["ratios"] = {peer: tuple(ratio) for peer, ratio in found["ratios"].items()}
                found["memory"] = has
                rows.append(Row(**found))
                print(f"{name} {batch} {count}: {found['times']}", file=sys.stderr, flush=True)
    print(json.dumps([asdict(row) for row in rows], indent=2) if args.json else markdown(rows, peers))
    return 0 if rows else 1


def _child(*arguments: str) -> Any:
    """What a process of this file prints; None, with a line on stderr, where it ends badly."""
    run = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False)
    if run.returncode:
        last = (run.stderr.strip().splitlines() or ["no output"])[-1]
        print(f"{' '.join(arguments)}: {last[:200]}", file=sys.stderr)
        return None
    return json.loads(run.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
