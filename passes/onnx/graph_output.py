"""What the models of nodes write with: nodes, attributes, small constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from layout_ir.passes.onnx.model_graph import Node

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


class GraphOutput:
    """The nodes and initializers of the graph that is written; `fresh` gives names that it does not have yet."""

    def __init__(self, fresh: Callable[[str], str]):
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.fresh = fresh
        self.unsqueezed: dict[str, str] = {}
        """Operands by name of the tensors with more dims of one element that nodes take in their place."""
        self._lists: dict[tuple[tuple[int, ...], tuple[int, ...]], str] = {}
        self._packed: dict[tuple[object, ...], str] = {}

    def add(
        self, op_type: str, inputs: Sequence[str], output: str, domain: str | None = None, **attributes: Any
    ) -> str:
        """Adds a node with one output, of ONNX's own domain unless `domain` names another; returns the output."""
        import onnx

        name = self.fresh(f"{op_type}_{output}")
        proto = onnx.NodeProto(op_type=op_type, input=inputs, output=[output], name=name, domain=domain)
        given = [_attribute(*each) for each in sorted(attributes.items()) if each[1] is not None]
        proto.attribute.extend(given)
        self.nodes.append(proto)
        return output

    def add_view(self, op_type: str, source: str, output: str, axes: Sequence[int], opset: int) -> str:
        """Adds a Squeeze or an Unsqueeze of dims of one element; returns the output."""
        if opset < 13:
            return self.add(op_type, [source], output, axes=list(axes))
        return self.add(op_type, [source, self.ints(axes)], output)

    def ints(self, values: Sequence[int], shape: tuple[int, ...] | None = None) -> str:
        """The name of a constant of 64-bit integers, each made once; a vector unless `shape` is given."""
        import onnx

        dims = (len(values),) if shape is None else shape
        key = tuple(values), dims
        if key not in self._lists:
            text = "x".join(map(str, values)) if len(values) <= 8 else "list"
            name = self.fresh(f"dims_{text}".replace("-", "m"))
            tensor = onnx.TensorProto(
                name=name, data_type=onnx.TensorProto.INT64, dims=dims, int64_data=values
            )
            self.initializers.append(tensor)
            self._lists[key] = name
        return self._lists[key]

    def packed(self, name: str, how: tuple[object, ...], elements: Callable[[], NDArray[Any]]) -> str:
        """The name of constant `name` rearranged in a way that `how` tells from others: made once for all its users."""
        import numpy as np
        import onnx.numpy_helper

        key = name, *how
        if key not in self._packed:
            self._packed[key] = self.fresh(f"{name}_packed")
            array = np.ascontiguousarray(elements())
            self.initializers.append(onnx.numpy_helper.from_array(array, self._packed[key]))
        return self._packed[key]


class NodeWriter:
    """The place of one node in the graph that is written: the names of its tensors there."""

    def __init__(
        self,
        node: Node,
        out: GraphOutput,
        inputs: Sequence[str],
        outputs: Sequence[str],
        reshaped_constant: Callable[[int, Sequence[int]], str | None],
    ):
        self.node = node
        self.out = out
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self._reshaped_constant = reshaped_constant

    def copy(self) -> onnx.NodeProto:
        """The node as it is in the model, on the tensors that it has here."""
        given = self.node.proto
        proto = type(given)()
        proto.CopyFrom(given)
        for names, own, before in (
            (proto.input, self.inputs, self.node.inputs),
            (proto.output, self.outputs, self.node.outputs),
        ):
            if tuple(own) != before:
                names[:] = own
        return proto

    def with_ones(self, number: int, axes: Sequence[int]) -> str:
        """Input `number` with dims of one element at `axes` of the result: a constant reshaped, or an Unsqueeze."""
        known = self._reshaped_constant(number, axes)
        if known is not None:
            return known
        name = self.out.fresh(f"{self.inputs[number]}_unsqueezed")
        self.out.unsqueezed[name] = self.inputs[number]
        return self.out.add_view(
            "Unsqueeze", self.inputs[number], name, axes, self.node.graph.opsets.get("", 1)
        )

    def picked(self, number: int, places: Sequence[int]) -> str:
        """Entries `places` of input `number`, a list: a constant, or a Gather of one that is computed at run time."""
        name = self.inputs[number]
        values = self.node.known_ints(number)
        if values is not None and self.node.graph.element_bits(self.node.input(number)) == 64:
            return self.out.ints([values[place] for place in places])
        return self.gathered(name, places)

    def gathered(self, name: str, places: Sequence[int]) -> str:
        """Entries `places` of the vector `name`, by a Gather."""
        return self.out.add(
            "Gather", [name, self.out.ints(places)], self.out.fresh(f"{name}_permuted"), axis=0
        )


def set_attribute(proto: onnx.NodeProto, name: str, value: Any) -> None:
    """Gives the node this attribute instead of the one of that name."""
    drop_attribute(proto, name)
    proto.attribute.append(_attribute(name, value))


def drop_attribute(proto: onnx.NodeProto, name: str) -> None:
    """Takes the attribute of that name from the node, if it has one."""
    for number in [k for k, attribute in enumerate(proto.attribute) if attribute.name == name]:
        del proto.attribute[number]


def _attribute(name: str, value: Any) -> onnx.AttributeProto:
    """An attribute; what the package looks at in each element is known of a list of integers."""
    import onnx
    import onnx.helper

    if isinstance(value, list) and value and set(map(type, cast("list[Any]", value))) == {int}:
        return onnx.AttributeProto(name=name, type=onnx.AttributeProto.INTS, ints=cast("list[int]", value))
    return onnx.helper.make_attribute(name, value)


def set_input(proto: onnx.NodeProto, number: int, name: str) -> None:
    """Gives the node this input, and empty ones before it where it has fewer."""
    while len(proto.input) <= number:
        proto.input.append("")
    proto.input[number] = name
