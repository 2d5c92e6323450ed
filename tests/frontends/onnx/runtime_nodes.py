"""Nodes of operators of ONNX Runtime, each with inputs that its kernels for CPUs take."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.helper as oh
from numpy.typing import NDArray

BATCH, STEPS, HEADS, SIZE = 2, 5, 4, 8
WIDTH = HEADS * SIZE

_random = np.random.default_rng(1)


def floats(*shape: int) -> NDArray[Any]:
    """Numbers of which most lie between -2 and 2."""
    return _random.standard_normal(shape).astype(np.float32)


def levels(*shape: int, dtype: type = np.uint8) -> NDArray[Any]:
    """Integers so small that no sum of two products saturates where a CPU lacks VNNI."""
    least = 0 if dtype is np.uint8 else -60
    return _random.integers(least, 60, shape).astype(dtype)


@dataclass(frozen=True)
class RuntimeNode:
    """A node in a model of its own."""

    op_type: str
    inputs: Sequence[Any]
    """Arrays, numbers; None for one that is left out."""
    constants: Collection[int] = ()
    """Which of the inputs are constants of the model."""
    results: int = 1
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    domain: str = "com.microsoft"

    def model(self) -> onnx.ModelProto:
        """The model, whose inputs are named "i0", "i1", ... and whose outputs "o0", ..., without types."""
        graph = onnx.GraphProto(name="node")
        for name, array in self.arrays(constant=True).items():
            element = oh.np_dtype_to_tensor_dtype(array.dtype)
            # Numbers rather than bytes: ONNX Runtime 1.25 crashes where the axis of ExpandDims is bytes.
            graph.initializer.append(oh.make_tensor(name, element, array.shape, array.ravel().tolist()))
        for name, array in self.feeds().items():
            element = oh.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(oh.make_tensor_value_info(name, element, array.shape))
        names = ["" if given is None else f"i{number}" for number, given in enumerate(self.inputs)]
        outputs = [f"o{number}" for number in range(self.results)]
        graph.node.append(
            oh.make_node(self.op_type, names, outputs, "node", domain=self.domain, **self.attributes)
        )
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        opsets = [
            oh.make_opsetid("", 17),
            oh.make_opsetid("com.microsoft", 1),
            oh.make_opsetid("ai.onnx.ml", 3),
        ]
        return oh.make_model(graph, opset_imports=opsets, ir_version=8)

    def arrays(self, *, constant: bool) -> dict[str, NDArray[Any]]:
        """The constants, or the inputs that are none, by name."""
        return {
            f"i{number}": np.asarray(given)
            for number, given in enumerate(self.inputs)
            if given is not None and (number in self.constants) == constant
        }

    def feeds(self) -> dict[str, NDArray[Any]]:
        """The inputs by name."""
        return self.arrays(constant=False)


def on_256_levels(*shape: int) -> NDArray[Any]:
    """Multiples of 1/64 which 256 levels of their range hold exactly: the least and the greatest are 255 apart."""
    found = _random.integers(-120, 135, shape)
    found.flat[:2] = -120, 135
    return (found / 64).astype(np.float32)


def dynamic_lstm(direction: str, *, steps: int = 1, by_row: bool = False) -> RuntimeNode:
    """An LSTM whose weights are integers, of a scale per direction or per row of gates.

    ONNX Runtime rounds what it multiplies them with, which changes nothing in the first step.
    """
    count, size, width = (2 if direction == "bidirectional" else 1), 6, 4
    shape = (count, 4 * size) if by_row else (count,)
    state = on_256_levels(BATCH, size)
    integers = [levels(count, rows, 4 * size, dtype=np.int8) for rows in (width, size)]
    scales = [(np.abs(floats(*shape)) + 1) / 200 for _ in integers]
    middles = [np.full(shape, 0 if by_row else number, np.int8) for number in (2, -3)]
    inputs = [on_256_levels(steps, BATCH, width), *integers, floats(count, 8 * size), None]
    inputs += [np.stack([state] * count), floats(count, BATCH, size), None]
    inputs += [scales[0], middles[0], scales[1], middles[1]]
    attributes = {"direction": direction, "hidden_size": size}
    return RuntimeNode("DynamicQuantizeLSTM", inputs, (1, 2, 3, 8, 9, 10, 11), 3, attributes)


def _scale(value: float) -> NDArray[Any]:
    return np.array(value, np.float32)


def _multi_head(*more: Any, keys: Any = STEPS, results: int = 1, **attributes: Any) -> RuntimeNode:
    given = [floats(BATCH, STEPS, WIDTH), floats(BATCH, keys, WIDTH), floats(BATCH, keys, WIDTH), *more]
    constants = (3,) if more and more[0] is not None else ()
    return RuntimeNode("MultiHeadAttention", given, constants, results, {"num_heads": HEADS, **attributes})


def group_query(
    *more: Any,
    steps: int = 1,
    past: int | None = 6,
    room: int | None = None,
    lengths: Sequence[int] | None = None,
    batch: int = BATCH,
    size: int = 16,
    packed: bool = False,
    constants: Collection[int] = (6, 7, 8),
    **attributes: Any,
) -> RuntimeNode:
    """A GroupQueryAttention of four heads that share two of keys and values; `more` are inputs from 7 on.

    `past` is the number of keys that are known, `room` what the caches have place for, `lengths` the number of keys of
    each sentence with the new ones.
    """
    total = (past or 0) + steps
    caches = [None, None] if past is None else [floats(batch, 2, room or past, size) for _ in range(2)]
    projections = [floats(batch, steps, heads * size) for heads in (4, 2, 2)]
    if packed:
        projections = [np.concatenate(projections, axis=2), None, None]
    counts = np.array(lengths or [total] * batch, np.int32) - 1
    given = [*projections, *caches, counts, np.array(total, np.int32), *more]
    settings = {"num_heads": 4, "kv_num_heads": 2, **attributes}
    return RuntimeNode("GroupQueryAttention", given, constants, 3, settings)


def _angles(pairs: int = 8) -> tuple[NDArray[Any], NDArray[Any]]:
    return floats(16, pairs), floats(16, pairs)


def _attention(
    *more: Any, sizes: Sequence[int] = (WIDTH,) * 3, results: int = 1, **attributes: Any
) -> RuntimeNode:
    given = [floats(BATCH, STEPS, WIDTH), floats(WIDTH, sum(sizes)), floats(sum(sizes)), *more]
    return RuntimeNode("Attention", given, (1, 2), results, {"num_heads": HEADS, **attributes})


def _rotary(x: NDArray[Any], places: Any, pairs: int = SIZE // 2, **attributes: Any) -> RuntimeNode:
    return RuntimeNode(
        "RotaryEmbedding", [x, np.array(places, np.int64), *_angles(pairs)], (2, 3), 1, attributes
    )


def _alone(op_type: str, *shape: int, result: float = 0.02, **attributes: Any) -> RuntimeNode:
    """An operator on one tensor of bytes."""
    given = [levels(*shape), _scale(0.05), np.uint8(30), _scale(result), np.uint8(7)]
    return RuntimeNode(op_type, given, range(1, 5), 1, attributes)


def _pair(op_type: str) -> RuntimeNode:
    """An operator on two tensors of bytes, one of which is broadcast."""
    given = [levels(2, 3, 4), _scale(0.05), np.uint8(30), levels(3, 1), _scale(0.03), np.uint8(5)]
    return RuntimeNode(op_type, [*given, _scale(0.07), np.uint8(60)], (1, 2, 4, 5, 6, 7))


def _gemm(*result: Any, **attributes: Any) -> RuntimeNode:
    """A product with a scale per column."""
    given = [levels(4, 8), _scale(0.05), np.uint8(30), levels(6, 8, dtype=np.int8), np.abs(floats(6))]
    given += [np.zeros(6, np.int8), _random.integers(-99, 99, 6).astype(np.int32), *result]
    return RuntimeNode("QGemm", given, range(1, len(given)), 1, {"transB": 1, **attributes})


def _bits(rows: int, *more: Any, bits: int = 4, columns: int = 6, blocks: int = 3) -> RuntimeNode:
    """A product with a matrix in blocks of 16 rows."""
    packed = _random.integers(0, 256, (columns, blocks, 16 * bits // 8)).astype(np.uint8)
    given = [floats(BATCH, STEPS, rows), packed, np.abs(floats(columns * blocks)), *more]
    settings = {"K": rows, "N": columns, "bits": bits, "block_size": 16}
    return RuntimeNode("MatMulNBits", given, range(1, len(given)), 1, settings)


def _experts(*rows: int, biases: bool = True, **attributes: Any) -> RuntimeNode:
    """Four experts of 16 elements on rows of 8."""
    given = [
        floats(*rows, 8),
        floats(int(np.prod(rows)), 4),
        floats(4, 16, 8),
        floats(4, 16) if biases else None,
    ]
    given += [floats(4, 8, 16), floats(4, 8) if biases else None]
    return RuntimeNode("MoE", given, (2, 3, 4, 5) if biases else (2, 4), 1, attributes)


_EVERY = [[*range(STEPS)]] * BATCH
_MASK = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)
_PAST = floats(2, BATCH, HEADS, 3, SIZE)
_CONVOLUTION = (
    _scale(0.02),
    np.uint8(3),
    levels(6, 8, 3, 3, dtype=np.int8),
    _scale(0.01),
    np.int8(0),
    _scale(0.23),
)
_WINDOW: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}


def _classical(op_type: str, *inputs: Any, results: int = 1, **attributes: Any) -> RuntimeNode:
    return RuntimeNode(op_type, inputs, (), results, attributes, "ai.onnx.ml")


def _quantized_embedding(given: NDArray[Any] | None) -> RuntimeNode:
    """Of words, and of segments and a mask, which are `given`, or of words alone."""
    words = _random.integers(0, 7, (BATCH, STEPS)).astype(np.int32)
    tables = [levels(7, WIDTH), levels(STEPS + 2, WIDTH), None if given is None else levels(2, WIDTH)]
    parameters = [levels(WIDTH), levels(WIDTH)]
    per_table = [
        [number, number, None if given is None else number, number, number] for number in (0.02, 120)
    ]
    scales = [None if number is None else _scale(number) for number in per_table[0]]
    zero_points = [None if number is None else np.uint8(number) for number in per_table[1]]
    inputs = [words, given, *tables, *parameters, given, *scales, *zero_points]
    constants = tuple(k for k, value in enumerate(inputs) if k >= 2 and k != 7 and value is not None)
    return RuntimeNode("QEmbedLayerNormalization", inputs, constants, 2, {"epsilon": 1e-5})


def _with_zeros(*shape: int) -> NDArray[Any]:
    found = floats(*shape)
    found[1] = 0
    return found


NODES = {
    "attention": _attention(),
    "attention, lengths": _attention(np.array([5, 3], np.int32)),
    "attention, mask of queries": _attention(_random.integers(0, 2, (BATCH, STEPS, STEPS)).astype(np.int32)),
    "attention, addend": _attention(None, None, floats(1, HEADS, STEPS, STEPS), scale=0.2),
    "attention, sizes": _attention(sizes=(16, 16, 24), qkv_hidden_sizes=[16, 16, 24]),
    "attention, past": _attention(None, _PAST, results=2, unidirectional=1),
    "attention, past and mask": _attention(np.ones((BATCH, STEPS + 3), np.int32), _PAST, results=2),
    "quantized attention": RuntimeNode(
        "QAttention",
        [levels(BATCH, STEPS, WIDTH), levels(WIDTH, 3 * WIDTH, dtype=np.int8), floats(3 * WIDTH), _scale(0.01),
         _scale(0.02), np.array([5, 3], np.int32), np.uint8(20), np.int8(1)],
        (1, 2, 3, 4, 6, 7), 1, {"num_heads": HEADS, "unidirectional": 1},
    ),
    "heads": _multi_head(),
    "heads, bias and lengths": _multi_head(floats(3 * WIDTH), np.array([7, 4], np.int32), keys=7),
    "heads, addend": _multi_head(None, None, floats(1, HEADS, STEPS, 7), keys=7, scale=0.3),
    "heads, mask": _multi_head(None, _MASK, mask_filter_value=-50.0),
    "heads, past": _multi_head(None, None, None, *_PAST, results=3),
    "heads, no later keys": _multi_head(None, None, None, *_PAST, results=3, unidirectional=1),
    "heads of a cache": RuntimeNode(
        "MultiHeadAttention",
        [floats(BATCH, STEPS, WIDTH), *(floats(BATCH, HEADS, 6, SIZE) for _ in range(2))],
        attributes={"num_heads": HEADS},
    ),
    "groups": group_query(constants=()),
    "groups, first": group_query(steps=STEPS, past=0),
    "groups, no cache": group_query(steps=STEPS, past=None),
    "groups, packed": group_query(*_angles(), steps=STEPS, past=0, packed=True, do_rotary=1),
    "groups, turned": group_query(*_angles(), do_rotary=1),
    "groups, turned by twos": group_query(*_angles(), do_rotary=1, rotary_interleaved=1),
    "groups, turned in part": group_query(*_angles(), size=32, do_rotary=1),
    "groups, several steps": group_query(*_angles(), steps=3, batch=1, do_rotary=1),
    "groups, places": group_query(*_angles(), np.array([[6, 7, 8]]), steps=3, batch=1, do_rotary=1),
    "groups, window": group_query(steps=3, batch=1, local_window_size=4, scale=0.3),
    "groups, addend": group_query(None, None, None, floats(1, 1, 3, 9), steps=3, batch=1),
    "groups, bounded": group_query(steps=STEPS, past=0, softcap=0.5),
    "groups, smooth": group_query(steps=3, batch=1, smooth_softmax=1),
    "groups, sinks": group_query(None, None, None, None, floats(4), steps=3, batch=1, constants=(6, 11)),
    "rotary": _rotary(floats(BATCH, STEPS, WIDTH), _EVERY, num_heads=HEADS),
    "rotary, from a place": _rotary(floats(BATCH, STEPS, WIDTH), [3]),
    "rotary, by heads": _rotary(floats(BATCH, HEADS, STEPS, SIZE), _EVERY),
    "rotary, by twos": _rotary(floats(BATCH, STEPS, WIDTH), _EVERY, interleaved=1),
    "rotary, in part": _rotary(floats(BATCH, STEPS, WIDTH), _EVERY, 2, num_heads=HEADS, rotary_embedding_dim=4),
    "dynamic product": RuntimeNode(
        "DynamicQuantizeMatMul",
        [floats(BATCH, STEPS, 32), levels(32, 16, dtype=np.int8), _scale(0.02), np.int8(3), floats(16)],
        (1, 2, 3, 4),
    ),
    "dynamic product, columns": RuntimeNode(
        "DynamicQuantizeMatMul",
        [floats(BATCH, STEPS, 32), levels(32, 16, dtype=np.int8), np.abs(floats(16)), np.zeros(16, np.int8)],
        (1, 2, 3),
    ),
    "product to float": RuntimeNode(
        "MatMulIntegerToFloat",
        [levels(STEPS, 32), levels(32, 16, dtype=np.int8), _scale(0.02), _scale(0.03), np.uint8(9), np.int8(3)],
        (1, 2, 3, 4, 5),
    ),
    "product with 4 bits": _bits(48),
    "product with 4 bits, zero points and bias": _bits(40, levels(12), None, floats(6)),
    "product with 4 bits, real zero points": _bits(48, floats(18)),
    "product with bytes": _bits(40, levels(18), bits=8),
    "convolution": RuntimeNode(
        "QLinearConv", [levels(1, 8, 7, 7), *_CONVOLUTION, np.uint8(120)], range(1, 8), 1, _WINDOW
    ),
    "convolution, channels last": RuntimeNode(
        "QLinearConv", [levels(1, 7, 7, 8), *_CONVOLUTION, np.uint8(120)], range(1, 8), 1,
        {**_WINDOW, "channels_last": 1},
    ),
    "pool, channels last": RuntimeNode("NhwcMaxPool", [levels(1, 7, 7, 8)], (), 1, {**_WINDOW, "strides": [2, 2]}),
    "choice": RuntimeNode(
        "QLinearWhere",
        [floats(2, 4) > 0, levels(2, 4), _scale(0.02), np.uint8(3), levels(4), _scale(0.03), np.uint8(5), _scale(0.05),
         np.uint8(2)],
        (2, 3, 5, 6, 7, 8),
    ),
    "sum of bytes": _pair("QLinearAdd"),
    "product of bytes": _pair("QLinearMul"),
    "sigmoid": _alone("QLinearSigmoid", 3, 5, result=1 / 256),
    "leaky relu": _alone("QLinearLeakyRelu", 3, 5, alpha=0.2),
    "softmax": _alone("QLinearSoftmax", 3, 5, result=1 / 256, axis=1, opset=13),
    "softmax over all behind": _alone("QLinearSoftmax", 2, 3, 5, result=1 / 256, axis=2, opset=12),
    "average": _alone("QLinearAveragePool", 1, 3, 7, 6, strides=[2, 1], count_include_pad=1, **_WINDOW),
    "average, channels last": _alone("QLinearAveragePool", 1, 7, 6, 3, channels_last=1, **_WINDOW),
    "average of all": _alone("QLinearGlobalAveragePool", 2, 3, 7, 6),
    "average of all, channels last": _alone("QLinearGlobalAveragePool", 2, 7, 6, 3, channels_last=1),
    "concat": RuntimeNode(
        "QLinearConcat",
        [_scale(0.07), np.uint8(9), levels(2, 3), _scale(0.05), np.uint8(30), levels(2, 4), _scale(0.1), np.uint8(0)],
        (0, 1, 3, 4, 6, 7), 1, {"axis": -1},
    ),
    "quantized product": _gemm(_scale(0.5), np.uint8(100), alpha=0.5),
    "quantized product to float": _gemm(),
    "rows of 4 bits": RuntimeNode(
        "GatherBlockQuantized",
        [levels(10, 32), np.array([[1, 3], [2, 9]]), floats(10, 2)], (0, 2), 1,
        {"block_size": 32, "bits": 4, "gather_axis": 0, "quantize_axis": 1},
    ),
    "rows of 4 bits, zero points": RuntimeNode(
        "GatherBlockQuantized",
        [levels(10, 32), np.array([1, 3]), floats(10, 2), levels(10, 1)], (0, 2, 3), 1,
        {"block_size": 32, "bits": 4, "gather_axis": 0, "quantize_axis": -1},
    ),
    "rows of 4 bits that end within a block, zero points": RuntimeNode(
        "GatherBlockQuantized",
        [levels(10, 28), np.array([[1, 3], [2, 9]]), floats(10, 4), levels(10, 2)], (0, 2, 3), 1,
        {"block_size": 16, "bits": 4, "gather_axis": 0, "quantize_axis": 1},
    ),
    "rows of 4 bits, less than a block": RuntimeNode(
        "GatherBlockQuantized",
        [levels(10, 2), np.array([1, 3]), floats(10, 1)], (0, 2), 1,
        {"block_size": 16, "bits": 4, "gather_axis": 0, "quantize_axis": 1},
    ),
    "rows of bytes": RuntimeNode(
        "GatherBlockQuantized",
        [levels(10, 32), np.array([1, 3]), floats(10, 2)], (0, 2), 1,
        {"block_size": 16, "bits": 8, "gather_axis": 0, "quantize_axis": 1},
    ),
    "tables of bytes, zero points": RuntimeNode(
        "GatherBlockQuantized",
        [levels(6, 3, 16), np.array([[1, 3], [2, 5]]), floats(6, 3, 2), levels(6, 3, 1)], (0, 2, 3), 1,
        {"block_size": 16, "bits": 4, "gather_axis": 0, "quantize_axis": 2},
    ),
    "slices": RuntimeNode("GatherND", [floats(3, 4), np.array([[0, 1], [2, 3]])]),
    "pads": RuntimeNode("Pad", [floats(3, 3), np.array([1, 0, 0, 2]), _scale(2)], (1, 2)),
    "range": RuntimeNode("Range", [_scale(0), _scale(5), _scale(1)], (0, 1, 2)),
    "triangle": RuntimeNode("Trilu", [floats(4, 4)], (), 1, {"upper": 0}),
    "dynamic recurrence": dynamic_lstm("reverse"),
    "dynamic recurrence, two directions, rows": dynamic_lstm("bidirectional", by_row=True),
    "scaler": _classical("Scaler", floats(5, 3), offset=[0.5, -1.0, 2.0], scale=[0.25, 2.0, -1.0]),
    "scaler, integers": _classical("Scaler", _random.integers(-9, 9, (5, 3)), offset=[0.5], scale=[2.0]),
    "normalizer, sums": _classical("Normalizer", _with_zeros(5, 3), norm="L1"),
    "normalizer, squares": _classical("Normalizer", _with_zeros(5, 3), norm="L2"),
    "binarizer": _classical("Binarizer", floats(5, 3), threshold=0.25),
    "features": _classical("ArrayFeatureExtractor", floats(5, 3), np.array([[2, 0]])),
    "features of a vector": _classical("ArrayFeatureExtractor", floats(4), np.array([3, 1, 1])),
    "linear regression": _classical(
        "LinearRegressor", floats(5, 3), targets=2, coefficients=_random.standard_normal(6).tolist(),
        intercepts=[0.5, -1.0],
    ),
    "scaler, doubles": _classical("Scaler", floats(5, 3).astype(np.float64), offset=[1.0], scale=[2.0]),
    **{
        f"linear classification, {transform.lower()}": _classical(
            "LinearClassifier", floats(5, 3), results=2, classlabels_ints=[7, 2, 5][:count],
            coefficients=_random.standard_normal(3 * count).tolist(), intercepts=[0.5, -1.0, 0.25][:count],
            post_transform=transform,
        )
        for transform, count in (("SOFTMAX", 3), ("LOGISTIC", 3), ("NONE", 2))
    },
    "labels": _classical(
        "LabelEncoder", np.array([[3, 1], [2, 9]]), keys_int64s=[1, 2, 3], values_int64s=[10, 20, 30], default_int64=7
    ),
    "labels that are floats": _classical(
        "LabelEncoder", np.array([3, 1, 2, 9]), keys_int64s=[1, 2, 3], values_floats=[0.5, 1.5, 2.5]
    ),
    "quantized embedding": _quantized_embedding(_random.integers(0, 2, (BATCH, STEPS)).astype(np.int32)),
    "quantized embedding, no segments": _quantized_embedding(None),
    "one dim more": RuntimeNode("ExpandDims", [floats(3, 4), np.array(-1, np.int32)], (1,)),
    **{
        f"grid, {mode}": RuntimeNode(
            "GridSample", [floats(2, 3, 5, 4), floats(2, 6, 2, 2)], (), 1,
            {"mode": mode, "padding_mode": padding, "align_corners": corners},
        )
        for mode, padding, corners in (
            ("bilinear", "zeros", 0), ("nearest", "border", 1), ("bicubic", "reflection", 0)
        )
    },
    "unique": RuntimeNode("Unique", [np.array([3, 1, 3, 2, 1, 3], np.float32)], (), 3),
    "squares of distances": RuntimeNode("CDist", [floats(5, 3), floats(4, 3)]),
    "distances": RuntimeNode("CDist", [floats(5, 3), floats(4, 3)], attributes={"metric": "euclidean"}),
    "product of 16 bits": RuntimeNode(
        "MatMulInteger16", [_random.integers(-999, 999, shape).astype(np.int16) for shape in ((2, 3, 4), (4, 5))]
    ),
    "windows of a dim": RuntimeNode(
        "UnfoldTensor", [floats(2, 9, 3)], attributes={"dim": 1, "size": 4, "step": 2}
    ),
    "windows of the last dim": RuntimeNode("UnfoldTensor", [floats(2, 9)], attributes={"size": 3}),
    **{
        f"boxes of images, {rows}x{columns}": RuntimeNode(
            "CropAndResize",
            [
                floats(2, 3, 6, 5), np.array([[0.1, 0.2, 0.9, 0.7], [0, 0, 1, 1], [-0.3, 0.1, 0.6, 1.2]], np.float32),
                np.array([1, 0, 1], np.int32), np.array([rows, columns], np.int32),
            ],
            (3,), attributes={"extrapolation_value": 2.5},
        )
        for rows, columns in ((4, 7), (1, 3))
    },
    "experts": _experts(2, 3, k=2, normalize_routing_weights=1),
    "experts, the best one": _experts(5, biases=False, activation_type="silu"),
    "experts, shares of all": _experts(5, k=3, activation_type="gelu"),
    "product with 2 bits": _bits(40, bits=2),
    "product with 2 bits, zero points": _bits(48, _random.integers(0, 256, (6, 1)).astype(np.uint8), bits=2),
    "softmax over both behind": _alone("QLinearSoftmax", 2, 3, 5, result=1 / 256, axis=1, opset=12),
    "rows of numbers of 4 bits": RuntimeNode(
        "GatherBlockQuantized",
        [_random.integers(0, 16, (10, 32)).astype(ml_dtypes.uint4), np.array([[1, 3], [2, 9]]), floats(10, 2)],
        (0, 2), 1,
        {"block_size": 16, "gather_axis": 0, "quantize_axis": 1},
    ),
    "rows of signed numbers of 4 bits, zero points": RuntimeNode(
        "GatherBlockQuantized",
        [_random.integers(-8, 8, (10, 32)).astype(ml_dtypes.int4), np.array([1, 3]), floats(10, 2),
         _random.integers(-8, 8, (10, 2)).astype(ml_dtypes.int4)], (0, 2, 3), 1,
        {"block_size": 16, "gather_axis": 0, "quantize_axis": -1},
    ),
    **{
        f"tokens that would repeat {size} of {len(row)}": RuntimeNode(
            "NGramRepeatBlock", [np.array([row, row[::-1]]), floats(2, 6)], attributes={"ngram_size": size}
        )
        for size, row in (
            (1, [1, 4, 1]), (2, [1, 2, 3, 1, 4, 1]), (3, [0, 5, 3, 0, 5, 2, 0, 5]), (3, [1, 1]), (3, [1]),
            (4, [2, 2, 2]),
        )
    },
    **{
        f"transposed convolution, pads an input, {'constant' if 2 in constants else 'known at run time'}": RuntimeNode(
            "ConvTransposeWithDynamicPads",
            [floats(1, 4, 5, 6), floats(4, 3, 3, 2), np.array([1, 0, 2, 1]), floats(3)], constants, 1,
            {"strides": [2, 3], "output_padding": [1, 0], "dilations": [1, 2]},
        )
        for constants in ((1, 2, 3), (1, 3))
    },
    **{
        f"product with {('FP4', 'NF4')[kind]}, {rows} rows": RuntimeNode(
            "MatMulBnb4",
            [floats(2, 3, rows), _random.integers(0, 256, -(-rows * 3 // 2)).astype(np.uint8),
             np.abs(floats(-(-rows * 3 // 16)))],
            (1, 2), 1, {"K": rows, "N": 3, "block_size": 16, "quant_type": kind},
        )
        for kind, rows in ((0, 32), (1, 32), (0, 33), (1, 9))
    },
}  # fmt: skip
"""By what is special of them."""
