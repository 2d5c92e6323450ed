"""`layout-ir explain`: numbers against the definition of layouts, formulas by evaluating them."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layout_ir.algebra.format import Format
from layout_ir.notations import NOTATIONS
from layout_ir.tools.commands.explanation import explain, formula
from layout_ir.tools.layout_ir import main
from tests.layouts import address_by_definition, indices, random_format, random_shape

CROUTON = "(n, h, w, c) : [n, h, w, c | h:8, w:8, c:32], pad = 31"


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    status = main(["explain", *args])
    out, err = capsys.readouterr()
    return status, out, err


def as_json(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    status, out, err = run(capsys, *args, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def evaluate(text: str, names: tuple[str, ...], index: tuple[int, ...]) -> int:
    """What a formula says, by Python's own arithmetic."""
    head, _, meaning = text.partition("  where a = ")
    scope: dict[str, Any] = {"__builtins__": {}, **dict(zip(names, index, strict=True))}
    if meaning:
        scope = {"__builtins__": {}, "a": eval(meaning.replace("/", "//"), scope)}
    return eval(head.replace("/", "//"), scope)


@given(st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_the_formula_computes_every_address(rng: Any):
    format = random_format(rng, rng.randint(0, 4), strided=True, halo=True, chunked=True)
    layout = format.bind(random_shape(rng, format.rank, 200))
    low = format.lo or (0,) * format.rank
    for index in indices(layout.shape):
        position = [x + y for x, y in zip(index, low, strict=True)]
        assert evaluate(formula(layout), layout.names, index) == address_by_definition(
            format, layout.shape, position
        )


def test_the_formula_of_a_swizzle_computes_every_address():
    format = Format.parse("(a, b) : [a, b], swizzle = (2, 1, 3)")
    layout = format.bind((8, 16))
    for index in indices(layout.shape):
        assert evaluate(formula(layout), ("a", "b"), index) == address_by_definition(
            format, layout.shape, index
        )


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [
        ("nChw8c", (2, 17, 5, 4), "480*n + 160*(c/8) + 32*h + 8*w + c%8"),
        ("nhwc", (1, 3, 5, 4), "12*h + 3*w + c"),
        ("(n, c, h, w) : [n, c*64, h*8, w], offset = 19", (2, 16, 5, 4), "19 + 1024*n + 64*c + 8*h + w"),
        ("(a, b) : [a*7, b*-1], offset = 6", (4, 7), "6 + 7*a - b"),
        ("(a, b) : [a*-7, b], offset = 21", (4, 7), "21 - 7*a + b"),
        ("OIhw4i16o4i", (20, 18, 1, 1), "512*(o/16) + 256*(i/16) + 64*(i/4%4) + 4*(o%16) + i%4"),
        ("() : []", (), "0"),
    ],
)
def test_formulas_read_well(text: str, shape: tuple[int, ...], expected: str):
    assert formula(Format.of(text).bind(shape)) == expected


def test_the_example_of_the_documentation(capsys: pytest.CaptureFixture[str]):
    status, out, err = run(capsys, "nChw8c", "--shape", "2x17x5x4", "--index", "1,16,4,3", "--offset", "953")
    assert (status, err) == (0, "")
    for line in (
        "shape         2x17x5x4, padded to 2x24x5x4",
        "pads          280, each holds zero",
        "addresses     960, 3840 bytes of f32",
        "c:8        8       1  c%8",
        "address = 480*n + 160*(c/8) + 32*h + 8*w + c%8",
        "index (1, 16, 4, 3) is at address 952, byte 3808",
        "address 953 holds a pad (zero), position (1, 17, 4, 3) of the padded box",
        "tvm          NCHW8c",
    ):
        assert line in out.splitlines(), line


def test_json_has_the_keys_that_help_lists(capsys: pytest.CaptureFixture[str]):
    answer = as_json(capsys, "nChw8c", "--shape", "2x17x5x4")
    with pytest.raises(SystemExit):
        main(["explain", "--help"])
    help_text = capsys.readouterr().out
    for key in answer:
        assert re.search(rf"\b{key}\b", help_text), key
    for key in answer["factors"][0]:
        assert re.search(rf"\b{key}\b", help_text), key


