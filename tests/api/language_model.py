"""A decoder as builders of language models for ONNX Runtime write it: caches that grow, weights of four bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
from numpy.typing import NDArray

WIDTH, HEADS, SHARED, SIZE, INNER, WORDS = 32, 4, 2, 16, 64, 50
_MICROSOFT = "com.microsoft"


def decoder(layers: int = 1) -> onnx.ModelProto:
    """A model whose batch, steps and earlier steps are dynamic."""
    random = np.random.default_rng(0)
    graph = onnx.GraphProto(name="decoder")

    def constant(name: str, array: Any) -> str:
        graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(op_type: str, inputs: list[str], *outputs: str, domain: str = "", **attributes: Any) -> str:
        graph.node.append(oh.make_node(op_type, inputs, outputs, outputs[0], domain=domain, **attributes))
        return outputs[0]

    def product(x: str, name: str, rows: int, columns: int) -> str:
        packed = random.integers(0, 255, (columns, rows // 32, 16)).astype(np.uint8)
        scales = random.random(columns * (rows // 32)).astype(np.float32) * 0.02
        inputs = [x, constant(f"{name}.q", packed), constant(f"{name}.s", scales)]
        settings = {"K": rows, "N": columns, "bits": 4, "block_size": 32}
        return node("MatMulNBits", inputs, name, domain=_MICROSOFT, **settings)

    def normalized(x: str, more: str, name: str) -> tuple[str, str]:
        inputs = [x, more, constant(f"{name}.scale", np.ones(WIDTH, np.float32))]
        node(
            "SkipSimplifiedLayerNormalization",
            inputs,
            name,
            "",
            "",
            f"{name}.sum",
            domain=_MICROSOFT,
            epsilon=1e-6,
        )
        return name, f"{name}.sum"

    angles = np.outer(np.arange(64), 10000.0 ** (-np.arange(SIZE // 2) / (SIZE // 2)))
    cosines, sines = (
        constant("cos", np.cos(angles).astype(np.float32)),
        constant("sin", np.sin(angles).astype(np.float32)),
    )
    one, first = constant("one", np.array([1])), constant("first", np.array(1))
    node(
        "Cast",
        [node("Sub", [node("ReduceSum", ["mask", one], "seen", keepdims=0), one], "last")],
        "lengths",
        to=6,
    )
    node("Cast", [node("Gather", [node("Shape", ["mask"], "extents"), first], "steps")], "total", to=6)
    table = constant("table", random.standard_normal((WORDS, WIDTH)).astype(np.float32))
    x = node("Gather", [table, "words"], "embedded")
    scale = constant("scale", np.ones(WIDTH, np.float32))
    y = node("SimplifiedLayerNormalization", [x, scale], "normal", axis=-1, epsilon=1e-6, stash_type=1)
    inputs = [("words", 7, ["batch", "new"]), ("mask", 7, ["batch", "all"])]
    outputs = [("result", 1, ["batch", "new", WORDS])]
    for layer in range(layers):
        heads = [
            product(y, f"{kind}{layer}", WIDTH, count * SIZE)
            for kind, count in zip("qkv", (HEADS, SHARED, SHARED), strict=True)
        ]
        caches = [f"past.{layer}.{kind}" for kind in "kv"]
        presents = [f"present.{layer}.{kind}" for kind in "kv"]
        inputs += [(name, 1, ["batch", SHARED, "earlier", SIZE]) for name in caches]
        outputs += [(name, 1, ["batch", SHARED, "all", SIZE]) for name in presents]
        given = [*heads, *caches, "lengths", "total", cosines, sines]
        settings = {"num_heads": HEADS, "kv_num_heads": SHARED, "do_rotary": 1}
        seen = node("GroupQueryAttention", given, f"a{layer}", *presents, domain=_MICROSOFT, **settings)
        y, x = normalized(x, product(seen, f"o{layer}", HEADS * SIZE, WIDTH), f"n{layer}")
        gate = product(y, f"gate{layer}", WIDTH, INNER)
        silu = node("Mul", [gate, node("Sigmoid", [gate], f"s{layer}")], f"silu{layer}")
        inner = node("Mul", [silu, product(y, f"up{layer}", WIDTH, INNER)], f"inner{layer}")
        y, x = normalized(x, product(inner, f"down{layer}", INNER, WIDTH), f"m{layer}")
    product(y, "result", WIDTH, WORDS)
    graph.input.extend(oh.make_tensor_value_info(*each) for each in inputs)
    graph.output.extend(oh.make_tensor_value_info(*each) for each in outputs)
    opsets = [oh.make_opsetid("", 21), oh.make_opsetid(_MICROSOFT, 1)]
    return oh.make_model(graph, opset_imports=opsets, ir_version=10)


def first_inputs(batch: int, steps: int, layers: int = 1) -> dict[str, NDArray[Any]]:
    """Inputs of the model for the beginning of sentences."""
    words = np.random.default_rng(steps).integers(0, WORDS, (batch, steps))
    caches = [f"past.{layer}.{kind}" for layer in range(layers) for kind in "kv"]
    empty = np.zeros((batch, SHARED, 0, SIZE), np.float32)
    return {"words": words, "mask": np.ones((batch, steps), np.int64), **dict.fromkeys(caches, empty)}


def next_inputs(earlier: dict[str, NDArray[Any]], results: list[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Inputs for one more word, the one that the results of the call before make likeliest."""
    words = results[0][:, -1:].argmax(-1)
    mask = np.concatenate([earlier["mask"], np.ones_like(words)], axis=1)
    caches = [name for name in earlier if name.startswith("past")]
    return {"words": words, "mask": mask, **dict(zip(caches, results[1:], strict=True))}
