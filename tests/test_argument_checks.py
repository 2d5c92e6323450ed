"""What public calls take: both sides of each bound."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from layout_ir.argument_checks import (
    check_flags,
    check_model_name,
    check_program,
    check_seconds,
    check_threads,
    checked_dim,
    checked_integers,
    checked_path,
    checked_row,
    checked_shapes,
)
from layout_ir.errors import LayoutError


def test_what_is_asked_for_is_taken():
    check_program(ModuleOp([]))
    check_threads(1)
    check_threads(np.int64(8))
    for seconds in (0, 0.5, np.float64(2), math.inf):
        check_seconds("time_limit", seconds)


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2", None, np.arange(2)])
def test_negative_other_numbers_of_threads_are_named(threads: object):
    with pytest.raises(LayoutError, match="is no number of threads: expected a whole number from 1 on"):
        check_threads(threads)


def test_a_flag_is_a_bool_of_any_kind():
    check_flags(a=True, b=False, c=np.True_, d=np.bool_(False))


@pytest.mark.parametrize("flag", ["no", "", 0, 1, None, np.arange(2), np.int64(1)], ids=repr)
def test_negative_what_python_only_takes_for_a_bool_is_no_flag(flag: object):
    with pytest.raises(LayoutError, match=r"^fuse = .* is no flag: expected True or False$"):
        check_flags(checked=True, fuse=flag)


def test_a_row_is_anything_with_elements():
    assert (
        checked_row("names", (name for name in "ab")) == checked_row("names", {"a": 1, "b": 2}) == ("a", "b")
    )


@pytest.mark.parametrize("row", ["ab", b"ab", 3, None], ids=repr)
def test_negative_a_text_is_no_row(row: object):
    with pytest.raises(LayoutError, match=r"^names .* is no row of names"):
        checked_row("names", row)


def test_a_model_may_be_called_anything_but_a_program():
    for source in ("m.onnx", "m", Path("m.bin"), b"x.mlir", 3):
        check_model_name(source)


@pytest.mark.parametrize("source", ["m.mlir", Path("a/m.mlir")], ids=str)
def test_negative_a_file_of_mlir_is_no_model(source: object):
    with pytest.raises(LayoutError, match=r"m\.mlir is a program by its name"):
        check_model_name(source)


@pytest.mark.parametrize("seconds", [-1, math.nan, True, "2", None, np.arange(2)])
def test_negative_other_limits_are_named(seconds: object):
    with pytest.raises(LayoutError, match=r"^time_limit = .* is no number of seconds from 0 on$"):
        check_seconds("time_limit", seconds)


def test_negative_a_time_without_end_is_none_where_it_has_to_be_finite():
    with pytest.raises(LayoutError, match="budget = inf is no number"):
        check_seconds("budget", math.inf, finite=True)


def test_negative_a_program_is_a_module():
    with pytest.raises(LayoutError, match="a program is a ModuleOp of xDSL, not of type str"):
        check_program("module {}")


def test_shapes_are_rows_of_whole_numbers_of_any_kind():
    given = {"x": [np.int64(2), 3], "y": np.array([4]), "z": ()}
    assert checked_shapes(given) == {"x": (2, 3), "y": (4,), "z": ()}
    assert checked_shapes(None) is None


@pytest.mark.parametrize(
    "shapes",
    [3, "x", [("x", [2])], {"x": 3}, {"x": None}, {"x": [None, 3]}, {"x": "2x3"}, {"x": [2.0]}, {1: [2]}],
    ids=str,
)
def test_negative_other_shapes_are_named(shapes: object):
    with pytest.raises(LayoutError, match=r"^shapes.*( is no dict | is no row | is no name of an input)"):
        checked_shapes(shapes)


def test_integers_of_any_kind_become_those_of_python():
    numbers = checked_integers("order", np.array([1, 0]))
    assert numbers == (1, 0)
    assert {type(number) for number in numbers} == {int}


@pytest.mark.parametrize("numbers", [3, None, "ab", (1, 2.0)], ids=repr)
def test_negative_other_rows_are_named(numbers: object):
    with pytest.raises(LayoutError, match=r"^order .* is no row of integers$"):
        checked_integers("order", numbers)


def test_a_dim_is_the_number_of_one():
    assert checked_dim(0, (2, 3)) == 0
    assert checked_dim(np.int64(1), (2, 3)) == 1


@pytest.mark.parametrize(
    ("dim", "message"),
    [
        (2, "dim 2 does not exist in shape 2x3"),
        (-1, "dim -1 does not exist in shape 2x3"),
        (1.0, "dim 1.0 is no integer: the dims of shape 2x3 count from 0"),
        ("c", "dim 'c' is no integer: the dims of shape 2x3 count from 0"),
        (None, "dim None is no integer: the dims of shape 2x3 count from 0"),
    ],
)
def test_negative_other_dims_are_named(dim: object, message: str):
    with pytest.raises(LayoutError) as error:
        checked_dim(dim, (2, 3))
    assert str(error.value) == message


def test_a_path_is_a_text_or_a_path():
    assert checked_path("a/b") == checked_path(Path("a/b")) == "a/b"


@pytest.mark.parametrize("path", [None, 0, True, b"a", "a\0b"], ids=repr)
def test_negative_other_paths_are_named(path: object):
    with pytest.raises(LayoutError, match=r"folder = .* is no path: expected a text without NUL"):
        checked_path(path, "folder")