def test_json_of_a_crouton(capsys: pytest.CaptureFixture[str]):
    args = [CROUTON, "--shape", "2x9x20x50", "--dtype", "u8", "--index", "1,8,19,49", "--index", "0,0,0,0"]
    answer = as_json(capsys, *args, "--offset", "49151", "--offset=-1")
    assert answer["dtype"] == "ui8"
    assert (answer["elements"], answer["pads"], answer["holes"]) == (18000, 31152, 0)
    assert (answer["addresses"], answer["nbytes"], answer["chunk_size"], answer["chunks"]) == (
        49152,
        49152,
        2048,
        24,
    )
    assert answer["pad_policy"] == 31
    assert answer["index"][0] == {
        "index": [1, 8, 19, 49], "address": 47217, "byte": 47217, "chunk": 23, "chunk_offset": 113
    }  # fmt: skip
    assert answer["offset"][0]["is"] == "pad" and answer["offset"][0]["position"] == [1, 15, 23, 63]
    assert answer["offset"][0]["holds"] == "31"
    assert answer["offset"][1]["is"] == "outside"


def test_every_notation_says_it_or_why_not(capsys: pytest.CaptureFixture[str]):
    answer = as_json(capsys, "nChw8c", "--shape", "2x17x5x4")
    assert {*answer["notations"], *answer["refused"]} == set(NOTATIONS)
    assert not set(answer["notations"]) & set(answer["refused"])
    assert all(answer["refused"].values())
    # CuTe has no padding: its text is about the padded box.
    del answer["notations"]["cute"]
    for name, text in answer["notations"].items():
        layout = NOTATIONS[name].parse(text, (2, 17, 5, 4), "f32")
        assert not isinstance(layout, Format)
        assert layout.same_map(Format.from_tag("nChw8c").bind((2, 17, 5, 4)))


def test_holes_are_counted():
    assert explain(Format.parse("(r, c) : [r*6, c]").bind((3, 4)), "f32")["holes"] == 16 - 12
    assert explain(Format.parse("(r, c) : [r, c], offset = 5").bind((3, 4)), "f32")["holes"] == 5
    assert explain(Format.parse("(r, c) : [r*-4, c], offset = 8").bind((3, 4)), "f32")["holes"] == 0
    assert explain(Format.parse("(r, c) : [r*0, c*2]").bind((3, 4)), "f32")["holes"] == 7 - 4
    assert explain(Format.parse("(r, c) : [r, c], size = 20").bind((3, 4)), "f32")["holes"] == 8


def test_a_layout_may_be_contiguous_in_several_orders(capsys: pytest.CaptureFixture[str]):
    assert as_json(capsys, "nhwc", "--shape", "2x1x5x4")["contiguous"] == ["nchw", "nhwc"]
    assert as_json(capsys, "nhwc", "--shape", "2x3x5x4")["contiguous"] == ["nhwc"]
    assert as_json(capsys, "chwn", "--shape", "2x3x5x4")["contiguous"] == ["chwn"]
    assert as_json(capsys, "nChw8c", "--shape", "2x17x5x4")["contiguous"] == []


def test_places_have_formulas_of_their_own(capsys: pytest.CaptureFixture[str]):
    answer = as_json(capsys, "(a, b) : [a, b, b:8@lane]", "--shape", "6x16")
    assert answer["formula"] == "2*a + b/8"
    assert answer["places"] == {"lane": "b%8"}


def test_infinity_is_a_text_in_json(capsys: pytest.CaptureFixture[str]):
    assert as_json(capsys, "(a) : [a, a:4], pad = -inf", "--shape", "3")["pad_policy"] == "-inf"


