"""A benchmark once per number of threads, each in a process of its own: some libraries size their pools once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from layout_ir.backends.llvm.runtime.thread_pool import cpus
from layout_ir.errors import LayoutError


def thread_counts(text: str) -> list[int]:
    """Numbers of threads, of text like 1,2. Raises LayoutError for what this process cannot have."""
    parts = text.split(",")
    if not all(part.isdecimal() and 1 <= int(part) <= cpus() for part in parts):
        raise LayoutError(f"--threads is '{text}': this process may use 1 to {cpus()}, as 1,2")
    return [int(part) for part in parts]


def run_for_each(script: str, arguments: Sequence[str], threads: Sequence[int]) -> int:
    """Runs `script` once per number of threads and returns the highest exit status.

    With --json among the arguments the lists that it prints are printed as one; a run that prints none ends it.
    """
    status, lists = 0, list[Any]()
    for number in threads:
        command = [sys.executable, script, *arguments, "--threads", str(number)]
        if "--json" in arguments:
            run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            if not run.stdout:  # it said why
                return run.returncode
            lists += json.loads(run.stdout)
        else:
            run = subprocess.run(command, check=False)
        status = max(status, run.returncode)
    if "--json" in arguments:
        print(json.dumps(lists, indent=1))
    return status
