"""Sums and activations taken into the blocked convolutions before them, as ONNX Runtime does with its own.

A blocked convolution adds its fourth input to its result and applies an activation to that. So an Add of the result of
a convolution that nobody else uses becomes this input, and then an operator that is such an activation its attribute;
so does HardSwish, which ONNX Runtime takes apart into a HardSigmoid and a Mul of the same value. Two convolutions that
do nothing but scale channels, one behind the other, become one. Each fusion removes a node.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from layout_ir.passes.onnx.blocked_channels import NCHWC_DOMAIN
from layout_ir.passes.onnx.graph_output import GraphOutput, set_attribute

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

_ACTIVATIONS = {
    "HardSigmoid": (("alpha", 0.2), ("beta", 0.5)),
    "HardSwish": (),
    "LeakyRelu": (("alpha", 0.01),),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
}
"""Operators that a blocked convolution applies to its result, and their parameters with ONNX's defaults. Besides these
there is Clip, whose parameters are its bounds."""
_HARD_SWISH_SINCE = (1, 31)
"""A release of ONNX Runtime whose blocked convolutions were seen to apply HardSwish; those of 1.25 refuse it."""
LARGEST = 3.4028234663852886e38
"""The largest number of 32 bits: a bound of Clip that is left out."""
Constants = Callable[[str], "NDArray[Any] | None"]
"""The elements of a small constant; None for any other tensor."""


@cache
def activations() -> Mapping[str, tuple[tuple[str, float], ...]]:
    """The operators that blocked convolutions of the installed ONNX Runtime apply, and their parameters."""
    try:
        installed = tuple(int(number) for number in version("onnxruntime").split(".")[:2])
    except (PackageNotFoundError, ValueError):
        installed = ()
    without = () if installed >= _HARD_SWISH_SINCE else ("HardSwish",)
    return {name: parameters for name, parameters in _ACTIVATIONS.items() if name not in without}


def fused(
    out: GraphOutput, kept: Iterable[str], are_alike: Callable[[str, str], bool], small_constant: Constants
) -> list[onnx.NodeProto]:
    """The nodes of `out` in order, with less of them; `kept` are names that must stay.

    `are_alike` tells whether two tensors are blocked in one order and have one shape, `small_constant` what a constant
    of the model is.
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
            if name in fixed or after is None:
                break
            if others:
                swish = _hard_swish(name, users[name], result, users, fixed)
                if swish is None or _has_activation(node):
                    break
                set_attribute(node, "activation", "HardSwish")
                node.output[0] = swish.output[0]
                for part in users[name]:
                    result[part] = None
                continue
            if _scales(node, constants) and _scales(after, constants) and after.input[0] == name:
                _join(node, after, constants, out)
                result[user] = None
                node.output[0] = after.output[0]
                continue
            if not _takes(node, after, are_alike, small_constant):
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
                values = _parameters(after, small_constant)
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


def _takes(
    node: onnx.NodeProto,
    after: onnx.NodeProto,
    are_alike: Callable[[str, str], bool],
    small_constant: Constants,
) -> bool:
    """Whether a convolution can do what the only user of its result does."""
    if after.domain or _has_activation(node):
        return False
    if after.op_type == "Add":
        has_sum = len(node.input) > 3 and bool(node.input[3])
        return not has_sum and after.input[0] != after.input[1] and are_alike(*after.input)
    return _parameters(after, small_constant) is not None


def _has_activation(node: onnx.NodeProto) -> bool:
    return any(attribute.name == "activation" for attribute in node.attribute)


def _parameters(node: onnx.NodeProto, small_constant: Constants) -> list[float] | None:
    """The parameters of an activation of a convolution; None for an operator that is no such activation."""
    given = {attribute.name: attribute.f for attribute in node.attribute}
    if node.op_type in activations():
        return [given.get(key, default) for key, default in activations()[node.op_type]]
    if node.op_type != "Clip":
        return None
    bounds = [given.get("min", -LARGEST), given.get("max", LARGEST)]  # up to opset 10
    for place, name in enumerate(node.input[1:3]):
        array = small_constant(name) if name else None
        if name and (array is None or array.size != 1):
            return None
        if array is not None:
            bounds[place] = float(array.item())
    return bounds


def _hard_swish(
    name: str,
    parts: Sequence[int],
    nodes: Sequence[onnx.NodeProto | None],
    users: Mapping[str, Sequence[int]],
    fixed: Container[str],
) -> onnx.NodeProto | None:
    """The product of value `name` and its HardSigmoid of slope 1/6, where these `parts` are all that use it."""
    found = {node.op_type: node for k in parts if (node := nodes[k]) is not None and not node.domain}
    if len(parts) != 2 or found.keys() != {"HardSigmoid", "Mul"}:
        return None
    gate, product = found["HardSigmoid"], found["Mul"]
    is_used_once = len(users.get(gate.output[0], ())) == 1 and gate.output[0] not in fixed
    is_product = sorted(product.input) == sorted((name, gate.output[0]))
    return product if is_used_once and is_product and gates_hard_swish(gate) else None


def gates_hard_swish(node: onnx.NodeProto) -> bool:
    """Whether a node is the HardSigmoid of a HardSwish in two pieces, and ONNX Runtime has that activation."""
    if "HardSwish" not in activations():
        return False
    alpha, beta = _parameters(node, lambda _: None) or (0.0, 0.0)
    return node.op_type == "HardSigmoid" and beta == 0.5 and abs(alpha - 1 / 6) < 1e-7
