"""The function of ONNX Runtime's mixture of experts: every expert computes all rows, and each row takes of a few.

That is the product of the sizes more work than the kernel does, which computes for each row its own experts alone; the
results are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from layout_ir.frontends.onnx.function_body import Body, NoFunctionError

_ACTIVATIONS = ("relu", "gelu", "silu", "identity")


def mixture_of_experts(body: Body) -> Sequence[str]:
    """MoE: x W1, an activation and W2 for each expert, summed by what a softmax of the router gives its best."""
    body.allow(0, 1, 2, 3, 4, 5)
    activation, most = body.attribute("activation_type", "relu"), body.attribute("k", 1)
    if activation not in _ACTIVATIONS or body.attribute("use_sparse_mixer", 0) or most < 1:
        raise NoFunctionError
    experts, width = body.extent(1, 1), body.extent(0, body.rank(0) - 1)
    if most > experts:
        raise NoFunctionError
    rows = body.reshaped(body.input(0), -1, width)
    weights = _weights(body, most)

    def linear(value: str, matrix: int, shift: int) -> str:
        """For each expert the product of its rows with its matrix, each row of which makes an element."""
        product = body.add("MatMul", value, body.add("Transpose", body.input(matrix), perm=[0, 2, 1]))
        if not body.has(shift):
            return product
        return body.add("Add", product, body.add("Unsqueeze", body.input(shift), body.integers([1])))

    hidden = _activated(body, activation, linear(body.add("Unsqueeze", rows, body.integers([0])), 2, 3))
    each = linear(hidden, 4, 5)
    share = body.add("Unsqueeze", body.add("Transpose", weights, perm=[1, 0]), body.integers([2]))
    total = body.add("ReduceSum", body.add("Mul", each, share), body.integers([0]), keepdims=0)
    return [body.add("Reshape", total, body.add("Shape", body.input(0)))]


def _weights(body: Body, most: int) -> str:
    """What each row takes of each expert: 0 of all but `most` of them."""
    given = body.input(1)
    element = body.element(1)
    best, places = body.add_several("TopK", 2, given, body.integers([most]), axis=-1)
    if body.attribute("normalize_routing_weights", 0):
        share = body.add("Softmax", best, axis=-1)
    else:
        share = body.add("GatherElements", body.add("Softmax", given, axis=-1), places, axis=1)
    nothing = body.add("Mul", given, body.constant(0.0, element))
    return body.add("ScatterElements", nothing, places, share, axis=1)


def _activated(body: Body, activation: str, value: str) -> str:
    match activation:
        case "identity":
            return value
        case "relu":
            return body.add("Relu", value)
        case "gelu":
            return body.add("Gelu", value, approximate="tanh")
        case _:
            return body.add("Mul", value, body.add("Sigmoid", value))
