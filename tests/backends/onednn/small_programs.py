"""Programs of an op or a few in given formats, and the two ways to run them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.builder import Builder
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    NoneAttr,
    TensorType,
    f64,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint

import layout_ir as li
from layout_ir.algebra.format import Format
from layout_ir.backends.onednn.library import library, unavailable
from layout_ir.dialects import nn
from layout_ir.dialects.layout import FormatAttr, ReorderOp, attribute_of, encoding_of, with_format
from layout_ir.dialects.nn.constant import literal
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import narrow, widen
from layout_ir.passes.selection.options.onednn_query import vector_extension

needs_library = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

HALF = pytest.mark.skipif(
    unavailable() is not None or not library().computes("bf16"), reason="the CPU computes nothing in bf16"
)

LAYOUTS = ("nchw", "nhwc", "nChw8c", "nChw16c")

BLOCKED = "nChw16c" if vector_extension() == "avx512" else "nChw8c"
"""Blocks of as many channels as vectors have elements: what the library has kernels for on this CPU."""

Shape = Sequence[int]


def numbers(shape: Shape, seed: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray[Any, Any]:
    """Random floats that a wrong order of elements cannot hide."""
    return np.random.default_rng(seed).uniform(low, high, tuple(shape)).astype(np.float32)


class Program:
    """A function under construction; values are made in their formats and returned row-major.

    Arguments and constants have elements of `dtype`."""

    def __init__(self, *shapes: Shape, dtype: str = "f32") -> None:
        self.dtype = dtype
        types = [TensorType(attribute_of(dtype), tuple(shape)) for shape in shapes]
        self.function = FuncOp("main", (types, []))
        self._builder = Builder(InsertPoint.at_end(self.function.body.blocks[0]))
        self.arguments = self.function.body.blocks[0].args

    def argument(self, number: int, format: str | None = None) -> SSAValue:
        """An argument, reordered into `format`."""
        return self.reordered(self.arguments[number], format)

    def constant(self, values: np.ndarray[Any, Any], format: str | None = None) -> SSAValue:
        """A constant, in `format`."""
        type = TensorType(attribute_of(self.dtype), values.shape)
        made = type if format is None else with_format(type, encoding(format))
        return self._builder.insert(
            nn.ConstantOp(literal(type, narrow(values, self.dtype).tobytes()), made)
        ).result

    def indices(self, numbers: Sequence[int]) -> SSAValue:
        """A constant row of i64."""
        type = TensorType(i64, (len(numbers),))
        return self._builder.insert(
            nn.ConstantOp(literal(type, np.array(numbers, "<i8").tobytes()), type)
        ).result

    def reordered(self, value: SSAValue, format: str | None) -> SSAValue:
        """`value` in `format`, or in none."""
        if format is None:
            return value
        return self._builder.insert(ReorderOp(value, encoding(format))).result

    def converted(
        self, value: SSAValue, dtype: str, format: str | None = None, **parameters: Any
    ) -> SSAValue:
        """`value` in elements of `dtype`; `scale` and `zero_point` are those of both sides, numbers or lists along
        `dim`."""
        properties: dict[str, Attribute] = {
            name: ArrayAttr(
                FloatAttr(side, f64) if isinstance(side, float) else DenseArrayBase.from_list(f64, list(side))
                for side in sides
            )
            for name, sides in parameters.items()
            if name != "dim"
        }
        if "dim" in parameters:
            properties["dim"] = IntegerAttr(parameters["dim"], i64)
        type = TensorType(attribute_of(dtype), shape_of(value))
        made = type if format is None else with_format(type, encoding(format))
        return self._builder.insert(
            ReorderOp.create(operands=[value], result_types=[made], properties=properties)
        ).result

    def insert(self, op: Operation) -> SSAValue:
        """The result of `op`, behind the others."""
        return self._builder.insert(op).results[0]

    def add(self, op: Any, *operands: SSAValue, format: str | None = None, **attributes: Any) -> SSAValue:
        """The result of an `nn` op, in `format`."""
        made = op(*operands, **attributes)
        type = with_format(made.result.type, NoneAttr() if format is None else encoding(format))
        made.erase()  # made only to infer the type
        return self._builder.insert(op(*operands, result_type=type, **attributes)).result

    def module(self, *results: SSAValue) -> ModuleOp:
        """The verified module; its function returns `results`, row-major."""
        plain = [
            value if isinstance(encoding_of(value.type), NoneAttr) else self._plain(value)
            for value in results
        ]
        self._builder.insert(ReturnOp(*plain))
        self.function.update_function_type()
        module = ModuleOp([self.function])
        module.verify()
        return module

    def _plain(self, value: SSAValue) -> SSAValue:
        return self._builder.insert(ReorderOp(value, NoneAttr())).result


def encoding(format: str) -> FormatAttr:
    """The encoding of a tag, or of the text of a Format; one in blocks promises zeros in its pads."""
    if ":" in format:
        return FormatAttr(Format.parse(format))
    made = Format.from_tag(format)
    return FormatAttr(
        made.with_pad("zero") if any(block > 1 for block in made.blocks()) else made.with_pad("undef")
    )


def steps(executable: li.Executable, *inputs: np.ndarray[Any, Any]) -> list[tuple[str, ...]]:
    """The ops of each step, reorders left out."""
    return [time.ops for time in executable.profile(inputs) if time.implementation != "reorder"]


def compare(
    module: ModuleOp,
    *inputs: np.ndarray[Any, Any],
    fallbacks: dict[str, int] | None = None,
    tolerance: float = 2e-5,
    **options: Any,
) -> li.Executable:
    """Runs a module by the library, on memory full of NaN, and by the reference: both must agree.

    Floats of 16 bits differ by at most 2^-7 of the largest, which is two units of a bf16 in the last place; else by
    `tolerance` of it. `fallbacks` are those that it must have. Returns the executable."""
    executable = li.compile(module, checked=True, **options)
    assert executable.fallbacks == (fallbacks or {})
    expected = li.run(module, inputs, reorders="reference")
    for _ in range(2):
        found = executable(inputs)
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
            if ours.dtype == np.uint16:
                ours, theirs = widen(ours, "bf16"), widen(theirs, "bf16")
                tolerance = 2**-7
            scale = max(float(np.max(np.abs(theirs), initial=0.0)), 1e-3)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * scale)
    return executable
