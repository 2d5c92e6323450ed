"""How long choosing layouts takes as programs grow, and how much memory.

    python benchmarks/selection.py                              solver to 10^6 ops, pass to 10^5: half an hour
    python benchmarks/selection.py --quick                      to 10^4: two minutes
    python benchmarks/selection.py --solver-sizes 1000 1000000  some sizes
    python benchmarks/selection.py --graphs dense --formats 6 --json

Three families of graphs: a chain of convolutions and activations; residual blocks of two convolutions and an
addition; dense blocks of six layers, each of which concatenates all before it in its block.

The solver gets them as bare problems of 2 to 6 formats with random costs: in `gap` the cost found against the bound
proven, in `greedy` what deciding op by op costs beyond. The pass gets them as programs (imported from ONNX, 16
channels, target blocked8; with `--width 12` blocks of channels have pads); `choose` is stating the problem and solving
it, `pass` all of layout-propagate. ONNX Runtime gets the same model and optimizes it at its highest level, without
running it.

Every line is measured in a process of its own, in seconds of processor time of that process (all three work in one
thread), which other load on the machine disturbs less than the time of the clock. Peak memory is that of the process,
with the program or problem in it; `start` is what it was before. `growth` is time per op against that of the smallest
line of at least 1000 ops.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from layout_ir.selection.solver.selection_problem import Choice, OpNode, Problem, ValueNode

Choices = tuple[Choice, ...]


class Maker:
    """Grows a problem. Costs of reorders are those of 64 sizes of values, so that matrices repeat as in networks."""

    def __init__(self, formats: int):
        self.formats = formats
        self.rng = random.Random(formats)
        self.ops: list[OpNode] = []
        self.values: list[ValueNode] = []
        self.count = 0
        sizes = [self.rng.randint(10, 60) for _ in range(64)]
        self.matrices = [
            tuple(
                tuple(0 if f == g else size + self.rng.randint(0, 20) for g in range(formats))
                for f in range(formats)
            )
            for size in sizes
        ]
        self.source = self._op((Choice((), (0,), 0),), ())

    def _op(self, choices: Choices, operands: tuple[int, ...]) -> int:
        value = len(self.values)
        self.values.append(ValueNode(self.rng.choice(self.matrices)))
        self.ops.append(OpNode(operands, (value,), choices))
        self.count += 1
        return value

    def kernel(self, x: int) -> int:
        """A convolution: a kernel for every format, and half as many that change it."""
        draw, n = self.rng.randint, self.formats
        pairs = {(f, f): draw(50, 150) for f in range(n)}
        for _ in range((n + 1) // 2):
            pairs[draw(0, n - 1), draw(0, n - 1)] = draw(50, 150)
        return self._op(tuple([Choice((f,), (g,), cost) for (f, g), cost in pairs.items()]), (x,))

    def same(self, *xs: int) -> int:
        """An op whose operands and result agree."""
        draw, n = self.rng.randint, self.formats
        return self._op(tuple([Choice((f,) * len(xs), (f,), draw(5, 25)) for f in range(n)]), xs)

    activate = add = concat = same

    def finish(self, x: int) -> Problem:
        self.ops.append(OpNode((x,), (), (Choice((0,), (), 0),)))
        return Problem(tuple(self.ops), tuple(self.values))


class OnnxMaker:
    """Grows an ONNX model; values are tensors of 8x8 places and `width` channels, as many more per layer in a dense
    block."""

    def __init__(self, width: int = 16) -> None:
        from onnx import helper

        self.width = width
        self.helper = helper
        self.nodes: list[Any] = []
        self.count = 0
        self.channels = {"x": width}
        self.weights: set[int] = set()
        self.source = "x"

    def _node(self, kind: str, inputs: list[str], channels: int, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(
            self.helper.make_node(kind, inputs, [name], name=f"n{len(self.nodes)}", **attributes)
        )
        self.channels[name] = channels
        self.count += 1
        return name

    def kernel(self, x: str) -> str:
        channels = self.channels[x]
        self.weights.add(channels)
        return self._node("Conv", [x, f"w{channels}"], self.width)

    def activate(self, x: str) -> str:
        return self._node("Relu", [x], self.channels[x])

    def add(self, x: str, y: str) -> str:
        return self._node("Add", [x, y], self.channels[x])

    def concat(self, *xs: str) -> str:
        return self._node("Concat", list(xs), sum(self.channels[x] for x in xs), axis=1)

    def finish(self, x: str) -> Any:
        helper = self.helper
        weights = [
            helper.make_tensor(f"w{c}", 1, (self.width, c, 1, 1), bytes(4 * self.width * c), raw=True)
            for c in sorted(self.weights)
        ]
        ends = [helper.make_tensor_value_info(name, 1, (1, self.channels[name], 8, 8)) for name in ("x", x)]
        graph = helper.make_graph(self.nodes, "graph", ends[:1], ends[1:], weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chain(make: Any, ops: int) -> Any:
    x = make.source
    while make.count < ops:
        x = make.activate(make.kernel(x))
    return make.finish(x)


def residual(make: Any, ops: int) -> Any:
    x = make.source
    while make.count < ops:
        x = make.activate(make.add(make.kernel(make.activate(make.kernel(x))), x))
    return make.finish(x)


def dense(make: Any, ops: int, layers: int = 6) -> Any:
    x = make.source
    while make.count < ops:
        parts = [x]
        for _ in range(layers):
            whole = parts[0] if len(parts) == 1 else make.concat(*parts)
            parts.append(make.kernel(make.activate(whole)))
        x = make.kernel(make.concat(*parts))
    return make.finish(x)


GRAPHS: dict[str, Callable[[Any, int], Any]] = {"chain": chain, "residual": residual, "dense": dense}


def measure_solver(graph: str, ops: int, formats: int, width: int) -> dict[str, Any]:
    from layout_ir.selection.solver.solve import solve, solve_exact

    gc.disable()
    problem = GRAPHS[graph](Maker(formats), ops)
    before = _peak()
    times: list[float] = []
    # Repeated, as the first run pays for warm-up and others may use the machine.
    while True:
        start = time.process_time()
        solution = solve_exact(problem)
        times.append(time.process_time() - start)
        if sum(times) >= 30 or len(times) == 3:
            break
    assert solution.bound is not None
    result = {"ops": len(problem.ops), "seconds": min(times), "peak_mb": _peak(), "start_mb": before}
    result["gap"] = (solution.cost - solution.bound) / max(solution.cost, 1)
    if ops <= 100_000:
        result["greedy"] = solve(problem, "greedy").cost / max(solution.cost, 1) - 1
    return result


def measure_pass(graph: str, ops: int, formats: int, width: int) -> dict[str, Any]:
    from layout_ir.frontends.onnx import from_onnx
    from layout_ir.gc_pause import gc_paused
    from layout_ir.passes.propagate import propagate
    from layout_ir.passes.selection.options.targets import target_named
    from layout_ir.passes.selection.translation.from_ir import build
    from layout_ir.selection.solver.solve import solve_exact

    module = from_onnx(GRAPHS[graph](OnnxMaker(width), ops))
    before = _peak()
    start = time.process_time()
    with gc_paused():
        selection = build(module, target_named("blocked8"))
        built = time.process_time()
        solve_exact(selection.problem)
        solved = time.process_time()
    del selection
    solution = propagate(module, "blocked8")
    done = time.process_time()
    assert solution is not None
    result: dict[str, Any] = {
        "ops": ops,
        "seconds": done - solved,
        "choose": solved - start,
        "peak_mb": _peak(),
        "start_mb": before,
    }
    result["build"] = built - start
    if solution.bound is not None:
        result["gap"] = (solution.cost - solution.bound) / max(solution.cost, 1)
    return result


def measure_onnxruntime(graph: str, ops: int, formats: int, width: int) -> dict[str, Any]:
    import onnxruntime

    text = GRAPHS[graph](OnnxMaker(width), ops).SerializeToString()
    before = _peak()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        start = time.process_time()
        onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
        seconds = time.process_time() - start
    return {"ops": ops, "seconds": seconds, "peak_mb": _peak(), "start_mb": before}


MEASURES = {"solver": measure_solver, "pass": measure_pass, "onnxruntime": measure_onnxruntime}


def _peak() -> int:
    """Peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def _in_process(what: str, graph: str, ops: int, formats: int, width: int, limit: float) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", what, graph, str(ops), str(formats), str(width)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"ops": ops, "failed": f"not done in {limit:.0f} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"ops": ops, "failed": lines[-1][:80] if lines else f"status {done.returncode}"}
    return json.loads(done.stdout)


