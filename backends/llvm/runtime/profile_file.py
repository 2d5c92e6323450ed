"""The measured profile of this machine, from one process to the next, and when it is measured.

It is kept beside compiled code (`code_cache`: checksummed, written whole, read only where nobody else may write), in a
file that is named by a hash of the processor, its caches and the version of the profile. So a home directory on several
machines keeps several, and a file of another machine is not found. One that is damaged, renamed or says what no profile
can say is left alone with a warning, and the built-in profile holds.

    LAYOUT_IR_CALIBRATE=off     nothing is read or measured: plans follow from the sizes of the caches alone
    LAYOUT_IR_CALIBRATE=on      what is kept is used; where nothing is, the first reorder of more than L2 measures
    LAYOUT_IR_CALIBRATE=force   the first reorder of more than L2 measures, whatever is kept

A measurement during which others had the CPU says what they left: it is not kept, and that process plans by what is
built in; the next one measures again, a third one keeps what it finds whatever else goes on.

Without the variable it is `off` where CI=true, as in continuous integration, so that plans are the same everywhere, and
`on` elsewhere. Where nothing can be kept (LAYOUT_IR_CACHE=off, or a folder that others may write to, or this process
may not) only `force` measures.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from dataclasses import fields
from pathlib import Path
from threading import RLock
from time import perf_counter, thread_time

from layout_ir.backends.llvm.machine.machine import (
    Machine,
    detected,
    host,
    processor_name,
    register_profile_source,
)
from layout_ir.backends.llvm.machine.profile import MachineProfile
from layout_ir.backends.llvm.runtime import code_cache
from layout_ir.errors import LayoutError
from layout_ir.forking import fork_safe

VARIABLE = "LAYOUT_IR_CALIBRATE"
_MODES = "off", "on", "force"

_DISTURBED = 0.1
"""The part of a measurement, and of a second, for which others may have the CPU. Measured on Zen 4 beside three
processes on two CPUs: a line through the caches in memory 10 ns instead of 4.2, and sequences that the processor
follows 1, not 16."""

_ATTEMPTS = 3
"""Processes that measure until one of them keeps what it found whatever else went on."""

_lock = RLock()
fork_safe(_lock)
_state: dict[str, MachineProfile | None] = {}
"""Under "measured" what this process measured, or None where it decided not to: asked once."""


def calibration_mode() -> str:
    """`off`, `on` or `force`, as the environment says, in letters of either case. Raises LayoutError where it says
    something else."""
    chosen = os.environ.get(VARIABLE, "").strip().lower()
    if not chosen:
        return "off" if os.environ.get("CI", "").lower() in ("true", "1") else "on"
    if chosen not in _MODES:
        raise LayoutError(f"{VARIABLE} is '{os.environ[VARIABLE]}': one of {', '.join(_MODES)} is needed")
    return chosen


def _mode() -> str:
    """`calibration_mode`; where the environment says what is no mode, `off`, with a warning: whoever compiles a reorder
    has not asked for this machine to be measured."""
    try:
        return calibration_mode()
    except LayoutError as error:
        warnings.warn(f"{error}; nothing is measured, as with off", RuntimeWarning, stacklevel=2)
        return "off"


def profile_name(machine: Machine) -> str:
    """The name of the file for `machine`, one that describes itself as this one does."""
    names = ",".join(field.name for field in fields(MachineProfile))
    topology = [_first_line(path) for path in sorted(_CPU.glob("cache/index*/shared_cpu_list"))]
    facts = (
        machine.cpu,
        machine.features,
        machine.l1,
        machine.l2,
        machine.l3,
        machine.l1_ways,
        machine.l2_ways,
    )
    return code_cache.name("profile", processor_name(), os.cpu_count(), topology, names, *facts)


_CPU = Path("/sys/devices/system/cpu/cpu0")


def _first_line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def kept_profile(machine: Machine) -> MachineProfile | None:
    """What is kept for `machine`, None where nothing is; with a warning where what is there cannot be used."""
    name = profile_name(machine)
    content = code_cache.read(name)
    if content is None:
        if code_cache.is_there(name):
            _warn(name, "it is damaged, or not ours alone to write")
        return None
    try:
        return MachineProfile.from_json(json.loads(content))
    except (LayoutError, ValueError, RecursionError, TypeError) as error:
        _warn(name, str(error))
        return None


def keep_profile(profile: MachineProfile) -> None:
    """Keeps `profile` for this machine, where possible, and has this process plan by it."""
    code_cache.write(profile_name(detected()), json.dumps(profile.to_json()).encode())
    with _lock:
        _state["measured"] = profile
    host.cache_clear()


def measured_once(volume: int) -> None:
    """Measures this machine if that is due: before the first reorder of more `volume`, in bytes, than L2 holds."""
    if "measured" in _state or volume <= host().l2:
        return
    with _lock:
        if "measured" in _state:
            return
        mode, profile = _mode(), None
        is_due = mode == "force" or (mode == "on" and host().measured is None)
        folder = code_cache.folder() if is_due and code_cache.keeps() else None
        if mode == "force" or folder is not None:
            _state["measured"] = None  # what measures compiles reorders, too
            profile = _measured(folder, insists=mode == "force")
        _state["measured"] = profile
        if profile is not None:
            keep_profile(profile)


def _measured(folder: Path | None, *, insists: bool) -> MachineProfile | None:
    """What this process finds; None where others had the CPU meanwhile and it neither `insists` nor is the last."""
    from layout_ir.backends.llvm.runtime.machine_profiling import SECONDS, measure_profile

    where = f"kept in {folder}" if folder is not None else "for this process"
    print(
        f"layout-ir: measuring this machine once, about {SECONDS:.0f} s ({where}; {VARIABLE}=off leaves it out)",
        file=sys.stderr,
    )
    start, worked = perf_counter(), thread_time()
    profile = measure_profile()
    took = perf_counter() - start
    lost = took - (thread_time() - worked)
    name = code_cache.name("attempts", profile_name(detected()))
    before = len(code_cache.read(name) or b"")
    if insists or lost <= _DISTURBED * max(took, 1.0) or before + 1 >= _ATTEMPTS:
        return profile
    code_cache.write(name, b"." * (before + 1))  # whatever is there counts as a number
    print(
        f"layout-ir: others had the CPU for {lost / took:.0%} of the time: plans follow from what is built in, the "
        f"next process measures again",
        file=sys.stderr,
    )
    return None


def _source(machine: Machine) -> MachineProfile | None:
    mode = _mode()
    if mode == "off":
        return None
    return _state.get("measured") or (kept_profile(machine) if mode == "on" else None)


def _warn(name: str, reason: str) -> None:
    warnings.warn(
        f"the measured profile {name} is not used: {reason}; 'layout-ir calibrate --profile' measures anew",
        RuntimeWarning,
        stacklevel=2,
    )


register_profile_source(_source)
