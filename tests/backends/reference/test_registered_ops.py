"""Ops of others in the reference: elements in, elements out, pads as types promise, and as ops say that they read."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# Registered functions take any arrays: a type checker knows nothing of the parameters of lambdas.
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.reference.registered_ops import trial
from layout_ir.extend import PadBehaviour, PadRead, register_op
from layout_ir.interfaces import ARRAY_SEMANTICS, PAD_BEHAVIOURS

X = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4) - 5


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    with ARRAY_SEMANTICS.isolated(), PAD_BEHAVIOURS.isolated():
        yield


def program(type: str, ops: str, result: str | None = None) -> Any:
    text = f"func.func @main(%x: {type}) -> {result or type} {{\n{ops}\nfunc.return %y : {result or type}\n}}"
    return li.parse(text, allow_unregistered=True)


def one(type: str, result: str | None = None) -> Any:
    return program(type, f'%y = "theirs.op"(%x) : ({type}) -> {result or type}', result)


PADDED = "tensor<2x3x4xf32, #layout.format<(a, b, c) : [a, b, c, b:2], pad = {}>>"


@pytest.mark.parametrize("type", ["tensor<2x3x4xf32>", PADDED.format("zero"), PADDED.format("undef")])
def test_the_function_gets_and_gives_elements_whatever_the_layout(type: str):
    register_op("theirs.op", options=None, semantics=lambda op, x: x * 2)
    assert np.array_equal(li.run(one(type), [X])[0], X * 2)


@pytest.mark.parametrize(("pad", "expected"), [("zero", 0.0), ("3", 3.0)])
def test_pads_of_a_result_hold_what_its_type_promises(pad: str, expected: float):
    register_op("theirs.op", options=None, semantics=lambda op, x: x * 2 + 1)
    type = PADDED.format(pad)
    seen: list[Any] = []
    li.run(one(type), [X], trace=lambda op, tensors, seconds: seen.append(tensors[-1]))
    assert (seen[0].box()[:, 3] == expected).all()


def test_pads_that_nothing_promises_are_poison():
    register_op("theirs.op", options=None, semantics=lambda op, x: x)
    seen: list[Any] = []
    li.run(one(PADDED.format("undef")), [X], trace=lambda op, tensors, seconds: seen.append(tensors[-1]))
    assert np.isnan(seen[0].box()[:, 3]).all()


def test_halves_are_computed_in_single_precision_and_rounded_once():
    kinds: list[Any] = []

    def third(op: Any, x: Any) -> Any:
        kinds.append(x.dtype)
        return x / 3

    register_op("theirs.op", options=None, semantics=third)
    half = X.astype(np.float16)
    assert np.array_equal(li.run(one("tensor<2x3x4xf16>"), [half])[0], (half.astype("f4") / 3).astype("f2"))
    assert kinds == [np.float32]


def test_an_op_may_have_several_results_and_stand_in_a_loop():
    register_op("theirs.halves", options=None, semantics=lambda op, x: (x // 2, x - x // 2))
    type = "tensor<4xi32>"
    module = program(
        type,
        f"""
        %lo = arith.constant 0 : index
        %hi = arith.constant 2 : index
        %one = arith.constant 1 : index
        %y = scf.for %i = %lo to %hi step %one iter_args(%a = %x) -> ({type}) {{
          %l, %h = "theirs.halves"(%a) : ({type}) -> ({type}, {type})
          scf.yield %h : {type}
        }}""",
    )
    x = np.array([5, 8, 1, 0], np.int32)
    assert list(li.run(module, [x])[0]) == [2, 2, 1, 0]


def test_what_is_read_in_pads_is_there():
    reads = PadBehaviour(reads=lambda op, k: (PadRead(1, 0.0),))
    register_op("theirs.op", options=None, pads=reads, semantics=lambda op, x: x.sum(1))
    assert np.array_equal(li.run(one(PADDED.format("zero"), "tensor<2x4xf32>"), [X])[0], X.sum(1))


@pytest.mark.parametrize("pad", ["undef", "1"])
def test_negative_a_pad_that_holds_something_else_is_an_error(pad: str):
    reads = PadBehaviour(reads=lambda op, k: (PadRead(1, 0.0),))
    register_op("theirs.op", options=None, pads=reads, semantics=lambda op, x: x.sum(1))
    with pytest.raises(
        li.LayoutError, match=r"theirs.op: reads 0 in the pads of dim 1 of operand 0, which hold "
    ):
        li.run(one(PADDED.format(pad), "tensor<2x4xf32>"), [X])


@pytest.mark.parametrize(
    ("semantics", "message"),
    [
        (lambda op, x: x.T, r"give 4x3x2 of float32 for result 0, which is tensor<2x3x4xf32>"),
        (lambda op, x: (x, x), r"give 2 results, the op has 1"),
        (lambda op, x: x.astype(np.complex64), r"give 2x3x4 of complex64"),
        (lambda op, x: None, r"give scalar of object"),
        (lambda op, x: 1 // 0, r"ZeroDivisionError"),
    ],
)
def test_negative_results_that_do_not_fit_are_refused(semantics: Any, message: str):
    register_op("theirs.op", options=None, semantics=semantics)
    module = one("tensor<2x3x4xf32>")
    with pytest.raises(li.LayoutError, match=message):
        li.run(module, [X])


def test_a_trial_runs_the_op_on_its_types_alone():
    register_op("theirs.op", options=None, semantics=lambda op, x: x.reshape(6, 4))
    (function,) = one("tensor<2x3x4xi8, #layout.any>", "tensor<6x4xi8, #layout.any>").ops
    trial(function.body.block.first_op)
    (function,) = one("tensor<2x3x4xi8, #layout.any>", "tensor<4x6xi8, #layout.any>").ops
    with pytest.raises(li.LayoutError, match="give 6x4 of int8"):
        trial(function.body.block.first_op)


def test_negative_without_semantics_an_op_does_not_run():
    with pytest.raises(li.LayoutError, match=r"theirs\.op has no reference semantics"):
        li.run(one("tensor<2x3x4xf32>"), [X])
