"""Slices, pads, repetitions and reversals of tosa compute the same in every format that is chosen for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

import layout_ir as li
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.elements.numpy_types import Array
from tests.exits.linalg.mlir_tools import mlir_opt

SHAPE = (2, 5, 4, 8)
NHWC = "(n, h, w, c) : "


def _shape(name: str, *numbers: int) -> str:
    count = len(numbers)
    values = f"dense<{list(numbers)}> : tensor<{count}xindex>"
    return f"%{name} = tosa.const_shape {{values = {values}}} : () -> !tosa.shape<{count}>"


_SEVEN = '%v = "tosa.const"() <{values = dense<7.0> : tensor<1xf32>}> : () -> tensor<1xf32>'
_ENDS = (1, 0, 0, 3, 2, 2, 0, 8)

OPS: dict[str, tuple[str, str, Callable[[Array], Array]]] = {
    "slice": (
        f"{_shape('s', 1, 0, 2, 4)}\n{_shape('z', 1, 5, 2, 4)}",
        "tosa.slice %x, %s, %z : ({0}, !tosa.shape<4>, !tosa.shape<4>) -> {1}",
        lambda x: x[1:2, :, 2:, 4:],
    ),
    "pad": (
        f"{_shape('s', *_ENDS)}\n{_SEVEN}",
        "tosa.pad %x, %s, %v : ({0}, !tosa.shape<8>, tensor<1xf32>) -> {1}",
        lambda x: np.pad(x, list(zip(_ENDS[::2], _ENDS[1::2], strict=True)), constant_values=7),
    ),
    "tile": (
        _shape("s", 1, 2, 1, 3),
        "tosa.tile %x, %s : ({0}, !tosa.shape<4>) -> {1}",
        lambda x: np.tile(x, (1, 2, 1, 3)),
    ),
    "reverse": ("", "tosa.reverse %x {{axis = 3 : i32}} : ({0}) -> {1}", lambda x: x[..., ::-1]),
}  # fmt: skip

FORMATS = (
    "[n, c, h, w]",
    "[c, w, n, h]",
    "[n, c, h, w, c:4], pad = zero",
    "[n, w, c, h, c:2, w:2, c:2], pad = 1",
)


def program(name: str, fmt: str, x: Array) -> tuple[str, Array]:
    """A function around the op, whose argument and result are in `fmt` and whose own tensors are open; its result."""
    shapes, op, function = OPS[name]
    expected = function(x)
    first, last = (f"tensor<{'x'.join(map(str, array.shape))}xf32" for array in (x, expected))
    given = [f"{type}, #layout.format<{NHWC}{fmt}>>" for type in (first, last)]
    opened = [f"{type}, #layout.any>" for type in (first, last)]
    text = f"""
        func.func @main(%a: {given[0]}) -> {given[1]} {{
          {shapes}
          %x = layout.reorder %a : {given[0]} -> {opened[0]}
          %y = {op.format(*opened)}
          %b = layout.reorder %y : {opened[1]} -> {given[1]}
          func.return %b : {given[1]}
        }}
        """
    return text, expected


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("name", OPS)
def test_ops_of_tosa_take_the_format_that_reaches_them(name: str, fmt: str):
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    text, expected = program(name, fmt, x)
    module = li.parse(text)
    li.optimize(module, "blocked8")
    assert not any(op.name == "layout.reorder" for op in module.walk())
    (found,) = li.run(module, [x])
    assert np.array_equal(found, expected)
    plain = li.to_mlir(module)
    mlir_opt(str(plain))
    # The arrays of the memory: what the layout says of them, the test says of the result.
    layouts = [li.Format.parse(NHWC + fmt).bind(shape) for shape in (SHAPE, expected.shape)]
    memory = np.zeros(layouts[0].extent, np.float32)
    memory[np.asarray(layouts[0].addresses())] = x
    (argument,) = cast("FuncOp", plain.body.block.first_op).args
    (result,) = li.run(plain, [memory.reshape(tensor_type(argument.type).get_shape())])
    assert np.array_equal(result.reshape(-1)[np.asarray(layouts[1].addresses())], expected)


@pytest.mark.parametrize("name", ["tile", "reverse"])
def test_negative_dims_with_pads_are_not_repeated_or_reversed(name: str):
    x = np.random.default_rng(0).standard_normal((2, 5, 4, 9)).astype(np.float32)
    text, expected = program(name, "[n, c, h, w, c:4], pad = zero", x)
    module = li.parse(text)
    li.optimize(module, "blocked8")
    assert any(op.name == "layout.reorder" for op in module.walk())
    assert np.array_equal(li.run(module, [x])[0], expected)


def test_a_number_that_the_run_time_knows_pads_too():
    text = f"""
    func.func @main(%a: tensor<2x3xf32, #layout.tag<ba>>, %v: tensor<1xf32>) -> tensor<4x3xf32, #layout.tag<ba>> {{
      {_shape("s", 1, 1, 0, 0)}
      %y = tosa.pad %a, %s, %v : (tensor<2x3xf32, #layout.tag<ba>>, !tosa.shape<4>, tensor<1xf32>)
        -> tensor<4x3xf32, #layout.tag<ba>>
      func.return %y : tensor<4x3xf32, #layout.tag<ba>>
    }}"""
    plain = li.to_mlir(li.parse(text))
    mlir_opt(str(plain))
    assert "tensor.extract %v" in li.to_text(plain) and "#layout" not in li.to_text(plain)
