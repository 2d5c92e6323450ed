"""`layout-ir draw`: files that are whole or not there, and a terminal that is asked before it is coloured."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from layout_ir.tools.layout_ir import main


class Stream(io.TextIOWrapper):
    """Standard output of a given kind."""

    def __init__(self, *, tty: bool, encoding: str = "utf-8"):
        super().__init__(io.BytesIO(), encoding=encoding, newline="")
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty

    @property
    def text(self) -> str:
        self.flush()
        raw: Any = self.buffer
        return raw.getvalue().decode(self.encoding)


def draw(monkeypatch: pytest.MonkeyPatch, stream: Stream, *args: str, **environment: str) -> str:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert main(["draw", *args]) == 0
    return stream.text


ARGS = ["nChw8c", "--shape", "1x10x2x2"]


def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch):
    assert "\x1b[" in draw(monkeypatch, Stream(tty=True), *ARGS)


def test_negative_a_pipe_gets_none(monkeypatch: pytest.MonkeyPatch):
    assert "\x1b[" not in draw(monkeypatch, Stream(tty=False), *ARGS)


def test_negative_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch):
    assert "\x1b[" not in draw(monkeypatch, Stream(tty=True), *ARGS, NO_COLOR="1")
    # An empty variable is no wish.
    assert "\x1b[" in draw(monkeypatch, Stream(tty=True), *ARGS, NO_COLOR="")


def test_a_plain_terminal_gets_plain_characters(monkeypatch: pytest.MonkeyPatch):
    assert draw(monkeypatch, Stream(tty=False, encoding="ascii"), *ARGS).isascii()
    assert not draw(monkeypatch, Stream(tty=False), *ARGS).isascii()


def test_rows_fit_the_terminal(monkeypatch: pytest.MonkeyPatch):
    text = draw(monkeypatch, Stream(tty=False), *ARGS, COLUMNS="50")
    assert max(len(line) for line in text.splitlines() if "│" in line) <= 50


def test_an_svg_file(tmp_path: Path):
    path = tmp_path / "picture.svg"
    assert main(["draw", *ARGS, "-o", str(path)]) == 0
    root = ElementTree.parse(path).getroot()
    assert root.tag.endswith("svg")
    assert list(tmp_path.iterdir()) == [path]


def test_a_png_file(tmp_path: Path):
    image: Any = pytest.importorskip("PIL.Image", reason="needs the extra 'draw'")
    path = tmp_path / "picture.PNG"
    assert main(["draw", *ARGS, "-o", str(path)]) == 0
    assert image.open(path).format == "PNG"
    assert list(tmp_path.iterdir()) == [path]


def test_more_rows_are_shown_on_request(tmp_path: Path):
    few, many = tmp_path / "few.svg", tmp_path / "many.svg"
    shape = ["nchw", "--shape", "4x64x8x8"]
    assert main(["draw", *shape, "--rows", "10", "-o", str(few)]) == 0
    assert main(["draw", *shape, "--rows", "200", "-o", str(many)]) == 0
    assert many.stat().st_size > 5 * few.stat().st_size


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nChw8c", "--shape", "1x10x2x2", "-o", "{}/a.jpg"], "'.jpg' is neither .svg nor .png"),
        (["nChw8c", "--shape", "1x10x2x2", "-o", "{}/a"], "'no ending' is neither .svg nor .png"),
        (
            ["nChw8c", "--shape", "1x10x2", "-o", "{}/a.svg"],
            "rank mismatch between format (n, c, h, w) and shape 1x10x2",
        ),
        (["nChw8c", "--shape", "1x10x2x2", "--rows", "3", "-o", "{}/a.svg"], "--rows 3 is too few"),
        (
            ["nchw", "--shape", "1x1x1x1099511627776", "--rows", "100000000"],
            "at most 256 rows of memory, not 1000",
        ),
        (["nchw", "--shape", "1x1x1x1099511627776", "--rows", "257", "-o", "{}/a.svg"], "at most 256 rows"),
        (["nChw8c", "-o", "{}/a.svg"], "says no extents"),
        (["nCHw8c", "--shape", "1x1x1x1", "-o", "{}/a.svg"], "but dim 'h' is not blocked"),
        (["nChw8c", "--shape", "1x10x2x2", "-o", "{}/none/a.svg"], "No such file or directory"),
    ],
)
def test_negative_bad_input_leaves_no_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, args: list[str], message: str
):
    assert main(["draw", *(arg.format(tmp_path) for arg in args)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and message in err and "error: " in err and "defect" not in err
    assert list(tmp_path.iterdir()) == []


def test_negative_a_missing_extra_keeps_the_old_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "PIL", None)
    path = tmp_path / "a.png"
    path.write_bytes(b"before")
    assert main(["draw", *ARGS, "-o", str(path)]) == 1
    assert "layout-ir[draw]" in capsys.readouterr().err
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
