"""ONNX models of a few nodes, as text."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from onnx import numpy_helper, parser

onnx: Any = import_module("onnx")
"""Where its types are only half known."""

HEADER = '<ir_version: 8, opset_import: ["" : 17]>\n'


def model(text: str, **shapes: tuple[int, ...]) -> Any:
    """The model that a text says, with a random weight of each of the shapes."""
    parsed = parser.parse_model(HEADER + text)
    random = np.random.default_rng(0)
    for name, shape in shapes.items():
        array = random.standard_normal(shape).astype(np.float32)
        parsed.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.checker.check_model(parsed)
    return parsed


def picture(transposes: bool = True) -> Any:
    """A convolution and a ReLU in NHWC, with two Transposes around the convolution or, the same function, one less
    pair behind it that undoes itself."""
    undone = (
        "c = Transpose <perm = [0, 2, 3, 1]> (b) d = Transpose <perm = [0, 3, 1, 2]> (c)"
        if transposes
        else "d = Identity (b)"
    )
    return model(
        f"""network (float[2, 5, 7, 3] x) => (float[2, 5, 7, 20] y) {{
             a = Transpose <perm = [0, 3, 1, 2]> (x)
             b = Conv <pads = [1, 1, 1, 1]> (a, w)
             {undone}
             e = Relu (d)
             y = Transpose <perm = [0, 2, 3, 1]> (e)
           }}""",
        w=(20, 3, 3, 3),
    )


def save(of: Any, path: Path) -> Path:
    """Writes a model; returns the path."""
    path.write_bytes(of.SerializeToString())
    return path


def load(path: Path) -> Any:
    """The model in a file."""
    return onnx.load_from_string(path.read_bytes())
