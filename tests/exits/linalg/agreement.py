"""Programs as linalg, run by MLIR's tools, beside the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from layout_ir.algebra.physical import physical_tensor
from layout_ir.api.execute import run
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.dialects.layout import dtype_of, layout_of
from layout_ir.elements.element_types import element_type
from layout_ir.elements.numpy_types import Array, poison, storage, widen
from layout_ir.passes.convert_to_linalg import convert_to_linalg
from tests.exits.linalg.mlir_tools import execute_all

Program = tuple[ModuleOp, Sequence[Array]]
"""A module with a function `main`, and its inputs by logical index."""

TOLERANCE = {"f64": 1e-12, "f32": 1e-5, "f16": 2e-3, "bf16": 2e-2}
"""How far results may be apart, relative to the largest magnitude, or to 1 where that is less: libraries differ in the
last bits of exp and the like, and sums in their order; a half may then round to its neighbour. Integers are equal."""


def assert_agree(
    programs: Mapping[str, Program], folder: Path, *, convert: Callable[[ModuleOp], None] = convert_to_linalg,
    before: Sequence[str] = (), exact: bool = False,
) -> None:  # fmt: skip
    """Asserts that every program computes the same when it is converted, lowered and run as when the reference runs it.

    Pads of inputs are poisoned where nothing is promised of them; those of results hold what is promised. All programs
    are one module, so that the tools start once. `exact` asks for equal bits.
    """
    functions: list[Operation] = []
    calls: dict[str, list[Array]] = {}
    wanted: dict[str, list[Array]] = {}
    results: dict[str, list[Attribute]] = {}
    others: list[Operation] = []
    for name, (module, inputs) in programs.items():
        main = _main(module)
        types, results[name] = list(main.function_type.inputs), list(main.function_type.outputs)
        wanted[name] = run(module, inputs, reorders="reference")
        calls[name] = [_physical(x, type) for x, type in zip(inputs, types, strict=True)]
        module = module.clone()
        convert(module)
        module.verify()
        main = _main(module)
        main.properties["sym_name"] = StringAttr(name)
        _rename_globals(module, name)
        for op in list(module.body.block.ops):
            op.detach()
            (functions if op is main else others).append(op)
    got = execute_all(ModuleOp([*others, *functions]), calls, folder, before=before)
    for name, arrays in got.items():
        for array, type, want in zip(arrays, results[name], wanted[name], strict=True):
            dtype = dtype_of(type)
            assert_close(_logical(array, type), want, dtype, name, exact=exact)
            if layout_of(type).pad != "undef":
                assert_close(array, _physical(want, type), dtype, f"pads of {name}", exact=exact)


def _rename_globals(module: ModuleOp, prefix: str) -> None:
    """Puts `prefix` in front of the names of constants, so that several programs fit into one module."""
    for op in module.walk():
        if isinstance(op, memref.GlobalOp):
            op.properties["sym_name"] = StringAttr(f"{prefix}_{op.sym_name.data}")
        elif isinstance(op, memref.GetGlobalOp):
            op.properties["name"] = SymbolRefAttr(f"{prefix}_{op.name_.string_value()}")


def _main(module: ModuleOp) -> FuncOp:
    return next(op for op in module.walk() if isinstance(op, FuncOp) and op.sym_name.data == "main")


def _physical(x: Array, type: Attribute) -> Array:
    """The tensor of the memory of `x`, its pads poisoned unless the type promises something of them."""
    layout, dtype = layout_of(type), dtype_of(type)
    pads = poison(dtype) if layout.pad == "undef" else None
    buffer: Any = Tensor.store(np.asarray(x), layout, dtype, pads).buffer
    return buffer.reshape(physical_tensor(layout).shape)


def _logical(array: Array, type: Attribute) -> Array:
    layout, dtype = layout_of(type), dtype_of(type)
    return Tensor(array.reshape(-1).view(storage(dtype)).copy(), layout, dtype).logical()


def assert_close(got: Array, want: Array, dtype: str, name: str, *, exact: bool = False) -> None:
    """Asserts that stored elements are equal, or of floats nearly so."""
    if exact or not element_type(dtype).is_float:
        np.testing.assert_array_equal(got.view(f"u{got.itemsize}"), want.view(f"u{want.itemsize}"), name)
    else:
        expected = widen(want, dtype)
        largest = float(np.max(np.abs(expected), where=np.isfinite(expected), initial=1.0))
        np.testing.assert_allclose(
            widen(got, dtype), expected, rtol=0, atol=TOLERANCE[dtype] * largest, err_msg=name
        )
