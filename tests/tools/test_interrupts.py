"""Who handles Ctrl-C while modules are imported, and that it is as before behind it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from layout_ir.tools.interrupts import SilentInterrupts
from tests.processes import ROOT, environment


def test_the_handler_is_another_in_the_body_alone():
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        pytest.skip("interrupts are handled by another")
    with SilentInterrupts(True):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_negative_a_tool_that_was_called_as_a_function_changes_nothing():
    before = signal.getsignal(signal.SIGINT)
    with SilentInterrupts(False):
        assert signal.getsignal(signal.SIGINT) is before


def test_negative_interrupts_that_are_ignored_stay_so():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with SilentInterrupts(True):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_negative_another_thread_is_not_disturbed():
    before = signal.getsignal(signal.SIGINT)
    errors: list[BaseException] = []

    def body() -> None:
        try:
            with SilentInterrupts(True):
                assert signal.getsignal(signal.SIGINT) is before
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert not errors and signal.getsignal(signal.SIGINT) is before


@pytest.mark.skipif(os.name != "posix", reason="signals are others elsewhere")
def test_an_interrupt_ends_the_process_with_130_and_without_a_word():
    program = """
import os, signal
from layout_ir.tools.interrupts import SilentInterrupts
with SilentInterrupts(True):
    os.kill(os.getpid(), signal.SIGINT)
    print("still here")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT, env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell ignores it in the background
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
