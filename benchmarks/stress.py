"""Compiled reorders under stress: many threads, many kernels, memory.

    python benchmarks/stress.py                    8 threads call 50 kernels for 30 s, every byte is compared
    python benchmarks/stress.py --seconds 3 --threads 4

Then 200 distinct kernels are compiled and dropped, five times over, and a large reorder is watched: it may take source,
destination and 1 MiB. Ends with status 1 where a byte is wrong or memory does not return.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.backends.llvm import stress


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--kernels", type=int, default=50)
    args = parser.parse_args()
    outcome = stress.hammer(args.threads, args.kernels, args.seconds)
    print(f"{args.threads} threads, {args.kernels} kernels: {outcome.calls} calls, {outcome.wrong} wrong")
    good = outcome.wrong == 0 and outcome.calls > 0
    if stress.STATUS.exists():
        levels = list(stress.dropped(200, 5))
        for memory, areas in levels:
            print(f"200 kernels compiled and dropped: {memory >> 10} KiB resident, {areas} mappings")
        good = good and levels[-1][1] - levels[0][1] < 20 and levels[-1][0] - levels[0][0] < 8 << 20
        extra = stress.overhead(128)
        print(f"a reorder of 128 MiB takes {extra >> 10} KiB besides source and destination")
        good = good and extra <= 1 << 20
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
