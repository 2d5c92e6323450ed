"""One process per number of threads, and lists that become one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.thread_counts import run_for_each, thread_counts
from layout_ir.backends.llvm.runtime.thread_pool import cpus
from layout_ir.errors import LayoutError

SCRIPT = """\
import json, os, sys
number = int(sys.argv[-1])
if number == 9:
    sys.exit("no")
print(json.dumps([{"threads": number, "process": os.getpid()}]))
sys.exit(number == 2)
"""


@pytest.fixture(name="script")
def _script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def test_lists_of_all_runs_are_one(script: str, capsys: pytest.CaptureFixture[str]):
    assert run_for_each(script, ["--json"], [1, 2, 3]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [entry["threads"] for entry in found] == [1, 2, 3]
    assert len({entry["process"] for entry in found}) == 3


def test_negative_a_run_that_fails_ends_it(script: str, capsys: pytest.CaptureFixture[str]):
    assert run_for_each(script, ["--json"], [1, 9, 3]) == 1
    assert capsys.readouterr().out == ""


def test_numbers_are_read():
    assert thread_counts("1") == [1]
    assert thread_counts(f"{cpus()},1") == [cpus(), 1]


@pytest.mark.parametrize("text", ["", "0", "-1", "1,", "two", "100000"])
def test_negative_numbers_that_this_process_cannot_have(text: str):
    with pytest.raises(LayoutError, match=f"--threads is '{text}': this process may use 1 to"):
        thread_counts(text)
