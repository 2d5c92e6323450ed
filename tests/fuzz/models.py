"""ONNX: valid small models of many ops, changed at the level of the protobuf, imported, optimized and run.

The generic mutator walks the message and knows nothing of ONNX: attributes, types, shapes, inputs, initializers,
functions, external data and versions are all fields. Where ONNX Runtime accepts a changed model and so do we, both
must compute the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from layout_ir.errors import LayoutError
from tests.fuzz.kinds import Kind, Wrong
from tests.fuzz.mutation import NUMBERS

Array = NDArray[Any]
_F = TensorProto.FLOAT


class Sketch:
    """A model in the making: values by name, each used by at least one node."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: dict[str, tuple[int, ...]] = {}
        self.constants: dict[str, Array] = {}
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def input(self, *shape: int) -> str:
        """An input, or a constant in its place."""
        if self.rng.random() < 0.15:
            return self.constant(np.linspace(-1, 1, math.prod(shape), dtype=np.float32).reshape(shape))
        name = self.name()
        self.inputs[name] = shape
        return name

    def constant(self, array: Any) -> str:
        name = self.name()
        array = np.asarray(array)
        if self.rng.random() < 0.2:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        else:
            self.constants[name] = array
        return name

    def weights(self, *shape: int) -> str:
        count = math.prod(shape)
        return self.constant((np.arange(count) % 7 / 4 - 0.7).astype(np.float32).reshape(shape))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names


