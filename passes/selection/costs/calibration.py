"""What reorders cost on this machine: a curve of time against bytes, measured once and kept in the user's cache.

A reorder in L1 moves several times the bytes per nanosecond of one that goes to memory, and a call costs the same
for eight bytes as for eight hundred. The curve is a list of points (bytes read and written, nanoseconds), between
which time grows linearly; below the first point the time of that point counts, above the last its bandwidth. What is
measured is nothing of this module: `layout-ir calibrate` runs compiled reorders and copies and writes the file.

    $XDG_CACHE_HOME/layout-ir/calibration-<machine>.json        (~/.cache where the variable is not set)

One file per kind of processor, so that a home directory on several machines keeps them apart. A file that is missing,
damaged, of another version or of another machine is as good as none: a warning says so and the built-in costs hold.
"""

from __future__ import annotations

import json
import os
import platform
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from typing_extensions import TypeIs

from layout_ir.algebra.layout import Layout
from layout_ir.diagnostics import Diagnostic, Location, Severity, emit
from layout_ir.dialects.layout.ops import cast_obstacle
from layout_ir.errors import LayoutError
from layout_ir.files import read_bounded
from layout_ir.passes.selection.costs.cost_model import CostModel, reorder_bytes

_MOST_BYTES = 1 << 20
"""Bytes of the file at most: what is written takes a few thousand."""

VERSION = 1
"""Version of the file, which changes with the meaning of its numbers."""

Point = tuple[int, int]
"""Bytes read and written together, and nanoseconds."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Time against bytes. Raises LayoutError where the points are no curve: bytes rise, times do not fall."""

    points: tuple[Point, ...]

    def __post_init__(self) -> None:
        if len(self.points) < 2:
            raise LayoutError(f"a curve needs two points, not {len(self.points)}")
        if self.points[0][0] <= 0 or self.points[0][1] <= 0:
            raise LayoutError(f"a curve starts above zero, not at {self.points[0]}")
        for (size, time), (larger, longer) in pairwise(self.points):
            if larger <= size or longer < time:
                raise LayoutError(
                    f"{(larger, longer)} does not follow {(size, time)}: bytes rise, times do not fall"
                )

    @staticmethod
    def through(measured: Sequence[Point]) -> Curve:
        """The least curve that lies nowhere below what was measured: noise must not make more bytes cheaper."""
        points: list[Point] = []
        highest = 1
        for size, time in sorted(measured):
            highest = max(highest, time)
            points.append((size, highest))
        return Curve(tuple(points))

    def ns(self, nbytes: int) -> int:
        """The time of `nbytes` in whole nanoseconds, rounded down."""
        sizes = [size for size, _ in self.points]
        k = bisect_left(sizes, nbytes)
        if k == 0:
            return self.points[0][1]
        if k == len(sizes):
            size, time = self.points[-1]
            return time * nbytes // size
        (low, before), (high, after) = self.points[k - 1], self.points[k]
        return before + (after - before) * (nbytes - low) // (high - low)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The measurements of one machine. `call_ns` is a reorder of next to nothing."""

    machine: str
    call_ns: int
    reorder: Curve
    copy: Curve

    def to_json(self) -> dict[str, Any]:
        """The content of the file: curves as lists of [bytes, nanoseconds]."""
        return {
            "version": VERSION,
            "machine": self.machine,
            "call_ns": self.call_ns,
            "reorder": [list(point) for point in self.reorder.points],
            "copy": [list(point) for point in self.copy.points],
        }

    @staticmethod
    def from_json(data: Any) -> Calibration:
        """Raises LayoutError, saying what is wrong."""
        if not isinstance(data, dict):
            raise LayoutError(f"expected an object, found {type(data).__name__}")
        entries = cast("dict[str, Any]", data)
        if entries.get("version") != VERSION:
            raise LayoutError(f"version {entries.get('version')!r} is not {VERSION}")
        machine, call = entries.get("machine"), entries.get("call_ns")
        if not isinstance(machine, str):
            raise LayoutError(f"machine = {machine!r} is no name")
        if not _is_count(call):
            raise LayoutError(f"call_ns = {call!r} is no whole number from 0 on")
        return Calibration(machine, call, _curve(entries, "reorder"), _curve(entries, "copy"))


def _is_count(value: Any) -> TypeIs[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 48


def _curve(entries: dict[str, Any], key: str) -> Curve:
    points = entries.get(key)
    if not isinstance(points, list):
        raise LayoutError(f"{key} = {points!r} is no list of points")
    found: list[Point] = []
    for k, point in enumerate(cast("list[Any]", points)):
        pair = cast("list[Any]", point) if isinstance(point, list) else []
        if len(pair) != 2 or not all(_is_count(number) for number in pair):
            raise LayoutError(f"{key}[{k}] = {point!r} is no pair of bytes and nanoseconds")
        found.append((pair[0], pair[1]))
    try:
        return Curve(tuple(found))
    except LayoutError as error:
        raise LayoutError(f"{key}: {error}") from error


# The file ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def machine_name() -> str:
    """This kind of processor: its name, and a digest that tells apart what the name does not (caches, cores)."""
    name = platform.machine()
    facts = [name]
    try:
        with open("/proc/cpuinfo") as info:
            lines = info.read().split("\n\n")[0].split("\n")
        known = dict(line.split(":", 1) for line in lines if ":" in line)
        known = {key.strip(): value.strip() for key, value in known.items()}
        facts += [known.get(key, "") for key in ("model name", "cpu family", "model", "flags", "cache size")]
        name = known.get("model name", name)
    except OSError:
        pass
    facts.append(str(os.cpu_count()))
    words = "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())
    return f"{words[:40]}-{sha256('|'.join(facts).encode()).hexdigest()[:8]}"


def calibration_path() -> Path:
    """Where the measurements of this machine are kept."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # The variable counts only where it is absolute.
    folder = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"
    return folder / "layout-ir" / f"calibration-{machine_name()}.json"


def load_calibration() -> Calibration | None:
    """The measurements of this machine; None, with a warning that says why, where there are none to be used."""
    path = calibration_path()
    try:
        found = Calibration.from_json(json.loads(read_bounded(str(path), _MOST_BYTES).decode("utf-8")))
        if found.machine != machine_name():
            raise LayoutError(f"measured on {found.machine}, this is {machine_name()}")
        return found
    except FileNotFoundError:
        _warn(path, "this machine has not been measured")
    except OSError as error:
        _warn(path, f"cannot be read: {error.strerror or error}")
    except (LayoutError, ValueError, RecursionError) as error:  # whatever is no JSON is a ValueError
        _warn(path, f"not a calibration: {error}")
    return None


def _warn(path: Path, reason: str) -> None:
    message = f"{reason}; the built-in costs are used, 'layout-ir calibrate' measures"
    emit(Diagnostic(Severity.WARNING, message, Location(str(path))))


# Costs ---------------------------------------------------------------------------------------------------------------


class CalibratedCosts(CostModel):
    """Reorders by a measured curve; ops as built in."""

    def __init__(self, calibration: Calibration):
        self.calibration = calibration

    def reorder(self, source: Layout, destination: Layout, dtype: str) -> int:
        """Measured time of a reorder, in nanoseconds; 0 where a cast does it."""
        if cast_obstacle(source, destination) is None:
            return 0
        return self.calibration.reorder.ns(reorder_bytes(source, destination, dtype))


def calibrated_costs() -> CostModel:
    """The measured costs of this machine, or the built-in ones with a warning."""
    calibration = load_calibration()
    return CostModel() if calibration is None else CalibratedCosts(calibration)
