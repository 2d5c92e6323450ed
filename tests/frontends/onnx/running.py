"""Running an imported model with the reference semantics, on NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from layout_ir.backends.reference.interpreter import ReferenceFunctions, interpreter_of
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.dialects.layout import dtype_of, layout_of
from tests.frontends.onnx.models import main_of


def run(module: ModuleOp, arguments: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """The results of `@main`; bf16 goes in and out as its bits."""
    types = main_of(module).function_type.inputs.data
    tensors = [
        Tensor.store(_stored(argument), layout_of(type), dtype_of(type))
        for argument, type in zip(arguments, types, strict=True)
    ]
    results = interpreter_of(module, ReferenceFunctions()).call_op("main", tuple(tensors))
    return [result.logical() for result in results]


def _stored(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def check_close(
    ours: Sequence[NDArray[Any]], theirs: Sequence[NDArray[Any]], rtol: float, atol: float
) -> None:
    """Same number, shapes and element types, and values as close as that; raises AssertionError."""
    assert len(ours) == len(theirs)
    for mine, wanted in zip(ours, theirs, strict=True):
        mine = mine.view(wanted.dtype) if wanted.dtype.name == "bfloat16" else mine
        assert (mine.shape, mine.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(
            mine.astype(np.float64), wanted.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True
        )
