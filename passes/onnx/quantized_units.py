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

from layout_ir.frontends.onnx.functions import domain_of, fresh_name
from layout_ir.frontends.onnx.made_up_extents import is_made_up
from layout_ir.frontends.onnx.subgraphs import captured_names
from layout_ir.frontends.onnx.tensor_protos import array_of
from layout_ir.passes.onnx.model_constants import PendingTensor, constant_tensor, node_constants
from layout_ir.passes.onnx.names_in_use import drop_constants, drop_unused, names_of, unused_constants
from layout_ir.passes.onnx.orders import Order, compose, is_identity
from layout_ir.passes.onnx.shared_dequantization import split_dequantizations
from layout_ir.passes.onnx.transposed_operands import stated_perm
from layout_ir.passes.onnx.typed_graphs import typed_graphs
from layout_ir.passes.onnx.unsigned_integers import make_integers_unsigned

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

_F32, _UINT8, _INT8, _INT32 = 1, 2, 3, 6
"""Element types, as TensorProto numbers them."""
_LOWEST = {_UINT8: 0, _INT8: -128}
_POOLS = {"AveragePool": "QLinearAveragePool", "GlobalAveragePool": "QLinearGlobalAveragePool"}
"""Pools that have a sibling on bytes in ONNX Runtime's own domain; a MaxPool is its own."""
_MICROSOFT = "com.microsoft"
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
        return self.scale, self.zero_point


class _Unit(NamedTuple):
    """An operator with what is around it."""

    node: onnx.NodeProto
    x: Quantized
    weights: Quantized | None
    bias: str
    """A tensor of 32-bit integers, or of floats; empty where there is none."""
    y: Quantized
    last: onnx.NodeProto
    """Its QuantizeLinear."""


def with_quantized_units(
    model: onnx.ModelProto, folder: Path | None, pending: Mapping[str, PendingTensor], *, is_unsigned: bool
) -> list[JoinedModel]:
    """Copies of the model with such units as one operator each; none where there are none.

    `is_unsigned` says that only convolutions of unsigned bytes are computed on integers. Then signed ones become
    unsigned, in the last copy those alone of which ONNX Runtime does that itself.
    """
    operators = {node.op_type for node in model.graph.node}
    if not {"QuantizeLinear", "DequantizeLinear"} <= operators or not _may_be_unit(operators):
        return []
    if not _Units(model, folder, pending, is_unsigned=False).units():
        return []
    found: list[JoinedModel] = []
    for used_once in (False, True):
        result = type(model)()
        result.CopyFrom(model)
        has_signed = is_unsigned and make_integers_unsigned(result, used_once=used_once)
        added = _join(result, folder, pending, is_unsigned)
        if added is not None:
            found.append(JoinedModel(result, added, used_once or not has_signed))
        if not has_signed:
            break
    return found


class JoinedModel(NamedTuple):
    """A model with units as one operator each."""

    model: onnx.ModelProto
    added: frozenset[str]
    """The names of nodes that are there besides (`shared_dequantization`)."""
    is_as_in_runtime: bool
    """Whether its units are no more than those that ONNX Runtime makes one operator of."""


def _join(
    model: onnx.ModelProto, folder: Path | None, pending: Mapping[str, PendingTensor], is_unsigned: bool
) -> frozenset[str] | None:
    """Puts the units of a model together, in place; returns the names of nodes that were added, None where there are no
    units."""
    found = _Units(model, folder, pending, is_unsigned=is_unsigned)
    units = found.units()
    if not units:
        return None
    idle = unused_constants(model.graph)
    found.shapes = _shapes_of_pools(model, folder, dict(pending), units)
    found.write(units)
    drop_constants(model.graph, unused_constants(model.graph) - idle)
    return split_dequantizations(model.graph)


def has_channels_last(model: onnx.ModelProto) -> bool:
    """Whether a model has convolutions of bytes, all of them with their channels last."""
    found = [node for node in model.graph.node if node.op_type == "QLinearConv"]
    return bool(found) and all(
        any(each.name == "channels_last" and each.i for each in node.attribute) for node in found
    )


