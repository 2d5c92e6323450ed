"""How fast reorders are, beside what the memory allows and beside other libraries.

    python benchmarks/reorder.py                       all cases, one thread
    python benchmarks/reorder.py --only 'T ' --size L2 some of them
    python benchmarks/reorder.py --threads 2 --json

Throughput is source plus destination bytes (pads included) per second, the best of several rounds; in every round
all contenders take turns, so that a noisy neighbour slows them alike. The roof of a case is the faster of a plain
and a streaming copy of as many bytes. Results are compared byte for byte with NumPy's (or ours with the definition).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from layout_ir.backends.llvm import compile_reorder
from layout_ir.backends.llvm.roof import streaming_copy
from layout_ir.format import Format
from layout_ir.layout import Layout
from layout_ir.refinement import Loop, refine

NUMPY = {
    "f32": np.float32,
    "bf16": np.uint16,
    "f16": np.float16,
    "ui8": np.uint8,
    "i8": np.int8,
    "f64": np.float64,
}
CROUTON = "(n, h, w, c) : [n, h, w, c, h:8, w:8, c:32]"


@dataclass(frozen=True)
class Case:
    name: str
    src: str
    dst: str
    dtype: str
    shapes: dict[str, tuple[int, ...]]


def _nchw(
    name: str, src: str, dst: str, plane: tuple[int, ...], sizes: tuple[int, ...], dtype: str = "f32"
) -> Case:
    return Case(
        name, src, dst, dtype, {s: (n, *plane) for s, n in zip(("L2", "L3", "DRAM"), sizes, strict=True)}
    )


CASES = [
    Case("T", "ab", "ba", "f32", {"L2": (256, 256), "L2b": (512, 512), "L3": (1024, 2048), "DRAM": (4096, 4096)}),
    Case("T odd", "ab", "ba", "f32", {"DRAM": (4160, 4160)}),
    *[
        _nchw(f"{src}->{dst} {','.join(map(str, plane))}", src, dst, plane, sizes)
        for plane, sizes in (((64, 56, 56), (1, 10, 96)), ((256, 14, 14), (1, 40, 384)), ((3, 224, 224), (1, 14, 128)))
        for src, dst in (("nchw", "nhwc"), ("nhwc", "nchw"))
    ],
    *[
        _nchw(f"{src}->{dst} 64,56,56", src, dst, (64, 56, 56), (1, 10, 96))
        for src, dst in (
            ("nchw", "nChw8c"), ("nChw8c", "nchw"), ("nchw", "nChw16c"), ("nChw16c", "nchw"), ("nChw8c", "nChw16c"),
        )
    ],
    _nchw("nchw->nChw8c C17", "nchw", "nChw8c", (17, 56, 56), (4, 40, 360)),
    Case(
        "oihw->OIhw8i8o", "oihw", "OIhw8i8o", "f32",
        {"L2": (64, 64, 3, 3), "L3": (512, 512, 3, 3), "DRAM": (2048, 1024, 3, 3)},
    ),
    _nchw("u8 nhwc->nchw 64,56,56", "nhwc", "nchw", (64, 56, 56), (4, 40, 384), "ui8"),
    Case(
        "s8 nhwc->crouton 56,56,64", "(n, h, w, c) : [n, h, w, c]", CROUTON, "i8",
        {s: (n, 56, 56, 64) for s, n in (("L2", 4), ("L3", 40), ("DRAM", 384))},
    ),
    # Of the other table: what the first lacks.
    _nchw("nchw->nChw8c C3", "nchw", "nChw8c", (3, 224, 224), (1, 7, 56)),
    _nchw("nChw16c->nchw C17", "nChw16c", "nchw", (17, 56, 56), (1, 20, 160)),
    _nchw("nhwc->nChw16c C64", "nhwc", "nChw16c", (64, 56, 56), (1, 5, 42)),
    _nchw("nChw8c->nChw16c C17", "nChw8c", "nChw16c", (17, 56, 56), (1, 20, 160)),
    Case(
        "oihw->OIhw16i16o", "oihw", "OIhw16i16o", "f32",
        {"L2": (64, 64, 3, 3), "L3": (512, 256, 3, 3), "DRAM": (1024, 1024, 3, 3)},
    ),
    Case(
        "oihw->Ohwi32o", "oihw", "Ohwi32o", "f32",
        {"L2": (64, 64, 3, 3), "L3": (512, 256, 3, 3), "DRAM": (1024, 1024, 3, 3)},
    ),
    _nchw("bf16 nchw->nhwc C64", "nchw", "nhwc", (64, 56, 56), (1, 10, 84), "bf16"),
    _nchw("s8 nchw->nChw32c C256", "nchw", "nChw32c", (256, 14, 14), (2, 80, 640), "i8"),
    _nchw("u8 nhwc->nchw C3", "nhwc", "nchw", (3, 224, 224), (1, 28, 220), "ui8"),
    _nchw("u8 nchw->nhwc C64", "nchw", "nhwc", (64, 56, 56), (1, 20, 165), "ui8"),
]  # fmt: skip


@dataclass
class Result:
    case: str
    size: str
    threads: int
    ours_gbps: float
    memcpy_gbps: float
    stream_gbps: float
    peers: dict[str, float] = field(default_factory=dict)
    equal: bool = True

    @property
    def share(self) -> float:
        return self.ours_gbps / max(self.memcpy_gbps, self.stream_gbps)

    @property
    def lead(self) -> float:
        return self.ours_gbps / max(self.peers.values()) if self.peers else math.nan


def _aligned(count: int, dtype: Any) -> Any:
    """An array on its own pages, touched."""
    raw = np.ones(count * np.dtype(dtype).itemsize + 4096, np.uint8)  # untouched zeros share one cached page
    start = -raw.ctypes.data % 4096
    return raw[start : start + count * np.dtype(dtype).itemsize].view(dtype)


def _views(src: Layout, dst: Layout, x: Any, y: Any) -> tuple[Any, Any] | None:
    """Strided views with one element order, where the pair has no pads, tails or tables."""
    nest = refine(src, dst)
    if nest.writes_pads or any(d.covered != d.extent for d in nest.dims):
        return None
    loops = [loop for dim in nest.dims for loop in reversed(dim.loops)]
    if not all(isinstance(loop, Loop) for loop in loops):
        return None
    counts, w = [loop.count for loop in loops], x.itemsize
    strided = np.lib.stride_tricks.as_strided
    return (
        strided(x, counts, [loop.src * w for loop in loops]),  # type: ignore[union-attr]
        strided(y, counts, [loop.dst * w for loop in loops]),  # type: ignore[union-attr]
    )


def _torch(views: tuple[Any, Any]) -> Callable[[], Any] | None:
    try:
        import torch
    except ImportError:
        return None

    def tensor(view: Any) -> Any:
        item = view.itemsize
        length = 1 + sum((n - 1) * stride // item for n, stride in zip(view.shape, view.strides, strict=True))
        flat = np.lib.stride_tricks.as_strided(view, (length,), (item,))
        return torch.as_strided(
            torch.from_numpy(flat), view.shape, [stride // item for stride in view.strides]
        )

    if views[0].dtype == np.uint16:
        views = views[0].view(np.int16), views[1].view(np.int16)
    s, d = tensor(views[0]), tensor(views[1])
    return lambda: d.copy_(s)


def _letters(tag: str) -> str:
    """The tag with dims named a, b, c, d in their logical order, as oneDNN has it."""
    used = {ch.lower() for ch in tag if ch.isalpha()}
    logical = "ab" if used == {"a", "b"} else "oihw" if "o" in used else "nchw"
    names = dict(zip(logical, "abcd", strict=False))
    return "".join(
        names[ch.lower()].upper() if ch.isupper() else names[ch] if ch.isalpha() else ch for ch in tag
    )


def _onednn(case: Case, shape: tuple[int, ...], x: Any, y: Any) -> Callable[[], Any] | None:
    from tests.oracles import onednn

    if onednn.executes() is not None or case.src.startswith("(") or case.dst.startswith("("):
        return None
    s, d = (onednn.Desc.from_string_tag(shape, _letters(tag), case.dtype) for tag in (case.src, case.dst))
    library, (engine, stream) = onednn._load(), onednn._engine()
    pd, primitive = ctypes.c_void_p(), ctypes.c_void_p()
    library.dnnl_reorder_primitive_desc_create(ctypes.byref(pd), s.handle, engine, d.handle, engine, None)
    if library.dnnl_primitive_create(ctypes.byref(primitive), pd):
        return None
    memories = []
    for desc, buffer in ((s, x), (d, y)):
        memory = ctypes.c_void_p()
        library.dnnl_memory_create(
            ctypes.byref(memory), desc.handle, engine, ctypes.c_void_p(buffer.ctypes.data)
        )
        memories.append(memory)
    args = (onednn._Arg * 2)(onednn._Arg(1, memories[0]), onednn._Arg(17, memories[1]))

    def run() -> None:
        library.dnnl_primitive_execute(primitive, stream, 2, args)
        library.dnnl_stream_wait(stream)

    return run


def _best(contenders: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Seconds of one call of each, the best of `rounds` in which all take turns."""
    calls: dict[str, int] = {}
    best: dict[str, float] = {}
    for name, run in contenders.items():
        run()
        start = time.perf_counter()
        run()
        once = time.perf_counter() - start
        calls[name] = max(1, int(0.002 / max(once, 1e-7)))
        best[name] = math.inf
    for _ in range(rounds):
        for name, run in contenders.items():
            n = calls[name]
            start = time.perf_counter()
            for _ in range(n):
                run()
            best[name] = min(best[name], (time.perf_counter() - start) / n)
    return best


