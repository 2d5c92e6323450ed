"""`layout-ir convert`: one line out, or the reason."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.notations import NOTATIONS
from layout_ir.tools.layout_ir import main


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    status = main(["convert", *args])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["nChw8c", "--to", "tvm"], "NCHW8c"),
        (["nChw8c", "--to", "format"], "(n, c, h, w) : [n, c, h, w, c:8], pad = zero"),
        (["nChw8c", "--to", "cute", "--shape", "2x16x5x4"], "(2,(8,2),5,4):(320,(1,160),32,8)"),
        (["(n, c, h, w) : [n, h, w, c]", "--to", "tag"], "nhwc"),
        (["htp:R4Crouton", "--to", "format"], "(n, h, w, c) : [n, h, w, c | h:8, w:8, c:32]"),
        (
            ["R4Crouton", "--from", "htp", "--to", "htp"],
            "ChunkedMemoryLayout<4, 0,0, 1,0, 2,0, 3,0, 1,8, 2,8, 3,32>",
        ),
        (["nchw", "--from", "format", "--to", "tag"], "nchw"),
        (
            ["nhwc", "--to", "numpy", "--shape", "2x3x4x5", "--dtype", "i8"],
            "shape=(2, 3, 4, 5), strides=(60, 1, 15, 3), offset=0, itemsize=1",
        ),
        # One block of eight channels is a plain strided tensor.
        (
            ["nChw8c", "--to", "torch", "--shape", "2x8x5x4"],
            "size=(2, 8, 5, 4), stride=(160, 1, 32, 8), storage_offset=0",
        ),
    ],
)
def test_one_line_comes_out(capsys: pytest.CaptureFixture[str], args: list[str], expected: str):
    status, out, err = run(capsys, *args)
    assert (status, err) == (0, "")
    assert out.splitlines() == [expected]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["(n, c) : [n, c*2]", "--to", "tvm"], "tvm cannot say (n, c) : [n, c*2]: layout strings are dense"),
        (["nChw8c", "--to", "torch", "--shape", "2x17x5x4"], "dim 'c' of extent 17"),
        (["nChw8c", "--to", "cute"], "cute writes numbers that depend on the extents"),
        (["nChw8c", "--to", "xyz"], "unknown notation 'xyz' behind --to: known are format, tag"),
        (["nChw8c", "--to", "tag", "--from", "all"], "unknown notation 'all' behind --from"),
        (["nChw8c"], "say which notation to write: --to NAME"),
        (["--to", "xla"], "say what to convert"),
        (["nhwc", "--to", "numpy", "--shape", "2x3x4x5"], "give the element type"),
        (["xla:{1,2,0", "--to", "tvm"], "xla text"),
        (["nchw", "--to", "tvm", "--from", "htp"], "unknown name 'nchw'"),
    ],
)
def test_negative_refusals_say_why(capsys: pytest.CaptureFixture[str], args: list[str], message: str):
    status, out, err = run(capsys, *args)
    assert (status, out) == (1, "")
    assert err.startswith("error: ") and message in err and "defect" not in err


def test_all_lists_every_notation_once(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "nChw8c", "--to", "all", "--shape", "2x17x5x4", "--dtype", "f32")
    said, refused = out.split("\n\nnot in\n")
    names = [line.split()[0] for line in (*said.splitlines(), *refused.splitlines())]
    assert status == 0
    assert sorted(names) == sorted(NOTATIONS)


def test_without_a_shape_all_says_which_need_one(capsys: pytest.CaptureFixture[str]):
    _, out, _ = run(capsys, "nChw8c", "--to", "all")
    assert "cute         its numbers depend on the shape: give one" in out.splitlines()
    assert "tvm          NCHW8c" in out.splitlines()


def test_the_list_names_every_notation_with_an_example(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "--list")
    assert status == 0
    for name, notation in NOTATIONS.items():
        assert any(line.startswith(name) for line in out.splitlines())
        assert notation.example in out


def test_what_is_printed_reads_back(capsys: pytest.CaptureFixture[str]):
    shape = ["--shape", "2x16x5x4", "--dtype", "f32"]
    refused: list[str] = []
    for name in NOTATIONS:
        status, out, _ = run(capsys, "nhwc", "--to", name, *shape)
        if status:
            refused.append(name)
            continue
        status, back, err = run(capsys, out.rstrip("\n"), "--from", name, "--to", "tag", *shape)
        assert (status, err) == (0, ""), name
        assert back.strip() in ("nhwc", "acdb"), name
    assert refused == ["triton"]  # strides there are powers of two


@pytest.mark.parametrize("letters", ["HWIO", "OIHW", "OHWI", "NHWC", "NCHW", "CHWN"])
def test_the_shape_of_a_tvm_string_is_that_of_the_array(capsys: pytest.CaptureFixture[str], letters: str):
    """An array of that layout is row-major, whatever its letters; NumPy says so."""
    shape = (3, 5, 32, 64)
    array = np.zeros(shape, np.float32)
    status, out, err = run(
        capsys, letters, "--from", "tvm", "--to", "numpy", "--shape", "3x5x32x64", "--dtype", "f32"
    )
    assert status == 0
    assert out.strip() == f"shape={shape}, strides={array.strides}, offset=0, itemsize=4"
    extents = " ".join(f"{letter}={x}" for letter, x in zip(letters.lower(), shape, strict=True))
    assert err == f"note: --shape 3x5x32x64 is {extents}\n"


@pytest.mark.parametrize(
    ("args", "order", "strides"),
    [
        (["HWIO", "--from", "tvm", "--dims", "oihw"], "o=3 i=5 h=32 w=64", (1, 3, 960, 15)),
        (["tvm:HWIO", "--dims", "o, i, h, w"], "o=3 i=5 h=32 w=64", (1, 3, 960, 15)),
        (["nhwc", "--dims", "nhwc"], "n=3 h=5 w=32 c=64", (10240, 2048, 64, 1)),
        (["tvm:NHWC16c"], "n=3 h=5 w=32 c=64", (10240, 2048, 64, 1)),
    ],
)
def test_dims_name_the_order_of_the_shape(
    capsys: pytest.CaptureFixture[str], args: list[str], order: str, strides: tuple[int, ...]
):
    status, out, err = run(capsys, *args, "--to", "torch", "--shape", "3x5x32x64")
    assert (status, err) == (0, f"note: --shape 3x5x32x64 is {order}\n")
    assert out.strip() == f"size=(3, 5, 32, 64), stride={strides}, storage_offset=0"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nhwc", "--dims", "nhwx", "--shape", "1x2x3x4"], "--dims nhwx does not name the dims of 'nhwc'"),
        (["nhwc", "--dims", "nhw", "--shape", "1x2x3x4"], "which are n, c, h, w"),
        (["nhwc", "--dims", "nnhw", "--shape", "1x2x3x4"], "which are n, c, h, w"),
        (["nhwc", "--dims", "nhwc"], "--dims nhwc says the order of --shape, but no shape is given"),
        (["tvm:NHWC", "--shape", "1x2x3"], "4 != 3"),
    ],
)
def test_negative_dims_that_are_not_those_of_the_layout(
    capsys: pytest.CaptureFixture[str], args: list[str], message: str
):
    status, out, err = run(capsys, *args, "--to", "torch")
    assert (status, out) == (1, "") and err.startswith("error: ") and message in err


def test_negative_a_tag_needs_no_note(capsys: pytest.CaptureFixture[str]):
    assert run(capsys, "nhwc", "--to", "torch", "--shape", "1x2x3x4")[2] == ""


def test_the_list_states_the_order_of_every_shape(capsys: pytest.CaptureFixture[str]):
    _, out, _ = run(capsys, "--list")
    assert out.count("--shape: ") == len(NOTATIONS)
