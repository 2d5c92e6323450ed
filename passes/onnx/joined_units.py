"""Units of an operator and its quantization written as the one operator on bytes that they stand for.

Where the operator stood in front of its QuantizeLinear, the one on bytes takes the place of that; what nobody needs any
more goes. Transposes in between are written anew on the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from layout_ir.frontends.onnx.functions import fresh_name
from layout_ir.frontends.onnx.made_up_extents import is_made_up
from layout_ir.frontends.onnx.subgraphs import replace_nodes
from layout_ir.passes.onnx.model_constants import PendingTensor, constant_tensor
from layout_ir.passes.onnx.names_in_use import drop_constants, drop_unused, names_of, unused_constants
from layout_ir.passes.onnx.quantized_units import (
    F32,
    MICROSOFT,
    POOLS,
    UINT8,
    Quantized,
    Unit,
    Units,
)
from layout_ir.passes.onnx.shared_dequantization import split_dequantizations
from layout_ir.passes.onnx.transposed_operands import stated_perm
from layout_ir.passes.onnx.typed_graphs import typed_graphs

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


class JoinedModel(NamedTuple):
    """A model with units as one operator each."""

    model: onnx.ModelProto
    added: frozenset[str]
    """The names of nodes that are there besides (`shared_dequantization`)."""


def with_quantized_units(
    model: onnx.ModelProto, folder: Path | None, pending: Mapping[str, PendingTensor], *, is_unsigned: bool
) -> JoinedModel | None:
    """A copy of the model with such units as one operator each; None where no convolution is among them: ONNX Runtime
    has pools with their channels last beside convolutions alone, and an average that lies between two bytes is not the
    same there.

    `is_unsigned` says that ONNX Runtime computes only convolutions of unsigned bytes on integers. Those of signed ones
    stay as they are then: what it rounds to bytes behind a convolution of floats may differ by a step.
    """
    if not {"Conv", "DequantizeLinear", "QuantizeLinear"} <= {node.op_type for node in model.graph.node}:
        return None
    result = type(model)()
    result.CopyFrom(model)
    found = Units(result, folder, pending, is_unsigned=is_unsigned)
    units = found.units()
    if all(unit.weights is None for unit in units):
        return None
    idle = unused_constants(result.graph)
    _Writer(found, _shapes_of_pools(result, folder, dict(pending), units)).write(units)
    drop_constants(result.graph, unused_constants(result.graph) - idle)
    return JoinedModel(result, split_dequantizations(result.graph))


def has_channels_last(model: onnx.ModelProto) -> bool:
    """Whether a model has convolutions of bytes, all of them with their channels last."""
    found = [node for node in model.graph.node if node.op_type == "QLinearConv"]
    return bool(found) and all(
        any(each.name == "channels_last" and each.i for each in node.attribute) for node in found
    )


def _shapes_of_pools(
    model: onnx.ModelProto, folder: Path | None, pending: dict[str, PendingTensor], units: Sequence[Unit]
) -> dict[str, list[int | str | None]]:
    """The shapes of the results of pools, as far as they are known, by name."""
    names = [unit.node.output[0] for unit in units if unit.node.op_type in POOLS]
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
class _Writer:
    """Writes the units that were found in a graph."""

    found: Units
    shapes: Mapping[str, Sequence[int | str | None]]
    """The shapes of the results of pools, by name."""

    def __post_init__(self) -> None:
        self.model = self.found.model
        self.graph = self.model.graph
        self.taken = names_of(self.graph)

    def write(self, units: Sequence[Unit]) -> None:
        """Puts each operator where its QuantizeLinear was, and takes out what nobody needs any more."""
        in_place_of = {unit.last.output[0]: unit for unit in units}
        written: list[onnx.NodeProto] = []
        for node in self.graph.node:
            unit = in_place_of.get(node.output[0]) if node.output else None
            written += [node] if unit is None else self._written(unit)
        floats = [unit.last.input[0] for unit in units]
        replace_nodes(self.graph, written)
        drop_unused(self.graph, floats)
        domains = {each.domain for each in self.model.opset_import}
        if MICROSOFT not in domains and any(unit.node.op_type in POOLS for unit in units):
            self.model.opset_import.add(domain=MICROSOFT, version=1)

    def _written(self, unit: Unit) -> list[onnx.NodeProto]:
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
        elif node.op_type in POOLS:
            made.op_type, made.domain = POOLS[node.op_type], MICROSOFT
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

    def _state_result(self, unit: Unit, name: str) -> None:
        """States the type of a result that is of an operator which ONNX's shape inference does not know."""
        import onnx.helper

        shape = self.shapes.get(unit.node.output[0])
        if shape is not None and all(
            name != value.name for value in (*self.graph.value_info, *self.graph.output)
        ):
            self.graph.value_info.append(onnx.helper.make_tensor_value_info(name, unit.y.element_type, shape))

    def _transposed(self, nodes: list[onnx.NodeProto], name: str, perms: Sequence[onnx.NodeProto]) -> str:
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
            dtype = np.uint8 if integers.element_type == UINT8 else np.int8
            zeros = np.zeros(self.found.shape(scale) or (), dtype)
            zero_point = self._added(zeros, f"{integers.name}_zero_point")
        return (self._scalar(scale), self._scalar(zero_point)) if as_scalars else (scale, zero_point)

    def _scalar(self, name: str) -> str:
        """A constant of one element without dims."""
        if self.found.shape(name) == ():
            return name
        array = self.found.array(name)
        assert array is not None
        return self._added(array.reshape(()), f"{name}_scalar")

    def _added(self, array: NDArray[Any], name: str) -> str:
        """The name of a new constant."""
        name = fresh_name(name, self.taken)
        tensor = self.found.constants[name] = constant_tensor(array, name)
        self.graph.initializer.append(tensor)
        return name

    def _counted(self, bias: str, x: Quantized, weights: Quantized) -> str:
        """A bias as 32-bit integers."""
        import numpy as np

        if self.found.element_type(bias) != F32:
            return bias
        floats, *scales = (self.found.array(name) for name in (bias, x.scale, weights.scale))
        assert floats is not None and scales[0] is not None and scales[1] is not None
        unit: NDArray[Any] = (scales[0].reshape(()) * scales[1]).astype(np.float32)
        counts = np.clip(np.rint(floats / unit), -(2.0**31), 2.0**31 - 128)
        return self._added(counts.astype(np.int32), f"{bias}_counted")
