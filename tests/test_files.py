"""Files that are whole or not there: by themselves, several together, and from every command and pass that writes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from layout_ir import files
from layout_ir.errors import LayoutError
from layout_ir.files import FileState, all_or_none, read_bounded, read_stream, read_whole, write_result
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.propagate import propagate
from layout_ir.tools import layout_ir, layout_opt, measuring
from layout_ir.tools.commands import verify_certificate
from tests.processes import ROOT, environment
from tests.programs import parse


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


def test_negative_a_file_that_is_protected_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "out"
    path.write_text("before")
    allowed = os.access

    def access(name: str, mode: int) -> bool:
        """As the system answers who is not root where the file has mode 0444."""
        return name != str(path) and allowed(name, mode)

    monkeypatch.setattr(os, "access", access)
    with pytest.raises(PermissionError) as caught:
        write_result("after", str(path))
    assert caught.value.filename == str(path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


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


def test_a_link_to_nothing_makes_its_target(tmp_path: Path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    write_result("text", str(link))
    assert link.is_symlink()
    assert (tmp_path / "real").read_text() == "text"


def test_negative_links_that_lead_nowhere_are_refused(tmp_path: Path):
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(OSError, match="link") as caught:
        write_result("text", str(link))
    assert caught.value.filename == str(link)
    assert link.is_symlink()


def test_names_as_long_as_names_can_be(tmp_path: Path):
    path = tmp_path / ("n" * 255)
    write_result("text", str(path))
    assert path.read_text() == "text"


@pytest.mark.parametrize("name", ["", "new/", "missing/new", "file/new", "a\0b"])
def test_negative_names_that_cannot_be_written(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(OSError) as caught:
        write_result("text", name)
    assert caught.value.filename == name
    assert os.listdir(tmp_path) == ["file"]


def test_what_standard_output_is_redirected_to_is_written_in_order(tmp_path: Path):
    path = tmp_path / "out"
    code = (
        "import sys; from layout_ir.files import write_result; print('one');"
        "write_result('two\\n', sys.argv[1]); print('three')"
    )
    with path.open("wb") as stream:
        command = [sys.executable, "-c", code, "/dev/stdout"]
        subprocess.run(command, stdout=stream, check=True, cwd=ROOT, env=environment())
    assert path.read_text() == "one\ntwo\nthree\n"


def test_negative_standard_output_that_is_closed_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OSError, match="standard output is closed"):
        write_result("text", None)


# Several together ----------------------------------------------------------------------------------------------------


def test_several_appear_together(tmp_path: Path):
    a, b = tmp_path / "a", tmp_path / "b"
    with all_or_none(str(a), str(b)):
        write_result("1", str(a))
        write_result("2", str(b))
        assert not a.exists()
    assert (a.read_text(), b.read_text()) == ("1", "2")
    assert sorted(tmp_path.iterdir()) == [a, b]


def test_negative_an_error_leaves_none(tmp_path: Path):
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("before")
    with pytest.raises(RuntimeError), all_or_none(str(a), str(b)):
        write_result("1", str(a))
        write_result("2", str(b))
        raise RuntimeError
    assert a.read_text() == "before"
    assert list(tmp_path.iterdir()) == [a]


@pytest.mark.parametrize("links", [True, False])
def test_negative_what_cannot_be_replaced_brings_the_others_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
):
    old, new, stuck = tmp_path / "old", tmp_path / "new", tmp_path / "stuck"
    old.write_text("before")
    replace = os.replace

    def fail(source: str, target: str) -> None:
        if target == str(stuck):
            raise PermissionError(1, "not permitted", source)
        replace(source, target)

    def no_links(source: str, target: str) -> None:
        raise PermissionError(1, "no links here", source)

    monkeypatch.setattr(os, "replace", fail)
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(PermissionError) as caught, all_or_none():
        for path in (old, new, stuck):
            write_result("after", str(path))
    assert caught.value.filename == str(stuck)
    assert old.read_text() == "before"
    assert list(tmp_path.iterdir()) == [old]


@pytest.mark.parametrize("kind", ["name", "spelling", "symlink", "hardlink", "folder", "new"])
def test_negative_two_names_of_one_file_are_refused_before_work(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    one = tmp_path / "f"
    if kind != "new":
        one.write_text("before")
    other = str(tmp_path / "g")
    if kind == "name":
        other = str(one)
    elif kind in ("spelling", "new"):
        other = "./f"
    elif kind == "symlink":
        os.symlink(one, other)
    elif kind == "hardlink":
        os.link(one, other)
    else:
        (tmp_path / "d").symlink_to(tmp_path)
        other = "d/f"
    with pytest.raises(LayoutError, match="two results would be written"), all_or_none(str(one), other):
        raise AssertionError("work began")
    assert not one.exists() or one.read_text() == "before"


def test_a_device_takes_two_results():
    with all_or_none(os.devnull, os.devnull):
        write_result("1", os.devnull)
        write_result("2", os.devnull)


def test_negative_standard_output_takes_one():
    with pytest.raises(LayoutError, match="standard output"), all_or_none("-", "-"):
        raise AssertionError("work began")


def test_one_inside_another_waits_for_its_end(tmp_path: Path):
    path = tmp_path / "f"
    with all_or_none():
        with all_or_none(str(path)):
            write_result("text", str(path))
        assert not path.exists()
    assert path.read_text() == "text"


# Reading -------------------------------------------------------------------------------------------------------------


def test_a_file_of_the_limit_is_read(tmp_path: Path):
    path = tmp_path / "f"
    path.write_bytes(b"12345")
    assert read_bounded(str(path), 5) == b"12345"


@pytest.mark.parametrize("size", [6, 1 << 38])
def test_negative_a_larger_file_is_not(tmp_path: Path, size: int):
    path = tmp_path / "f"
    path.touch()
    os.truncate(path, size)
    with pytest.raises(LayoutError, match="larger than 5 bytes"):
        read_bounded(str(path), 5)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no such device here")
def test_negative_a_device_without_end_ends():
    with pytest.raises(LayoutError, match="larger than 1000 bytes"):
        read_bounded("/dev/zero", 1000)


def test_a_stream_is_read_to_its_end():
    assert read_stream(BytesIO(b"12345"), 5) == b"12345"
    assert read_stream(BytesIO(b""), 0) == b""


def test_negative_a_stream_that_goes_on_is_not():
    with pytest.raises(LayoutError, match="larger than 5 bytes"):
        read_stream(BytesIO(b"123456"), 5)


def test_a_file_is_read_whole_whatever_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, "MOST_WITHOUT_SIZE", 5)
    path = tmp_path / "f"
    path.write_bytes(b"123456")
    assert read_whole(path) == b"123456"


@pytest.mark.skipif(os.name != "posix", reason="devices are others elsewhere")
@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("layout_opt", ["zero.mlir"]),
        ("layout_opt", ["zero.onnx"]),
        ("layout_ir", ["optimize", "zero.mlir"]),
        ("layout_ir", ["optimize", "zero.onnx"]),
        ("layout_ir", ["optimize", "zero.onnx", "--target", "onnx"]),
        ("layout_ir", ["run", "zero.mlir"]),
        ("layout_ir", ["verify-certificate", "zero.json"]),
        ("layout_ir", ["verify-certificate", "zero.mlir"]),
    ],
)
def test_negative_no_input_without_end_is_read_for_ever(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tool: str,
    args: list[str],
):
    if "zero.onnx" in args:
        pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    for name in ("zero.mlir", "zero.onnx", "zero.json"):
        (tmp_path / name).symlink_to("/dev/zero")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "MOST_WITHOUT_SIZE", 1 << 20)
    monkeypatch.setattr(verify_certificate, "_MOST_BYTES", 1 << 20)
    assert {"layout_opt": layout_opt, "layout_ir": layout_ir}[tool].main(args) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"larger than {1 << 20} bytes" in err
    assert err.count("error: ") == 1


@pytest.fixture(name="piped")
def _piped(tmp_path: Path) -> Path:
    """A pipe with a name that gives a model once."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes with names here")
    onnx: Any = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    value = [onnx.helper.make_tensor_value_info(name, 1, (2, 3)) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", value[:1], value[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "pipe.onnx"
    os.mkfifo(path)
    threading.Thread(target=lambda: path.write_bytes(model.SerializeToString()), daemon=True).start()
    return path


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        (layout_opt, []),
        (layout_ir, ["optimize"]),
        (layout_ir, ["optimize", "--target", "onnx"]),
    ],
)
def test_a_model_is_read_from_a_pipe(
    piped: Path, capsys: pytest.CaptureFixture[str], tool: Any, args: list[str]
):
    assert tool.main([*args, str(piped)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("args", [["explain-model"], ["run", "--with", "onnxruntime"]])
def test_negative_what_is_read_twice_is_not(piped: Path, capsys: pytest.CaptureFixture[str], args: list[str]):
    assert layout_ir.main([*args, str(piped)]) == 1
    err = capsys.readouterr().err
    assert err.endswith(
        f"error: {piped} is no file, and is read more than once: write what it gives to one\n"
    )
    piped.read_bytes()  # the writer ends


# Every command and pass that writes ----------------------------------------------------------------------------------

PROGRAM = """
#nchw = #layout.tag<nchw>
func.func @main(%x : tensor<1x8x4x4xf32, #nchw>) -> tensor<1x8x4x4xf32, #nchw> {
  %r = nn.relu %x : tensor<1x8x4x4xf32, #nchw>
  %a = layout.reorder %r : tensor<1x8x4x4xf32, #nchw> -> tensor<1x8x4x4xf32, #layout.any>
  %b = nn.relu %a : tensor<1x8x4x4xf32, #layout.any>
  %y = layout.reorder %b : tensor<1x8x4x4xf32, #layout.any> -> tensor<1x8x4x4xf32, #nchw>
  func.return %y : tensor<1x8x4x4xf32, #nchw>
}
"""
_REORDER = ["compile-reorder", "nchw", "nhwc", "--shape", "1x4x2x2", "--emit", "obj"]


def _tool(*args: str) -> int:
    return layout_ir.main(args)


def _opt(pipeline: str, output: str = os.devnull) -> int:
    return layout_opt.main(["p.mlir", "-p", pipeline, "-o", output])


def _python(call: Callable[..., object], path: str) -> int:
    try:
        call(parse(PROGRAM), "blocked8", report=path)
    except LayoutError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


WRITERS: dict[str, tuple[str, Callable[[str], int]]] = {
    "layout-opt -o": ("", lambda path: _opt("", path)),
    "layout-propagate": ("", lambda path: _opt(f'layout-propagate{{report="{path}"}}')),
    "layout-optimize": ("", lambda path: _opt(f'layout-optimize{{report="{path}"}}')),
    "optimize -o": ("", lambda path: _tool("optimize", "p.mlir", "-o", path)),
    "optimize --certificate": ("", lambda path: _tool("optimize", "p.mlir", "--certificate", path)),
    "compile-reorder -o": ("", lambda path: _tool(*_REORDER, "-o", path)),
    "compile-reorder --header": (
        "",
        lambda path: _tool(*_REORDER, "-o", os.devnull, "--header", path),
    ),
    "draw svg": (".svg", lambda path: _tool("draw", "nchw", "--shape", "1x2x2x2", "-o", path)),
    "draw png": (".png", lambda path: _tool("draw", "nchw", "--shape", "1x2x2x2", "-o", path)),
    "calibrate": ("", lambda path: _tool("calibrate", "-o", path)),
    "calibrate --reorders": (
        "",
        lambda path: _tool("calibrate", "--reorders", "p.mlir", "--target", "blocked8", "-o", path),
    ),
    "propagate": ("", lambda path: _python(propagate, path)),
    "optimize": ("", lambda path: _python(optimize, path)),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measuring, "shapes", lambda: iter([(1, 4, 2, 2), (1, 8, 2, 2)]))
    (tmp_path / "p.mlir").write_text(PROGRAM)
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


writers = pytest.mark.parametrize("writer", WRITERS)


@writers
def test_every_writer_replaces_the_file_behind_a_link(place: Path, writer: str):
    suffix, write = WRITERS[writer]
    real, link = place / f"real{suffix}", place / f"link{suffix}"
    real.write_text("before")
    real.chmod(0o640)
    link.symlink_to(real)
    assert write(str(link)) == 0
    assert link.is_symlink()
    assert real.read_bytes() not in (b"", b"before")
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(place.iterdir()) == [link, real]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@writers
def test_every_writer_writes_to_a_pipe_and_keeps_it(place: Path, writer: str):
    suffix, write = WRITERS[writer]
    path = place / f"pipe{suffix}"
    os.mkfifo(path)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    reader.start()
    assert write(str(path)) == 0
    reader.join(10)
    assert got
    assert got[0]
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert list(place.iterdir()) == [path]


@writers
def test_negative_every_writer_names_the_path_that_it_was_given(
    place: Path, writer: str, capsys: pytest.CaptureFixture[str]
):
    suffix, write = WRITERS[writer]
    path = str(place / "missing" / f"f{suffix}")
    assert write(path) == 1
    err = capsys.readouterr().err
    assert f"{path}: " in err
    assert "No such file or directory" in err
    assert "part" not in err
    assert len(err.splitlines()) == 1
    assert list(place.iterdir()) == []


@writers
def test_negative_no_writer_replaces_a_folder(place: Path, writer: str, capsys: pytest.CaptureFixture[str]):
    suffix, write = WRITERS[writer]
    path = place / f"f{suffix}"
    path.mkdir()
    assert write(str(path)) == 1
    assert "Is a directory" in capsys.readouterr().err
    assert list(place.iterdir()) == [path]
    assert path.is_dir()


PAIRS: dict[str, Callable[[str, str], int]] = {
    "compile-reorder": lambda a, b: _tool(*_REORDER, "-o", a, "--header", b),
    "optimize": lambda a, b: _tool("optimize", "p.mlir", "-o", a, "--certificate", b),
    "layout-opt": lambda a, b: _opt(f'layout-optimize{{report="{b}"}}', a),
    "two passes": lambda a, b: _opt(f'layout-propagate{{report="{a}"}},layout-propagate{{report="{b}"}}'),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_a_pair_of_files_is_written(place: Path, pair: str):
    a, b = place / "a", place / "b"
    assert PAIRS[pair](str(a), str(b)) == 0
    assert a.stat().st_size
    assert b.stat().st_size
    assert sorted(place.iterdir()) == [a, b]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("bad", [0, 1])
def test_negative_where_one_of_a_pair_cannot_be_written_none_is(
    place: Path, pair: str, bad: int, capsys: pytest.CaptureFixture[str]
):
    names = [str(place / "a"), str(place / "b")]
    names[bad] = str(place / "missing" / "f")
    assert PAIRS[pair](*names) == 1
    assert f"{names[bad]}: " in capsys.readouterr().err
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("other", ["out/f", "./out/../out/f", "out/link"])
def test_negative_a_pair_with_one_file_is_refused(
    place: Path, pair: str, other: str, capsys: pytest.CaptureFixture[str]
):
    path = place / "f"
    path.write_text("before")
    (place / "link").symlink_to(path)
    assert PAIRS[pair](str(path), other) == 1
    assert "two results would be written" in capsys.readouterr().err
    assert path.read_text() == "before"


REPORTS: dict[str, Callable[[str, str], int]] = {
    "optimize": lambda a, b: _tool("optimize", a, "--certificate", b),
    "a page": lambda a, b: _tool("optimize", a, "--html", b),
    "compile-reorders": lambda a, b: _tool("compile-reorders", a, "-o", "out.o", "--header", b),
    "calibrate": lambda a, b: _tool("calibrate", "--reorders", a, "-o", b),
    "layout-opt": lambda _, b: _opt(f'layout-optimize{{report="{b}"}}'),
    "explain-model": lambda a, b: _tool("explain-model", a, "--svg", b),
}


@pytest.mark.parametrize("tool", REPORTS)
@pytest.mark.parametrize("other", ["p.mlir", "./p.mlir", "link"])
def test_negative_what_is_read_is_not_written_over(
    place: Path, tool: str, other: str, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("fast_sugiyama", reason="needs the extra 'draw'")
    Path("link").symlink_to("p.mlir")
    before = Path("p.mlir").read_text()
    assert REPORTS[tool]("p.mlir", other) == 1
    assert "is read, and a result would be written over it" in capsys.readouterr().err
    assert Path("p.mlir").read_text() == before


def test_a_program_may_be_written_where_it_was_read(place: Path):
    assert _tool("optimize", "p.mlir", "-o", "p.mlir") == 0


def test_negative_what_a_pass_wrote_goes_when_a_later_one_fails(
    place: Path, capsys: pytest.CaptureFixture[str]
):
    path = place / "c.json"
    pipeline = f'layout-propagate{{report="{path}"}},layout-propagate{{solver=nobody}}'
    assert _opt(pipeline) == 1
    assert "nobody" in capsys.readouterr().err
    assert list(place.iterdir()) == []


def test_a_file_is_known_to_be_as_it_was(tmp_path: Path):
    path = tmp_path / "in"
    missing = FileState.of(path)
    missing.check_unchanged("advice")
    path.write_text("one", encoding="utf-8")
    state = FileState.of(path)
    state.check_unchanged("advice")
    with pytest.raises(LayoutError, match="has changed; advice"):
        missing.check_unchanged("advice")
    write_result("two", str(path))
    with pytest.raises(LayoutError, match=r"in' has changed; advice$"):
        state.check_unchanged("advice")
    path.unlink()
    with pytest.raises(LayoutError, match="is gone"):
        state.check_unchanged("advice")
