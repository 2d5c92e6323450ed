"""The models that a benchmark takes, as files, and inputs for them."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.moved_bytes import Arrays, random_feeds
from tests.zoo import NETWORKS

onnx: Any = import_module("onnx")  # optional, and without type information

MODELS_HELP = "a file, a folder with .onnx files, or a network of tests/zoo, also as a pattern: '*-nhwc'"

_CONVERTED = {"nhwc", "keras", "onnx2tf"}


def from_nhwc(name: str) -> bool:
    """Whether a network has Transposes because it was converted from NHWC, by the endings of its name (tests/zoo)."""
    return not _CONVERTED.isdisjoint(name.split("-"))


def model_files(arguments: Sequence[str], folder: Path) -> Iterator[Path]:
    """The files that the arguments name, each when it is asked for; networks are written to `folder`, and those that
    cannot be built here left out with a line on stderr. Ends the program where an argument names nothing."""
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            yield from sorted(path.glob("*.onnx"))
        elif path.suffix == ".onnx":
            if not path.is_file():
                raise SystemExit(f"error: there is no file {argument}")
            yield path
        else:
            yield from _networks(argument, folder)


def _networks(pattern: str, folder: Path) -> Iterator[Path]:
    chosen = [network for name, network in NETWORKS.items() if fnmatch(name, pattern)]
    if not chosen:
        raise SystemExit(f"error: neither a file, nor a folder, nor a network of tests/zoo: {pattern}")
    for network in chosen:
        try:
            yield network.save(folder)
        except ImportError as error:
            print(f"{network.name}: left out, {error}", file=sys.stderr)


def feeds_for(path: Path) -> Arrays:
    """Inputs for the model in a file: what the network of that name takes, if there is one in tests/zoo and it has
    these inputs; else random numbers."""
    graph = onnx.load(path, load_external_data=False).graph
    network = NETWORKS.get(path.stem)
    weights = {tensor.name for tensor in graph.initializer}
    wanted = {value.name: value for value in graph.input if value.name not in weights}
    if network is not None and wanted.keys() == network.takes.keys():
        feeds = network.inputs()
        if all(_fits(feeds[name].shape, value) for name, value in wanted.items()):
            return feeds
    return random_feeds(graph)


def _fits(shape: tuple[int, ...], value: Any) -> bool:
    """Whether an input of a graph takes arrays of this shape, as far as its type says."""
    dims = value.type.tensor_type.shape.dim
    return len(dims) == len(shape) and all(
        not dim.HasField("dim_value") or dim.dim_value == extent
        for dim, extent in zip(dims, shape, strict=True)
    )


def machine() -> dict[str, str]:
    """What numbers depend on beside the code: the CPU, how many of them this process may use, and Python."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": _cpu(), "cpus": str(cpus), "python": platform.python_version()}


def _cpu() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
