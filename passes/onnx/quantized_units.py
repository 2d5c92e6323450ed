"""Convolutions and pools between DequantizeLinear and QuantizeLinear as the operators on bytes that they stand for.

ONNX Runtime computes them on integers, and with its channels last:

    DequantizeLinear -> Conv -> QuantizeLinear  =  QLinearConv  =  QLinearConv of its own, channels_last = 1

A Conv has its channels second, so whatever lies between two of them seems to have its channels second at no cost, or
costs Transposes that ONNX Runtime takes away. As the one operator that they are, the choice of orders knows in which
orders they run (`node_models.quantized_operators`). They are put together as ONNX Runtime does it (1.32, tried one by
one in tests/passes/onnx/test_quantized_units.py): scales and zero points of tensors, of weights per channel too; no
other use of the floats behind the operator; activations that rounding to bytes does anyway are left out; biases of
floats are rounded to what the sums are counted in. Transposes in between come to move the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.frontends.onnx.subgraphs import captured_names
from layout_ir.frontends.onnx.tensor_protos import array_of
from layout_ir.passes.onnx.model_constants import PendingTensor, node_constants
from layout_ir.passes.onnx.orders import Order, compose
from layout_ir.passes.onnx.transposed_operands import stated_perm

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

F32, UINT8, INT8, _INT32 = 1, 2, 3, 6
"""Element types, as TensorProto numbers them."""
_LOWEST = {UINT8: 0, INT8: -128}
POOLS = {"AveragePool": "QLinearAveragePool", "GlobalAveragePool": "QLinearGlobalAveragePool"}
"""Pools that have a sibling on bytes in ONNX Runtime's own domain; a MaxPool is its own."""
MICROSOFT = "com.microsoft"
_BYTES_POOLED = 12
"""The opset from which on a MaxPool takes bytes."""


class Quantized(NamedTuple):
    """A tensor of integers that floats are rounded to or come from, and what they are counted in."""

    name: str
    scale: str
    zero_point: str
    """Empty where it is left out, which says 0."""
    element_type: int
    perms: tuple[onnx.NodeProto, ...]
    """The Transposes between these integers and the operator, from its input on or up to its result."""

    @property
    def parameters(self) -> tuple[str, str]:
        """Scale and zero point."""
        return self.scale, self.zero_point


class Unit(NamedTuple):
    """An operator with what is around it."""

    node: onnx.NodeProto
    x: Quantized
    weights: Quantized | None
    bias: str
    """A tensor of 32-bit integers, or of floats; empty where there is none."""
    y: Quantized
    last: onnx.NodeProto
    """The QuantizeLinear at its end."""


