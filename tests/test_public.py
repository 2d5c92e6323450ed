"""Whatever a public call is given, what it raises is a LayoutError that says what was called."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f32

import layout_ir as li
from layout_ir import extend
from layout_ir.errors import UnforeseenError, public, public_methods

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
FORMAT = li.Format.parse("(a, b, c) : [a, b, c]")
LAYOUT = FORMAT.bind((2, 3, 4))
DESC = li.TensorDesc((2, 3, 4), "f32", "abc")

JUNK: list[Any] = [
    None, 5, -1, 2.5, "x", "", b"ab", [], [1, "a"], {}, object(), float("nan"), (None,), X, 2**70, True, (2, -3), "\0",
    FORMAT, LAYOUT, DESC,
]  # fmt: skip


def _register(op: Any, options: Any = None, pads: Any = None, semantics: Any = None) -> None:
    extend.register_op(op, options=options, pads=pads, semantics=semantics)


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "Format": (li.Format, (FORMAT.names, FORMAT.factors), {"pad": None}),
    "Format.parse": (li.Format.parse, ("(a) : [a]",), {}),
    "Format.from_tag": (li.Format.from_tag, ("nchw",), {}),
    "Format.bind": (FORMAT.bind, ((2, 3, 4),), {}),
    "Layout.address": (LAYOUT.address, ((0, 0, 0),), {}),
    "Layout.expression": (LAYOUT.expression, (("a", "b", "c"), "c"), {"result": "x"}),
    "Layout.inverse": (LAYOUT.inverse, (0,), {}),
    "Layout.slice": (LAYOUT.slice, ((0, 0, 0), (1, 1, 1)), {}),
    "Layout.permute": (LAYOUT.permute, ((0, 1, 2),), {}),
    "Layout.reshape": (LAYOUT.reshape, ((24,),), {}),
    "Layout.same_map": (LAYOUT.same_map, (LAYOUT,), {}),
    "TensorDesc": (
        li.TensorDesc, ((2, 3, 4), "f32", "abc"), {"strides": None, "pad": None, "scale": None, "zero_point": None},
    ),
    "Memory": (li.Memory, (DESC,), {}),
    "Memory.set": (li.Memory(DESC).set, (X,), {}),
    "reorder": (
        li.reorder, (X, "abc", "cba"),
        {"out": None, "shape": None, "dtype": None, "scale": None, "zero_point": None, "beta": None, "dim": None},
    ),
    "compile_reorder": (li.compile_reorder, (DESC, DESC), {"dtype": None, "scale": None, "dim": None, "threads": None}),
    "prepack": (
        li.prepack, ([X], "cba"),
        {"dtype": None, "source_dtype": None, "scales": None, "compensation": None, "out": None, "threads": None},
    ),
    "compile_prepack": (li.compile_prepack, ([li.WeightPacking(DESC, DESC)],), {"threads": None}),
    "concat": (li.concat, ([LAYOUT, LAYOUT], 0), {}),
    "compose": (li.compose, (LAYOUT, LAYOUT), {}),
    "split": (li.split, (LAYOUT, [1, 1], 0), {}),
    "refine": (li.refine, (LAYOUT, LAYOUT), {}),
    "peel": (li.peel, (10, [2]), {}),
    "optimize": (li.optimize, (ModuleOp([]),), {"target": None, "solver": None, "time_limit": None}),
    "extend.check_op": (extend.check_op, (ModuleOp([]),), {"target": None, "formats": None}),
    "extend.register_op": (_register, ("junk.op",), {"options": None, "pads": None, "semantics": None}),
    "extend.register_target": (extend.register_target, (extend.Target("blocked8"),), {}),
    "extend.Target": (extend.Target, ("junk",), {"rates": None, "costs": None, "refine": None, "conv_kernels": None}),
    "extend.Rates": (extend.Rates, (20, 1000), {"operations_per_ns": None}),
    "explain": (li.explain, (ModuleOp([]),), {}),
    "run": (li.run, (ModuleOp([]), []), {"entry": None}),
    "parse": (li.parse, ("func.func private @f()",), {}),
    "to_text": (li.to_text, (ModuleOp([]),), {"elide_above": None}),
    "formats": (li.formats, (ModuleOp([]),), {}),
    "layout_of": (li.layout_of, (TensorType(f32, [2]),), {}),
    "to_mlir": (li.to_mlir, (ModuleOp([]),), {"form": None, "reorders": None}),
    "to_onnx": (li.to_onnx, (ModuleOp([]),), {"entry": None}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_negative_arguments_of_any_type_raise_nothing_but_our_error(name: str):
    function, good, options = CALLS[name]
    tried = 0
    for value in JUNK:
        for position in range(len(good)):
            args = list(good)
            args[position] = value
            tried += _fails(function, args, {})
        for option in options:
            tried += _fails(function, good, {option: value})
    assert tried > 10


def _fails(function: Callable[..., Any], args: Any, options: dict[str, Any]) -> bool:
    try:
        function(*args, **options)
    except li.LayoutError:
        return True
    return False


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: li.reorder([1.0], "a", "a"), r"^x is of type list, expected a NumPy array$"),  # pyright: ignore
        (lambda: li.reorder(X, "abc", "cba", out=[0] * 24), r"^out is of type list, expected a NumPy array$"),  # pyright: ignore
        (lambda: li.reorder(X, "abc", "cba", out=bytearray(96)), r"^out is of type bytearray, "),  # pyright: ignore
        (lambda: li.reorder(X, None, "cba"), r"^a format is written as a str, not as None$"),  # pyright: ignore
        (lambda: li.reorder(X, b"abc", "cba"), r"^a format is written as a str, not as bytes$"),  # pyright: ignore
        (lambda: li.Format.parse(5), r"^a format is written as a str, not as int$"),  # pyright: ignore
        (lambda: FORMAT.bind(5), r"^shape 5 is no row of integers, "),  # pyright: ignore
        (
            lambda: li.TensorDesc((2,), 5, "a"),  # pyright: ignore
            r"^unknown element type 5, which is no str: known are f64",
        ),
        (lambda: li.optimize("model.onnx"), r"^a program is a ModuleOp of xDSL, not of type str$"),  # pyright: ignore
        (lambda: li.run(None), r"^a program is a ModuleOp of xDSL, not of type NoneType$"),  # pyright: ignore
        (lambda: LAYOUT.address(2.5), r"^index 2.5 is no row of integers$"),  # pyright: ignore
    ],
)
def test_negative_a_wrong_argument_is_named(call: Callable[[], Any], message: str):
    with pytest.raises(li.LayoutError, match=message):
        call()


def test_negative_a_call_that_does_not_fit_the_signature_is_a_type_error():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'dim'"):
        li.concat([LAYOUT])  # pyright: ignore
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        LAYOUT.address((0, 0, 0), colour=1)  # pyright: ignore


def test_what_passes_through_is_what_it_was():
    @public
    def fails(error: BaseException) -> None:
        raise error

    for error in (
        li.LayoutError("foreseen"),
        FileNotFoundError("x"),
        ImportError("torch"),
        KeyboardInterrupt(),
    ):
        with pytest.raises(type(error)) as caught:
            fails(error)
        assert caught.value is error


def test_long_and_secret_values_are_not_printed():
    @public_methods
    class Thing:
        def method(self, *args: object) -> None:
            raise KeyError("x")

    with pytest.raises(UnforeseenError) as caught:
        Thing().method("y" * 1000, X, [1] * 100, 2**70)
    assert str(caught.value).startswith(
        f"Thing.method('{'y' * 40}'..., <ndarray>, [1, 1, 1, 1, 1, 1, 1, 1, ...], <int>): "
    )


def test_public_calls_stay_themselves():
    assert (li.concat.__name__, li.Format.parse.__name__) == ("concat", "parse")
    assert pickle.loads(pickle.dumps(li.refine)) is li.refine
    assert pickle.loads(pickle.dumps(li.Format.parse)) is li.Format.parse
