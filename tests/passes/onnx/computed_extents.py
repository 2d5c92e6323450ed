"""Random models whose nodes compute the extents of others, and what their types are but for made-up names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh

from tests.passes.onnx.optimized import FLOAT, initializer, model_of, value


def alike(types: Mapping[str, onnx.TypeProto]) -> list[tuple[Any, ...]]:
    """The types by name of their values, with names that inference made up by the number of those that came before."""
    numbers: dict[str, int] = {}

    def extents(type: onnx.TypeProto) -> Iterator[Any]:
        for dim in type.tensor_type.shape.dim:
            if dim.dim_param.startswith("unk__"):
                yield "made up", numbers.setdefault(dim.dim_param, len(numbers))
            else:
                yield dim.dim_value if dim.HasField("dim_value") else dim.dim_param

    return [
        (name, type.tensor_type.elem_type, type.tensor_type.HasField("shape"), *extents(type))
        for name, type in sorted(types.items())
    ]


class Draft:
    """A model in the making, in which nodes compute the extents of others."""

    def __init__(self, random: Random):
        self.random = random
        self.nodes: list[onnx.NodeProto] = []
        self.constants = [initializer(f"c{n}", np.array([n])) for n in (-1, 0, 1, 2, 4, 24)]
        self.constants += [initializer(f"s{n}", np.array(n)) for n in (0, 1, 2)]
        self.constants.append(initializer("w", np.ones((24, 24), np.float32)))
        self.floats, self.lists, self.scalars = ["x", "z"], ["c1", "c-1"], ["s0", "s1"]

    def add(self, op_type: str, inputs: list[str], **attributes: Any) -> str:
        """Adds a node; returns its result."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(oh.make_node(op_type, inputs, [name], **attributes))
        return name

    def step(self) -> None:
        """Adds nodes that take what others give."""
        draw, floats, lists, scalars = self.random.choice, self.floats, self.lists, self.scalars
        kind, x = self.random.randrange(16), draw(floats[-4:])
        if kind < 2:
            floats.append(self.add(draw(("Relu", "Neg", "Softmax")), [x]))
        elif kind == 2:
            floats.append(self.add("Transpose", [x], perm=self.random.sample(range(3), 3)))
        elif kind == 3:
            floats.append(self.add(draw(("Add", "Mul")), [x, draw(floats)]))
        elif kind == 4:
            floats.append(self.add("MatMul", [x, "w"]))
        elif kind == 5:
            floats.append(self.add("Concat", [x, draw(floats)], axis=draw((0, 1, 2))))
        elif kind < 8:
            shape = self.add("Shape", [x])
            scalars.append(self.add("Gather", [shape, draw(("s0", "s1", "s2"))], axis=0))
        elif kind == 8:
            operator = draw(("Add", "Mul", "Sub", "Div", "Max"))
            scalars.append(self.add(operator, [draw(scalars), draw(scalars)]))
        elif kind < 11:
            lists.append(self.add("Unsqueeze", [draw(scalars), "c0"]))
        elif kind < 14:
            operator = draw(("Reshape", "Reshape", "Expand"))
            # An Expand to -1 has an extent of -1 for ONNX, of which no Slice can be taken.
            parts = [n for n in lists if operator == "Reshape" or n != "c-1"]
            extents = self.add("Concat", [draw(parts) for _ in range(3)], axis=0)
            floats.append(self.add(operator, [x, extents]))
        elif kind == 14:
            floats.append(self.add("Slice", [x, "c0", draw(lists), draw(("c0", "c1", "c2"))]))
        else:
            floats.append(self.add(draw(("Thing", "Relu")), [x], domain=draw(("my", ""))))

    def model(self) -> onnx.ModelProto:
        """The model, in which inner values have no types."""
        inputs = [value("x", "batch", "length", 24), value("z", "batch", "unk__2", 24)]
        results = [oh.make_tensor_value_info(name, FLOAT, None) for name in self.floats[-2:]]
        model = model_of(self.nodes, inputs, results, self.constants)
        model.opset_import.add(domain="my", version=1)
        return model
