"""Reorders that frameworks ask for, beside both builds of oneDNN.

    python benchmarks/framework_reorders.py                        all cases, one and two threads: an hour
    python benchmarks/framework_reorders.py --most 600 --threads 1 as many of them, drawn evenly
    python benchmarks/framework_reorders.py --only llama --json
    python benchmarks/framework_reorders.py --list                 the cases
    python benchmarks/framework_reorders.py --threads 1 --part 3/40 --json > 3.json
                                                                   one of forty parts, each an even share
    python benchmarks/framework_reorders.py --read *.json          what parts come to that were measured before

The cases are made here: for every layer of `benchmarks/layer_shapes.py` the convolutions and matmuls of both builds of
oneDNN are asked, with `any`, in which layouts they want weights and activations, as f32, bf16 and int8, held to AVX2
and with all that this CPU has (oneDNN looks once, so each has a process of its own); convolutions are asked as well
with activations that are blocked already, and for the gradient of their source. A case is the reorder to such a layout
from one in which a framework holds the tensor, and for activations the one back. What more than one layer asks for is
measured once. Layouts behind which there is only a reference implementation are left out, and so are weights with
compensation sums.

What is decided is whether a case reaches 0.95 of the faster build, and 0.85: rounds go on until the interval of the
ratio holds neither bound. A case that --seconds leave undecided is measured again later, in other buffers, up to
--repeats times, and then called undecided. Bytes are compared with the definition of the layouts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from math import inf
from pathlib import Path
from statistics import geometric_mean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.layer_shapes import NETWORKS, Convolution, Layer, layers
from benchmarks.thread_counts import run_for_each, thread_counts
from layout_ir.backends.llvm.runtime.timing import Interval, Limits
from layout_ir.dialects.kernel.plan import Plan, Staged, Step
from layout_ir.errors import LayoutError
from layout_ir.tools.benchmark.cases import Case
from layout_ir.tools.benchmark.measure import COPIES, Result, confine, measure
from layout_ir.tools.benchmark.onednn import BUILDS, Library, load
from layout_ir.tools.benchmark.summary import machine_lines

GOAL, LEAST = 0.95, 0.85
"""What 99 of 100 cases should reach of the faster build, and what every one should."""

ISAS = ("AVX2", "ALL")
"""Values of ONEDNN_MAX_CPU_ISA with which layouts are asked for."""

BATCHES = (1, 8)
"""Images, or sequences, whose activations are reordered."""

_DTYPES = (("f32",) * 3, ("bf16",) * 3, ("ui8", "i8", "ui8"))
"""Element types of source, weights and destination. A signed source asks for compensation sums in the weights."""

_HELD = {2: ("ab", "ba"), 4: ("abcd", "acdb", "cdba"), 5: ("abcde", "deabc")}
"""How frameworks hold weights, by rank: as PyTorch does, channels last, and as TensorFlow does."""


# Cases ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Move:
    """A reorder that a network asks for: tags in letters, and whether it is of weights."""

    network: str
    shape: tuple[int, ...]
    src: str
    dst: str
    dtype: str
    weights: bool

    def case(self) -> Case:
        """The case of this move, at a size of its own."""
        kind = "weights" if self.weights else "activations"
        extents = "x".join(map(str, self.shape))
        name = f"{self.network} {kind} {extents} {self.dtype} {self.src}->{self.dst}"
        return Case(name, self.src, self.dst, self.dtype, {"own": self.shape}, self.network)


_BATCH = 0.0005
"""Seconds of calls between two looks at the clock. Of batches of 2 ms on a machine with five processes per CPU most are
interrupted: 14 of 60 cases stayed undecided, and of these 3."""


def asked(networks: Iterable[str] = tuple(NETWORKS)) -> Iterator[Move]:
    """What the layers of these networks ask of oneDNN in this process, each as often as it comes.

    Raises LayoutError where a build is not installed.
    """
    for build, network in product(BUILDS, networks):
        library = load(build)
        if isinstance(library, LayoutError):
            raise library
        for layer, dtypes in product(layers(network), _DTYPES):
            for batch in BATCHES:
                shapes = layer.shapes(batch)
                for tags in _asked_tags(library, layer, shapes, dtypes):
                    yield from _moves(network, layer, shapes, tags, dtypes, weights=batch == BATCHES[0])


def _asked_tags(
    library: Library, layer: Layer, shapes: Sequence[tuple[int, ...]], dtypes: tuple[str, ...]
) -> Iterator[tuple[str | None, ...]]:
    """Tags of source, weights and destination, of all ways in which the layer is asked about."""
    ways: list[Callable[[], tuple[str | None, ...]]] = []
    if isinstance(layer, Convolution):
        ask = partial(library.convolution_tags, shapes, dtypes, layer.stride, layer.padding)
        directions = (False,) if dtypes[1] == "i8" else (False, True)  # nobody trains in integers
        for source, backward in product(("any", "aBcd8b", "aBcd16b"), directions):
            ways.append(partial(ask, source=source, backward=backward))
    else:
        ways.append(partial(library.matmul_tags, shapes, dtypes))
    for way in ways:
        try:
            yield way()
        except LayoutError:
            continue  # there is no such primitive here, or only one that is not meant to be fast


def _moves(
    network: str,
    layer: Layer,
    shapes: Sequence[tuple[int, ...]],
    tags: tuple[str | None, ...],
    dtypes: tuple[str, ...],
    *,
    weights: bool,
) -> Iterator[Move]:
    source, kernel, result = tags
    if (
        not isinstance(layer, Convolution) and layer.heads > 1
    ):  # tokens come before heads where nothing is moved
        sides = ((shapes[0], source, dtypes[0], "acbd"), (shapes[1], kernel, dtypes[0], "acbd"))
        for shape, tag, dtype, held in (*sides, (shapes[1], kernel, dtypes[0], "adbc")):
            if tag is not None and weights:
                yield Move(network, shape, held, tag, dtype, False)
        if result is not None and weights:
            yield Move(network, shapes[2], result, "acbd", dtypes[2], False)
        return
    if weights and kernel is not None:
        for held in _HELD[len(shapes[1])]:
            yield Move(network, shapes[1], held, kernel, dtypes[1], True)
    if isinstance(layer, Convolution):
        for held in ("abcd", "acdb"):
            if source is not None:
                yield Move(network, shapes[0], held, source, dtypes[0], False)
            if result is not None:
                yield Move(network, shapes[2], result, held, dtypes[2], False)


def cases() -> list[Case]:
    """All cases, each once, by asking oneDNN in a process per value of ISAS.

    Raises LayoutError where it cannot be asked.
    """
    moves: dict[tuple[Any, ...], Move] = {}
    for isa in ISAS:
        run = subprocess.run(
            [sys.executable, __file__, "--ask"],
            env=os.environ | {"ONEDNN_MAX_CPU_ISA": isa},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if run.returncode:
            raise LayoutError(f"oneDNN held to {isa} could not be asked: see above")
        for fields in json.loads(run.stdout):
            move = Move(**fields | {"shape": tuple(fields["shape"])})
            moves.setdefault((move.shape, move.src, move.dst, move.dtype), move)
    found: list[Case] = []
    for move in moves.values():
        case = move.case()
        src, dst = case.bound("own")
        if not src.same_store(dst):  # nothing but bytes is copied: extents of 1 make many layouts one
            found.append(case)
    return found


def drawn(every: Sequence[Case], most: int) -> list[Case]:
    """At most `most` of the cases, evenly."""
    count = min(most, len(every))
    return [every[k * len(every) // count] for k in range(count)]


def part_of(every: Sequence[Case], text: str) -> list[Case]:
    """Part k of n, of text like 3/40: every n-th case, from the k-th on, so that each part is an even share.

    Raises LayoutError for a text that names no part.
    """
    number, _, parts = text.partition("/")
    if not (number.isdecimal() and parts.isdecimal() and 1 <= int(number) <= int(parts)):
        raise LayoutError(f"--part is '{text}': it says which of how many, from 1 on, as 3/40")
    return list(every[int(number) - 1 :: int(parts)])


# Results -------------------------------------------------------------------------------------------------------------


def lead(result: Result) -> Interval | None:
    """Our speed relative to the faster build of oneDNN; None where neither has the reorder."""
    return result.lead(tuple(BUILDS))


def undecided(interval: Interval) -> bool:
    """Whether a bound lies inside the interval."""
    return any(interval.low < bound <= interval.high for bound in (GOAL, LEAST))


def _unsettled(result: Result) -> float:
    """More than any precision while the case is undecided, 0 from then on: there is nothing more to learn."""
    interval = lead(result)
    return inf if interval is not None and undecided(interval) else 0.0


def plan_name(plan: Plan) -> str:
    """The micro-kernels of a plan in a few words, with the number of steps of each kind."""
    found = Counter(map(_step_name, plan.steps))
    return " + ".join(f"{number} x {name}" if number > 1 else name for name, number in found.items())


def _loops(plan: Plan) -> str:
    """The loops and the micro-kernel of the first step, on one line."""
    return "; ".join(part.strip() for step in plan.steps[:1] for part in str(step).splitlines()[1:])


def _step_name(step: Step) -> str:
    kernel = step.kernel
    inside = ""
    if isinstance(kernel, Staged):
        inside = f" of {kernel.size} bytes <{', '.join(dict.fromkeys(map(_step_name, kernel.steps)))}>"
    name = type(kernel).__name__.lower()
    return f"{name}{inside}{' streaming' if kernel.streaming else ''}"


def table(results: Sequence[Mapping[str, Any]], worst: int) -> Iterator[str]:
    """What the results of `to_json` come to: means, shares, undecided cases, and the worst with their plans."""
    compared = [(Interval(*r["lead"]), r) for r in results if r["lead"] is not None]
    compared.sort(key=lambda pair: pair[0].middle)
    yield f"{len(results)} cases; {len(results) - len(compared)} of them neither build of oneDNN has"
    own_code = [pair for pair in compared if not pair[1]["implementation"].startswith("ref")]
    f32 = [(i, r) for i, r in own_code if r["dtype"] == "f32" and 1 << 20 <= r["bytes"] // 2 <= 32 << 20]
    for text, group in (
        ("all", compared),
        ("oneDNN has code of its own for them", own_code),
        ("of these f32 of 1 to 32 MiB", f32),
    ):
        if group:
            yield f"{text}: {_shares([interval for interval, _ in group])}"
    yield f"the {min(worst, len(compared))} worst:"
    for interval, r in compared[:worst]:
        doubt = "  undecided" if undecided(interval) else ""
        copy = max(r["gbps"][name] for name in COPIES)
        rates = f"{r['gbps']['ours']:.1f} GB/s of {copy:.1f}"
        yield f"  {interval}{doubt}  {r['case']}  {r['bytes'] >> 10} KiB, {rates}"
        yield f"      {r['kernels']}"
        yield f"      {r['loops']}"
    if wrong := [r["case"] for r in results if not r["equal"]]:
        yield f"WRONG BYTES: {', '.join(wrong)}"


def _shares(intervals: Sequence[Interval]) -> str:
    mean = geometric_mean(interval.middle for interval in intervals)
    parts = [f"{len(intervals)} cases, geometric mean {mean:.2f}, least {intervals[0].middle:.2f}"]
    for bound in (GOAL, LEAST):
        reached = sum(interval.middle >= bound for interval in intervals) / len(intervals)
        parts.append(f"{100 * reached:.1f} % at least {bound}")
    parts.append(f"{sum(map(undecided, intervals))} undecided")
    return ", ".join(parts)


def _implementations(result: Result) -> str:
    """What the faster build calls its code."""
    build = result.fastest([name for name in BUILDS if name in result.times.rounds])
    assert build is not None  # there is a lead
    library, case = load(build), result.case
    if isinstance(library, LayoutError):
        return ""
    sides = [(str(side), case.dtype) for side in (case.src, case.dst)]
    return library.reorder_implementation(case.shapes[result.size], sides[0], sides[1])


def to_json(result: Result) -> dict[str, Any]:
    """The object that programs read, one per case."""
    interval = lead(result)
    return {
        "case": result.case.name,
        "threads": result.threads,
        "dtype": result.case.dtype,
        "bytes": result.nbytes,
        "gbps": {name: round(result.gbps(name), 3) for name in result.times.rounds},
        "lead": None if interval is None else [interval.middle, interval.low, interval.high],
        "undecided": interval is not None and undecided(interval),
        "implementation": _implementations(result) if interval is not None else None,
        "kernels": None if result.plan is None else plan_name(result.plan),
        "loops": None if result.plan is None else _loops(result.plan),
        "equal": result.equal,
    }


def _line(result: Result) -> str:
    interval = lead(result)
    if interval is None:
        return f"{result.case.name}  neither build of oneDNN has it"
    return f"{result.case.name}  {interval}{'  undecided' if undecided(interval) else ''}"


def measured(
    found: Iterable[Case], threads: int, limits: Limits, repeats: int, said: Callable[[str], None] = print
) -> list[Result]:
    """The results of all cases; those that stay undecided are measured again, up to `repeats` times each.

    Whatever is known of a case is `said` at once: a table of thousands takes its time.
    """
    results: dict[str, Result] = {}
    left = list(found)
    for turn in range(1 + repeats):
        for number, case in enumerate(left, 1):
            try:
                result = measure(case, "own", threads, tuple(BUILDS), limits, unsettled=_unsettled)
            except LayoutError as error:
                print(f"{case.name}: not compiled: {error}", file=sys.stderr)
                continue
            if case.name in results:
                result = results[case.name].joined(result)
            results[case.name] = result
            said(f"{number}/{len(left)}{f' turn {turn + 1}' if turn else ''}  {_line(result)}")
        left = [r.case for r in results.values() if (i := lead(r)) is not None and undecided(i)]
    return list(results.values())


def told(entries: Sequence[Mapping[str, Any]], worst: int) -> int:
    """Prints the table of each number of threads; 1 where bytes were wrong, else 0."""
    for threads in sorted({entry["threads"] for entry in entries}):
        print(f"{threads} threads")
        print("\n".join(table([entry for entry in entries if entry["threads"] == threads], worst)))
    return 0 if all(entry["equal"] for entry in entries) else 1


# Command line --------------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], help="cases whose name contains this")
    parser.add_argument("--most", type=int, default=1 << 30, help="cases that are measured, drawn evenly")
    parser.add_argument("--part", default="1/1", help="one of so many parts of these, as 3/40")
    parser.add_argument(
        "--read", nargs="+", type=Path, help="JSON of earlier runs to tell of, nothing measured"
    )
    parser.add_argument("--threads", default="1,2", help="numbers of threads, as 1,2")
    parser.add_argument("--seconds", type=float, default=2.0, help="per case and turn, at most")
    parser.add_argument("--repeats", type=int, default=4, help="turns more that an undecided case may have")
    parser.add_argument("--worst", type=int, default=20, help="how many of the worst cases are shown")
    parser.add_argument("--list", action="store_true", help="names of the cases, nothing measured")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ask", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ask:
        print(json.dumps([asdict(move) for move in dict.fromkeys(asked())]))
        return 0
    if args.read is not None:
        return told([entry for file in args.read for entry in json.loads(file.read_text())], args.worst)
    counts = thread_counts(args.threads)
    if len(counts) > 1 and not args.list:
        return run_for_each(__file__, sys.argv[1:], counts)
    every = cases()
    found = [case for case in every if not args.only or any(text in case.name for text in args.only)]
    if not found or args.most < 1:
        raise LayoutError(f"no case is left of {len(every)}: --list names those that --only and --most leave")
    found = part_of(drawn(found, args.most), args.part)
    if args.list:
        print("\n".join(case.name for case in found))
        return 0
    [threads] = counts
    confine(threads)
    limits = Limits(seconds=args.seconds, patience=args.seconds, batch=_BATCH)
    if args.json:
        results = measured(found, threads, limits, args.repeats, lambda _: None)
        print(json.dumps([to_json(result) for result in results], indent=1))
    else:
        print("\n".join(machine_lines(tuple(BUILDS))))
        results = measured(found, threads, limits, args.repeats, partial(print, flush=True))
        print(f"{len(results)} of {len(every)} cases measured")
        told([to_json(result) for result in results], args.worst)
    return 0 if all(result.equal for result in results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LayoutError as error:
        sys.exit(f"error: {error}")
