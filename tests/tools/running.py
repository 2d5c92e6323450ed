"""Calling `layout-opt` as a function."""

from __future__ import annotations

import io
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

from layout_ir.tools.layout_opt import main

PLACED = re.compile(r"^[^\n]+:\d+:\d+: error: [^\n]+$", re.MULTILINE)
"""A diagnostic with a place."""

PROGRAM = """\
#nchw = #layout.format<(n, c, h, w) : [n, c, h, w]>
#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
builtin.module {
  func.func @f(%x: tensor<2x17x5x4xf32, #nchw>, %a: f32) -> tensor<2x17x5x4xf32, #nChw8c> {
    %b = arith.addf %a, %a : f32
    %c = arith.addf %a, %a : f32
    %y = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nChw8c>
    %k = nn.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>
    "test.op"(%b, %c, %k) : (f32, f32, tensor<3xf32>) -> ()
    func.return %y : tensor<2x17x5x4xf32, #nChw8c>
  }
}
"""
"""As the tool prints it."""


@dataclass(frozen=True)
class Run:
    """What a run left behind."""

    status: int
    out: str
    err: str


def opt(*args: str, stdin: str | bytes = "") -> Run:
    """Runs the tool on `args`, with `stdin` as its standard input."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    given = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
    out, err = io.StringIO(), io.StringIO()
    with patch.object(sys, "stdin", given), redirect_stdout(out), redirect_stderr(err):
        try:
            status = main(args)
        except SystemExit as exit:  # argparse, after --help and --version
            status = exit.code if isinstance(exit.code, int) else 0
    return Run(status, out.getvalue(), err.getvalue())


def refusal(*args: str, stdin: str | bytes = "") -> str:
    """What a run says that must fail: with exit status 1, without a result and without a traceback."""
    run = opt(*args, stdin=stdin)
    assert (run.status, run.out) == (1, "")
    assert "Traceback" not in run.err
    return run.err
