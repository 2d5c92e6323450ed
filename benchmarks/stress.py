"""Compiled reorders under stress: many threads, many kernels, memory.

    python benchmarks/stress.py                    8 threads call 50 kernels for 30 s, every byte is compared
    python benchmarks/stress.py --seconds 3 --threads 4
    python benchmarks/stress.py --first-use 200    200 processes each of 2 and 8 threads that meet the library together,
                                                   machine code kept nowhere and on disk
    python benchmarks/stress.py --load 60          60 s of 8 threads that call while others compile, drop and fork
    python benchmarks/stress.py --forks 40         40 children while two threads compile and drop
    python benchmarks/stress.py --executable 60    60 s of 8 threads on one network; 100 are dropped

The last four do only that, all but the very last in processes of their own (`tests.backends.llvm.concurrent_use`).
Without them, 200 distinct kernels are compiled and dropped, five times over, and a large reorder is watched: it may
take source, destination and 1 MiB. Ends with status 1 where a byte is wrong, a process ends badly or memory does not
return.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.backends.llvm import concurrent_use, stress


def ended_badly(runs: int, *arguments: object, warm: bool = False) -> int:
    """How many of `runs` processes of `concurrent_use` did not end well; what they said goes to stderr."""
    bad = 0
    with tempfile.TemporaryDirectory() as cache:
        for number in range(-warm, runs):  # the first fills the cache
            run = concurrent_use.in_a_process(*arguments, number + 1, cache=Path(cache) if warm else None)
            bad += number >= 0 and run.returncode != 0
            sys.stderr.write(run.stderr)
    kept = "on disk" if warm else "nowhere"
    print(
        f"{' '.join(map(str, arguments))}, code kept {kept}: {runs} processes, {bad} ended badly", flush=True
    )
    return bad


def in_processes(args: argparse.Namespace) -> int:
    """The modes that run `concurrent_use`: how many of its processes ended badly."""
    bad = 0
    for threads in (2, 8) if args.first_use else ():
        bad += sum(ended_badly(args.first_use, "first", threads, warm=warm) for warm in (False, True))
    if args.load:
        bad += ended_badly(1, "load", args.load, args.threads)
    if args.forks:
        bad += ended_badly(1, "forks", args.forks, 2)
    return bad


def of_an_executable(seconds: float, threads: int) -> int:
    """Status 1 where threads on one executable get wrong bits, or executables that are dropped keep memory."""
    from tests.backends.onednn import executable_stress

    outcome = executable_stress.hammer(threads, seconds)
    print(f"{threads} threads, one executable: {outcome.calls} calls, {outcome.wrong} wrong", flush=True)
    levels = list(executable_stress.dropped(20, 5))
    for memory, alive in levels:
        print(f"20 executables compiled and dropped: {memory >> 10} KiB resident, {alive} alive")
    kept = levels[-1][0] - levels[0][0] >= 10 << 20 or any(alive for _, alive in levels)
    return int(outcome.wrong > 0 or outcome.calls == 0 or kept)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--kernels", type=int, default=50)
    parser.add_argument("--first-use", type=int, metavar="RUNS")
    parser.add_argument("--load", type=int, metavar="SECONDS")
    parser.add_argument("--forks", type=int, metavar="CHILDREN")
    parser.add_argument("--executable", type=float, metavar="SECONDS")
    args = parser.parse_args()
    if args.executable:
        return of_an_executable(args.executable, args.threads)
    if args.first_use or args.load or args.forks:
        return 1 if in_processes(args) else 0
    outcome = stress.hammer(args.threads, args.kernels, args.seconds)
    print(f"{args.threads} threads, {args.kernels} kernels: {outcome.calls} calls, {outcome.wrong} wrong")
    good = outcome.wrong == 0 and outcome.calls > 0
    if stress.STATUS.exists():
        levels = list(stress.dropped(200, 5))
        for memory, alive in levels:
            print(f"200 kernels compiled and dropped: {memory >> 10} KiB resident, {alive} with code")
        good = good and levels[-1][1] == 0 and levels[-1][0] - levels[0][0] < 8 << 20
        extra = stress.overhead(128)
        print(f"a reorder of 128 MiB takes {extra >> 10} KiB besides source and destination")
        good = good and extra <= 1 << 20
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
