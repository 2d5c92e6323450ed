"""Lines, summaries and JSON of what was measured."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

from layout_ir.backends.llvm.machine.host_facts import llvm
from layout_ir.backends.llvm.machine.machine import Machine, host, processor_name
from layout_ir.errors import LayoutError
from layout_ir.tools.benchmark.cases import SIZES
from layout_ir.tools.benchmark.measure import COPIES, OTHER_BYTES, Result
from layout_ir.tools.benchmark.onednn import BUILDS
from layout_ir.tools.benchmark.peers import version
from layout_ir.version import __version__

_LEAST = {"f32": 0.5}
_LEAST_OTHER = 0.4
"""Shares of the copy bandwidth below which a case is named: for elements of four bytes, and for narrower ones."""


def machine_lines(libraries: Sequence[str], machine: Machine | None = None) -> list[str]:
    """The machine (`machine`: what its code is made for) and the versions of everything that takes part."""
    m = machine or host()
    caches = f"{m.l1 >> 10} KiB, {m.l2 >> 10} KiB and {m.l3 >> 20} MiB"
    llvmlite = f"llvmlite {metadata.version('llvmlite')} (LLVM {'.'.join(map(str, llvm.llvm_version_info))})"
    lines = [
        f"{processor_name()}{_model()} as LLVM's {m.cpu}: registers of {m.vector} bytes, caches of {caches}",
        f"profile of its memory: {m.profile.source}",
        f"layout-ir {__version__}, Python {platform.python_version()}, {llvmlite}, NumPy {np.__version__}",
    ]
    for name in libraries:
        if name == "numpy":
            continue
        try:
            lines.append(f"{name} {version(name)}")
        except LayoutError as error:
            lines.append(f"{name} is absent: {error}")
    return lines


def _model() -> str:
    """The numbers by which a maker tells its processors apart, where Linux says them."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return ""
    fields = dict(re.findall(r"^(cpu family|model|stepping)\s*: (\d+)$", text, re.MULTILINE))
    return f" ({', '.join(f'{name} {number}' for name, number in fields.items())})" if fields else ""


def line(r: Result) -> str:
    """One case, medians."""
    share, lead = r.share(), r.lead(r.peers)
    peers = "  ".join(f"{name} {r.gbps(name):5.1f}" for name in r.peers)
    ahead = f"lead {lead.middle:5.2f} ±{lead.uncertainty:4.2f}" if lead is not None else "lead     -      "
    rounds, doubtful = len(r.times.rounds["ours"]), r.times.doubtful
    doubt = f", {doubtful} times {'on fewer cores' if r.threads > 1 else 'interrupted'}" if doubtful else ""
    wrong = "" if r.equal else "  WRONG BYTES"
    wrong += "".join(f"  ({name}: {reason})" for name, reason in r.absent.items() if reason == OTHER_BYTES)
    return (
        f"{r.case.name:32}{r.size:5}{r.threads}T  memcpy {r.gbps('memcpy'):5.1f}  stream {r.gbps('stream'):5.1f}  "
        f"ours {r.gbps('ours'):5.1f}  share {share.middle:4.2f} ±{share.uncertainty:4.2f}  {ahead}  {peers}  "
        f"({rounds} rounds{doubt}){wrong}"
    )


def to_json(r: Result, *, best: bool = False) -> dict[str, Any]:
    """The object that programs read; rates are GB/s of the median round, or of the best of each contender."""
    return {
        "case": r.case.name,
        "size": r.size,
        "threads": r.threads,
        "ours_gbps": round(r.gbps("ours", best=best), 3),
        "memcpy_gbps": round(r.gbps("memcpy", best=best), 3),
        "stream_gbps": round(r.gbps("stream", best=best), 3),
        "peers": {name: round(r.gbps(name, best=best), 3) for name in r.peers},
        "equal": r.equal,
    }


def summary(results: Sequence[Result]) -> Iterator[str]:
    """Geometric means per number of threads: of each size, the table's own cases and all, and of all sizes."""
    for threads in sorted({r.threads for r in results}):
        for size in SIZES:
            here = [r for r in results if r.size == size and r.threads == threads]
            table = [r for r in here if r.case.group == "table"]
            for name, group in (("table", table), ("all", here)):
                if group and (name == "all" or len(table) != len(here)):
                    yield f"{size} {threads}T, {name} {len(group)} cases"
                    yield "  median of rounds  " + _means(group, best=False)
                    yield "  best of rounds    " + _means(group, best=True)
            low = sorted((r.share().middle, r.case.name) for r in here if r.share().middle < least(r))
            if low:
                yield "  below the least share: " + ", ".join(f"{name} {share:.2f}" for share, name in low)
        every = [r for r in results if r.threads == threads]
        if len({r.size for r in every}) > 1:
            yield f"{threads}T, all sizes, {len(every)} cases"
            yield "  median of rounds  " + _means(every, best=False)
    if wrong := [f"{r.case.name} {r.size} {r.threads}T" for r in results if not r.equal]:
        yield f"WRONG BYTES: {', '.join(wrong)}"


def least(r: Result) -> float:
    """The share of the copy bandwidth that a case should reach."""
    return _LEAST.get(r.case.dtype if not r.case.dst_dtype else "", _LEAST_OTHER)


def _means(results: Sequence[Result], *, best: bool) -> str:
    shares = [_ratio(r, COPIES, best=best) for r in results]
    parts = [f"share of the copy bandwidth {_mean(shares)}"]
    for text, names in (("the best peer", None), ("oneDNN", tuple(BUILDS))):
        leads = [_ratio(r, r.peers if names is None else names, best=best) for r in results]
        parts.append(f"against {text} {_mean(leads)}")
    builds = {name: [_ratio(r, (name,), best=best) for r in results] for name in BUILDS}
    if all(any(ratio is not None for ratio in ratios) for ratios in builds.values()):
        parts.append(
            "of its builds " + ", ".join(f"{name} {_mean(ratios)}" for name, ratios in builds.items())
        )
    return "; ".join(parts)


def _ratio(r: Result, names: Sequence[str], *, best: bool) -> float | None:
    """Ours over the fastest of `names`: the median inside rounds, or by the best rounds of each."""
    if not best:
        lead = r.lead(names)
        return None if lead is None else lead.middle
    rival = r.fastest([name for name in names if name in r.times.rounds], best=True)
    return None if rival is None else r.gbps("ours", best=True) / r.gbps(rival, best=True)


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    return f"{geometric_mean(known):.2f} (least {min(known):.2f})"
