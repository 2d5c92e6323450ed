"""The line that says what a command is at: on a terminal only, and not of what is quick."""

from __future__ import annotations

import io
import sys
import time

import pytest

from layout_ir.tools import progress_line
from layout_ir.tools.progress_line import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, enough: str, first: float) -> str:
    """What the line writes to `stream` until `enough` is there, or for a tenth of a second where nothing is to come."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress_line, "FIRST_SECONDS", first)
    with ProgressLine("counting") as line:
        line.count(3, 7)
        end = time.monotonic() + (30 if enough else 0.1)
        while enough not in stream.getvalue() or (not enough and time.monotonic() < end):
            assert time.monotonic() < end
            time.sleep(0.01)
    return stream.getvalue()


def test_a_terminal_shows_what_is_done_and_is_clean_afterwards(monkeypatch: pytest.MonkeyPatch):
    text = _shown(monkeypatch, Terminal(), "counting 3/7", 0.01)
    assert text.endswith("\r\033[K")


def test_shares_of_what_is_large(monkeypatch: pytest.MonkeyPatch):
    line = ProgressLine("reading")
    line.percent(3, 8)
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress_line, "FIRST_SECONDS", 0.01)
    with line:
        end = time.monotonic() + 30
        while "reading 37 %" not in stream.getvalue():
            assert time.monotonic() < end
            time.sleep(0.01)


def test_negative_what_is_quick_says_nothing(monkeypatch: pytest.MonkeyPatch):
    assert _shown(monkeypatch, Terminal(), "", 60.0) == ""


def test_negative_a_file_gets_no_line(monkeypatch: pytest.MonkeyPatch):
    assert _shown(monkeypatch, io.StringIO(), "", 0.01) == ""


def test_negative_an_error_leaves_no_line(monkeypatch: pytest.MonkeyPatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with pytest.raises(ValueError, match="broken"), ProgressLine("quick"):
        raise ValueError("broken")
    assert stream.getvalue() == ""