def _conv(s: Sketch, x: str) -> str:
    rng = s.rng
    group = rng.choice((1, 1, 2, 4))
    kernel = rng.choice((1, 2, 3))
    w = s.weights(4, 4 // group, kernel, kernel)
    more = (s.weights(4),) if rng.random() < 0.4 else ()
    extra: dict[str, Any] = {}
    if rng.random() < 0.4:
        extra["strides"] = [rng.choice((1, 2)), 1]
    if rng.random() < 0.3:
        extra["auto_pad"] = rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif rng.random() < 0.6:
        extra["pads"] = [1, 1, 1, 1]
    if rng.random() < 0.2 and "auto_pad" not in extra:
        extra["dilations"] = [2, 1]
        extra["pads"] = [2, 1, 2, 1]
    return s.node("Conv", x, w, *more, group=group, kernel_shape=[kernel, kernel], **extra)


def _pool(s: Sketch, x: str) -> str:
    op = s.rng.choice(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"))
    if op.startswith("Global"):
        return s.node(op, x)
    extra: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [s.rng.choice((1, 2))] * 2}
    if s.rng.random() < 0.5:
        extra["ceil_mode"] = 1
    if op == "AveragePool" and s.rng.random() < 0.5:
        extra |= {"pads": [1, 1, 0, 0], "count_include_pad": s.rng.choice((0, 1))}
    return s.node(op, x, **extra)


_UNARY = (
    "Relu", "Sigmoid", "Tanh", "Exp", "Neg", "Abs", "Sqrt", "Erf", "Floor", "Ceil", "Round", "Sign", "Reciprocal",
    "Softplus", "Softsign", "HardSigmoid", "HardSwish", "Elu", "LeakyRelu", "Selu", "Identity", "Log", "Mish", "Gelu",
    "Sin", "Cos", "IsNaN", "Celu", "ThresholdedRelu", "Dropout", "Cast", "Shape", "Size", "Flatten",
)  # fmt: skip
_BINARY = (
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Pow",
    "Max",
    "Min",
    "PRelu",
    "Mod",
    "Sum",
    "Mean",
    "Equal",
    "Greater",
    "Less",
    "GreaterOrEqual",
    "LessOrEqual",
)
_REDUCE = (
    "ReduceMean",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ArgMax",
    "ArgMin",
)


def _unary(s: Sketch, x: str) -> str:
    op = s.rng.choice(_UNARY)
    if op == "Cast":
        y = s.node("Cast", x, to=s.rng.choice((1, 6, 7, 10, 11, 9)))
        return s.node("Cast", y, to=1)
    if op in ("Shape", "Size"):
        return s.node("Cast", s.node(op, x), to=1)
    if op == "IsNaN":
        return s.node("Cast", s.node(op, x), to=1)
    return s.node(op, x, **({"axis": s.rng.choice((0, 1, -1))} if op == "Flatten" else {}))


def _binary(s: Sketch, x: str) -> str:
    op = s.rng.choice(_BINARY)
    other = (
        x
        if s.rng.random() < 0.3
        else s.weights(*s.rng.choice(((1,), (4, 1, 1), (1, 4, 1, 1), (), (1, 1, 1, 6))))
    )
    args = (x, other) if s.rng.random() < 0.7 or op == "PRelu" else (other, x)
    y = s.node(op, *args, **({"fmod": 1} if op == "Mod" else {}))
    return s.node("Cast", y, to=1) if op.startswith(("Equal", "Greater", "Less")) else y


def _reduce(s: Sketch, x: str) -> str:
    op = s.rng.choice(_REDUCE)
    axes = s.rng.choice(([1], [2, 3], [-1], [0, 1]))
    if op.startswith("Arg"):
        y = s.node(op, x, axis=axes[0], keepdims=s.rng.choice((0, 1)), select_last_index=s.rng.choice((0, 1)))
        return s.node("Cast", y, to=1)
    return s.node(op, x, s.ints(*axes), keepdims=s.rng.choice((0, 1, 1)))


def _shape(s: Sketch, x: str) -> str:
    rng = s.rng
    match rng.randrange(15):
        case 0:
            return s.node("Transpose", x, perm=rng.choice(([0, 2, 3, 1], [3, 2, 1, 0], [0, 1, 3, 2])))
        case 1:
            return s.node("Reshape", x, s.ints(*rng.choice(((1, -1), (1, 4, -1), (0, 0, -1), (-1,)))))
        case 2:
            return s.node("Concat", x, x, axis=rng.choice((0, 1, -1)))
        case 3:
            return s.node("Slice", x, s.ints(1, 0), s.ints(4, 100), s.ints(1, -1), s.ints(1, 2))
        case 4:
            return s.node(
                "Pad", x, s.ints(0, 1, 1, 0, 0, 0, 1, 2), mode=rng.choice(("constant", "edge", "reflect"))
            )
        case 5:
            return s.node("Squeeze", x, s.ints(0))
        case 6:
            return s.node("Unsqueeze", x, s.ints(rng.choice((0, 2, -1))))
        case 7:
            a, b = s.node("Split", x, outputs=2, axis=1, num_outputs=2)
            return s.node("Add", a, b)
        case 8:
            scales = s.constant(np.array([1, 1, 2, 2], np.float32))
            mode = rng.choice(("nearest", "linear", "cubic"))
            return s.node("Resize", x, "", scales, mode=mode, nearest_mode="floor")
        case 9:
            return s.node("DepthToSpace", x, blocksize=2, mode=rng.choice(("DCR", "CRD")))
        case 10:
            return s.node("SpaceToDepth", x, blocksize=2)
        case 11:
            return s.node("Expand", x, s.ints(2, 4, 6, 6))
        case 12:
            return s.node("Gather", x, s.ints(0, 2, 1), axis=1)
        case 13:
            return s.node("Tile", x, s.ints(1, 2, 1, 1))
        case _:
            a = s.node("Shape", x)
            b = s.node("Gather", a, s.ints(0))
            return s.node("Reshape", x, s.node("Concat", b, s.ints(-1), axis=0))


def _layer(s: Sketch, x: str) -> str:
    match s.rng.randrange(15):
        case 10:
            return s.node("LayerNormalization", x, s.weights(6), axis=-1, epsilon=1e-3)
        case 11:
            return s.node(
                "GroupNormalization", x, s.weights(4), s.weights(4), num_groups=s.rng.choice((1, 2, 4))
            )
        case 12:
            flat = s.node("Reshape", x, s.ints(0, 2, -1))
            one, zero = (s.constant(np.full(2, number, np.float32)) for number in (1, 0))
            y = s.node("Reshape", s.node("InstanceNormalization", flat, one, zero), s.node("Shape", x))
            return s.node("Add", s.node("Mul", y, s.weights(4, 1, 1)), s.weights(4, 1, 1))
        case 13:
            return s.node("CumSum", x, s.ints(s.rng.choice((1, -1))), reverse=s.rng.choice((0, 1)))
        case 14:
            return s.node("Trilu", x, s.ints(1), upper=s.rng.choice((0, 1)))
        case 0:
            four = (s.weights(4), s.weights(4), s.weights(4), s.constant(np.full(4, 0.5, np.float32)))
            return s.node("BatchNormalization", x, *four, epsilon=1e-3)
        case 1:
            return s.node("LRN", x, size=3)
        case 2:
            return s.node("Softmax", x, axis=s.rng.choice((1, -1)))
        case 3:
            return s.node("LogSoftmax", x, axis=1)
        case 4:
            return s.node("MatMul", x, s.weights(6, 3))
        case 5:
            flat = s.node("Flatten", x)
            return s.node("Gemm", flat, s.weights(5, 144), s.weights(5), transB=1, alpha=0.5)
        case 6:
            return s.node("ConvTranspose", x, s.weights(4, 2, 2, 2), strides=[2, 2])
        case 7:
            low, high = s.constant(np.float32(-0.5)), s.constant(np.float32(0.5))
            return s.node("Clip", x, low, high)
        case 8:
            condition = s.node("Greater", x, s.constant(np.float32(0)))
            return s.node("Where", condition, x, s.constant(np.float32(2)))
        case _:
            return s.node("InstanceNormalization", x, s.weights(4), s.weights(4))


def _folded(s: Sketch, x: str) -> str:
    """Ops of constants, which the importer computes."""
    match s.rng.randrange(6):
        case 0:
            return s.node("Add", x, s.node("ConstantOfShape", s.ints(4, 1, 1)))
        case 1:
            r = s.node("Range", *(s.constant(np.int64(k)) for k in (0, 6, 1)))
            return s.node("Add", x, s.node("Cast", r, to=1))
        case 2:
            a = s.node("Mul", s.weights(4, 1, 1), s.weights(1, 1, 6))
            return s.node("Mul", x, s.node("Transpose", a, perm=[0, 2, 1]))
        case 3:
            return s.node("Add", x, s.node("Expand", s.weights(1), s.ints(4, 6, 6)))
        case 4:
            e = s.node("EyeLike", s.weights(6, 6))
            return s.node("MatMul", x, e)
        case _:
            c = s.node("Div", s.ints(7, 6), s.ints(2, 3))
            return s.node("Expand", x, s.node("Concat", s.ints(1, 4), s.node("Mul", c, s.ints(2, 3)), axis=0))


_STEPS: tuple[Callable[[Sketch, str], str], ...] = (
    _conv, _conv, _pool, _unary, _unary, _binary, _binary, _reduce, _shape, _shape, _shape, _layer, _layer, _folded,
)  # fmt: skip


def valid_model(rng: Random) -> onnx.ModelProto:
    """A model of a few nodes that is probably valid."""
    s = Sketch(rng)
    x = s.input(1, 4, 6, 6)
    for _ in range(rng.choice((1, 1, 2, 3))):
        y = rng.choice(_STEPS)(s, x)
        x = y
    functions: list[onnx.FunctionProto] = []
    if rng.random() < 0.1:
        body = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("LeakyRelu", ["b"], ["c"])]
        attribute = body[1].attribute.add()
        attribute.name, attribute.ref_attr_name, attribute.type = "alpha", "slope", onnx.AttributeProto.FLOAT
        opsets = [helper.make_opsetid("", 18)]
        functions.append(helper.make_function("own", "Act", ["a"], ["c"], body, opsets, attributes=["slope"]))
        x, before = s.name(), x
        s.nodes.append(helper.make_node("Act", [before], [x], domain="own", slope=0.5))
    if not any(x in node.output for node in s.nodes):
        x = s.node("Identity", x)
    initializers = [numpy_helper.from_array(array, name) for name, array in s.constants.items()]
    if rng.random() < 0.1 and initializers:
        tensor = rng.choice(initializers)
        if tensor.data_type == _F:
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (
                ("location", "w.bin"),
                ("offset", "0"),
                ("length", str(4 * math.prod(tensor.dims))),
            ):
                entry = tensor.external_data.add()
                entry.key, entry.value = key, value
    graph = helper.make_graph(
        s.nodes,
        "graph",
        [helper.make_tensor_value_info(name, _F, list(shape)) for name, shape in s.inputs.items()],
        [helper.make_tensor_value_info(x, _F, None)],
        initializers,
    )
    opsets = [helper.make_opsetid("", 18)] + [helper.make_opsetid("own", 1)] * bool(functions)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=functions)


