"""Decoders in standard operators whose caches grow, as exporters write them: shapes are computed by nodes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
from numpy.typing import NDArray

WORDS, MOST = 50, 256
_HIDDEN = np.float32(-1e30)

Kind = Literal["gpt2", "llama"]
"""Learned positions and a mask that is a part of a constant; or rotary positions, heads of keys that two heads of
queries share, and a mask that is computed."""


class _Graph:
    def __init__(self) -> None:
        self.proto = onnx.GraphProto(name="decoder")
        self.random = np.random.default_rng(0)

    def constant(self, array: Any) -> str:
        name = f"c{len(self.proto.initializer)}"
        self.proto.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape: int) -> str:
        return self.constant(
            self.random.standard_normal(shape).astype(np.float32) * np.float32(shape[0] ** -0.5)
        )

    def __call__(self, operator: str, *inputs: Any, output: str = "", **attributes: Any) -> str:
        """The output of a node on values, those that are no names being constants."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        output = output or f"v{len(self.proto.node)}"
        self.proto.node.append(oh.make_node(operator, names, [output], output, **attributes))
        return output

    def extent(self, value: str, dim: int) -> str:
        return self("Unsqueeze", self("Gather", self("Shape", value), np.array(dim)), np.array([0]))

    def reshaped(self, value: str, *extents: Any) -> str:
        """A value in extents that are numbers, or names of values of one number."""
        parts = [each if isinstance(each, str) else np.array([each]) for each in extents]
        return self("Reshape", value, self("Concat", *parts, axis=0))