def test_a_foreign_text_brings_its_own_shape(capsys: pytest.CaptureFixture[str]):
    answer = as_json(capsys, "memref:memref<2x16x5x4xf32, strided<[1024, 64, 8, 1], offset: 19>>")
    assert answer["shape"] == [2, 16, 5, 4]
    assert answer["first_address"] == 19


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nChw8", "--shape", "1x2x3x4"], "no list of letters followed by blocks"),
        (["(n, c) : [n, d]", "--shape", "1x2"], "unknown dim 'd': the format declares (n, c)"),
        (
            ["nChw8c", "--shape", "2x17x5"],
            "rank mismatch between format (n, c, h, w) and shape 2x17x5: 4 != 3",
        ),
        (["nChw8c", "--shape", "2x-17x5x4"], "an extent is -17, at least 0 is needed"),
        (["nChw8c", "--shape", "2xax5x4"], "expected an extent (an integer) between 'x's, found 'a'"),
        (["nChw8c", "--shape", f"2x{1 << 63}x5x4"], "is not below 2^63"),
        (["nChw8c"], "'nChw8c' says no extents: give 4 of them (n, c, h, w), such as --shape 8x8x8x8"),
        (["nchw", "--shape", "2x3x4x5", "--index", "0,3,0,0"], "dim 1 has 3 elements"),
        (["nchw", "--shape", "2x3x4x5", "--index", "0,0"], "rank mismatch between index (0, 0)"),
        (
            ["nchw", "--shape", "2x3x4x5", "--index", "0,,0"],
            "expected an index (an integer) between ','s, found ''",
        ),
        (["nchw", "--shape", "2x3x4x5", "--dtype", "f33"], "unknown element type 'f33': known are f64"),
        (["xml:nchw", "--shape", "2x3x4x5"], "unknown notation 'xml': known are tag"),
        (["xla:{3,2,1,0:T(8", "--shape", "2x3x4x5"], "xla text"),
        (["memref:memref<2x3xf32>", "--shape", "2x4"], "asked for was 2x4"),
    ],
)
def test_negative_bad_input_is_one_error_with_both_sides(
    capsys: pytest.CaptureFixture[str], args: list[str], message: str
):
    status, out, err = run(capsys, *args)
    assert (status, out) == (1, "")
    assert err.startswith("error: ") and message in err
    assert "defect" not in err


def test_negative_the_caret_stands_below_the_offending_part(capsys: pytest.CaptureFixture[str]):
    _, _, err = run(capsys, "(n, c) : [n, d]", "--shape", "1x2")
    message, text, caret = err.splitlines()
    assert message.startswith("error: ")
    assert text[caret.index("^")] == "d"
    _, _, err = run(capsys, "htp:ChunkedMemoryLayout<4, 0,0, 9,0>", "--shape", "1x2x3x4")
    _, text, caret = err.splitlines()
    assert text[caret.index("^") :].startswith("9,0") or text[caret.index("^")] in "9"


_PIECES = st.sampled_from(
    [
        *(
            "(",
            ")",
            "n",
            "c",
            ", ",
            " : ",
            "[",
            "]",
            "c:8",
            "|",
            "*",
            "@",
            "-",
            "0",
            "17",
            "x",
            "\u00e4",
            "\n",
            "9" * 30,
        ),
        *("pad = ", "zero", "lo = [", "offset = ", "swizzle = (", "nChw8c", "R4Crouton", "{1,0:T(8,128)}"),
        *("xla:", "htp:", "cute:", "torch:"),
    ]
)


@given(
    st.lists(_PIECES, max_size=12).map("".join),
    st.lists(_PIECES, max_size=4).map("".join) | st.just("2x17x5x4"),
)
@settings(max_examples=400, deadline=None)
def test_negative_no_text_is_a_defect(text: str, shape: str):
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as err:
        # Behind "--" nothing is an option.
        status = main(["explain", f"--shape={shape}", "--", text])
    assert status in (0, 1)
    assert "defect" not in err.getvalue()
    assert (status == 1) == err.getvalue().startswith("error: ")


