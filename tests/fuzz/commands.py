"""Command lines: random options and values of the tools, called as functions and now and then as processes.

Whatever the options, a tool ends with status 0, 1, 2 or 130, and says why without a traceback. A command that fails
leaves no result behind.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from layout_ir.tools.commands.optimize import TARGETS
from tests.fuzz.costs import PROGRAM, TABLE
from tests.fuzz.formats import DTYPES, EXTENTS, random_text
from tests.fuzz.kinds import ROOT, Kind, Wrong
from tests.fuzz.mutation import NUMBERS, TEXTS
from tests.fuzz.programs import arguments
from tests.fuzz.tools import Called, call, check

_FILES = (
    "program.mlir", "model.onnx", "broken.onnx", "costs.json", "broken.json", "certificate.json", "empty", "in.npz",
    "broken.npz", "in.npy", "folder", "missing", "missing/x", "bytes.mlir", "-", "", "none.mlir", "x.onnx",
)  # fmt: skip
_RESULTS = (
    "out.mlir", "out.json", "out.o", "out.ll", "out.s", "out.svg", "out.png", "missing/x", "folder", "", "-", "out",
    "program.mlir", "o" * 300, "out.onnx", "out\n.o",
)  # fmt: skip


@cache
def _contents() -> dict[str, bytes]:
    """The files that every command finds."""
    import io

    import numpy as np

    from layout_ir.passes.selection.solver.certificate import certify
    from tests.fuzz.models import valid_model
    from tests.passes.selection.problems import random_problem

    model = valid_model(Random(6)).SerializeToString()
    archive, single = io.BytesIO(), io.BytesIO()
    np.savez(archive, x=np.zeros((1, 64, 8, 8), np.float32), w=np.ones((64, 64, 3, 3), np.float32))
    np.save(single, np.arange(3.0))
    return {
        "program.mlir": PROGRAM.encode(),
        "model.onnx": model,
        "broken.onnx": model[: len(model) // 2],
        "costs.json": json.dumps(TABLE).encode(),
        "broken.json": b'{"unit": "ns", "op": [',
        "certificate.json": json.dumps(certify(random_problem(Random(1), 3, 3))[1]).encode(),
        "empty": b"",
        "in.npz": archive.getvalue(),
        "broken.npz": archive.getvalue()[:100],
        "in.npy": single.getvalue(),
        "bytes.mlir": b"\xff\xfe\x00",
        "none.mlir": b"func.func @f() { func.return }\n",
    }


_GOOD = (
    "nchw", "nhwc", "nChw8c", "nChw16c", "chwn", "ab", "ba", "(a, b) : [a, b, b:8], pad = zero", "(a, b) : [a*40, b*2]",
    "(a, b) : [a, b], lo = [1, 0]", "(n, c, h, w) : [n, h, w, c, c:4]", "aBc8b", "(a, b) : [a*3, b*-1]", "abc",
)  # fmt: skip


def _format(rng: Random) -> str:
    if rng.random() < 0.6:
        return rng.choice(_GOOD)
    source, text = random_text(rng)
    return text if source is None else f"{source}:{text}"


def _shape(rng: Random) -> str:
    if rng.random() < 0.15:
        return rng.choice((*TEXTS[:40], "?", "2x?", "x", "2x", "-1x2", "2X3", "2x3x4x5x6x7"))
    rank = rng.choice((0, 1, 2, 2, 3, 4, 4, 4))
    extents = [rng.choice(EXTENTS if rng.random() < 0.9 else NUMBERS) for _ in range(rank)]
    return "x".join("?" if rng.random() < 0.05 else str(n) for n in extents) or "()"


def _shape_like(rng: Random, formats: Sequence[str]) -> str:
    """A shape, mostly of the rank that the formats have."""
    if formats and formats[0] in _GOOD and rng.random() < 0.85:
        rank = len({letter for letter in formats[0].partition(":")[0].lower() if letter.isalpha()})
        extents = [rng.choice((0, 1, 2, 3, 5, 8, 16, 17, 1000)) for _ in range(rank)]
        return "x".join("?" if rng.random() < 0.1 else str(n) for n in extents)
    return _shape(rng)


def _number(rng: Random) -> str:
    return str(rng.choice((1, 1, 2, 3, 4, -1, 0, rng.choice(NUMBERS), rng.choice(TEXTS))))


def _scale(rng: Random) -> str:
    single = (
        "0.5", "1", "0", "-1", "nan", "inf", "1e-400", "tensor", "channel", "0.1,0.2,0.4", "", "x", "@in.npy", "@empty",
        "@missing", "@folder", "@program.mlir", "3,,4", "1e309", "@in.npz", "@broken.npz",
    )  # fmt: skip
    text = rng.choice(single)
    return f"{text}:{rng.choice(single)}" if rng.random() < 0.3 else text


_CPUS = ("host", "haswell", "x86-64-v4", "aarch64", "riscv64", "nope", "", "x86-64", "skylake", "+avx")
_VALUES: dict[str, Callable[[Random], str]] = {
    "--shape": _shape,
    "--dtype": lambda rng: rng.choice(DTYPES),
    "--index": lambda rng: ",".join(_number(rng) for _ in range(rng.choice((1, 2, 3, 4)))),
    "--offset": _number,
    "--to": lambda rng: rng.choice(("all", "format", "xla", "torch", "tvm", "cute", "memref", "htp", "nope", "")),
    "--from": lambda rng: rng.choice(("format", "xla", "torch", "tvm", "cute", "memref", "nope", "")),
    "-o": lambda rng: rng.choice(_RESULTS),
    "--rows": _number,
    "--target": lambda rng: rng.choice((*TARGETS, *_CPUS)),
    "--solver": lambda rng: rng.choice(("exact", "greedy", "nope", "")),
    "--costs": lambda rng: rng.choice(_FILES),
    "--inputs": lambda rng: rng.choice(_FILES),
    "--seed": _number,
    "--elide-constants": _number,
    "--certificate": lambda rng: rng.choice(_RESULTS),
    "--cpu": lambda rng: rng.choice(_CPUS),
    "--to-dtype": lambda rng: rng.choice(DTYPES),
    "--dst-dtype": lambda rng: rng.choice(DTYPES),
    "--scale": _scale,
    "--zero-point": _scale,
    "--dim": _number,
    "--beta": lambda rng: rng.choice(("1", "0", "tensor", "nan", "x", "", "1e400")),
    "--threads": lambda rng: rng.choice(("1", "2", "0", "-1", "1000000", "x")),
    "--features": lambda rng: rng.choice(("+avx512vbmi,-fma", "", "+", "-", ",", "+nope", "fma")),
    "--like": _shape,
    "--prefix": lambda rng: rng.choice(("net", "", "int", "a b", "é", "f\n", "0", "a" * 300)),
    "--name": lambda rng: rng.choice(("f", "", "int", "a b", "é", "f\n", "0", "a" * 300, "main")),
    "--emit": lambda rng: rng.choice(("obj", "asm", "ir", "nope")),
    "--header": lambda rng: rng.choice((*_RESULTS, "out.h")),
    "--size": lambda rng: rng.choice(("L2", "nope", "")),
    "--peers": lambda rng: rng.choice(("numpy", "", "nope", "numpy,")),
}  # fmt: skip
_FLAGS = ("--json", "--list", "--report", "--tune", "--list-targets", "--nope", "--help", "-", "--")
_PLAIN = {
    "explain-reorder": ("--json", "--tune"),
    "optimize": ("--json", "--report"),
    "convert": ("--list",),
    "draw": (),
}

_COMMANDS: dict[str, tuple[str, Sequence[str]]] = {
    "explain": ("f", ("--shape", "--dtype", "--index", "--offset")),
    "convert": ("f", ("--shape", "--dtype", "--to", "--to", "--from")),
    "draw": ("f", ("--shape", "--dtype", "-o", "--rows")),
    "optimize": ("m", ("--target", "--solver", "--costs", "-o", "--elide-constants", "--certificate")),
    "run": ("m", ("--target", "--solver", "--costs", "--inputs", "--seed")),
    "explain-reorder": (
        "ff", ("--shape", "--shape", "--dtype", "--cpu", "--to-dtype", "--scale", "--zero-point", "--dim", "--beta",
               "--threads"),
    ),
    "compile-reorder": (
        "ff", ("--shape", "--shape", "--dtype", "--target", "--to-dtype", "--scale", "--zero-point", "--dim", "--beta",
               "--features", "--like", "--name", "-o", "-o", "--emit", "--header"),
    ),
    "compile-reorders": ("m", ("--target", "--features", "--prefix", "-o", "-o", "--emit", "--header")),
    "irdl": ("", ("-o",)),
    "verify-certificate": ("m", ()),
    "bench": ("", ("--shape", "--dtype", "--dst-dtype", "--size", "--threads", "--peers", "--cpu")),
    "calibrate": ("", ("--target", "-o")),
}  # fmt: skip


def _layout_ir(rng: Random) -> list[str]:
    command = rng.choice([*_COMMANDS] + [c for c in _COMMANDS if c not in ("bench", "calibrate")] * 2)
    wants, options = _COMMANDS[command]
    files = (
        *_FILES[:7],
        *("program.mlir",) * 4,
        *("model.onnx",) * 2,
        *("certificate.json",) * 6 * (command[0] == "v"),
    )
    first = _format(rng)
    args = [first if want == "f" else rng.choice(files) for want in wants]
    if wants == "ff":
        like = [
            f for f in _GOOD if len(set(f.lower()) & set("nchwab")) == len(set(first.lower()) & set("nchwab"))
        ]
        args[1] = rng.choice(like) if like and rng.random() < 0.8 else _format(rng)
    if wants.startswith("f"):
        # Mostly a shape of the rank of what is named.
        args = [a if not a.startswith("-") else f"a{a}" for a in args]
    chosen = [o for o in options if rng.random() < (0.9 if o == "--shape" else 0.2)]
    given: list[str] = []
    for option in dict.fromkeys(chosen):
        value = _shape_like(rng, args) if option == "--shape" else _VALUES[option](rng)
        given += [f"{option}={value}"] if option.startswith("--") else [option, value]
    args = given + args if rng.random() < 0.5 else args + given
    if rng.random() < 0.3:
        args += [rng.choice(_FLAGS)] if rng.random() < 0.2 else _PLAIN.get(command, ("--json",))[:1]
    if rng.random() < 0.05 and args:
        del args[rng.randrange(len(args))]
    if rng.random() < 0.03:
        args.insert(rng.randrange(len(args) + 1), rng.choice(TEXTS))
    if command in ("bench", "calibrate"):
        # What measures takes seconds: only what is refused, or lists.
        args.append("--list" if command == "bench" and rng.random() < 0.5 else "--nope")
    return [command, *args]


_OPT_VALUES: dict[str, tuple[object, ...]] = {
    "-o": _RESULTS,
    "-f": ("mlir", "onnx", "nope", ""),
    "-t": ("llvm-ir", "mlir", "nope", "mlir{x=1}", "{", ""),
    "--elide-constants": NUMBERS,
    "-p": (
        "", ",", "cse{", "nope", "cse,cse", "é", "layout-optimize{target=}", "layout-optimize{x=1}",
        "layout-optimize{target=nope}", "layout-explain{target=nope}", "layout-propagate{costs=costs.json}",
        "layout-propagate{costs=missing}", "layout-propagate{report=out.json}", "layout-propagate{report=missing/x}",
        "layout-propagate{attach=true}", "layout-propagate{solver=nope}",
    ),
}  # fmt: skip
_OPT_FLAGS = (
    "--verify-diagnostics", "--split-input-file", "--time-passes", "--print-between-passes", "--disable-verify",
    "--no-implicit-module", "--syntax-highlight", "--shrink", "-v", "--help", "--parsing-diagnostics",
    "--print-no-properties",
)  # fmt: skip


def _layout_opt(rng: Random) -> list[str]:
    args = [rng.choice(_FILES + ("program.mlir",) * 12), *arguments(rng, runs=True)]
    for option in ("-o", "-f", "-t", "--elide-constants", "-p"):
        if rng.random() < 0.12:
            args += [option, str(rng.choice(_OPT_VALUES[option]))]
    if rng.random() < 0.2:
        args.append(rng.choice(_OPT_FLAGS))
    return args


class Commands(Kind):
    name = "commands"
    suffix = ".json"
    chunk = 15

    def make(self, seed: int, number: int) -> bytes:
        rng = self.rng(seed, number)
        tool = "layout-opt" if rng.random() < 0.3 else "layout-ir"
        args = _layout_opt(rng) if tool == "layout-opt" else _layout_ir(rng)
        # "closed": standard output is closed; "none": there is no standard input.
        how = rng.choice(("pipe", "closed", "none")) if rng.random() < 0.02 else "call"
        stdin = rng.choice(("", "x", "{}", "\0", PROGRAM)) if "-" in args else ""
        args = [arg.replace("\0", "") for arg in args]  # no system hands those over
        return json.dumps({"tool": tool, "args": args, "how": how, "stdin": stdin}).encode()

    def run(self, data: bytes) -> None:
        given = json.loads(data)
        tool, args, how = given["tool"], given["args"], given["how"]
        _lay_out()
        if how == "call":
            called = call(tool, args, given["stdin"])
        else:
            called = _process(tool, args, how, given["stdin"])
            check(f"{tool} {args} ({how})", called)
        if called.status and (left := _results()):
            raise Wrong(
                f"{tool} {args} ends with status {called.status} and leaves {left}\n{called.err}",
                "half a result",
            )

    def smaller(self, data: bytes) -> Iterator[bytes]:
        given: dict[str, Any] = json.loads(data)
        for number in range(len(given["args"])):
            args = given["args"][:number] + given["args"][number + 1 :]
            yield json.dumps({**given, "args": args}).encode()


def _lay_out() -> None:
    """Makes the working folder what it is before every command."""
    for path in Path().iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    for name, content in _contents().items():
        Path(name).write_bytes(content)
    Path("folder").mkdir()


def _results() -> list[str]:
    """What a command made, or changed."""
    known = _contents()
    made = [path.name for path in Path().iterdir() if path.name not in known and path.name != "folder"]
    made += [name for name, content in known.items() if Path(name).read_bytes() != content]
    return made + [path.name for path in Path("folder").iterdir()]


def _process(tool: str, args: list[str], how: str, stdin: str) -> Called:
    """Runs a tool as a process of its own, with an end of it closed."""
    module = f"layout_ir.tools.{tool.replace('-', '_')}"
    command = [sys.executable, "-m", module, *args]
    closing = {"closed": ">&-", "none": "<&-"}.get(how)
    if closing:
        command = ["/bin/sh", "-c", f'exec "$@" {closing}', "sh", *command]
    done = subprocess.run(
        command, input=stdin.encode(), capture_output=True, check=False, timeout=100,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return Called(
        done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    )