# Changes -------------------------------------------------------------------------------------------------------------


def _fields(message: Any) -> Iterator[tuple[Any, Any]]:
    """Every (message, field) below a message, deep ones first often enough."""
    for field, value in message.ListFields():
        yield message, field
        if field.message_type is not None:
            for child in value if _repeated(field) else [value]:
                yield from _fields(child)


def _repeated(field: Any) -> bool:
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


_FLOATS = (0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e30, 1e-40, 2.5)


class _Words:
    """Names that occur in a model, and others."""

    def __init__(self, model: onnx.ModelProto) -> None:
        names = {name for node in model.graph.node for name in (*node.input, *node.output, node.op_type)}
        names |= {a.name for node in model.graph.node for a in node.attribute}
        self.words = [
            *sorted(names),
            "",
            "x",
            "é",
            "\0",
            "Loop",
            "If",
            "Scan",
            "LSTM",
            "../w.bin",
            "/etc/passwd",
            "N",
        ]
        self.words += [
            *_UNARY,
            *_BINARY,
            *_REDUCE,
            "ai.onnx",
            "own",
            "axis",
            "axes",
            "to",
            "SAME_UPPER",
            "w.bin",
            "a" * 300,
        ]


def _changed_scalar(rng: Random, field: Any, value: Any, words: list[str]) -> Any:
    kind = field.cpp_type
    if field.enum_type is not None:
        return rng.choice([v.number for v in field.enum_type.values])
    if kind in (field.CPPTYPE_INT32, field.CPPTYPE_INT64):
        bits = 31 if kind == field.CPPTYPE_INT32 else 63
        low, high = -(1 << bits), (1 << bits) - 1
        new = value + rng.choice((-2, -1, 1, 2)) if rng.random() < 0.5 else rng.choice(NUMBERS)
        return min(max(new, low), high)
    if kind in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64):
        return min(abs(rng.choice(NUMBERS)), (1 << 32) - 1)
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice(_FLOATS)
    if isinstance(value, bytes):
        how = rng.random()
        if how < 0.4:
            return value[: rng.randrange(len(value) + 1)]
        if how < 0.7:
            return value + rng.randbytes(rng.choice((1, 4, 8)))
        return rng.choice((b"", b"\xff\xfe", rng.randbytes(len(value)), rng.choice(words).encode()))
    return rng.choice(words)


