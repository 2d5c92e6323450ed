"""Sums and activations taken into the blocked convolutions before them, as ONNX Runtime does with its own.

A blocked convolution adds its fourth input to its result and applies an activation to that. So an Add of the result of
a convolution that nobody else uses becomes this input, and then an operator that is such an activation its attribute.
Two convolutions that do nothing but scale channels, one behind the other, become one. Each fusion removes a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from layout_ir.passes.onnx.blocked_channels import NCHWC_DOMAIN
from layout_ir.passes.onnx.graph_output import GraphOutput, set_attribute

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

ACTIVATIONS = {
    "HardSigmoid": (("alpha", 0.2), ("beta", 0.5)),
    "LeakyRelu": (("alpha", 0.01),),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
}
"""Operators that a blocked convolution applies to its result, and their parameters with ONNX's defaults."""


def fused(
    out: GraphOutput, kept: Iterable[str], are_alike: Callable[[str, str], bool]
) -> list[onnx.NodeProto]:
    """The nodes of `out` in order, with less of them; `kept` are names that must stay.

    `are_alike` tells whether two tensors are blocked in one order and have one shape.
    """
    nodes = out.nodes
    constants = {tensor.name: tensor for tensor in out.initializers}
    users: dict[str, list[int]] = {}
    for number, node in enumerate(nodes):
        for name in node.input:
            users.setdefault(name, []).append(number)
    fixed = set(kept)
    result: list[onnx.NodeProto | None] = list(nodes)
    for start, node in enumerate(nodes):
        if node.op_type != "Conv" or node.domain != NCHWC_DOMAIN or result[start] is not node:
            continue
        number = start
        while True:
            name = node.output[0]
            (user, *others) = users.get(name, [-1])
            after = result[user] if user >= 0 else None
            if others or name in fixed or after is None:
                break
            if _scales(node, constants) and _scales(after, constants) and after.input[0] == name:
                _join(node, after, constants, out)
                result[user] = None
                node.output[0] = after.output[0]
                continue
            if not _takes(node, after, are_alike):
                break
            if after.op_type == "Add":
                # It moves behind the other operand, to the place of the sum.
                other = after.input[1] if after.input[0] == name else after.input[0]
                while len(node.input) < 3:
                    node.input.append("")
                node.input.append(other)
                result[number], result[user], number = None, node, user
            else:
                set_attribute(node, "activation", after.op_type)
                given = {attribute.name: attribute.f for attribute in after.attribute}
                values = [given.get(key, default) for key, default in ACTIVATIONS[after.op_type]]
                if values:
                    set_attribute(node, "activation_params", values)
                result[user] = None
            node.output[0] = after.output[0]
    return [node for node in result if node is not None]


def _scales(node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto]) -> bool:
    """Whether a node is a convolution that scales channels by constants, adds constants to them, and nothing else."""
    if node.op_type != "Conv" or node.domain != NCHWC_DOMAIN or len(node.input) > 3:
        return False
    weights = constants.get(node.input[1])
    known = {attribute.name for attribute in node.attribute} == {"group", "kernel_shape"}
    return known and weights is not None and list(weights.dims)[1:] == [1, 1, 1]


def _join(
    node: onnx.NodeProto, after: onnx.NodeProto, constants: dict[str, onnx.TensorProto], out: GraphOutput
) -> None:
    """Gives the first of two convolutions that scale channels what both do."""
    import numpy as np
    import onnx.numpy_helper

    def vector(each: onnx.NodeProto, number: int) -> NDArray[Any]:
        if len(each.input) <= number:
            return np.zeros(1, np.float64)
        return onnx.numpy_helper.to_array(constants[each.input[number]]).astype(np.float64).ravel()

    scale = vector(node, 1) * vector(after, 1)
    bias = vector(node, 2) * vector(after, 1) + vector(after, 2)
    names: list[str] = []
    for array, title in ((scale.reshape(-1, 1, 1, 1), "scale"), (bias, "bias")):
        name = out.fresh(f"{after.output[0]}_{title}")
        tensor = onnx.numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name)
        out.initializers.append(tensor)
        constants[name] = tensor
        names.append(name)
    data = node.input[0]
    del node.input[:]
    node.input.extend([data, *(names if bias.any() else names[:1])])


def _takes(node: onnx.NodeProto, after: onnx.NodeProto, are_alike: Callable[[str, str], bool]) -> bool:
    """Whether a convolution can do what the only user of its result does."""
    if after.domain or any(attribute.name == "activation" for attribute in node.attribute):
        return False
    if after.op_type == "Add":
        has_sum = len(node.input) > 3 and bool(node.input[3])
        return not has_sum and after.input[0] != after.input[1] and are_alike(*after.input)
    return after.op_type in ACTIVATIONS
