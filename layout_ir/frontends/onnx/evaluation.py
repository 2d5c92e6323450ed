"""Evaluation of rarer ops by the reference implementation of the onnx package.

That implementation has no limits, so only ops whose cost is known beforehand are evaluated: `COSTS` has a function from
inputs and attributes to the elements of the outputs and the number of steps, or None where these are not known.
Elementwise ops are evaluated on one element where all inputs are splats.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.elements.elementwise_formulas import broadcast
from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx.budget import STEPS_PER_ELEMENT
from layout_ir.frontends.onnx.constants import collapsed, is_splat, splat
from layout_ir.frontends.onnx.import_error import OnnxImportError
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.signature import check_signature
from layout_ir.frontends.onnx.tensor_protos import check_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEPS_PER_LOOPED_ELEMENT = 1024
"""The steps of an op that the reference evaluates by a loop in Python, which takes 1 to 5 us per element."""

STEPS_PER_NODE = 1 << 16
"""Making an evaluator takes 0.2 ms."""

MOST_BYTES_PER_ELEMENT = 8

_OLDEST = {"Hardmax": 13, "LogSoftmax": 13, "Softmax": 13}
"""Oldest version of an operator that the onnx package computes as the standard defines it."""

Arrays = Sequence["NDArray[Any] | None"]
Cost = tuple[int, int]
"""Elements of all outputs, and steps."""


def evaluate(node: Node) -> list[NDArray[Any]] | None:
    """The outputs of a node with constant inputs; None where its cost is unknown or too high, or evaluation fails.

    Raises OnnxImportError where the node is not valid.
    """
    op = node.op_type
    if (op not in COSTS and op not in ELEMENTWISE) or node.opset < _OLDEST.get(op, 0):
        return None
    check_signature(node, node.constant_types())
    arrays = node.constant_inputs()
    given = [array for array in arrays if array is not None]
    shape: tuple[int, ...] | None = None
    if op in ELEMENTWISE:
        shape = broadcast(*(array.shape for array in given))
        check_shape(shape, np.dtype(np.float64), "the result")
        if all(map(is_splat, given)):
            # Vectors of one element: some ops of the reference fail on scalars.
            arrays = [None if array is None else np.asarray(collapsed(array)).reshape(1) for array in arrays]
        else:
            shape = None
        size = prod(broadcast(*(array.shape for array in arrays if array is not None)))
        cost: Cost | None = (size, STEPS_PER_ELEMENT * size)
    else:
        try:
            cost = COSTS[op](node, arrays)
        except LayoutError:
            raise
        except (ArithmeticError, IndexError, TypeError, ValueError) as error:
            # The inputs have shapes or values that the op does not allow.
            raise OnnxImportError(f"its inputs do not fit: {error or type(error).__name__}") from error
    if cost is None:
        return None
    size, steps = cost
    # What is handed to the reference is written down, splats included.
    size += sum(array.size for array in arrays if array is not None and is_splat(array) and array.size > 1)
    if not node.affords(MOST_BYTES_PER_ELEMENT * size, STEPS_PER_NODE + steps):
        return None
    results = _run(node, arrays)
    if results is not None and shape is not None:
        results = [splat(result, shape) for result in results]
    return results


def _run(node: Node, arrays: Arrays) -> list[NDArray[Any]] | None:
    # Contiguous for the reference; np.ascontiguousarray would make vectors of scalars.
    arrays = [None if array is None else np.asarray(array, order="C") for array in arrays]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = _pattern(node, arrays) or _by_reference(node, arrays)
    except MemoryError:
        raise
    except Exception as error:
        # The reference knows few ops in all their versions; its errors say little about the model.
        message = " ".join(str(error).split())[:200]
        node.not_folded = (
            f"the reference of the onnx package fails on its constants ({type(error).__name__}: {message})"
        )
        return None
    arrays_out = [np.asarray(result) for result in results]
    if any(array.dtype == object for array in arrays_out):
        node.not_folded = "the reference of the onnx package gives no tensor"
        return None
    return arrays_out


def _by_reference(node: Node, arrays: Arrays) -> Sequence[Any]:
    from onnx.reference import ReferenceEvaluator

    feeds = {name: array for name, array in zip(node.proto.input, arrays, strict=True) if array is not None}
    evaluator: Any = ReferenceEvaluator(node.proto, opsets={node.proto.domain: node.opset})
    return evaluator.run(None, feeds)


def _pattern(node: Node, arrays: Arrays) -> Sequence[Any] | None:
    """What the reference gives for positions and masks, which most language models and detectors make; None for any
    other node. To import the reference takes 0.1 s and 5 MB."""
    data, *others = arrays
    if data is None:
        return None
    match node.op_type, others:
        case "Range", [np.ndarray() as limit, np.ndarray() as delta] if data.dtype in _RANGES:
            return [np.asarray(np.arange(data.item(), limit.item(), delta.item()), data.dtype)]
        case "Tile", [np.ndarray() as repeats]:
            return [np.tile(data, repeats.tolist())]
        case "Trilu", [] | [None] | [np.ndarray()]:
            offset = others[0] if others else None
            triangle = np.triu if node.get("upper", 1) else np.tril
            return [triangle(data, 0 if offset is None else offset.item())]
        case _:
            return None


_RANGES = tuple(map(np.dtype, ("int16", "int32", "int64", "float32", "float64")))
"""Types of which numbers are added up as they are."""


ELEMENTWISE = frozenset(
    """
    Acos Acosh Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Celu Clip Cosh Elu Gelu
    HardSigmoid HardSwish IsInf IsNaN LeakyRelu Mean Mish PRelu Selu Shrink Sinh Softplus Softsign Swish Tan
    ThresholdedRelu
    """.split()  # noqa: SIM905
)
"""Ops with one output, each element of which comes from one element of each input."""


# --- costs ----------------------------------------------------------------------------------------------------


def _array(arrays: Arrays, number: int) -> NDArray[Any]:
    array = arrays[number] if number < len(arrays) else None
    if array is None:
        raise OnnxImportError(f"input {number} is missing")
    return array


def _like(number: int, steps: int = STEPS_PER_ELEMENT, *, copies: int = 1) -> Callable[[Node, Arrays], Cost]:
    """The outputs together are not larger than `copies` times an input."""

    def cost(node: Node, arrays: Arrays) -> Cost:
        size = copies * _array(arrays, number).size
        return size, steps * max(size, *(array.size for array in arrays if array is not None))

    return cost


def _of(
    shape: Callable[[Node, Arrays], Sequence[int]], steps: int = STEPS_PER_ELEMENT
) -> Callable[[Node, Arrays], Cost]:
    """The output has this shape."""

    def cost(node: Node, arrays: Arrays) -> Cost:
        size = prod(shape(node, arrays))
        return size, steps * max(size, *(array.size for array in arrays if array is not None))

    return cost


def _ints(array: NDArray[Any]) -> list[int]:
    return [int(value) for value in array.ravel()[:1024]]


def _tiled(node: Node, arrays: Arrays) -> Sequence[int]:
    data, repeats = _array(arrays, 0), _ints(_array(arrays, 1))
    if len(repeats) != data.ndim or min(repeats, default=0) < 0:
        raise OnnxImportError(f"repeats {repeats} do not fit {data.ndim} dims")
    return [extent * repeat for extent, repeat in zip(data.shape, repeats, strict=True)]


def _range(node: Node, arrays: Arrays) -> Sequence[int]:
    start, limit, delta = (_array(arrays, number).reshape(()).item() for number in range(3))
    if not delta:
        raise OnnxImportError("delta is 0")
    return [max(ceil((limit - start) / delta), 0)]


def _one_hot(node: Node, arrays: Arrays) -> Sequence[int]:
    depth = int(_array(arrays, 1).reshape(()))
    if depth < 0:
        raise OnnxImportError(f"depth = {depth} is negative")
    return (*_array(arrays, 0).shape, depth)


def _padded(node: Node, arrays: Arrays) -> Sequence[int]:
    shape = _array(arrays, 0).shape
    pads = node.int_list("pads", 1, since=11) or ()
    # Whichever axes they are of, all pads on all dims are an upper bound.
    both = sum(max(pad, 0) for pad in pads)
    return (
        [extent + both for extent in shape] if len(shape) == 1 else _padded_dims(shape, pads, len(arrays) > 3)
    )


def _padded_dims(shape: Sequence[int], pads: Sequence[int], chosen: bool) -> Sequence[int]:
    if chosen or len(pads) != 2 * len(shape):
        return [extent + sum(max(pad, 0) for pad in pads) for extent in shape]
    half = len(shape)
    return [max(extent + pads[dim] + pads[half + dim], 0) for dim, extent in enumerate(shape)]


def _product(node: Node, arrays: Arrays) -> Cost:
    a, b = _array(arrays, 0), _array(arrays, 1)
    if not a.ndim or not b.ndim:
        raise OnnxImportError("an operand of a matrix product is a scalar")
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    rows = a.shape[-2] if a.ndim > 1 else 1
    columns = b.shape[-1] if b.ndim > 1 else 1
    size = prod(batch) * rows * columns
    return size, max(size * a.shape[-1], STEPS_PER_ELEMENT * (size + a.size + b.size))


def _gemm(node: Node, arrays: Arrays) -> Cost:
    a, b = _array(arrays, 0), _array(arrays, 1)
    if a.ndim != 2 or b.ndim != 2:
        raise OnnxImportError(f"operands have {a.ndim} and {b.ndim} dims, expected 2")
    rows, inner = a.shape[::-1] if node.get("transA", 0) else a.shape
    columns = b.shape[0] if node.get("transB", 0) else b.shape[1]
    size = rows * columns
    return size, max(size * inner, STEPS_PER_ELEMENT * (size + a.size + b.size))


def _einsum(node: Node, arrays: Arrays) -> Cost | None:
    """The cost of an Einsum, by the extents of its labels; None where dims have none."""
    equation = node.get("equation", "").replace(" ", "")
    operands, arrow, result = equation.partition("->")
    if "." in operands:
        return None
    terms, given = operands.split(","), [_array(arrays, number) for number in range(len(arrays))]
    ranks = [array.ndim for array in given]
    if [len(term) for term in terms] != ranks:
        raise OnnxImportError(f"equation {equation!r} does not fit operands of {ranks} dims")
    extents: dict[str, int] = {}
    for term, array in zip(terms, given, strict=True):
        for label, extent in zip(term, array.shape, strict=True):
            extents[label] = max(extents.get(label, 0), extent)
    kept = result if arrow else [label for label in extents if operands.count(label) == 1]
    size = prod(extents.get(label, 1) for label in kept)
    return size, max(prod(extents.values()), STEPS_PER_ELEMENT * sum(array.size for array in given))


_LOOPED = STEPS_PER_LOOPED_ELEMENT

COSTS: dict[str, Callable[[Node, Arrays], Cost | None]] = {
    **dict.fromkeys(
        ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
         "ReduceProd", "ReduceSum", "ReduceSumSquare", "ArgMax", "ArgMin", "CumSum", "CumProd", "LogSoftmax", "Softmax",
         "Hardmax", "Trilu", "DepthToSpace", "SpaceToDepth", "EyeLike", "Compress", "QuantizeLinear",
         "DequantizeLinear", "InstanceNormalization", "MeanVarianceNormalization", "GlobalAveragePool"),
        _like(0),
    ),
    # Means and deviations are results, too. Embeddings of relative positions are normalized, before products.
    "LayerNormalization": _like(0, copies=3),
    # In training, batch normalization takes statistics of its own: some exporters standardize weights by it.
    "BatchNormalization": _like(0, copies=2),
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _product,
    "NonZero": _like(0, copies=8),
    "OneHot": _of(_one_hot),
    "Pad": _of(_padded),
    "Range": _of(_range),
    "ReverseSequence": _like(0, _LOOPED),
    "Tile": _of(_tiled),
    "TopK": _like(0, copies=2),
    "Unique": _like(0, _LOOPED, copies=4),
}  # fmt: skip