def _may_be_unit(operators: set[str]) -> bool:
    return not operators.isdisjoint({"Conv", "MaxPool", *_POOLS})


def _shapes_of_pools(
    model: onnx.ModelProto, folder: Path | None, pending: dict[str, PendingTensor], units: Sequence[_Unit]
) -> dict[str, list[int | str | None]]:
    """The shapes of the results of pools, as far as they are known, by name."""
    names = [unit.node.output[0] for unit in units if unit.node.op_type in _POOLS]
    if not names:
        return {}
    graphs = typed_graphs(model, folder, {}, pending, {}, {})
    found: dict[str, list[int | str | None]] = {}
    for name in names:
        shape = graphs[0].shape(name)
        if shape is not None:
            stated = graphs[0].input_extents
            found[name] = [None if is_made_up(n) and n not in stated else n for n in shape]
    for graph in graphs:
        graph.release()
    return found


@dataclass
class _Units:
    """The units of a graph, found and written."""

    model: onnx.ModelProto
    folder: Path | None
    pending: Mapping[str, PendingTensor]
    is_unsigned: bool = field(kw_only=True)
    shapes: Mapping[str, Sequence[int | str | None]] = field(default_factory=dict[str, "list[int | str | None]"])
    """Those of the results of pools, by name."""

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
        self.opset = max((each.version for each in self.model.opset_import if not domain_of(each.domain)), default=1)

    @cached_property
    def constants(self) -> dict[str, onnx.TensorProto]:
        """By name, the constants that are in the model and that no caller may replace."""
        inputs = {value.name for value in self.graph.input}
        found = {tensor.name: tensor for tensor in self.graph.initializer if tensor.name not in inputs}
        return {**found, **node_constants(self.graph.node)}

    @cached_property
    def taken(self) -> set[str]:
        return names_of(self.graph)

    def units(self) -> list[_Unit]:
        """Those of the graph, in the order of its nodes."""
        found = (self._unit(node) for node in self.graph.node)
        return [unit for unit in found if unit is not None]

    def _unit(self, node: onnx.NodeProto) -> _Unit | None:
        if domain_of(node.domain) or not _may_be_unit({node.op_type}) or any(node.output[1:]):
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
            return _Unit(node, x, None, "", y, last) if fits else None
        weights = self._weights(node.input[1])
        if weights is None or (self.is_unsigned and x.element_type != _UINT8):
            return None
        bias = node.input[2] if len(node.input) > 2 else ""
        if bias:
            bias = self._bias(bias, x, weights)
            if not bias:
                return None
        return _Unit(node, x, weights, bias, y, last)

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
        element = self._element_type(zero_point or maker.input[0])
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
                element = self._element_type(zero_point) if zero_point else _output_type(user)
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
        if self._shape(y.scale) != () or self._shape(y.zero_point) not in (None, ()):
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
        shape = self._shape(found.scale)
        rank = len(self._shape(found.name) or ())
        if shape is None or len(shape) != 1 or not rank:
            return None
        return found if _perm_of(found.perms, rank)[0] == axis % rank else None

    def _bias(self, name: str, x: Quantized, weights: Quantized) -> str:
        """A bias as integers that are counted in what sums of products are, or as floats that may become such; empty
        where it is neither."""
        import numpy as np

        scales = self._array(x.scale), self._array(weights.scale)
        if scales[0] is None or scales[1] is None:
            return ""
        wanted: NDArray[Any] = (scales[0].reshape(()) * scales[1]).astype(np.float32).reshape(-1)
        if name in self.constants:
            array = self._array(name)
            return name if array is not None and array.dtype == np.float32 and wanted.all() else ""
        found = self._dequantized(name)
        if found is None or found.element_type != _INT32 or found.perms:
            return ""
        if found.zero_point:
            zero = self._array(found.zero_point)
            if zero is None or zero.any():
                return ""
        scale = self._array(found.scale)
        if scale is None or not np.allclose(scale.reshape(-1), wanted, rtol=1e-5, atol=0):
            return ""
        return found.name

    # What is known of constants ------------------------------------------------------------------------------------

    def _element_type(self, name: str) -> int:
        """The element type of a constant, or of what a QuantizeLinear makes; 0 where it is another value."""
        if name in self.constants:
            return self.constants[name].data_type
        maker = self.makers.get(name)
        while maker is not None and stated_perm(maker) is not None:
            maker = self.makers.get(maker.input[0])
        if maker is None or maker.op_type != "QuantizeLinear":
            return 0
        if len(maker.input) > 2 and maker.input[2]:
            return self._element_type(maker.input[2])
        return _output_type(maker)

    def _shape(self, name: str) -> tuple[int, ...] | None:
        tensor = self.constants.get(name)
        return None if tensor is None else tuple(tensor.dims)

    def _has_one(self, integers: Quantized) -> bool:
        """Whether there is one scale, of 32-bit floats, and one zero point, both constants."""
        if self._element_type(integers.scale) != _F32:
            return False
        return all(self._shape(name) in ((), (1,)) for name in integers.parameters if name)

    def _array(self, name: str) -> NDArray[Any] | None:
        """The elements of a constant; None where it is none."""
        tensor = self.constants.get(name)
        if tensor is None:
            return None
        if name in self.pending:
            return self.pending[name].elements(self.folder)
        return array_of(tensor, self.folder, name)

    def _number(self, name: str) -> Any:
        array = self._array(name)
        return None if array is None or array.size != 1 else array.reshape(()).item()

    def _same(self, one: Sequence[str], other: Sequence[str]) -> bool:
        """Whether parameters are the same numbers."""
        for mine, theirs in zip(one, other, strict=True):
            if mine != theirs:
                first, second = (self._number(name) if name else 0 for name in (mine, theirs))
                if first is None or first != second:
                    return False
        return True

    # Writing -------------------------------------------------------------------------------------------------------

    def write(self, units: Sequence[_Unit]) -> None:
        """Puts each operator where its QuantizeLinear was, and takes out what nobody needs any more."""
        in_place_of = {unit.last.output[0]: unit for unit in units}
        written: list[onnx.NodeProto] = []
        for node in self.graph.node:
            unit = in_place_of.get(node.output[0]) if node.output else None
            written += [node] if unit is None else self._written(unit)
        floats = [unit.last.input[0] for unit in units]
        copies = [type(node).FromString(node.SerializeToString()) for node in written]
        del self.graph.node[:]
        self.graph.node.extend(copies)
        drop_unused(self.graph, floats)
        domains = {each.domain for each in self.model.opset_import}
        if _MICROSOFT not in domains and any(unit.node.op_type in _POOLS for unit in units):
            self.model.opset_import.add(domain=_MICROSOFT, version=1)

    def _written(self, unit: _Unit) -> list[onnx.NodeProto]:
        import onnx

        node, x, y = unit.node, unit.x, unit.y
        nodes: list[onnx.NodeProto] = []
        made = onnx.NodeProto()
        made.CopyFrom(node)
        source = self._transposed(nodes, x.name, x.perms)
        result = y.name if not y.perms else fresh_name(f"{y.name}_as_made", self.taken)
        del made.input[:], made.output[:]
        made.output.append(result)
        # Pools do not take vectors of one element.
        of_x, of_y = (self._parameters(each, as_scalars=unit.weights is None) for each in (x, y))
        if unit.weights is not None:
            weights = unit.weights
            made.op_type = "QLinearConv"
            made.input.extend([source, *of_x, self._transposed(nodes, weights.name, weights.perms)])
            made.input.extend([*self._parameters(weights), *of_y])
            if unit.bias:
                made.input.append(self._counted(unit.bias, x, weights))
        elif node.op_type in _POOLS:
            made.op_type, made.domain = _POOLS[node.op_type], _MICROSOFT
            made.input.extend([source, *of_x, *of_y])
            kept = [each for each in made.attribute if each.name != "dilations"]
            del made.attribute[:]
            made.attribute.extend(kept)
        else:
            made.input.append(source)
        nodes.append(made)
        if y.perms:
            self._transposed(nodes, result, y.perms)
            nodes[-1].output[0] = y.name
        self._state_result(unit, result)
        return nodes

    def _state_result(self, unit: _Unit, name: str) -> None:
        """States the type of a result that is of an operator which ONNX's shape inference does not know."""
        import onnx.helper

        shape = self.shapes.get(unit.node.output[0])
        if shape is not None and all(name != value.name for value in (*self.graph.value_info, *self.graph.output)):
            self.graph.value_info.append(
                onnx.helper.make_tensor_value_info(name, unit.y.element_type, shape)
            )

    def _transposed(
        self, nodes: list[onnx.NodeProto], name: str, perms: Sequence[onnx.NodeProto]
    ) -> str:
        """The name of a tensor that these Transposes make of one, which are written for it anew."""
        import onnx.helper

        for each in perms:
            perm = stated_perm(each)
            assert perm is not None
            result = fresh_name(f"{name}_transposed", self.taken)
            nodes.append(onnx.helper.make_node("Transpose", [name], [result], name=result, perm=list(perm)))
            name = result
        return name

    def _parameters(self, integers: Quantized, *, as_scalars: bool = False) -> tuple[str, str]:
        """Scale and zero point; one of 0 where it was left out."""
        import numpy as np

        scale, zero_point = integers.parameters
        if not zero_point:
            dtype = np.uint8 if integers.element_type == _UINT8 else np.int8
            zeros = np.zeros(self._shape(scale) or (), dtype)
            zero_point = self._added(zeros, f"{integers.name}_zero_point")
        return (self._scalar(scale), self._scalar(zero_point)) if as_scalars else (scale, zero_point)

    def _scalar(self, name: str) -> str:
        """A constant of one element without dims."""
        if self._shape(name) == ():
            return name
        array = self._array(name)
        assert array is not None
        return self._added(array.reshape(()), f"{name}_scalar")

    def _added(self, array: NDArray[Any], name: str) -> str:
        """The name of a new constant."""
        name = fresh_name(name, self.taken)
        tensor = self.constants[name] = constant_tensor(array, name)
        self.graph.initializer.append(tensor)
        return name

    def _counted(self, bias: str, x: Quantized, weights: Quantized) -> str:
        """A bias as 32-bit integers."""
        import numpy as np

        if self._element_type(bias) != _F32:
            return bias
        floats, *scales = (self._array(name) for name in (bias, x.scale, weights.scale))
        assert floats is not None and scales[0] is not None and scales[1] is not None
        unit: NDArray[Any] = (scales[0].reshape(()) * scales[1]).astype(np.float32)
        counts = np.clip(np.rint(floats / unit), -(2.0**31), 2.0**31 - 128)
        return self._added(counts.astype(np.int32), f"{bias}_counted")


def _perm_of(perms: Sequence[onnx.NodeProto], rank: int) -> Order:
    """What Transposes do, one behind the other."""
    found: Order = tuple(range(rank))
    for each in perms:
        found = compose(found, stated_perm(each) or ())
    return found


def _is_plain(node: onnx.NodeProto, op_type: str) -> bool:
    """Whether a node is QuantizeLinear or DequantizeLinear, not one with scales per block."""
    if node.op_type != op_type or domain_of(node.domain) not in ("", _MICROSOFT):
        return False
    return all(each.name in ("axis", "saturate", "output_dtype") or not each.i for each in node.attribute)


def _output_type(node: onnx.NodeProto) -> int:
    """The element type of what a QuantizeLinear without zero point makes."""
    stated = next((each.i for each in node.attribute if each.name == "output_dtype"), 0)
    return stated or _UINT8
