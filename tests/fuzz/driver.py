"""Shares inputs among worker processes, and sees what a process cannot see of itself: that it died or hangs.

A worker that dies is started anew; the input that it had begun is the culprit. Failures that look alike are kept
once, made smaller, and written to a folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.kinds import ROOT, Failure, kind

HANG_SECONDS = 30.0
"""Seconds of a processor that an input may take."""

_STUCK = 4
"""How many times as long an input may take on a machine that gives it no processor; or asleep, in a deadlock."""

_TASK_SECONDS = 10.0
_INPUTS_PER_WORKER = 3000
"""A worker is replaced after that many, so that what the caches of the process keep stays small."""


@dataclass
class Found:
    """A failure, and how often one like it came."""

    kind: str
    number: int
    """Of the input; -1 for a file."""
    data: bytes
    failure: Failure
    times: int = 1
    alone: bool = True
    """Whether the input fails in a process of its own as well."""

    def title(self) -> str:
        return f"{self.kind} {self.failure.what} ({self.times} times): {self.failure.key}"


@dataclass
class Result:
    """What a run did."""

    inputs: dict[str, int] = field(default_factory=dict[str, int])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds in the inputs of each kind, of all workers together."""
    found: dict[tuple[str, str, str], Found] = field(default_factory=dict[tuple[str, str, str], Found])

    def add(self, found: Found) -> None:
        """Keeps a failure; of those that look alike, the one with the smallest input."""
        key = found.kind, found.failure.what, found.failure.key
        known = self.found.get(key)
        if known is None:
            self.found[key] = found
            return
        known.times += 1
        if len(found.data) < len(known.data):
            known.data, known.failure, known.number = found.data, found.failure, found.number


