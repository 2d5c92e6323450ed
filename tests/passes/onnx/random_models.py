"""Random ONNX models full of Transposes: every value may be used by anybody, in any order of its dims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
from numpy.typing import NDArray

Shape = tuple[int, ...]
_MOST_ELEMENTS = 3000
_FLOAT = onnx.TensorProto.FLOAT


class Sketch:
    """A model in the making: values by name, with the shapes that they have for its inputs."""

    def __init__(self, random: Random):
        self.random = random
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: dict[str, Shape] = {}
        self.constants: list[onnx.TensorProto] = []
        self.values: dict[str, Shape] = {}
        self._count = 0

    def name(self) -> str:
        """A name that is new."""
        self._count += 1
        return f"v{self._count}"

    def input(self) -> str:
        """A new input of two to four dims."""
        name = self.name()
        rank = self.random.choice((2, 3, 3, 4, 4, 4))
        self.inputs[name] = tuple(self.random.choice((1, 2, 3, 4, 5, 6)) for _ in range(rank))
        return self.value(name, self.inputs[name])

    def value(self, name: str, shape: Sequence[int]) -> str:
        """States the shape of a value, which later nodes may use."""
        self.values[name] = tuple(shape)
        return name

    def node(self, op_type: str, inputs: Sequence[str], shape: Sequence[int], **attributes: Any) -> str:
        """Adds a node with one output of this shape; returns its name."""
        name = self.name()
        self.nodes.append(oh.make_node(op_type, inputs, [name], **attributes))
        return self.value(name, shape)

    def constant(self, array: NDArray[Any]) -> str:
        """A constant, as an initializer or a Constant node, sometimes behind a Transpose."""
        name = self.name()
        if array.dtype == np.float32 and array.ndim > 1 and self.random.random() < 0.3:
            perm = self.perm(array.ndim)
            inner = self.constant(np.ascontiguousarray(array.transpose(np.argsort(perm))))
            return self.node("Transpose", [inner], array.shape, perm=perm)
        if self.random.random() < 0.3:
            tensor = onnx.numpy_helper.from_array(array)
            self.nodes.append(oh.make_node("Constant", [], [name], value=tensor))
        else:
            self.constants.append(onnx.numpy_helper.from_array(array, name))
        return name

    def floats(self, *shape: int) -> str:
        """A constant of floats, or one of this shape that is there."""
        there = [name for name, found in self.values.items() if found == shape and self.random.random() < 0.3]
        if there:
            return there[0]
        generator = np.random.default_rng(self.random.randrange(1 << 30))
        return self.constant(generator.uniform(-1, 1, shape).astype(np.float32))

    def ints(self, *values: int) -> str:
        """A constant list of integers."""
        return self.constant(np.array(values, np.int64))

    def perm(self, rank: int) -> list[int]:
        """A permutation."""
        perm = list(range(rank))
        self.random.shuffle(perm)
        return perm

    def pick(self) -> str:
        """A value, a recent one rather than another, half of the time behind a Transpose of its own."""
        names = list(self.values)
        name = self.random.choice(names[-5:] if self.random.random() < 0.7 else names)
        return self.transposed(name) if self.random.random() < 0.5 else name

    def transposed(self, name: str, perm: Sequence[int] | None = None) -> str:
        """The value behind a Transpose."""
        shape = self.values[name]
        perm = self.perm(len(shape)) if perm is None else perm
        attributes: dict[str, Any] = {"perm": list(perm)} if perm else {}
        return self.node("Transpose", [name], [shape[d] for d in perm], **attributes)


def _unary(s: Sketch, x: str, shape: Shape) -> str:
    return s.node(s.random.choice(("Relu", "Sigmoid", "Tanh", "Neg", "Identity", "Abs")), [x], shape)


def _binary(s: Sketch, x: str, shape: Shape) -> str:
    other = s.floats(*(n if s.random.random() < 0.7 else 1 for n in shape[s.random.randint(0, len(shape)) :]))
    operands = [x, other] if s.random.random() < 0.5 else [other, x]
    return s.node(s.random.choice(("Add", "Sub", "Mul", "Max", "Min")), operands, shape)


def _both(s: Sketch, x: str, shape: Shape) -> str | None:
    """Two values of the graph, broadcast against one another, behind a Transpose where that lets them meet."""
    for y, other in reversed(s.values.items()):
        if y == x or not other or s.random.random() < 0.5:
            continue
        if len(other) == len(shape) and sorted(other) == sorted(shape) and other != shape:
            left = list(range(len(shape)))
            perm: list[int] = []
            for extent in shape:
                perm.append(next(d for d in left if other[d] == extent))
                left.remove(perm[-1])
            y, other = s.transposed(y, perm), shape
        try:
            result = np.broadcast_shapes(shape, other)
        except ValueError:
            continue
        if prod(result) <= _MOST_ELEMENTS and len(result) <= 5:
            return s.node(s.random.choice(("Add", "Mul", "Sub")), [x, y], result)
    return None


def _where(s: Sketch, x: str, shape: Shape) -> str:
    test = s.name()
    s.nodes.append(oh.make_node("Greater", [x, s.floats(*shape[-1:])], [test]))
    return s.node("Where", [test, x, s.floats(*shape)], shape)


def _concat(s: Sketch, x: str, shape: Shape) -> str | None:
    if not shape:
        return None
    axis = s.random.randrange(len(shape))
    other = list(shape)
    other[axis] = s.random.randint(1, 3)
    pieces = s.random.choice(([x, x], [x, s.floats(*other)], [s.floats(*other), x]))
    extent = 2 * shape[axis] if pieces == [x, x] else shape[axis] + other[axis]
    result = [*shape[:axis], extent, *shape[axis + 1 :]]
    return s.node("Concat", pieces, result, axis=axis - len(shape) * s.random.randint(0, 1))


def _split(s: Sketch, x: str, shape: Shape) -> str | None:
    axes = [d for d, n in enumerate(shape) if n > 1]
    if not axes:
        return None
    axis = s.random.choice(axes)
    first = s.random.randint(1, shape[axis] - 1)
    names = [s.name(), s.name()]
    s.nodes.append(oh.make_node("Split", [x, s.ints(first, shape[axis] - first)], names, axis=axis))
    for name, extent in zip(names, (first, shape[axis] - first), strict=True):
        s.value(name, [*shape[:axis], extent, *shape[axis + 1 :]])
    return s.random.choice(names)


def _slice(s: Sketch, x: str, shape: Shape) -> str | None:
    if not shape:
        return None
    axes = s.random.sample(range(len(shape)), s.random.randint(1, len(shape)))
    starts = [s.random.randrange(shape[a]) for a in axes]
    ends = [s.random.randint(start + 1, shape[a]) for start, a in zip(starts, axes, strict=True)]
    result = list(shape)
    for start, end, a in zip(starts, ends, axes, strict=True):
        result[a] = end - start
    return s.node("Slice", [x, s.ints(*starts), s.ints(*ends), s.ints(*axes)], result)


def _pad(s: Sketch, x: str, shape: Shape) -> str | None:
    if not shape:
        return None
    pads = [s.random.choice((0, 0, 1, 2)) for _ in range(2 * len(shape))]
    result = [n + pads[d] + pads[d + len(shape)] for d, n in enumerate(shape)]
    return s.node("Pad", [x, s.ints(*pads)], result)


def _reduce(s: Sketch, x: str, shape: Shape) -> str | None:
    if not shape:
        return None
    axes = sorted(s.random.sample(range(len(shape)), s.random.randint(1, min(2, len(shape)))))
    keep = s.random.randint(0, 1)
    result = [1 if d in axes else n for d, n in enumerate(shape) if keep or d not in axes]
    op_type = s.random.choice(("ReduceMean", "ReduceMax", "ReduceSum", "ReduceL2"))
    return s.node(op_type, [x, s.ints(*axes)], result, keepdims=keep)


def _softmax(s: Sketch, x: str, shape: Shape) -> str | None:
    return s.node("Softmax", [x], shape, axis=s.random.randrange(-len(shape), len(shape))) if shape else None


def _cumsum(s: Sketch, x: str, shape: Shape) -> str | None:
    if not shape:
        return None
    axis = s.constant(np.array(s.random.randrange(len(shape)), np.int64))
    return s.node("CumSum", [x, axis], shape)


def _matmul(s: Sketch, x: str, shape: Shape) -> str | None:
    if len(shape) < 2:
        return None
    columns = s.random.randint(1, 6)
    lead = shape[s.random.choice((len(shape) - 2, 0)) : -2] if s.random.random() < 0.6 else ()
    other = s.floats(*lead, shape[-1], columns)
    return s.node("MatMul", [x, other], [*shape[:-1], columns])


def _gram(s: Sketch, x: str, shape: Shape) -> str | None:
    """The product of a value and itself, transposed."""
    if len(shape) < 2:
        return None
    perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    y = s.transposed(x, perm)
    return s.node("MatMul", [x, y], [*shape[:-1], shape[-2]])


def _gemm(s: Sketch, x: str, shape: Shape) -> str | None:
    if len(shape) != 2:
        return None
    left, right, columns = s.random.randint(0, 1), s.random.randint(0, 1), s.random.randint(1, 5)
    rows, inner = shape[::-1] if left else shape
    w = s.floats(columns, inner) if right else s.floats(inner, columns)
    more = s.random.choice(([], [s.floats(columns)], [s.floats(rows, columns)], [s.floats(rows, 1)]))
    return s.node("Gemm", [x, w, *more], (rows, columns), transA=left, transB=right)


def _einsum(s: Sketch, x: str, shape: Shape) -> str | None:
    if len(shape) != 3:
        return None
    n = s.random.randint(1, 5)
    result = dict(zip("abcd", (*shape, n), strict=True))
    letters = "".join(s.random.sample("abd", 3))
    return s.node(
        "Einsum", [x, s.floats(n, shape[2])], [result[c] for c in letters], equation=f"abc,dc->{letters}"
    )


def _conv(s: Sketch, x: str, shape: Shape) -> str | None:
    if len(shape) not in (3, 4):
        return None
    kernel = [s.random.randint(1, 2) for _ in shape[2:]]
    channels = s.random.randint(1, 6)
    pads = [1] * 2 * len(kernel) if s.random.random() < 0.5 else [0] * 2 * len(kernel)
    result = [n + 2 * pads[0] - k + 1 for n, k in zip(shape[2:], kernel, strict=True)]
    if min(result) < 1:
        return None
    inputs = [
        x,
        s.floats(channels, shape[1], *kernel),
        *([s.floats(channels)] if s.random.random() < 0.5 else []),
    ]
    return s.node("Conv", inputs, [shape[0], channels, *result], pads=pads)


def _pool(s: Sketch, x: str, shape: Shape) -> str | None:
    if len(shape) != 4:
        return None
    if s.random.random() < 0.4:
        return s.node("GlobalAveragePool", [x], [*shape[:2], 1, 1])
    kernel = [s.random.randint(1, n) for n in shape[2:]]
    result = [n - k + 1 for n, k in zip(shape[2:], kernel, strict=True)]
    return s.node(
        s.random.choice(("MaxPool", "AveragePool")), [x], [*shape[:2], *result], kernel_shape=kernel
    )


def _norm(s: Sketch, x: str, shape: Shape) -> str | None:
    if len(shape) < 3:
        return None
    match s.random.randrange(3):
        case 0:
            return s.node(
                "LayerNormalization", [x, s.floats(shape[-1]), s.floats(shape[-1])], shape, epsilon=0.1
            )
        case 1:
            return s.node(
                "InstanceNormalization", [x, s.floats(shape[1]), s.floats(shape[1])], shape, epsilon=0.1
            )
        case _:
            ones = s.constant(np.ones(shape[1], np.float32))
            return s.node("BatchNormalization", [x, *(s.floats(shape[1]) for _ in range(3)), ones], shape)


def _reshape(s: Sketch, x: str, shape: Shape) -> str | None:
    digits: list[int] = []
    for extent in shape:
        small = next((k for k in (2, 3) if extent % k == 0 and extent > k and s.random.random() < 0.5), None)
        digits += [extent] if small is None else [small, extent // small]
    result: list[int] = []
    for digit in digits:
        if result and s.random.random() < 0.4:
            result[-1] *= digit
        else:
            result.append(digit)
    if s.random.random() < 0.3:
        result.insert(s.random.randint(0, len(result)), 1)
    if not 0 < len(result) <= 5:
        return None
    asked = list(result)
    for d in range(min(len(shape), len(result))):
        if result[d] == shape[d] and s.random.random() < 0.4:
            asked[d] = 0
    if s.random.random() < 0.3:
        asked[s.random.randrange(len(asked))] = -1
    return s.node("Reshape", [x, s.ints(*asked)], result)


def _reshape_like(s: Sketch, x: str, shape: Shape) -> str | None:
    """A Reshape and back, to a shape that is read from the value at run time."""
    if len(shape) < 2:
        return None
    read = s.name()
    s.nodes.append(oh.make_node("Shape", [x], [read]))
    y = s.node("Reshape", [x, s.ints(-1, shape[-1])], (prod(shape[:-1]), shape[-1]))
    return s.node("Reshape", [s.node("Tanh", [y], s.values[y]), read], shape)


def _squeeze(s: Sketch, x: str, shape: Shape) -> str | None:
    axes = [d for d, n in enumerate(shape) if n == 1]
    if not axes:
        return None
    return s.node("Squeeze", [x, s.ints(*axes)], [n for n in shape if n != 1])


def _unsqueeze(s: Sketch, x: str, shape: Shape) -> str | None:
    if len(shape) > 4:
        return None
    axis = s.random.randint(0, len(shape))
    return s.node("Unsqueeze", [x, s.ints(axis)], [*shape[:axis], 1, *shape[axis:]])


def _flatten(s: Sketch, x: str, shape: Shape) -> str:
    axis = s.random.randint(-len(shape), len(shape))
    split = axis + len(shape) if axis < 0 else axis
    return s.node("Flatten", [x], (prod(shape[:split]), prod(shape[split:])), axis=axis)


def _gather(s: Sketch, x: str, shape: Shape) -> str | None:
    if not shape:
        return None
    axis = s.random.randrange(len(shape))
    size = s.random.choice(((), (2,), (3,), (2, 2)))
    if len(shape) - 1 + len(size) > 5:
        return None
    generator = np.random.default_rng(s.random.randrange(1 << 30))
    indices = s.constant(generator.integers(0, shape[axis], size))
    return s.node("Gather", [x, indices], [*shape[:axis], *size, *shape[axis + 1 :]], axis=axis)


def _repeat(s: Sketch, x: str, shape: Shape) -> str | None:
    if not shape:
        return None
    times = [s.random.choice((1, 1, 2)) for _ in shape]
    if s.random.random() < 0.5:
        return s.node("Tile", [x, s.ints(*times)], [n * t for n, t in zip(shape, times, strict=True)])
    result = [n if n > 1 else s.random.randint(1, 3) for n in shape]
    return s.node("Expand", [x, s.ints(*result)], result)


def _resize(s: Sketch, x: str, shape: Shape) -> str | None:
    if len(shape) != 4:
        return None
    scales = s.constant(np.array([1, 1, 2, 1], np.float32))
    return s.node("Resize", [x, "", scales], [*shape[:2], 2 * shape[2], shape[3]], mode="nearest")


def _branch(s: Sketch, x: str, shape: Shape) -> str:
    """An If whose branches use the value, which a Transpose may have made, and transpose it."""
    perm = s.perm(len(shape))
    result = [shape[d] for d in perm]
    attributes: dict[str, Any] = {"perm": perm} if perm else {}
    graphs: list[onnx.GraphProto] = []
    for op_type in ("Tanh", "Abs"):
        middle, last = s.name(), s.name()
        nodes = [
            oh.make_node("Transpose", [x], [middle], **attributes),
            oh.make_node(op_type, [middle], [last]),
        ]
        graphs.append(oh.make_graph(nodes, op_type, [], [oh.make_tensor_value_info(last, _FLOAT, None)]))
    test = s.constant(np.array(s.random.random() < 0.5))
    return s.node("If", [test], result, then_branch=graphs[0], else_branch=graphs[1])


_STEPS: tuple[Callable[[Sketch, str, Shape], str | None], ...] = (
    _unary, _unary, _binary, _binary, _both, _both, _where, _concat, _split, _slice, _pad, _reduce, _reduce, _softmax,
    _cumsum, _matmul, _matmul, _gram, _gemm, _einsum, _conv, _conv, _pool, _norm, _reshape, _reshape, _reshape,
    _reshape_like, _squeeze, _unsqueeze, _flatten, _gather, _repeat, _resize, _branch,
)  # fmt: skip


def random_model(random: Random, steps: int = 12) -> tuple[onnx.ModelProto, dict[str, NDArray[np.float32]]]:
    """A model of about `steps` nodes besides its Transposes, and what to feed it.

    Some of its extents may be unknown; outputs may be inputs, Transposes of these or of one another, or constants.
    """
    s = Sketch(random)
    for _ in range(random.randint(1, 3)):
        s.input()
    for _ in range(steps):
        x = s.pick()
        count, values = len(s.nodes), dict(s.values)
        made = random.choice(_STEPS)(s, x, s.values[x])
        if made is None or prod(s.values[made]) > _MOST_ELEMENTS:
            del s.nodes[count:]
            s.values = values
    names = list(s.values)
    chosen = dict.fromkeys([names[-1], *random.sample(names, min(len(names), random.randint(1, 4)))])
    dynamic = random.random() < 0.3

    def stated(name: str, chance: float) -> onnx.ValueInfoProto:
        dims = [f"{name}_{d}" if random.random() < chance else n for d, n in enumerate(s.values[name])]
        return oh.make_tensor_value_info(name, _FLOAT, dims)

    outputs = [stated(name, float(dynamic)) for name in chosen]
    inputs = [stated(name, 0.5 * dynamic) for name in s.inputs]
    graph = oh.make_graph(s.nodes, "random", inputs, outputs, s.constants)
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 18)], ir_version=9)
    generator = np.random.default_rng(random.randrange(1 << 30))
    return model, {n: generator.uniform(-1, 1, shape).astype(np.float32) for n, shape in s.inputs.items()}