def _machine() -> dict[str, Any]:
    from importlib.metadata import PackageNotFoundError, version

    def of(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "not installed"

    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    packages = {name: of(name) for name in ("numpy", "xdsl", "onnx", "onnxruntime")}
    return {"cpu": model, "cores": os.cpu_count(), "python": platform.python_version(), **packages}


def _print(what: str, graph: str, formats: int | None, result: dict[str, Any], base: float | None) -> None:
    title = f"{what:<12}{graph:<10}{formats if formats else '':>2}{result['ops']:>9}  "
    if "failed" in result:
        print(f"{title}{result['failed']}", flush=True)
        return
    each = result["seconds"] / result["ops"] * 1e6
    growth = f"{each / base:>7.2f}" if base else " " * 7
    text = f"{title}{result['seconds']:>9.3f} s {each:>8.1f} us/op {growth} {result['peak_mb']:>6} MB"
    text += f" {result['start_mb']:>6} MB"
    if "gap" in result:
        text += f"  gap {result['gap']:.2%}"
    if "greedy" in result:
        text += f"  greedy +{result['greedy']:.1%}"
    if "choose" in result:
        text += f"  choose {result['choose']:.3f} s"
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Time and memory of choosing layouts against the number of ops."
    )
    parser.add_argument("--graphs", nargs="*", default=list(GRAPHS), choices=list(GRAPHS))
    parser.add_argument("--formats", nargs="*", type=int, default=[2, 4, 6])
    parser.add_argument(
        "--solver-sizes", nargs="*", type=int, default=[100, 1000, 10_000, 100_000, 1_000_000]
    )
    parser.add_argument("--pass-sizes", nargs="*", type=int, default=[100, 1000, 10_000, 100_000])
    parser.add_argument("--quick", action="store_true", help="no more than 10^4 ops")
    parser.add_argument(
        "--width", type=int, default=16, help="channels of the programs; 12 fill no block of 8"
    )
    parser.add_argument("--limit", type=float, default=1800, help="seconds for one line")
    parser.add_argument("--json", action="store_true", help="print one object per line")
    parser.add_argument("--measure", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        what, graph, ops, formats, width = args.measure
        print(json.dumps(MEASURES[what](graph, int(ops), int(formats), int(width))))
        return
    if args.quick:
        args.solver_sizes = [n for n in args.solver_sizes if n <= 10_000]
        args.pass_sizes = [n for n in args.pass_sizes if n <= 10_000]
    machine = _machine()
    if args.json:
        print(json.dumps(machine))
    else:
        print(", ".join(f"{key} {value}" for key, value in machine.items()))
        print(
            f"{'':<12}{'graph':<10}{'F':>2}{'ops':>9}  {'time':>11} {'':>14} {'growth':>7} {'peak':>9} {'start':>9}"
        )
    rows = [
        ("solver", graph, formats, args.solver_sizes) for graph in args.graphs for formats in args.formats
    ]
    rows += [(what, graph, 0, args.pass_sizes) for graph in args.graphs for what in ("pass", "onnxruntime")]
    for what, graph, formats, sizes in rows:
        base: float | None = None
        for ops in sizes:
            result = _in_process(what, graph, ops, formats, args.width, args.limit)
            if args.json:
                print(
                    json.dumps({"what": what, "graph": graph, "formats": formats or None, **result}),
                    flush=True,
                )
                continue
            if base is None and ops >= 1000 and "failed" not in result:
                base = result["seconds"] / result["ops"] * 1e6
            _print(what, graph, formats, result, base)


if __name__ == "__main__":
    main()