class Worker:
    """A worker process and what it is doing."""

    def __init__(self, hang_seconds: float = HANG_SECONDS) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the worker
        self.home = tempfile.TemporaryDirectory(prefix="layout-ir-fuzz-home-", ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            cwd=ROOT,
            env={**os.environ, **self._environment()},
            start_new_session=True,
        )
        self.hang_seconds = hang_seconds
        self.inputs = 0
        self.task: dict[str, Any] | None = None
        self.number: int | None = None
        """Of the input that it is at."""
        self._begin = self._used = 0.0
        self._rest = b""

    def _environment(self) -> dict[str, str]:
        # No input may write where the user keeps anything, or find what another input left behind.
        home = self.home.name
        caches = {"HOME": home, "XDG_CACHE_HOME": home, "TMPDIR": home, "LAYOUT_IR_CACHE": "off"}
        return {
            **caches,
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "LAYOUT_IR_TRACEBACK": "",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def give(self, task: dict[str, Any]) -> None:
        """Gives it the next task."""
        assert self.process.stdin is not None
        self.task, self.number = task, None
        self._begin, self._used = time.monotonic(), self._cpu_seconds()
        try:
            self.process.stdin.write(json.dumps(task).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it died between tasks; reading finds that out

    def messages(self) -> list[dict[str, Any]] | None:
        """What it said since; None where it is at its end."""
        assert self.process.stdout is not None
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = [json.loads(line) for line in lines]
        for message in found:
            if "start" in message:
                self.number = message["start"]
                self._begin, self._used = time.monotonic(), self._cpu_seconds()
            elif "done" in message:
                self.number, self.inputs = None, self.inputs + 1
            else:
                self.task = None
        return found

    def _cpu_seconds(self) -> float:
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii")
        except OSError:
            return 0.0
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def hangs(self) -> bool:
        """Whether the input that it is at takes too long."""
        if self.task is None:
            return False
        waited = time.monotonic() - self._begin
        if waited < self.hang_seconds:
            return False
        return waited > _STUCK * self.hang_seconds or self._cpu_seconds() - self._used > self.hang_seconds

    def end(self, *, hung: bool = False) -> Failure:
        """Ends the process; what it died of, with the stack of Python where it can tell."""
        if hung:
            self._signal(signal.SIGABRT)
        elif self.process.poll() is None:
            try:
                self.process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
        try:
            status = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            status = self.process.wait()
        self._signal(signal.SIGKILL)  # and what it started
        self.errors.seek(0)
        said = self.errors.read().decode("utf-8", "replace")[-6000:]
        self._close()
        frames = [line for line in said.splitlines() if "/layout_ir/" in line]
        place = frames[0].strip().rpartition("/layout_ir/")[2].replace('"', "") if frames else ""
        if hung:
            return Failure("hang", f"more than {self.hang_seconds:g} s\n{said[:3000]}", f"hang {place}")
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return Failure("crash", f"{name}\n{said[:3000]}", f"{name} {place}")

    def close(self) -> None:
        """Ends a process that is not to blame."""
        self._signal(signal.SIGKILL)
        self.process.wait()
        self._close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # It leads a group of its own, what it started included.
            os.killpg(self.process.pid, number)

    def _close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self.home.cleanup()


class Run:
    """Inputs of some kinds until the time is over, or each kind has had its count."""

    def __init__(
        self, names: Sequence[str], seed: int, *,
        seconds: float | None, cases: int | None, first: int = 0, jobs: int = 1, progress: bool = False,
        hang_seconds: float = HANG_SECONDS,
    ) -> None:  # fmt: skip
        self.seed, self.jobs, self.progress, self.hang_seconds = seed, jobs, progress, hang_seconds
        self.until = time.monotonic() + (seconds if seconds is not None else 1e9)
        self.kinds = {name: kind(name) for name in names}
        self.next = {name: first // self.kinds[name].size for name in names}
        self.stop = {
            name: 1 << 62 if cases is None else self.next[name] - (-cases // self.kinds[name].size)
            for name in names
        }
        self.result = Result(dict.fromkeys(names, 0), dict.fromkeys(names, 0.0))
        self._left: list[dict[str, Any]] = []
        """What workers that died had not begun."""

    def _task(self) -> dict[str, Any] | None:
        """The next task: of the kind that had the least time so far."""
        left = self.until - time.monotonic()
        if left > 0 and self._left:
            return self._left.pop()
        open_kinds = [name for name in self.kinds if self.next[name] < self.stop[name]]
        if left <= 0 or not open_kinds:
            return None
        name = min(open_kinds, key=lambda name: self.result.seconds[name])
        first = self.next[name]
        count = min(self.kinds[name].chunk, self.stop[name] - first)
        self.next[name] += count
        seconds = min(left, _TASK_SECONDS) if self.until < 1e9 else 1e9
        return {"kind": name, "seed": self.seed, "first": first, "count": count, "seconds": seconds}

    def _heard(self, worker: Worker, message: dict[str, Any], task: dict[str, Any]) -> None:
        if "done" not in message:
            return
        name = task["kind"]
        self.result.inputs[name] += 1
        self.result.seconds[name] += message["seconds"]
        if message["failure"] is not None:
            self._failed(name, message["done"], Failure(**message["failure"]))

    def _failed(self, name: str, number: int, failure: Failure) -> None:
        self.result.add(Found(name, number, self.kinds[name].make(self.seed, number), failure))

    def run(self) -> Result:
        """Runs the inputs."""
        workers: list[Worker] = []
        selector = selectors.DefaultSelector()

        def begin() -> None:
            task = self._task()
            if task is None:
                return
            worker = Worker(self.hang_seconds)
            workers.append(worker)
            assert worker.process.stdout is not None
            selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            worker.give(task)

        def drop(worker: Worker) -> None:
            workers.remove(worker)
            selector.unregister(worker.process.stdout)  # pyright: ignore[reportArgumentType]

        try:
            for _ in range(self.jobs):
                begin()
            while workers:
                for key, _ in selector.select(timeout=0.5):
                    worker: Worker = key.data
                    task = worker.task
                    messages = worker.messages()
                    if messages is None:
                        drop(worker)
                        self._died(worker, worker.end())
                        begin()
                        continue
                    for message in messages:
                        assert task is not None
                        self._heard(worker, message, task)
                    if worker.task is None:
                        following = self._task() if worker.inputs < _INPUTS_PER_WORKER else None
                        if following is not None:
                            worker.give(following)
                        else:
                            drop(worker)
                            worker.close()
                            begin()
                for worker in [w for w in workers if w.hangs()]:
                    drop(worker)
                    self._died(worker, worker.end(hung=True))
                    begin()
                self._show()
        finally:
            for worker in workers:
                worker.close()
        return self.result

    def _died(self, worker: Worker, failure: Failure) -> None:
        task = worker.task
        if task is None:
            return
        if worker.number is None:
            # Between inputs: while one was made, or at exit.
            self.result.add(Found(task["kind"], -1, json.dumps(task).encode(), failure))
            return
        self.result.inputs[task["kind"]] += 1
        self._failed(task["kind"], worker.number, failure)
        following = worker.number + 1
        if (left := task["first"] + task["count"] - following) > 0:
            self._left.append({**task, "first": following, "count": left})

    def _show(self) -> None:
        if self.progress:
            counts = ", ".join(f"{name} {count}" for name, count in self.result.inputs.items())
            print(f"\r\x1b[K{counts}: {len(self.result.found)} failures ", end="", file=sys.stderr)


def attempt(
    name: str, data: bytes, folder: Path, worker: Worker | None = None
) -> tuple[Failure | None, Worker | None]:
    """Runs one input in a worker (a new one where none is given); the failure, and the worker if it lives."""
    path = folder / "input"
    path.write_bytes(data)
    worker = worker or Worker()
    worker.give({"kind": name, "file": str(path)})
    failure: Failure | None = None
    selector = selectors.DefaultSelector()
    assert worker.process.stdout is not None
    selector.register(worker.process.stdout, selectors.EVENT_READ)
    while worker.task is not None:
        if selector.select(timeout=0.5):
            messages = worker.messages()
            if messages is None:
                return worker.end(), None
            for message in messages:
                if message.get("failure") is not None:
                    failure = Failure(**message["failure"])
        elif worker.hangs():
            return worker.end(hung=True), None
    return failure, worker


def reduce(found: Found, seconds: float) -> None:
    """Makes the input of a failure smaller as long as it fails alike."""
    until = time.monotonic() + seconds
    worker: Worker | None = None

    def fails(data: bytes) -> bool:
        nonlocal worker
        failure, worker = attempt(found.kind, data, folder, worker)
        if failure is not None and (failure.what, failure.key) == (found.failure.what, found.failure.key):
            found.data, found.failure = data, failure
            return True
        return False

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            found.alone = fails(found.data)
            while found.alone and time.monotonic() < until:
                for data in kind(found.kind).smaller(found.data):
                    if time.monotonic() > until or (len(data) < len(found.data) and fails(data)):
                        break
                else:
                    break
        finally:
            if worker is not None:
                worker.close()


def save(found: Found, folder: Path) -> Path:
    """Writes the input of a failure, and what is said of it beside it."""
    stem = "".join(c if c.isalnum() else "-" for c in found.failure.key)[:60].strip("-")
    place = folder / found.kind
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{found.failure.what}-{stem}{kind(found.kind).suffix}"
    path.write_bytes(found.data)
    path.with_suffix(".log").write_text(f"{found.title()}\n\n{found.failure.message}\n", encoding="utf-8")
    return path