def mutate_model(rng: Random, model: onnx.ModelProto) -> None:
    """Changes a few fields."""
    words = _Words(model).words
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        fields = list(_fields(model.graph if rng.random() < 0.8 else model))
        if not fields:
            return
        message, field = rng.choice(fields)
        how = rng.random()
        if not _repeated(field):
            if how < 0.1:
                message.ClearField(field.name)
            elif field.message_type is None:
                try:
                    setattr(
                        message, field.name, _changed_scalar(rng, field, getattr(message, field.name), words)
                    )
                except (ValueError, TypeError):
                    continue  # the protobuf of Python refuses it
            continue
        items = getattr(message, field.name)
        k = rng.randrange(len(items))
        if field.message_type is not None:
            if how < 0.3:
                del items[k]
            elif how < 0.6:
                items.add().CopyFrom(items[k])
            elif how < 0.8:
                first, second = type(items[k])(), type(items[k])()
                other = rng.randrange(len(items))
                first.CopyFrom(items[k])
                second.CopyFrom(items[other])
                items[k].CopyFrom(second)
                items[other].CopyFrom(first)
            continue
        if how < 0.2:
            del items[k]
        elif how < 0.4:
            items.insert(k, items[k])
        elif how < 0.5:
            items.extend([items[k]] * rng.choice((1, 2, 20)))
        else:
            try:
                items[k] = _changed_scalar(rng, field, items[k], words)
            except (ValueError, TypeError):
                continue


# Runs ----------------------------------------------------------------------------------------------------------------


@cache
def _side_file() -> bytes:
    return np.linspace(-1, 1, 4096, dtype=np.float32).tobytes()


