"""`layout-ir bench`: the table and reorders of one's own, in words and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator

import pytest

from layout_ir.tools.benchmark.cases import CASES
from layout_ir.tools.layout_ir import main


@pytest.fixture(autouse=True)
def affinity() -> Iterator[None]:
    """Measuring confines the process to as many CPUs as it has threads."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
    yield
    if before:
        os.sched_setaffinity(0, before)


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    status = main(["bench", "--seconds", "0", "--peers", "numpy", *args])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_reorder_of_ones_own(capsys: pytest.CaptureFixture[str]):
    status, out, err = run(capsys, "nchw", "nChw8c", "--shape", "2x17x5x4", "--dtype", "i8")
    assert (status, err) == (0, "")
    assert "caches of" in out
    assert "nchw->nChw8c 2x17x5x4 i8" in out
    assert "numpy" in out


def test_programs_get_a_list(capsys: pytest.CaptureFixture[str]):
    status, out, err = run(capsys, "nhwc", "htp:R4Crouton", "--shape", "1x9x20x50", "--dtype", "i8", "--json")
    assert (status, err) == (0, "note: --shape 1x9x20x50 is n=1 h=9 w=20 c=50\n")
    [found] = json.loads(out)
    assert list(found) == [
        "case", "size", "threads", "ours_gbps", "memcpy_gbps", "stream_gbps", "peers", "equal",
    ]  # fmt: skip
    assert found["equal"] is True
    assert found["threads"] == 1


def test_cases_of_the_table(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "T non", "copy", "--size", "L2")
    assert status == 0
    assert "L2 1T, all 2 cases" in out


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of x86-64")
def test_code_for_a_lesser_cpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    status, out, err = run(capsys, "ab", "ba", "--shape", "40x30", "--cpu", "x86-64-v2")
    assert (status, err) == (0, "")
    assert "as LLVM's x86-64-v2: registers of 16 bytes" in out
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "SSE41"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of x86-64")
def test_negative_code_for_a_cpu_that_is_not_here(capsys: pytest.CaptureFixture[str]):
    status, out, err = run(capsys, "ab", "ba", "--shape", "40x30", "--cpu", "aarch64")
    assert (status, out) == (1, "")
    assert "code for aarch64 does not run on this x86_64" in err


def test_the_names_of_the_cases(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "--list")
    assert status == 0
    assert [text[:32].strip() for text in out.splitlines()] == [case.name for case in CASES]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nothing"], "error: no case is named like 'nothing'"),
        (["--size", "L4"], "error: unknown size 'L4'"),
        (["nchw", "--shape", "1x2x3x4"], "error: with --shape there are two layouts, SRC and DST, not 1"),
        (["nchw", "nhwc", "--shape", "1x2x3"], "error: rank mismatch"),
        (["nchw", "nhwc", "--shape", "1x2xq"], "  1x2xq\n      ^"),
        (["nchw", "nhcw8", "--shape", "1x2x3x4"], "  nhcw8\n  "),
        (["nchw", "nhwc", "--shape", "1x2x3x4", "--dtype", "f33"], "error: "),
        (["nchw", "nhwc", "--shape", "1x2x3x4", "--dtype", "i4"], "4 bits"),
        (["nchw", "nhwc", "--shape", "1x2x3x4", "--size", "L2"], "--size is for the cases of the table"),
        (["copy", "--dtype", "i8"], "--dtype and --dst-dtype are for a reorder of your own"),
        (["--threads", "0"], "--threads is '0': this process may use 1 to"),
        (["--threads", "many"], "--threads is 'many'"),
        (["--threads", "\N{FULLWIDTH DIGIT ONE}"], "this process may use 1 to"),
        (["--seconds", "long"], "--seconds is 'long': a number from 0 to 3600 is needed"),
        (["--peers", "mkl"], "unknown library 'mkl': known are numpy, torch, onednn"),
    ],
)
def test_negative_what_cannot_be_measured(capsys: pytest.CaptureFixture[str], args: list[str], message: str):
    status, out, err = run(capsys, *args)
    assert (status, out) == (1, "")
    assert message in err
