"""A process that runs inputs and says how each went. What it dies of, the driver sees.

It reads tasks, one JSON object a line: `{"kind", "seed", "first", "count", "seconds"}` or `{"kind", "file"}`, and says
`{"start": number}` before and `{"done": number, "seconds", "failure"}` after each input, `{"end": true}` after a task.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import json
import logging
import os
import resource
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from tests.fuzz.kinds import Failure, failure_of, kind


def _status(name: str) -> int:
    """Bytes of an entry of this process' status; 0 where the system has none."""
    try:
        with open("/proc/self/status", encoding="ascii") as lines:
            return next((int(line.split()[1]) << 10 for line in lines if line.startswith(name)), 0)
    except OSError:
        return 0


def _forget_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _die_with_the_driver() -> None:
    """Asks for an end where the driver is ended: an input that hangs would go on for ever."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def attempt(name: str, data: bytes) -> Failure | None:
    """Runs an input of a kind; what is wrong with it, memory included."""
    inputs = kind(name)
    before = _status("VmRSS")
    _forget_peak()
    if size := _status("VmSize"):
        # What it asks for far beyond its memory is refused, before the machine suffers.
        resource.setrlimit(resource.RLIMIT_AS, (size + inputs.memory * 3 // 2, resource.RLIM_INFINITY))
    try:
        failure = failure_of(inputs.run, data)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if failure is None and (used := _status("VmHWM") - before) > inputs.memory:
        return Failure("memory", f"{used >> 20} MiB", "memory")
    return failure


def main() -> None:
    # What the inputs print goes nowhere; the driver listens to a descriptor of its own.
    speak = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    faulthandler.enable()
    _die_with_the_driver()
    warnings.simplefilter("ignore")
    logging.disable()

    def say(**message: Any) -> None:
        speak.write(json.dumps(message) + "\n")

    with tempfile.TemporaryDirectory(prefix="layout-ir-fuzz-") as folder:
        os.chdir(folder)
        for line in sys.stdin:
            task = json.loads(line)
            name = task["kind"]
            if "file" in task:
                say(start=0)
                begin = time.perf_counter()
                failure = attempt(name, Path(task["file"]).read_bytes())
                say(done=0, seconds=time.perf_counter() - begin, failure=failure and failure.to_json())
            else:
                until = time.monotonic() + task["seconds"]
                for number in range(task["first"], task["first"] + task["count"]):
                    if time.monotonic() > until:
                        break
                    say(start=number)
                    begin = time.perf_counter()
                    failure = attempt(name, kind(name).make(task["seed"], number))
                    say(
                        done=number,
                        seconds=time.perf_counter() - begin,
                        failure=failure and failure.to_json(),
                    )
            gc.collect()
            say(end=True)


if __name__ == "__main__":
    main()
