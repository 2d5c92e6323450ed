"""What a measured price is the price of: an op with its attributes, on tensors of these shapes, types and layouts.

A key is text, so that it means the same in every process and can be read in a file. A tensor is its shape and element
type as a program writes them, and how it lies:

    1x64x56x56xf32 nChw8c      in a Format, in the usual letters of its rank; its pads hold zeros
    64x64x3x3xf32 constant     known when the program is built: the runtime packs it as it likes
    1xf32 number               a constant that is one number everywhere

What the op computes with the values does not belong to the key, nor what its operands are called.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.format import Format, bound_format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.tag import name_of, names_for
from layout_ir.diagnostics import name_of_op
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, ViewOp, dtype_of, has_layout
from layout_ir.dialects.layout.types import extents_of, tensor_type
from layout_ir.elements.element_types import element_type
from layout_ir.errors import LayoutError
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.costs.cost_model import apart

CONSTANT, NUMBER = "constant", "number"
"""How a constant lies, in place of a Format."""

REORDER = "layout.reorder"
"""The op of the keys of reorders."""

MOST_TEXT = 2048
"""Characters of a part of a key at most; an op with more attributes has no key."""

_MOST_ELEMENTS = 1 << 60
"""More elements than a tensor of a file may have, so that sums and products of sizes stay numbers."""

_TENSOR = re.compile(r"((?:\d{1,15}x)*)([a-zA-Z][a-zA-Z0-9_]*) (.+)")


@dataclass(frozen=True, slots=True)
class TensorKey:
    """One tensor of a key: its extents, its element type, and the text of how it lies."""

    shape: tuple[int, ...]
    dtype: str
    lies: str

    def __str__(self) -> str:
        return f"{''.join(f'{extent}x' for extent in self.shape)}{self.dtype} {self.lies}"

    @staticmethod
    def parse(text: str) -> TensorKey:
        """The tensor that `text` says. Raises LayoutError where it is none."""
        match = _TENSOR.fullmatch(text)
        if match is None:
            raise LayoutError(f"{text[:80]!r} is no tensor such as '1x64x56x56xf32 nChw8c'")
        extents, dtype, lies = match.groups()
        found = TensorKey(tuple(int(extent) for extent in extents.split("x")[:-1]), dtype, lies)
        if prod(max(extent, 1) for extent in found.shape) >= _MOST_ELEMENTS:
            raise LayoutError(f"{text[:80]!r} has 2^60 elements or more")
        element_type(dtype)
        _ = found.layout
        return found

    @property
    def layout(self) -> Layout | None:
        """The layout of the tensor; None for a constant. Raises LayoutError where the Format does not fit."""
        return None if self.lies in (CONSTANT, NUMBER) else _layout(self.lies, self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the tensor, pads included; those of one element for a number."""
        if self.lies == NUMBER:
            return 4
        layout = self.layout
        if layout is None:
            return prod(self.shape) * max(element_type(self.dtype).bits // 8, 1)
        return layout.nbytes(self.dtype)


@lru_cache(maxsize=4096)
def _layout(lies: str, shape: tuple[int, ...]) -> Layout:
    return Format.of(lies).bind(shape)


@dataclass(frozen=True, slots=True)
class PriceKey:
    """An op, its attributes as text, its operands and its results."""

    op: str
    attributes: str
    ins: tuple[TensorKey, ...]
    outs: tuple[TensorKey, ...]

    def __str__(self) -> str:
        said = f" {{{self.attributes}}}" if self.attributes else ""
        ins, outs = (", ".join(map(str, tensors)) for tensors in (self.ins, self.outs))
        return f"{self.op}{said} ({ins}) -> ({outs})"


@lru_cache(maxsize=4096)
def format_text(fmt: Format) -> str:
    """The text of a Format that does not depend on what its dims are called, its pad policy left out."""
    renamed = fmt.with_pad("undef").with_names(names_for(fmt.rank))
    return name_of(renamed) or str(renamed)


def op_key(op: Operation, option: LayoutOption) -> PriceKey | None:
    """What running `op` as `option` is looked up by; None where that has no price of its own: views, constants, opaque
    ops, and ops that are not of `nn`."""
    if not isinstance(op, nn.NNOp) or isinstance(op, nn.ConstantOp | nn.OpaqueOp | ReorderOp | ViewOp):
        return None
    operands, results = list(op.operands), list(op.results)
    if not all(has_layout(value.type) for value in (*operands, *results)):
        return None
    if len(option.ins) != len(operands) or len(option.outs) != len(results):
        return None
    ins = [_operand(op, value, fmt) for value, fmt in zip(operands, option.ins, strict=True)]
    outs = [_tensor(value, fmt) for value, fmt in zip(results, option.outs, strict=True)]
    attributes = _attributes(op)
    known = [tensor for tensor in (*ins, *outs) if tensor is not None]
    if len(known) != len(ins) + len(outs) or len(attributes) > MOST_TEXT:
        return None
    return PriceKey(name_of_op(op), attributes, tuple(known[: len(ins)]), tuple(known[len(ins) :]))


def reorder_key(source: Layout, destination: Layout, dtype: str) -> PriceKey | None:
    """What a reorder is looked up by, wherever in their buffers the tensors begin; from a layout to itself it writes
    the pads. None where no text says one."""
    sides = [_of_layout(layout, dtype) for layout in apart(source, destination)]
    if sides[0] is None or sides[1] is None:
        return None
    return PriceKey(REORDER, "", (sides[0],), (sides[1],))


def kind_of_constant(value: SSAValue) -> str | None:
    """`constant` or `number` for a value that is known when the program is built, None for any other."""
    op = value.owner
    if not isinstance(op, nn.ConstantOp):
        return None
    data = getattr(op.value, "data", None)
    size = len(getattr(data, "data", b""))
    return NUMBER if size and size <= 8 and size == _element_bytes(value) else CONSTANT


def _element_bytes(value: SSAValue) -> int:
    return max(element_type(dtype_of(value.type)).bits // 8, 1)


def _operand(op: Operation, value: SSAValue, fmt: Format | None) -> TensorKey | None:
    kind = kind_of_constant(value)
    if kind is not None:
        # Only to elementwise ops is a number more than a tensor of them: it becomes part of the function.
        kind = kind if isinstance(op, nn.ElementwiseOp) else CONSTANT
        return TensorKey(extents_of(tensor_type(value.type)), dtype_of(value.type), kind)
    return None if fmt is None else _tensor(value, fmt)


def _tensor(value: SSAValue, fmt: Format) -> TensorKey | None:
    shape = extents_of(tensor_type(value.type))
    try:
        layout = bound_format(fmt, shape)
    except LayoutError:
        return None
    return _of_layout(layout, dtype_of(value.type))


@lru_cache(maxsize=16384)
def _of_layout(layout: Layout, dtype: str) -> TensorKey | None:
    """The tensor, if its text reads back as the same memory."""
    found = TensorKey(layout.shape, dtype, format_text(layout.format))
    try:
        read = found.layout
    except LayoutError:
        return None
    return found if read is not None and len(found.lies) <= MOST_TEXT and read.same_map(layout) else None


def _attributes(op: Operation) -> str:
    given = {**op.properties, **op.attributes}
    said = [f"{name} = {value}" for name, value in sorted(given.items()) if not name.startswith("layout.")]
    return ", ".join(said)