def measure(case: Case, size: str, threads: int, rounds: int, peers: set[str]) -> Result:
    shape = case.shapes[size]
    src, dst = Format.of(case.src).bind(shape), Format.of(case.dst).bind(shape)
    x, y = _aligned(src.extent, NUMPY[case.dtype]), _aligned(dst.extent, NUMPY[case.dtype])
    x.view(np.uint8)[:] = np.random.default_rng(0).integers(0, 120, x.nbytes, np.uint8)
    kernel = compile_reorder(src, dst, case.dtype, threads=threads)
    total = x.nbytes + y.nbytes
    half = total // 2
    a, b = _aligned(half, np.uint8), _aligned(half, np.uint8)
    stream = streaming_copy(half, threads)
    contenders: dict[str, Callable[[], Any]] = {
        "ours": lambda: kernel(x, y),
        "memcpy": lambda: np.copyto(b, a) if threads == 1 else plain(a, b),
        "stream": lambda: stream(a, b),
    }
    if threads > 1:
        from layout_ir.backends.llvm.roof import plain_copy

        plain = plain_copy(half, threads)
    kernel(x, y)
    wanted = np.zeros_like(y)
    wanted[dst.addresses().ravel()] = x[src.addresses().ravel()]
    equal = bool((wanted.view(np.uint8) == y.view(np.uint8)).all())
    del wanted
    views = _views(src, dst, x, y)
    if views is not None and "numpy" in peers:
        contenders["numpy"] = lambda: np.copyto(views[1], views[0])
    if views is not None and "torch" in peers and (run := _torch(views)) is not None:
        contenders["torch"] = run
    if "onednn" in peers and (run := _onednn(case, shape, x, y)) is not None:
        contenders["onednn"] = run
    best = _best(contenders, rounds)
    rate = {name: total / seconds / 1e9 for name, seconds in best.items()}
    return Result(
        case.name, size, threads, rate.pop("ours"), rate.pop("memcpy"), rate.pop("stream"), rate, equal
    )


