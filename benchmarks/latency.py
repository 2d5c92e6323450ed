"""How long it takes until a reorder runs: compiling, loading, finding, calling.

    python benchmarks/latency.py            a table
    python benchmarks/latency.py --json

Compiling is measured in processes of their own, because the first kernel of a process also pays for the code
generator and for the entry from Python: `cold` has no cache on disk, `disk` finds everything there. `next` are the
kernels after the first, the median of the table's cases. `memory` is asking again for what was compiled. A call is
that of a 4 KiB tensor, beside what NumPy and torch take for the same; times are the best of several batches, the
machine's other work only adds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

SHAPE = (1, 16, 8, 8)
"""4 KiB of f32."""


def compiling() -> dict[str, float]:
    """Milliseconds of the first kernel of this process and of those after it; `cpu` is without waiting for a CPU."""
    import numpy as np

    from layout_ir.backends.llvm import compile_reorder
    from layout_ir.errors import LayoutError
    from layout_ir.tools.benchmark.cases import CASES

    x = np.ones(1 << 10, np.float32)
    src, dst = _small()
    first = timed(lambda: compile_reorder(src, dst, threads=1)(x, np.empty_like(x)))
    times: list[tuple[float, float]] = []
    for case in CASES:
        if "L3" in case.shapes:
            a, b = case.bound("L3")
            with suppress(LayoutError):
                times.append(
                    timed(partial(compile_reorder, a, b, case.dtype, dst_dtype=case.result_dtype, threads=1))
                )
    found: dict[str, float] = {}
    for k, clock in enumerate(("ms", "cpu_ms")):
        after = [time[k] for time in times]
        found |= {f"first_{clock}": first[k], f"next_{clock}": median(after), f"most_{clock}": max(after)}
    return found


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds on the clock and of this process."""
    start, used = perf_counter(), process_time()
    run()
    return 1e3 * (perf_counter() - start), 1e3 * (process_time() - used)


def _small() -> tuple[Any, Any]:
    from layout_ir.algebra.format import Format

    return Format.of("nchw").bind(SHAPE), Format.of("nhwc").bind(SHAPE)


def best(run: Callable[[], object]) -> float:
    """Nanoseconds of one call, the best of 15 rounds."""
    from layout_ir.backends.llvm.runtime.timing import least_times

    return 1e9 * least_times([run], 15, 0.0003)[0]


def calls() -> dict[str, float]:
    """Nanoseconds of everything that is done again and again for a tensor of 4 KiB."""
    import numpy as np

    import layout_ir as li

    x, y = np.ones(SHAPE, np.float32), np.empty((1, 8, 8, 16), np.float32)
    src, dst = _small()
    kernel = li.compile_reorder(src, dst)
    view = x.transpose(0, 2, 3, 1)
    found = {
        "kernel(x, y)": best(lambda: kernel(x, y)),
        "li.reorder(x, 'nchw', 'nhwc', out=y)": best(lambda: li.reorder(x, "nchw", "nhwc", out=y)),
        "li.reorder(x, 'nchw', 'nhwc')": best(lambda: li.reorder(x, "nchw", "nhwc")),
        "li.compile_reorder(src, dst), in memory": best(lambda: li.compile_reorder(src, dst)),
        "NumPy: copyto(y, view)": best(lambda: np.copyto(y, view)),
        "NumPy: y[...] = x.transpose(...)": best(lambda: y.__setitem__(..., x.transpose(0, 2, 3, 1))),
        "NumPy: ascontiguousarray(x.transpose(...))": best(
            lambda: np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        ),
    }
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(1)
    s, d = torch.from_numpy(x), torch.from_numpy(y)
    found["torch: y.copy_(x.permute(...))"] = best(lambda: d.copy_(s.permute(0, 2, 3, 1)))
    found["torch: x.permute(...).contiguous()"] = best(lambda: s.permute(0, 2, 3, 1).contiguous())
    return found


def _in_a_process(cache: str) -> dict[str, float]:
    environment = {**os.environ, "LAYOUT_IR_CACHE": cache}
    run = subprocess.run(
        [sys.executable, __file__, "--compiling"], env=environment, stdout=subprocess.PIPE, check=True
    )
    return json.loads(run.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=5, help="of which the median counts")
    parser.add_argument("--compiling", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.compiling:
        print(json.dumps(compiling()))
        return
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as cache:
        _in_a_process(cache)
        for name, where in (("cold", "off"), ("disk", cache)):
            runs = [_in_a_process(where) for _ in range(args.processes)]
            found[name] = {key: median(run[key] for run in runs) for key in runs[0]}
    found["calls_ns"] = calls()
    if args.json:
        print(json.dumps(found, indent=1))
        return
    for name, text in (("cold", "compiled"), ("disk", "loaded from disk")):
        for clock, said in (("ms", "ms"), ("cpu_ms", "ms of CPU time")):
            first, after, most = (found[name][f"{which}_{clock}"] for which in ("first", "next", "most"))
            print(
                f"{text:17} first of a process {first:6.1f}, then {after:5.1f} (at most {most:5.1f}) {said}"
            )
    for name, time in found["calls_ns"].items():
        print(f"{name:44} {time:8.0f} ns")


if __name__ == "__main__":
    main()
