"""Results that are whole or not there."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from layout_ir.tools.output import quiet_broken_pipe, write_result


@pytest.mark.parametrize("path", [None, "-"])
def test_no_name_and_a_dash_mean_standard_output(capsys: pytest.CaptureFixture[str], path: str | None):
    write_result("text\n", path)
    assert capsys.readouterr().out == "text\n"


def test_a_file_is_made_and_replaced(tmp_path: Path):
    path = tmp_path / "out"
    write_result("one", str(path))
    write_result("zwei ä", str(path))
    assert path.read_text(encoding="utf-8") == "zwei ä"
    assert list(tmp_path.iterdir()) == [path]


def test_bytes_are_written_as_they_are(tmp_path: Path):
    path = tmp_path / "out"
    write_result(b"\x89PNG\r\n\x00", str(path))
    assert path.read_bytes() == b"\x89PNG\r\n\x00"
    assert list(tmp_path.iterdir()) == [path]


def test_what_was_there_stays_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "out"
    path.write_text("before")
    seen: list[str] = []

    def fail(source: str, target: str) -> None:
        seen.append(Path(source).read_text())
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_result("after", str(path))
    assert seen == ["after"]
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_the_mode_of_a_replaced_file_stays(tmp_path: Path):
    path = tmp_path / "out"
    path.write_text("before")
    path.chmod(0o640)
    write_result("after", str(path))
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(tmp_path: Path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("before")
    link.symlink_to(real)
    write_result("after", str(link))
    assert link.is_symlink()
    assert real.read_text() == "after"


@pytest.mark.skipif(os.name != "posix", reason="no such device elsewhere")
def test_a_device_is_written_to_and_not_replaced():
    write_result("text", os.devnull)
    assert not Path(os.devnull).is_file()


def test_negative_a_folder_is_refused(tmp_path: Path):
    with pytest.raises(OSError, match="directory"):
        write_result("text", str(tmp_path))


def test_a_broken_pipe_is_silent(monkeypatch: pytest.MonkeyPatch):
    reading, writing = os.pipe()
    os.close(reading)
    with io.TextIOWrapper(os.fdopen(writing, "wb")) as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        with quiet_broken_pipe():
            write_result("text" * 100_000, None)
        monkeypatch.undo()
