"""How fast reorders are, beside what the memory allows and beside other libraries.

    python benchmarks/reorder.py                          all cases at all sizes, one and two threads
    python benchmarks/reorder.py --only 'T ' --size L2    some of them
    python benchmarks/reorder.py --threads 2 --json
    python benchmarks/reorder.py --cpu x86-64-v3          code for AVX2; oneDNN, torch and C++ held to it
    python benchmarks/reorder.py --threads 1 --ports      also what the ports of the core allow, by llvm-mca

All contenders of a case run in one process and take turns, round after round, so that a noisy neighbour slows them
alike; rounds go on until the ratios are known to --precision, or for --seconds. What was measured while somebody else
was given the CPU is measured again as long; with more threads than one, what was measured while they shared a core, for
ten seconds at most. Rates count bytes of source and
destination, pads included; the copy bandwidth of a case is that of the faster of a plain and a streaming copy of as
many bytes on as many threads. Printed are medians of the rounds: rates of the median call, ratios the median of the
ratios inside rounds. The summary gives the same from the best rounds as well. Bytes are compared with the definition of
the layouts. Each number of threads has a process of its own, because some libraries size their pools once.

The table and the loop are those of `layout-ir bench`. oneDNN for small sizes is the OpenMP build of the extra `bench`.
Beside its peers, libraries that transpose take part where a case is a transpose: `benchmarks/transpose_peers.py`. Those
that are not installed are named as absent. With --ports (one thread) a case is also compared with what the core's ports
take for the instructions of its kernel (`benchmarks/port_bound.py`), where that is less than the copy bandwidth.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import geometric_mean

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.port_bound import PortBound, port_bound
from benchmarks.thread_counts import run_for_each, thread_counts
from benchmarks.transpose_peers import register_all
from layout_ir.backends.llvm.machine.known_cpus import local_machine
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime.profile_file import measured_once
from layout_ir.backends.llvm.runtime.timing import Limits
from layout_ir.errors import LayoutError
from layout_ir.tools.benchmark.cases import chosen
from layout_ir.tools.benchmark.measure import COPIES, Result, confine, measure, sides
from layout_ir.tools.benchmark.peers import NAMES, PEERS, hold_to
from layout_ir.tools.benchmark.summary import line, machine_lines, summary, to_json


def _words(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], help="cases whose name contains this")
    parser.add_argument("--size", type=_words, default=[], help="L2, L3 and DRAM, or some of them")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, as 1,2")
    parser.add_argument(
        "--peers", type=_words, default=[*NAMES, *register_all()], help="comma-separated, may be empty"
    )
    parser.add_argument("--precision", type=float, default=0.02, help="of a ratio, 95%% interval")
    parser.add_argument("--seconds", type=float, default=4.0, help="per case, at most (9 rounds at least)")
    parser.add_argument("--cpu", default="host", help="a CPU whose code runs here, as x86-64-v3")
    parser.add_argument("--tune", action="store_true", help="kernels chosen by measuring a few")
    parser.add_argument("--ports", action="store_true", help="what the ports of the core allow")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--best", action="store_true", help="JSON of the best rounds instead of the median ones"
    )
    args = parser.parse_args()
    for name in args.peers:
        if name not in PEERS:
            raise LayoutError(f"unknown library '{name}': known are {', '.join(PEERS)}")
    counts = thread_counts(args.threads)
    if len(counts) > 1:
        return run_for_each(__file__, sys.argv[1:], counts)
    [threads] = counts
    if args.ports and threads > 1:
        raise LayoutError(f"--ports is about one thread, not {threads}: add --threads 1")
    if args.cpu == "host":
        measured_once(host().l2 + 1)  # as a user's first large reorder does
    machine = local_machine(args.cpu)
    hold_to(machine)
    register_all("native" if args.cpu == "host" else args.cpu)
    confine(threads)
    if not args.json:
        print("\n".join(machine_lines(args.peers, machine)), flush=True)
    results: list[Result] = []
    lowest: dict[str, list[float]] = {}
    for case, size in chosen(args.only, args.size):
        try:
            found = measure(
                case,
                size,
                threads,
                args.peers,
                Limits(args.precision, args.seconds),
                tune=args.tune,
                machine=machine,
            )
        except LayoutError as error:
            print(f"{case.name:32}{size:5}{threads}T  not compiled: {error}", file=sys.stderr)
            continue
        results.append(found)
        if not args.json:
            print(line(found), flush=True)
        if args.ports and not args.json:
            bound = _bound(found, machine)
            print(f"    {bound.text(found.nbytes) if isinstance(bound, PortBound) else bound}", flush=True)
            lowest.setdefault(size, []).append(_share_of_lower(found, bound))
    print(
        json.dumps([to_json(r, best=args.best) for r in results], indent=1)
        if args.json
        else "\n".join(summary(results))
    )
    for size, shares in lowest.items():
        mean = geometric_mean(shares)
        print(
            f"{size} 1T: share of the lower of copy bandwidth and ports {mean:.2f} (least {min(shares):.2f})"
        )
    return 0 if all(r.equal for r in results) else 1


def _bound(found: Result, machine: Machine) -> PortBound | LayoutError:
    """What the ports allow for a case, or why that is not known."""
    assert found.plan is not None
    try:
        return port_bound(found.plan, machine, *sides(found.case, found.case.bound(found.size)))
    except LayoutError as error:
        return error


def _share_of_lower(found: Result, bound: PortBound | LayoutError) -> float:
    """Our rate over the copy bandwidth, or over what the ports allow where that is lower."""
    copy = found.fastest(COPIES)
    assert copy is not None
    limit = bound.gbps(found.nbytes) / found.gbps(copy) if isinstance(bound, PortBound) else 1.0
    return found.share().middle / min(limit, 1.0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LayoutError as error:
        sys.exit(f"error: {error}")