class Models(Kind):
    name = "onnx"
    suffix = ".onnx"
    chunk = 15

    def make(self, seed: int, number: int) -> bytes:
        rng = self.rng(seed, number)
        model = valid_model(rng)
        if rng.random() < 0.95:
            mutate_model(rng, model)
        data = model.SerializeToString()
        if rng.random() < 0.05:
            raw = bytearray(data)
            for _ in range(rng.choice((1, 1, 3))):
                raw[rng.randrange(len(raw))] = rng.randrange(256)
            data = bytes(raw)
        return data

    def run(self, data: bytes) -> None:
        from layout_ir.frontends.mlir.verify_module import verify_module
        from layout_ir.frontends.onnx import OnnxImportError, from_onnx

        Path("w.bin").write_bytes(_side_file())
        Path("model.onnx").write_bytes(data)
        try:
            module = from_onnx("model.onnx")
        except OnnxImportError:
            raise
        except LayoutError as error:
            raise Wrong(f"no OnnxImportError but {type(error).__name__}: {error}") from error
        if errors := verify_module(module):
            raise Wrong(f"imported as what does not verify: {errors[0].message}")
        self._compare(data, module)

    def _compare(self, data: bytes, module: Any) -> None:
        """Runs what was imported and optimized, and compares with ONNX Runtime where that accepts the model."""
        from xdsl.dialects.func import FuncOp

        import layout_ir
        from layout_ir.dialects.layout import is_tensor

        [function] = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
        types = [*function.function_type.inputs, *(r.type for op in function.walk() for r in op.results)]
        model = onnx.ModelProto.FromString(data)
        # ONNX Runtime takes a minute for thousands of functions.
        if len(model.functions) > 20 or any(math.prod(t.get_shape()) > 20_000 for t in types if is_tensor(t)):
            return
        given = _inputs_of(model)
        inputs = {
            n: np.linspace(-1.5, 1.5, math.prod(s), dtype=np.float32).reshape(s) for n, s in given.items()
        }
        layout_ir.optimize(module, target="avx2")
        results = layout_ir.run(module, inputs)
        if any(node.op_type in _OPEN_ABOUT_NAN for node in model.graph.node) and any(map(_has_nan, results)):
            return
        for reference in (_runtime, _evaluator):
            # Where the two disagree with each other (strides of 2^40), either will do.
            wanted = reference(model, inputs)
            if wanted is None or _alike(results, wanted):
                return
        ops = ",".join(node.op_type for node in model.graph.node)
        ours, theirs = (" and ".join(map(_few, arrays)) for arrays in (results, wanted))
        raise Wrong(f"{ops}: {ours}, expected {theirs}", f"differs: {ops}")

    def smaller(self, data: bytes) -> Iterator[bytes]:
        try:
            model = onnx.ModelProto.FromString(data)
        except Exception:
            return
        for number in range(len(model.graph.node)):
            small = onnx.ModelProto()
            small.CopyFrom(model)
            node = small.graph.node[number]
            # Whoever used the first result uses the first input.
            if node.output and node.input:
                for other in small.graph.node:
                    for k, name in enumerate(other.input):
                        if name == node.output[0]:
                            other.input[k] = node.input[0]
            del small.graph.node[number]
            yield small.SerializeToString()
        for path in ("initializer", "value_info", "input"):
            for number in range(len(getattr(model.graph, path))):
                small = onnx.ModelProto()
                small.CopyFrom(model)
                del getattr(small.graph, path)[number]
                yield small.SerializeToString()


def _few(array: Array) -> str:
    return f"{array.dtype} {array.shape} {array.ravel()[:6].tolist()}"


def _inputs_of(model: onnx.ModelProto) -> Mapping[str, tuple[int, ...]]:
    known = {tensor.name for tensor in model.graph.initializer}
    return {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in model.graph.input
        if value.name not in known
    }


_OPEN_ABOUT_NAN = ("LRN", "MaxPool", "GlobalMaxPool")
"""Ops of which ONNX does not say what NaN does. The largest of numbers and NaN is either; a sum that runs along the
channels, as ONNX Runtime keeps for LRN, stays NaN behind the window that had one, and the evaluator of onnx leaves
channels out where there are fewer batches."""


def _has_nan(array: Array) -> bool:
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _alike(ours: Sequence[Array], theirs: Sequence[Array]) -> bool:
    """Whether two lists of results are the same up to roundings."""
    return len(ours) == len(theirs) and all(
        a.shape == b.shape
        and np.allclose(a.astype(np.float64), b.astype(np.float64), 1e-3, 1e-3, equal_nan=True)
        for a, b in zip(ours, theirs, strict=True)
    )


def _runtime(model: onnx.ModelProto, inputs: dict[str, Array]) -> list[Array] | None:
    """What ONNX Runtime computes; None where it refuses the model."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = runtime.InferenceSession("model.onnx", options, providers=["CPUExecutionProvider"])
        return list(session.run(None, inputs))
    except Exception:
        return None


def _evaluator(model: onnx.ModelProto, inputs: dict[str, Array]) -> list[Array] | None:
    """What the evaluator of the package onnx computes; None where it fails."""
    reference: Any = import_module("onnx.reference")
    try:
        return [np.asarray(x) for x in reference.ReferenceEvaluator(model).run(None, inputs)]
    except Exception:
        return None
