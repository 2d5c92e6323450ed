"""Calling `layout-opt` as a function."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import dataclass

import pytest

from layout_ir.tools.layout_opt import main

PLACED = re.compile(r"^[^\n]+:\d+:\d+: error: [^\n]+$", re.MULTILINE)
"""A diagnostic with a place."""


@dataclass(frozen=True)
class Run:
    """What a run left behind."""

    status: int
    out: str
    err: str


def run_opt(monkeypatch: pytest.MonkeyPatch, *args: str, stdin: str | bytes = "") -> Run:
    """Run the tool on `args`, with `stdin` as its standard input."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    out, err = io.StringIO(), io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        try:
            status = main(args)
        except SystemExit as exit:  # argparse, after --help and --version
            status = exit.code if isinstance(exit.code, int) else 0
    return Run(status, out.getvalue(), err.getvalue())