@pytest.mark.parametrize("option", ["--shape", "--index", "--dtype"])
def test_negative_two_dashes_are_no_value(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    # argparse takes the dashes for the end of the options and leaves an empty list.
    assert main(["explain", "nchw", "--shape", "1x1x1x1", f"{option}=--"]) == 1
    # From Python 3.13 on argparse hands it to the command as the value, which is refused as any wrong one is.
    assert "'--'" in capsys.readouterr().err


def test_a_tvm_string_is_explained_in_the_order_of_its_array(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "tvm:HWIO", "--shape", "3x5x32x64", "--index", "2,4,31,63"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "dims          h=3 w=5 i=32 o=64" in lines
    assert (
        f"index (2, 4, 31, 63) is at address {3 * 5 * 32 * 64 - 1}, byte {4 * (3 * 5 * 32 * 64 - 1)}" in lines
    )
    # Names are the same tensor's, places those of the array.
    assert "tag          hwio" in lines and "tvm          HWIO" in lines
    assert "torch        size=(3, 5, 32, 64), stride=(10240, 2048, 64, 1), storage_offset=0" in lines


def test_negative_a_tag_is_explained_without_the_names_of_its_dims(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "nChw8c", "--shape", "2x17x5x4"]) == 0
    out, err = capsys.readouterr()
    assert not err and not any(line.startswith("dims") for line in out.splitlines())


PASTED = [
    (("bf16[20,200]{1,0:T(8,128)(2,1)}",), "xla", "bf16", [20, 200], (9, 130), 3077),
    (("memref<2x5xf16, strided<[8, 1], offset: 3>>",), "memref", "f16", [2, 5], (1, 4), 15),
    (("(320, 1, 64, 16)", "--shape", "2x16x5x4"), "torch", "f32", [2, 16, 5, 4], (1, 15, 4, 3), 639),
    (("(320, 4, 64)", "--shape", "2x16x5", "--from", "numpy", "--dtype", "i32"), "numpy", "i32", [2, 16, 5],
     (1, 15, 4), 159),
    (("NHWC", "--shape", "2x4x5x3", "--from", "tvm"), "tvm", "f32", [2, 4, 5, 3], (1, 3, 4, 2), 119),
    (("lambda n, c: [n, c // 4, c % 4]", "--shape", "2x6"), "indexmap", "f32", [2, 6], (1, 5), 13),
    (("_4:_2",), "cute", "f32", [4], (3,), 6),
    (("nChw8c", "--shape", "2x17x5x4", "--from", "format"), "format", "f32", [2, 17, 5, 4], (1, 16, 4, 3), 952),
    (("format:nc", "--shape", "2x3"), "format", "f32", [2, 3], (1, 2), 5),
]  # fmt: skip


@pytest.mark.parametrize(("args", "notation", "dtype", "shape", "index", "address"), PASTED)
def test_texts_of_other_systems_are_explained(
    capsys: pytest.CaptureFixture[str],
    args: tuple[str, ...],
    notation: str,
    dtype: str,
    shape: list[int],
    index: tuple[int, ...],
    address: int,
):
    answer = as_json(capsys, *args, "--index", ",".join(map(str, index)))
    assert (answer["notation"], answer["dtype"], answer["shape"]) == (notation, dtype, shape)
    assert answer["index"][0]["address"] == address


def test_what_a_text_is_read_as_is_said_where_it_is_not_ours(capsys: pytest.CaptureFixture[str]):
    _, out, _ = run(capsys, "{1,0:T(2,4)}", "--shape", "4x8")
    assert "read as       xla" in out
    _, out, _ = run(capsys, "nChw8c", "--shape", "2x17x5x4")
    assert "read as" not in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("NHWC", "--shape", "1x8x9x16"), "'NHWC' is ambiguous: "),
        (("(1280, 4, 320, 64)", "--shape", "2x16x5x4"), "say --from torch or --from numpy"),
        (("{1,0}", "--from", "nobody"), "unknown notation 'nobody' behind --from"),
        (("{1,0}",), "'{1,0}' says no extents: give 2 of them (n, c), such as --shape 8x8"),
        (("HWIO",), "give 4 of them (h, w, i, o)"),
        (("foo bar", "--shape", "3"), "neither a tag nor a format, nor of a notation known here"),
        (("nChw8d", "--shape", "1x2x3x4"), "tag 'nChw8d' blocks dim 'd'"),
        (("(n, c) : [n, c, d]", "--shape", "3x4"), "unknown dim 'd'"),
        (("bf16[256,256]{1,0}", "--dtype", "f32"), "says elements of bf16, asked for were f32"),
    ],
)
def test_negative_texts_of_no_or_of_several_notations(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], message: str
):
    status, out, err = run(capsys, *args)
    assert (status, out) == (1, "")
    assert err.startswith("error: ") and message in err


def test_negative_an_error_points_into_a_text_whose_notation_was_guessed(capsys: pytest.CaptureFixture[str]):
    _, _, err = run(capsys, "bf16[256,256]{1,0:T(8,128)L(2)}")
    line, caret = err.splitlines()[1:3]
    assert line[caret.index("^")] == "L"
