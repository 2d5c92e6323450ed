"""The driver sees every way in which an input can fail, attributes it, and makes it smaller."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.drill import WAYS, Drill
from tests.fuzz.driver import Found, Result, Run, attempt, reduce, save
from tests.processes import run_python

SEEN = {
    ("raised", "IndexError: raised"),
    ("unforeseen", "KeyError: _"),
    ("wrong", "wrong"),
    ("raised", "SystemExit: _"),
    ("raised", "MemoryError: "),
    ("memory", "memory"),
    ("crash", "SIGSEGV "),
    ("hang", "hang "),
}


def drill(cases: int, jobs: int = 1) -> Result:
    return Run(["drill"], 1, seconds=None, cases=cases, jobs=jobs, hang_seconds=4).run()


def test_every_way_to_fail_is_seen_and_attributed():
    result = drill(len(WAYS))
    assert result.inputs == {"drill": len(WAYS)}
    found = {(what, key) for _, what, key in result.found}
    assert found == SEEN
    assert all(failure.data == Drill().make(1, failure.number) for failure in result.found.values())
    by_way = {WAYS[failure.number]: failure.failure.what for failure in result.found.values()}
    assert by_way == {
        "raised": "raised", "unforeseen": "unforeseen", "wrong": "wrong", "crash": "crash", "hang": "hang",
        "memory": "raised", "much memory": "memory", "exit": "raised",
    }  # fmt: skip


def test_several_workers_find_the_same():
    one, three = drill(6), drill(6, jobs=3)
    assert one.inputs == three.inputs == {"drill": 6}
    assert {(*key, found.data) for key, found in one.found.items()} == {
        (*key, found.data) for key, found in three.found.items()
    }


def test_a_failing_input_is_made_smaller_and_written(tmp_path: Path):
    data = b"".join(b"line %d\n" % k for k in range(40)) + b"crash\n" + b"more\n" * 20
    failure, worker = attempt("drill", data, tmp_path)
    assert worker is None and failure is not None
    found = Found("drill", 0, data, failure)
    reduce(found, 60)
    assert found.data == b"crash\n" and found.alone
    assert save(found, tmp_path / "out").read_bytes() == b"crash\n"


def test_negative_what_is_refused_or_right_is_no_failure(tmp_path: Path):
    for data in (b"refused\n", b"passes\n"):
        failure, worker = attempt("drill", data, tmp_path)
        assert failure is None and worker is not None
        worker.close()


def test_the_command_line_ends_with_1_where_a_file_fails(tmp_path: Path):
    (tmp_path / "drill").mkdir()
    for name, status in (("wrong", 1), ("passes", 0)):
        file = tmp_path / "drill" / name
        file.write_text(f"{name}\n")
        done = run_python("-m", "tests.fuzz", file, check=False)
        assert (done.returncode, name in done.stdout) == (status, True), done.stdout + done.stderr
