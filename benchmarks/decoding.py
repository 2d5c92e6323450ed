"""How long a token takes from decoders whose KV caches grow, so that no call has the shapes of another.

    python benchmarks/decoding.py [--tokens 30] [--earlier 0] [--threads 1] [--json]

Decoders in standard operators, as exporters write them (`gpt2`, `llama`), and in those of ONNX Runtime (`runtime`:
GroupQueryAttention, weights of 4 bits), with random weights. The first call takes four tokens behind `--earlier` ones,
each one after it a token more. The first three calls compile; `token` is the median of those after them, `again` of the
same lengths when they come a second time, `whole` of a program for the last length alone, which takes the place of what
lengths share when a length has come a hundred times. Outputs are compared at every length, in units of the largest
magnitude.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Decoder:
    """A model, the inputs of its first call behind so many earlier tokens, and those that follow a call."""

    model: Any
    first: Callable[[int], Inputs]
    following: Callable[[Inputs, list[Any]], Inputs]


@dataclass(frozen=True)
class Row:
    """One decoder; times in milliseconds."""

    decoder: str
    first: list[float]
    """The calls that compile: the first three."""
    token: float
    again: float
    whole: float
    onnxruntime: float
    difference: float


def decoders() -> dict[str, Callable[[], Decoder]]:
    """What makes each decoder, by name."""
    from tests.api import growing_decoders, language_model

    def standard(kind: growing_decoders.Kind, layers: int, width: int) -> Decoder:
        model = growing_decoders.decoder(kind, layers, width, width // 32 if width > 64 else 4)
        return Decoder(model, partial(growing_decoders.inputs_at, model, new=4), growing_decoders.next_inputs)

    def runtime(layers: int) -> Decoder:
        def first(earlier: int) -> Inputs:
            return language_model.first_inputs(1, earlier + 4, layers)

        return Decoder(language_model.decoder(layers), first, language_model.next_inputs)

    found: dict[str, Callable[[], Decoder]] = {}
    for layers in (2, 6):
        for kind in ("gpt2", "llama"):
            for width in (64, 256):
                found[f"{kind}, {layers} layers of {width}"] = partial(standard, kind, layers, width)
        found[f"runtime, {layers} layers of {language_model.WIDTH}"] = partial(runtime, layers)
    return found


def measured(name: str, decoder: Decoder, tokens: int, earlier: int, threads: int) -> Row:
    """Decodes so many tokens, twice."""
    import layout_ir as li

    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = runtime.InferenceSession(decoder.model.SerializeToString(), options)
    executable = li.compile(decoder.model, threads=threads)
    rounds: list[list[float]] = []
    theirs: list[float] = []
    largest, inputs = 0.0, Inputs()
    for _ in range(2):
        rounds.append([])
        following = decoder.first(earlier)
        for _ in range(tokens):
            inputs = following
            time, wanted = timed(partial(session.run, None, inputs))
            theirs.append(time)
            time, found = timed(partial(executable, inputs))
            rounds[-1].append(time)
            largest = max(largest, *map(difference, found, wanted))
            following = decoder.following(inputs, wanted)
    executable.profile(inputs)
    whole = [timed(partial(executable, inputs))[0] for _ in range(9)]
    return Row(
        name,
        rounds[0][:3],
        median(rounds[0][3:]),
        median(rounds[1][3:]),
        median(whole),
        median(theirs),
        largest,
    )


def timed(call: Callable[[], list[Any]]) -> tuple[float, list[Any]]:
    """Milliseconds of a call, and its result."""
    start = perf_counter()
    result = call()
    return 1e3 * (perf_counter() - start), result


def difference(found: Any, wanted: Any) -> float:
    """The largest difference of an output, in units of its largest magnitude."""
    return float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))


def table(rows: Sequence[Row]) -> str:
    """The rows in Markdown."""
    lines = [
        "| decoder | first calls, ms | token | again | whole | ONNX Runtime | difference |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        first = ", ".join(f"{time:.0f}" for time in row.first)
        times = (row.token, row.again, row.whole, row.onnxruntime)
        cells = " | ".join(f"{time:.2f}" for time in times)
        lines.append(f"| {row.decoder} | {first} | {cells} | {row.difference:.0e} |")
    return "\n".join(lines)


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "decoders", nargs="*", metavar="DECODER", help="the beginning of a name; all without it"
    )
    parser.add_argument("--tokens", type=int, default=30)
    parser.add_argument("--earlier", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.tokens < 4 or options.earlier < 0:
        parser.error("--tokens from 4 on, of which three compile, --earlier from 0 on")
    rows = [
        measured(name, make(), options.tokens, options.earlier, options.threads)
        for name, make in decoders().items()
        if not options.decoders or name.startswith(tuple(options.decoders))
    ]
    print(json.dumps([asdict(row) for row in rows], indent=1) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