@dataclass
class Units:
    """Finds the units of the graph of a model.

    `is_unsigned` says that of convolutions only those of unsigned bytes are units.
    """

    model: onnx.ModelProto
    folder: Path | None
    pending: Mapping[str, PendingTensor]
    is_unsigned: bool = field(kw_only=True)

    def __post_init__(self) -> None:
        graph = self.graph = self.model.graph
        self.makers = {name: node for node in graph.node for name in node.output if name}
        self.users: dict[str, list[onnx.NodeProto]] = {}
        self.kept = {value.name for value in graph.output}
        """Values that somebody else has by name."""
        for node in graph.node:
            for name in node.input:
                self.users.setdefault(name, []).append(node)
            self.kept.update(captured_names(node) if node.attribute else ())
        self.opset = max(
            (each.version for each in self.model.opset_import if not domain_of(each.domain)), default=1
        )

    @cached_property
    def constants(self) -> dict[str, onnx.TensorProto]:
        """The constants that are in the model and that no caller may replace, by name."""
        inputs = {value.name for value in self.graph.input}
        found = {tensor.name: tensor for tensor in self.graph.initializer if tensor.name not in inputs}
        return {**found, **node_constants(self.graph.node)}

    def units(self) -> list[Unit]:
        """The units of the graph, in the order of its nodes."""
        found = (self._unit(node) for node in self.graph.node)
        return [unit for unit in found if unit is not None]

    def _unit(self, node: onnx.NodeProto) -> Unit | None:
        if domain_of(node.domain) or node.op_type not in ("Conv", "MaxPool", *POOLS) or any(node.output[1:]):
            return None
        if not node.output or len(node.input) < (2 if node.op_type == "Conv" else 1):
            return None
        x, behind = self._dequantized(node.input[0]), self._rounded(node.output[0])
        if x is None or behind is None:
            return None
        y, last = behind
        if x.element_type != y.element_type or x.element_type not in _LOWEST:
            return None
        if not (self._has_one(x) and self._has_one(y)):
            return None
        if node.op_type != "Conv":
            is_same = self._same(x.parameters, y.parameters) and self.opset >= _BYTES_POOLED
            fits = is_same if node.op_type == "MaxPool" else not self._is_dilated(node)
            return Unit(node, x, None, "", y, last) if fits else None
        weights = self._weights(node.input[1])
        if weights is None or (self.is_unsigned and x.element_type != UINT8):
            return None
        bias = node.input[2] if len(node.input) > 2 else ""
        if bias:
            bias = self._bias(bias, x, weights)
            if not bias:
                return None
        return Unit(node, x, weights, bias, y, last)

    @staticmethod
    def _is_dilated(node: onnx.NodeProto) -> bool:
        return any(each.name == "dilations" and set(each.ints) != {1} for each in node.attribute)

    def _dequantized(self, name: str) -> Quantized | None:
        """What a value of floats is made of; None where it is not of integers."""
        perms: list[onnx.NodeProto] = []
        while (maker := self.makers.get(name)) is not None and stated_perm(maker) is not None:
            perms.append(maker)
            name = maker.input[0]
        if maker is None or not _is_plain(maker, "DequantizeLinear"):
            return None
        scale, zero_point = maker.input[1], maker.input[2] if len(maker.input) > 2 else ""
        element = self.element_type(zero_point or maker.input[0])
        return Quantized(maker.input[0], scale, zero_point, element, tuple(perms[::-1]))

    def _rounded(self, name: str) -> tuple[Quantized, onnx.NodeProto] | None:
        """What the only one who uses a value of floats makes of it, and the QuantizeLinear that does; None where that
        is not integers of bytes."""
        perms: list[onnx.NodeProto] = []
        activations: list[onnx.NodeProto] = []
        while name not in self.kept:
            users = self.users.get(name, [])
            if len(users) != 1:
                return None
            (user,) = users
            if _is_plain(user, "QuantizeLinear"):
                scale, zero_point = user.input[1], user.input[2] if len(user.input) > 2 else ""
                element = self.element_type(zero_point) if zero_point else _output_type(user)
                found = Quantized(user.output[0], scale, zero_point, element, tuple(perms))
                return (found, user) if all(self._is_covered(each, found) for each in activations) else None
            if stated_perm(user) is not None:
                perms.append(user)
            elif user.op_type in ("Relu", "Clip") and not domain_of(user.domain) and user.input[0] == name:
                activations.append(user)
            else:
                return None
            name = user.output[0]
        return None

    def _is_covered(self, activation: onnx.NodeProto, y: Quantized) -> bool:
        """Whether rounding to bytes saturates as an activation in front of it does, or earlier."""
        import numpy as np

        lowest = _LOWEST.get(y.element_type)
        zero_point = self._number(y.zero_point) if y.zero_point else 0
        scale = self._number(y.scale)
        if lowest is None or zero_point is None or scale is None:
            return False
        if activation.op_type == "Relu":
            return zero_point == lowest
        if self.shape(y.scale) != () or self.shape(y.zero_point) not in (None, ()):
            return False  # ONNX Runtime looks at numbers without dims alone
        limits = {each.name: each.f for each in activation.attribute if each.name in ("min", "max")}
        given = dict(zip(("min", "max"), activation.input[1:], strict=False))
        for name, tensor in given.items():
            if tensor:
                number = self._number(tensor)
                if number is None:
                    return False
                limits[name] = float(number)
        smallest = float(np.float32(scale) * np.float32(lowest - zero_point))
        largest = float(np.float32(scale) * np.float32(lowest + 255 - zero_point))
        return limits.get("min", smallest) <= smallest and limits.get("max", largest) >= largest

    def _weights(self, name: str) -> Quantized | None:
        """Weights of bytes, with a scale of all or per channel of the result; None where they are other ones."""
        found = self._dequantized(name)
        if found is None or found.element_type not in _LOWEST:
            return None
        if self._has_one(found):
            return found
        maker = self.makers[found.perms[0].input[0] if found.perms else name]
        axis = next((each.i for each in maker.attribute if each.name == "axis"), 1)
        shape = self.shape(found.scale)
        rank = len(self.shape(found.name) or ())
        if shape is None or len(shape) != 1 or not rank:
            return None
        return found if _perm_of(found.perms, rank)[0] == axis % rank else None

    def _bias(self, name: str, x: Quantized, weights: Quantized) -> str:
        """A bias as integers that are counted in what sums of products are, or as floats that may become such; empty
        where it is neither."""
        import numpy as np

        scales = self.array(x.scale), self.array(weights.scale)
        if scales[0] is None or scales[1] is None:
            return ""
        wanted: NDArray[Any] = (scales[0].reshape(()) * scales[1]).astype(np.float32).reshape(-1)
        if name in self.constants:
            array = self.array(name)
            return name if array is not None and array.dtype == np.float32 and wanted.all() else ""
        found = self._dequantized(name)
        if found is None or found.element_type != _INT32 or found.perms:
            return ""
        if found.zero_point:
            zero = self.array(found.zero_point)
            if zero is None or zero.any():
                return ""
        scale = self.array(found.scale)
        if scale is None or not np.allclose(scale.reshape(-1), wanted, rtol=1e-5, atol=0):
            return ""
        return found.name

    # What is known of constants ------------------------------------------------------------------------------------

    def element_type(self, name: str) -> int:
        """The element type of a constant, or of what a QuantizeLinear makes; 0 where it is another value."""
        if name in self.constants:
            return self.constants[name].data_type
        maker = self.makers.get(name)
        while maker is not None and stated_perm(maker) is not None:
            maker = self.makers.get(maker.input[0])
        if maker is None or maker.op_type != "QuantizeLinear":
            return 0
        if len(maker.input) > 2 and maker.input[2]:
            return self.element_type(maker.input[2])
        return _output_type(maker)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a constant; None where it is none."""
        tensor = self.constants.get(name)
        return None if tensor is None else tuple(tensor.dims)

    def _has_one(self, integers: Quantized) -> bool:
        """Whether there is one scale, of 32-bit floats, and one zero point, both constants."""
        if self.element_type(integers.scale) != F32:
            return False
        return all(self.shape(name) in ((), (1,)) for name in integers.parameters if name)

    def array(self, name: str) -> NDArray[Any] | None:
        """The elements of a constant; None where it is none."""
        tensor = self.constants.get(name)
        if tensor is None:
            return None
        if name in self.pending:
            return self.pending[name].elements(self.folder)
        return array_of(tensor, self.folder, name)

    def _number(self, name: str) -> Any:
        array = self.array(name)
        return None if array is None or array.size != 1 else array.reshape(()).item()

    def _same(self, one: Sequence[str], other: Sequence[str]) -> bool:
        """Whether parameters are the same numbers."""
        for mine, theirs in zip(one, other, strict=True):
            if mine != theirs:
                first, second = (self._number(name) if name else 0 for name in (mine, theirs))
                if first is None or first != second:
                    return False
        return True


def _perm_of(perms: Sequence[onnx.NodeProto], rank: int) -> Order:
    """What Transposes do, one behind the other."""
    found: Order = tuple(range(rank))
    for each in perms:
        found = compose(found, stated_perm(each) or ())
    return found


def _is_plain(node: onnx.NodeProto, op_type: str) -> bool:
    """Whether a node is QuantizeLinear or DequantizeLinear, not one with scales per block."""
    if node.op_type != op_type or domain_of(node.domain) not in ("", MICROSOFT) or len(node.input) < 2:
        return False
    return all(each.name in ("axis", "saturate", "output_dtype") or not each.i for each in node.attribute)


def _output_type(node: onnx.NodeProto) -> int:
    """The element type of what a QuantizeLinear without zero point makes."""
    stated = next((each.i for each in node.attribute if each.name == "output_dtype"), 0)
    return stated or UINT8
