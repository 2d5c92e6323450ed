"""The command line of the attacks: `python -m tests.fuzz`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.fuzz.driver import Found, Run, attempt, reduce, save
from tests.fuzz.kinds import KINDS

_SHOWN = 40


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Run random inputs of every kind."
    )
    parser.add_argument(
        "files", nargs="*", type=Path, help="inputs to run instead; the folder of each is its kind"
    )
    parser.add_argument("--seconds", type=float, help="how long, all kinds together (default: 60)")
    parser.add_argument("--cases", type=int, help="how many of each kind, instead of --seconds")
    parser.add_argument("--first", type=int, default=0, help="the first of these (default: 0)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help=f"kinds, separated by commas (default: {','.join(KINDS)})")
    parser.add_argument("--without", default="", help="kinds to leave out")
    parser.add_argument("--jobs", type=int, help="worker processes (default: a processor each)")
    parser.add_argument(
        "--save", type=Path, help="folder for the inputs that fail (default: a new temporary one)"
    )
    args = parser.parse_args()
    args.kinds = [
        k for k in (args.only.split(",") if args.only else KINDS) if k not in args.without.split(",")
    ]
    for name in args.kinds:
        if name not in KINDS:
            parser.error(f"unknown kind '{name}': known are {', '.join(KINDS)}")
    if args.seconds is None and args.cases is None:
        args.seconds = 60.0
    return args


def _replay(files: list[Path]) -> int:
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        worker = None
        for path in files:
            failure, worker = attempt(path.parent.name, path.read_bytes(), Path(folder), worker)
            status |= failure is not None
            print(f"{path}: {'passes' if failure is None else f'{failure.what}: {failure.message}'}")
        if worker is not None:
            worker.close()
    return status


def main() -> int:
    args = _arguments()
    if args.files:
        return _replay(args.files)
    jobs = args.jobs or len(os.sched_getaffinity(0))
    run = Run(
        args.kinds, args.seed, seconds=args.seconds, cases=args.cases, first=args.first, jobs=jobs,
        progress=sys.stderr.isatty(),
    )  # fmt: skip
    result = run.run()
    for name in args.kinds:
        rate = result.inputs[name] / result.seconds[name] if result.seconds[name] else 0.0
        print(f"{name:14} {result.inputs[name]:8} inputs, {rate:7.1f} per second of a worker")
    failures = sorted(result.found.values(), key=Found.title)
    if not failures:
        print(f"seed {args.seed}: no failure")
        return 0
    folder = args.save or Path(tempfile.mkdtemp(prefix="layout-ir-failures-"))
    for number, found in enumerate(failures):
        if found.number >= 0 and number < _SHOWN:
            reduce(found, 10.0 if number < 10 else 3.0)
        path = save(found, folder)
        alone = "" if found.alone else " (only after other inputs)"
        print(
            f"\n{found.title()}{alone}\n  {path}\n  "
            + found.failure.message.strip()[-600:].replace("\n", "\n  ")
        )
    print(f"\nseed {args.seed}: {len(failures)} kinds of failure, their inputs are in {folder}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
