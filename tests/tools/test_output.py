"""Standard output whose reader has gone."""

from __future__ import annotations

import io
import os
import sys

import pytest

from layout_ir.files import write_result
from layout_ir.tools.output import quiet_broken_pipe


def test_a_broken_pipe_is_silent(monkeypatch: pytest.MonkeyPatch):
    reading, writing = os.pipe()
    os.close(reading)
    with io.TextIOWrapper(os.fdopen(writing, "wb")) as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        with quiet_broken_pipe():
            write_result("text" * 100_000, None)
        monkeypatch.undo()