def decoder(kind: Kind, layers: int = 1, width: int = 32, heads: int = 4) -> onnx.ModelProto:
    """A model whose batch, new words and earlier words are dynamic."""
    g = _Graph()
    shared, size = heads // 2 if kind == "llama" else heads, width // heads
    batch, new, total = g.extent("words", 0), g.extent("words", 1), g.extent("mask", 1)
    earlier = g("Sub", total, new)
    x = g("Gather", g.weight(WORDS, width), "words")
    count = g("Sub", g("CumSum", "mask", np.array(1)), np.array([1]))
    positions = g("Slice", g("Max", count, np.array([0])), earlier, total, np.array([1]))
    seen = g("Cast", g("Unsqueeze", "mask", np.array([1, 2])), to=9)
    if kind == "gpt2":
        x = g("Add", x, g("Gather", g.weight(MOST, width), positions))
        allowed = np.tril(np.ones((1, 1, MOST, MOST), bool))
        rows = g("Slice", allowed, earlier, total, np.array([2]))
        seen = g("And", seen, g("Slice", rows, np.array([0]), total, np.array([3])))
        turns = ()
    else:
        scalars = [g("Squeeze", each, np.array([0])) for each in (earlier, total)]
        places = g("Unsqueeze", g("Range", *scalars, np.array(1)), np.array([1]))
        seen = g("And", seen, g("LessOrEqual", g("Range", np.array(0), scalars[1], np.array(1)), places))
        angles = (10000.0 ** (-np.arange(size // 2) / (size // 2))).astype(np.float32)
        turned = g("Mul", g("Cast", g("Unsqueeze", positions, np.array([1, 3])), to=1), angles)
        turned = g("Concat", turned, turned, axis=-1)
        turns = g("Cos", turned), g("Sin", turned)
    hidden = g("Where", seen, np.zeros((), np.float32), _HIDDEN)

    def normal(x: str) -> str:
        if kind == "gpt2":
            scale = np.linspace(0.5, 1.5, width, dtype=np.float32)
            return g("LayerNormalization", x, scale, scale - np.float32(1))
        mean = g("ReduceMean", g("Pow", x, np.float32(2)), np.array([-1]))
        return g("Div", x, g("Sqrt", g("Add", mean, np.float32(1e-6))))

    def in_heads(x: str, count: int) -> str:
        product = g("MatMul", x, g.weight(width, count * size))
        return g("Transpose", g.reshaped(product, batch, new, count, size), perm=[0, 2, 1, 3])

    def rotated(x: str) -> str:
        if not turns:
            return x
        first, second = (
            g("Slice", x, np.array([a]), np.array([b]), np.array([3]))
            for a, b in ((0, size // 2), (size // 2, size))
        )
        other = g("Concat", g("Neg", second), first, axis=-1)
        return g("Add", g("Mul", x, turns[0]), g("Mul", other, turns[1]))

    def repeated(x: str) -> str:
        if shared == heads:
            return x
        shape = g("Concat", batch, np.array([shared, 2]), g.extent(x, 2), np.array([size]), axis=0)
        wide = g("Expand", g("Unsqueeze", x, np.array([2])), shape)
        return g.reshaped(wide, batch, heads, g.extent(x, 2), size)

    caches: list[tuple[str, str]] = []
    for layer in range(layers):
        y = normal(x)
        q, k, v = rotated(in_heads(y, heads)), rotated(in_heads(y, shared)), in_heads(y, shared)
        names = [(f"past.{layer}.{part}", f"present.{layer}.{part}") for part in "kv"]
        keys, values = (
            g("Concat", past, made, axis=2, output=present)
            for (past, present), made in zip(names, (k, v), strict=True)
        )
        scores = g("MatMul", q, g("Transpose", repeated(keys), perm=[0, 1, 3, 2]))
        scores = g("Softmax", g("Add", g("Mul", scores, np.float32(size**-0.5)), hidden), axis=-1)
        mixed = g("Transpose", g("MatMul", scores, repeated(values)), perm=[0, 2, 1, 3])
        x = g("Add", x, g("MatMul", g.reshaped(mixed, batch, new, width), g.weight(width, width)))
        inner = g("MatMul", normal(x), g.weight(width, 2 * width))
        inner = g("Tanh", inner) if kind == "gpt2" else g("Mul", inner, g("Sigmoid", inner))
        x = g("Add", x, g("MatMul", inner, g.weight(2 * width, width)))
        caches += names
    g("MatMul", normal(x), g.weight(width, WORDS), output="result")
    cache = ["batch", shared, "earlier", size], ["batch", shared, "all", size]
    inputs = [("words", 7, ["batch", "new"]), ("mask", 7, ["batch", "all"])]
    inputs += [(past, 1, cache[0]) for past, _ in caches]
    outputs = [("result", 1, ["batch", "new", WORDS]), *((present, 1, cache[1]) for _, present in caches)]
    g.proto.input.extend(oh.make_tensor_value_info(*each) for each in inputs)
    g.proto.output.extend(oh.make_tensor_value_info(*each) for each in outputs)
    return oh.make_model(g.proto, opset_imports=[oh.make_opsetid("", 18)], ir_version=10)


def inputs_at(
    model: onnx.ModelProto, earlier: int, new: int = 1, batch: int = 1, seed: int = 0
) -> dict[str, NDArray[Any]]:
    """Inputs for new words behind so many earlier ones, of which the first of each sentence is hidden."""
    random = np.random.default_rng(seed)
    mask = np.ones((batch, earlier + new), np.int64)
    mask[:, 0] = 0
    inputs: dict[str, NDArray[Any]] = {"words": random.integers(0, WORDS, (batch, new)), "mask": mask}
    for value in model.graph.input[2:]:
        _, heads, _, size = (dim.dim_value for dim in value.type.tensor_type.shape.dim)
        inputs[value.name] = random.standard_normal((batch, heads, earlier, size)).astype(np.float32)
    return inputs


def next_inputs(earlier: dict[str, NDArray[Any]], results: list[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Inputs for one more word, the one that the results of the call before make likeliest."""
    words = results[0][:, -1:].argmax(-1)
    mask = np.concatenate([earlier["mask"], np.ones_like(words)], axis=1)
    return {"words": words, "mask": mask, **dict(zip(list(earlier)[2:], results[1:], strict=True))}
