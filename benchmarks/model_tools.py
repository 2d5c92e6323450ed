"""Tools that rewrite ONNX models, ours and other people's, as functions from file to file.

`TOOLS` names them. Each is called in a process of its own (`Worker`), with a limit of time and of memory: a tool that
crashes, hangs or refuses a model gives a `ToolFailure` that says so, and the next model is asked for as if nothing had
happened.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


class ToolFailure(Exception):
    """Why a tool has no result for a model, in a few words."""


@dataclass(frozen=True)
class Tool:
    name: str
    package: str
    """The package whose version is told, and without which the tool is left out."""
    run: Callable[[Path, Path], None]
    """Reads the model of the first path and writes a model to the second."""

    def missing(self) -> str:
        """Why the tool cannot be called here; empty where it can."""
        if self.package == "layout-ir":
            return ""
        try:
            version(self.package)
        except PackageNotFoundError:
            return f"{self.package} is not installed"
        return ""

    def version(self) -> str:
        if self.package == "layout-ir":
            return import_module("layout_ir.version").__version__
        return version(self.package)


def _same(source: Path, target: Path) -> None:
    target.write_bytes(source.read_bytes())


def _runtime_writes(level: str, source: Path, target: Path) -> None:
    """Writes what ONNX Runtime makes of a model at an optimization level ("BASIC", "EXTENDED", "ALL")."""
    onnxruntime: Any = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def _onnxsim(source: Path, target: Path) -> None:
    onnx: Any = import_module("onnx")
    model, equal = import_module("onnxsim").simplify(onnx.load(source))
    if not equal:
        raise ToolFailure("onnxsim says that its result is not equal")
    onnx.save(model, target)


def _onnxslim(source: Path, target: Path) -> None:
    onnx: Any = import_module("onnx")
    onnx.save(import_module("onnxslim").slim(onnx.load(source)), target)


def _onnxoptimizer(source: Path, target: Path) -> None:
    onnx: Any = import_module("onnx")
    onnx.save(import_module("onnxoptimizer").optimize(onnx.load(source)), target)


def _ours(consumer: str, source: Path, target: Path) -> None:
    onnx: Any = import_module("onnx")
    layout_ir: Any = import_module("layout_ir")
    if not hasattr(layout_ir, "optimize_onnx"):
        raise ToolFailure("missing")
    onnx.save(layout_ir.optimize_onnx(source, target=consumer).model, target)


_ALL = (
    Tool("original", "onnx", _same),
    Tool("ort-basic", "onnxruntime", partial(_runtime_writes, "BASIC")),
    Tool("ort-extended", "onnxruntime", partial(_runtime_writes, "EXTENDED")),
    Tool("ort-all", "onnxruntime", partial(_runtime_writes, "ALL")),
    Tool("onnxsim", "onnxsim", _onnxsim),
    Tool("onnxslim", "onnxslim", _onnxslim),
    Tool("onnxoptimizer", "onnxoptimizer", _onnxoptimizer),
    Tool("ours-onnx", "layout-ir", partial(_ours, "onnx")),
    Tool("ours-ort-cpu", "layout-ir", partial(_ours, "ort-cpu")),
    Tool("ours-blocked", "layout-ir", partial(_ours, "ort-cpu-blocked")),
)
TOOLS = {tool.name: tool for tool in _ALL}
"""By name, in the order in which tables show them."""


class Worker:
    """A process that calls functions, started anew after one that crashed or ran out of time."""

    def __init__(self, seconds: float, memory: int) -> None:
        """Each call may take `seconds`; the process may take `memory` bytes of address space."""
        self.seconds = seconds
        self.memory = memory
        self._process: Any = None
        self._pipe: Connection | None = None

    def call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """What the function returns; `ToolFailure` if it raises, crashes or takes too long."""
        if self._process is None or not self._process.is_alive():
            self._start()
        assert self._pipe is not None
        self._pipe.send((function, arguments))
        if not self._pipe.poll(self.seconds):
            self.close()
            raise ToolFailure(f"timeout after {self.seconds:g} s")
        try:
            succeeded, result = self._pipe.recv()
        except EOFError:
            self._process.join()
            status = self._process.exitcode
            self.close()
            raise ToolFailure(f"crash ({status})") from None
        if not succeeded:
            raise ToolFailure(result)
        return result

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self.memory), daemon=True)
        self._process.start()
        other.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _serve(pipe: Connection, memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    # Tools write to both from C++ as well; a table is no place for it.
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115, for as long as the process is there
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            return
        try:
            result = (True, function(*arguments))
        except Exception as error:
            result = (False, _in_a_line(error))
        pipe.send(result)


def _in_a_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:200] if isinstance(error, ToolFailure) else f"{type(error).__name__}: {text}"[:200]
