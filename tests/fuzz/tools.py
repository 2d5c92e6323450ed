"""Calling a tool as a function, and what must hold of every call."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

from tests.fuzz.kinds import Unforeseen, Wrong, said_unforeseen

STATUSES = (0, 1, 2, 130)
"""Done, wrong input, wrong options, interrupted."""


@dataclass(frozen=True)
class Called:
    """What a call left behind."""

    status: int
    out: str
    err: str


def main_of(tool: str) -> Callable[[Sequence[str]], int]:
    """The entry point of a tool."""
    if tool == "layout-opt":
        from layout_ir.tools.layout_opt import main
    else:
        from layout_ir.tools.layout_ir import main
    return main


def call(tool: str, args: Sequence[str], stdin: str | bytes = b"") -> Called:
    """Calls a tool. Raises Wrong where it ends with another status, or says that it met what it did not foresee."""
    data = stdin.encode("utf-8", "surrogatepass") if isinstance(stdin, str) else stdin
    given = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
    out, err = io.StringIO(), io.StringIO()
    with patch.object(sys, "stdin", given), redirect_stdout(out), redirect_stderr(err):
        try:
            status = main_of(tool)(args)
        except SystemExit as exit:  # argparse
            status = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    called = Called(status, out.getvalue(), err.getvalue())
    check(f"{tool} {list(args)}", called)
    return called


def check(what: str, called: Called) -> None:
    """Raises Wrong where a call ended as no call may."""
    if called.status not in STATUSES:
        raise Wrong(f"{what}: exit status {called.status}\n{called.err[-1500:]}")
    if said_unforeseen(called.err):
        raise Unforeseen(f"{what}: {called.err[-1500:]}")
    if re.search(r"\.\d+\.part\b", called.err):
        raise Wrong(f"{what}: names a temporary file: {called.err[-1500:]}", "a temporary file in a message")
    if called.status and not (called.err + called.out).strip():
        raise Wrong(f"{what}: exit status {called.status} without a word")
