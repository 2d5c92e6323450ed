"""Standard streams that are closed or whose reader has gone, Ctrl-C at the start, and messages for terminals."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from layout_ir.files import write_result
from layout_ir.tools.process import exit_status, standard_streams

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="streams and signals are others elsewhere")

PROGRAM = "func.func @f(%x: tensor<2x8x3x3xf32>) {\n  func.return\n}\n"


def _run(
    tmp_path: Path, redirection: str, tool: str, *args: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    (tmp_path / "p.mlir").write_text(PROGRAM)
    command = f"exec '{sys.executable}' -m layout_ir.tools.{tool} \"$@\" {redirection}"
    return subprocess.run(
        ["sh", "-c", command, "sh", *args],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("layout_opt", ["p.mlir"]),
        ("layout_opt", ["p.mlir", "-t", "mlir"]),
        ("layout_ir", ["explain", "nChw8c", "--shape", "2x17x5x4"]),
        ("layout_ir", ["optimize", "p.mlir"]),
        ("layout_ir", ["optimize", "p.mlir", "-o", "-"]),
    ],
)
def test_closed_standard_output_is_said_where_it_is_needed(tmp_path: Path, tool: str, args: list[str]):
    run = _run(tmp_path, ">&-", tool, *args)
    assert run.returncode == 1
    assert "error: " in run.stderr
    assert "closed" in run.stderr
    assert run.stderr.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device here")
@pytest.mark.parametrize("buffering", ["", "1"])
@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("layout_opt", ["p.mlir"]),
        ("layout_opt", ["--help"]),
        ("layout_opt", ["--version"]),
        ("layout_ir", ["--help"]),
        ("layout_ir", ["optimize", "--help"]),
        ("layout_ir", ["explain", "nChw8c", "--shape", "2x17x5x4"]),
        ("layout_ir", ["draw", "nchw", "--shape", "1x2x2x2"]),
        ("layout_ir", ["optimize", "p.mlir", "-o", "-"]),
    ],
)
def test_a_full_standard_output_is_one_line_of_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buffering: str, tool: str, args: list[str]
):
    monkeypatch.setenv("PYTHONUNBUFFERED", buffering)
    run = _run(tmp_path, ">/dev/full", tool, *args)
    assert run.returncode == 1
    assert run.stderr.endswith("error: No space left on device\n")
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize("tool", ["layout_opt", "layout_ir"])
def test_negative_a_closed_standard_output_takes_no_help(tmp_path: Path, tool: str):
    run = _run(tmp_path, ">&-", tool, "--help")
    assert (run.returncode, run.stderr) == (1, "<stdout>: error: it is closed\n")


def test_a_wrong_program_is_said_once_where_standard_output_is_full(tmp_path: Path):
    run = _run(tmp_path, ">/dev/full", "layout_ir", "explain", "nChw8x", "--shape", "2")
    assert run.returncode == 1
    assert run.stderr.count("error: ") == 1
    assert "No space" not in run.stderr


def test_negative_a_result_in_a_file_needs_no_standard_output(tmp_path: Path):
    run = _run(tmp_path, ">&-", "layout_opt", "p.mlir", "-o", "out.mlir")
    assert (run.returncode, run.stderr) == (0, "")
    assert "func.func @f" in (tmp_path / "out.mlir").read_text()


@pytest.mark.parametrize(
    ("tool", "args"), [("layout_opt", []), ("layout_opt", ["-"]), ("layout_ir", ["verify-certificate", "-"])]
)
def test_closed_standard_input_is_said_where_it_is_read(tmp_path: Path, tool: str, args: list[str]):
    run = _run(tmp_path, "<&-", tool, *args)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == "<stdin>: error: it is closed\n"


def test_negative_closed_standard_input_is_no_matter_where_a_file_is_read(tmp_path: Path):
    run = _run(tmp_path, "<&-", "layout_opt", "p.mlir")
    assert (run.returncode, run.stderr) == (0, "")


def test_messages_for_a_closed_error_stream_do_not_go_into_the_result(tmp_path: Path):
    run = _run(tmp_path, "2>&-", "layout_ir", "explain", "nChw8x", "--shape", "2")
    assert (run.returncode, run.stdout) == (1, "")


def test_streams_that_are_there_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    streams = io.StringIO(), io.StringIO(), io.StringIO()
    for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
        monkeypatch.setattr(sys, name, stream)
    with standard_streams():
        assert (sys.stdin, sys.stdout, sys.stderr) == streams


@pytest.mark.parametrize("tool", ["layout_opt", "layout_ir"])
def test_an_interrupt_while_modules_are_imported_ends_silently(tmp_path: Path, tool: str):
    # A module that the tool imports waits for the interrupt, so that it comes in the midst of an import.
    (tmp_path / "argparse.py").write_text("import sys, time\nprint('here', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", f"layout_ir.tools.{tool}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # a shell ignores it in the background
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (130, "", "")


def test_negative_an_interrupt_that_is_ignored_stays_ignored(tmp_path: Path):
    (tmp_path / "argparse.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise SystemExit(7)\n"
    )
    process = subprocess.run(
        [sys.executable, "-m", "layout_ir.tools.layout_ir"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        capture_output=True,
        check=False,
    )
    assert (process.returncode, process.stdout, process.stderr) == (7, b"", b"")


@pytest.mark.parametrize("tool", ["layout_opt", "layout_ir"])
def test_arguments_do_not_steer_the_terminal_nor_fill_it(tmp_path: Path, tool: str):
    args = {"layout_opt": [], "layout_ir": ["explain", "--shape", "2"]}[tool]
    for wrong in ("\x1b[31mred", "\u202eevil", "x" * 100_000):
        run = _run(tmp_path, "", tool, *args, wrong)
        assert run.returncode != 0
        assert "\x1b" not in run.stderr
        assert "\u202e" not in run.stderr
        assert len(run.stderr) < 10_000


def test_a_file_that_takes_no_more_is_named(capsys: pytest.CaptureFixture[str]):
    def full() -> int:
        raise OSError(errno.ENOSPC, "No space left on device", "out.mlir")

    assert exit_status(full) == 1
    assert capsys.readouterr().err == "out.mlir: error: No space left on device\n"


def test_a_broken_pipe_is_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    reading, writing = os.pipe()
    os.close(reading)
    with io.TextIOWrapper(os.fdopen(writing, "wb")) as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        status = exit_status(lambda: write_result("text" * 100_000, None) or 0)
        monkeypatch.undo()
    assert status == 1
    assert capsys.readouterr().err == ""
