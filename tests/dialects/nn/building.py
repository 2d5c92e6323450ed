"""Values and programs for tests of ops."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import cast

from xdsl.dialects import test
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    ModuleOp,
    NoneAttr,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from layout_ir.algebra.format import Format
from layout_ir.dialects.layout import AnyAttr, FormatAttr

ELEMENTS: dict[str, Attribute] = {
    "f16": Float16Type(),
    "bf16": BFloat16Type(),
    "f32": Float32Type(),
    "f64": Float64Type(),
    "i8": IntegerType(8),
    "ui8": IntegerType(8, Signedness.UNSIGNED),
    "i32": IntegerType(32),
    "i64": IntegerType(64),
    "i1": IntegerType(1),
}


def tensor(shape: Sequence[int], element: str = "f32", fmt: str | None = None) -> TensorType[Attribute]:
    """A tensor type; `fmt` is the text of a format, a tag, "any", or None for no encoding."""
    if fmt is None:
        encoding: Attribute = NoneAttr()
    elif fmt == "any":
        encoding = AnyAttr()
    else:
        encoding = FormatAttr(Format.parse(fmt) if ":" in fmt else Format.from_tag(fmt))
    return TensorType(ELEMENTS[element], shape, encoding)


def value(shape: Sequence[int], element: str = "f32", fmt: str | None = None) -> SSAValue:
    """The result of some op, of that type."""
    return test.TestOp(result_types=[tensor(shape, element, fmt)]).results[0]


def text(op: Operation, *, generic: bool = False) -> str:
    stream = io.StringIO()
    Printer(stream, print_generic_format=generic).print_op(op)
    return stream.getvalue()


def program(op: Operation) -> ModuleOp:
    """A module with a copy of the op, behind ops that make its operands."""
    makers = {operand: test.TestOp(result_types=[operand.type]) for operand in op.operands}
    copy = op.clone({operand: maker.results[0] for operand, maker in makers.items()})
    return ModuleOp([*makers.values(), copy])


def error_of(op: Operation) -> str:
    """What the verifier of `op` says; empty if it is content."""
    try:
        op.verify()
    except VerifyException as error:
        # xDSL appends the text of the op to the message.
        return str(error).split("\n\n")[0]
    return ""


def result(op: Operation) -> TensorType[Attribute]:
    """The type of the op's result."""
    type = op.results[0].type
    assert isinstance(type, TensorType)
    return cast("TensorType[Attribute]", type)