def _geometric(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def _table(results: list[Result]) -> Iterator[str]:
    for size in ("L2", "L2b", "L3", "DRAM"):
        some = [r for r in results if r.size == size]
        if some:
            lead = [r.lead for r in some if r.peers]
            yield (
                f"{size}: share of the roof {_geometric([r.share for r in some]):.2f} "
                f"(least {min(r.share for r in some):.2f}), "
                f"against the best peer {_geometric(lead):.2f} (least {min(lead, default=math.nan):.2f})"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--size", default="", help="L2, L3 or DRAM")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--peers", default="numpy,torch,onednn", help="comma-separated, may be empty")
    parser.add_argument(
        "--cpu-time", action="store_true", help="count CPU time, on a machine that others use too"
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.cpu_time:
        time.perf_counter = time.process_time
    if "torch" in args.peers:
        import torch

        torch.set_num_threads(args.threads)
    if args.threads == 1 and hasattr(os, "sched_setaffinity"):
        # oneDNN takes as many threads as there are CPUs to run on.
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    results: list[Result] = []
    for case in CASES:
        for size in case.shapes:
            if args.only not in case.name or not size.startswith(args.size):
                continue
            r = measure(case, size, args.threads, args.rounds, set(args.peers.split(",")))
            results.append(r)
            if not args.json:
                peers = "  ".join(f"{name} {rate:5.1f}" for name, rate in r.peers.items())
                print(
                    f"{r.case:28}{r.size:5} memcpy {r.memcpy_gbps:5.1f} stream {r.stream_gbps:5.1f}"
                    f"  ours {r.ours_gbps:5.1f}  share {r.share:4.2f}  lead {r.lead:4.1f}  {peers}"
                    f"{'' if r.equal else '  WRONG'}",
                    flush=True,
                )
    if args.json:
        fields = ("case", "size", "threads", "ours_gbps", "memcpy_gbps", "stream_gbps", "peers", "equal")
        print(json.dumps([{f: getattr(r, f) for f in fields} for r in results], indent=1))
    else:
        print("\n".join(_table(results)))


if __name__ == "__main__":
    main()
