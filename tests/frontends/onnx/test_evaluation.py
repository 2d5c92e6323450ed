"""Whatever is computed at import has the shape, element type and values that ONNX Runtime gives it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from layout_ir.frontends.onnx import (
    OnnxImportError,
    evaluation,
    folding,
    from_onnx,
    index_folding,
    quantization_folding,
)
from tests.frontends.onnx.models import NEWEST, ints, model, node, ops_of
from tests.frontends.onnx.running import check_close, run
from tests.processes import run_python

onnxruntime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")

SHAPES = [(), (1,), (3,), (2, 0, 3)]

FLOATS = "float32 float16".split()  # noqa: SIM905
INTS = "int64 int32 uint8".split()  # noqa: SIM905

UNARY = """
    Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor HardSigmoid HardSwish IsInf IsNaN
    LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh
    ThresholdedRelu BitwiseNot Clip Gelu Identity Mean Sum Max Min
""".split()  # noqa: SIM905
BINARY = """
    Add And BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mod Mul Or PRelu
    Pow Sub Sum Xor Mean
""".split()  # noqa: SIM905


def values(shape: tuple[int, ...], dtype: str, seed: int) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape).astype(bool))
    if dtype in FLOATS:
        return np.asarray(rng.uniform(0.1, 0.9, shape).astype(dtype))
    return np.asarray(rng.integers(1, 6, shape).astype(dtype))


def theirs(source: Any) -> list[NDArray[Any]] | None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(source.SerializeToString(), options)
        return [np.asarray(array) for array in session.run(None, {})]
    except Exception:
        return None  # it does not have this op for this element type


def compare(nodes: list[Any], constants: dict[str, NDArray[Any]], opset: int = 18) -> bool:
    """Whether both sides have a result, which then is the same, and ours was computed at import."""
    source = model(nodes, {}, constants=constants, opset=opset)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            module = from_onnx(source)
    except OnnxImportError:
        return False
    ours = run(module, [])
    for value, array in zip(source.graph.output, ours, strict=True):
        # ONNX Runtime refuses a result of another element type than is said.
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    wanted = theirs(source)
    if wanted is None:
        return False
    half = any(array.dtype == np.float16 for array in wanted)
    check_close(ours, wanted, 4e-3 if half else 2e-5, 1e-3 if half else 1e-6)
    return True


@pytest.mark.parametrize("op", UNARY)
def test_unary_ops_of_every_rank_and_type(op: str):
    done = [
        (shape, dtype)
        for shape in SHAPES
        for dtype in (*FLOATS, *INTS, "bool")
        if compare(
            [node(op, "a", "y")],
            {"a": values(shape, dtype, 1)},
            NEWEST if op == "Gelu" and NEWEST < 20 else 20,
        )
    ]
    assert {shape for shape, _ in done} == set(SHAPES)


@pytest.mark.parametrize("op", BINARY)
def test_binary_ops_of_every_rank_and_type(op: str):
    attributes = {"fmod": 1} if op == "Mod" else {}
    done = set[tuple[int, ...]]()
    for left, right in [
        ((), ()),
        ((1,), ()),
        ((), (3,)),
        ((2, 3), (3,)),
        ((1, 1), ()),
        ((0,), (1,)),
        ((2, 1), (1, 3)),
    ]:
        for dtype in (*FLOATS, *INTS, "bool"):
            constants = {"a": values(left, dtype, 1), "b": values(right, dtype, 2)}
            if compare([node(op, "a b", "y", **attributes)], constants):
                done.add(left)
    assert len(done) >= (4 if op == "PRelu" else 6)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, "bool"])
@pytest.mark.parametrize("shape", SHAPES)
def test_where_clip_and_casts(shape: tuple[int, ...], dtype: str):
    a, b, scalar = values(shape, dtype, 1), values((), dtype, 2), values((), "bool", 3)
    assert compare([node("Where", "q a b")], {"q": scalar, "a": a, "b": b}) or dtype in (
        "float16",
        "int8",
        "bool",
    )
    if dtype in ("float32", "int64", "int32"):
        assert compare([node("Clip", "a l h")], {"a": a, "l": np.asarray(b - b), "h": b})
    for to in (
        TensorProto.FLOAT,
        TensorProto.INT64,
        TensorProto.BOOL,
        TensorProto.FLOAT16,
        TensorProto.UINT8,
    ):
        assert compare([node("Cast", "a", to=to)], {"a": a})


A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
V = np.array([3, 1, 2], np.float32)

MOVES: list[tuple[list[Any], dict[str, Any]]] = [
    ([node("Gather", "a i", axis=1)], {"a": A, "i": np.array(2)}),
    ([node("Gather", "v i")], {"v": V, "i": np.array(-1)}),
    ([node("Gather", "v i")], {"v": V, "i": np.zeros((0, 2), np.int64)}),
    ([node("Concat", "v v", axis=-1)], {"v": V}),
    ([node("Concat", "v e", axis=0)], {"v": V, "e": np.zeros(0, np.float32)}),
    ([node("Transpose", "a", "t", perm=[2, 0, 1]), node("Where", "q t z")],
     {"a": A, "q": np.array(True), "z": A[0, 0, 0]}),
    ([node("Transpose", "a", "t", perm=[2, 0, 1]), node("Reshape", "t s")], {"a": A, "s": ints(4, -1)}),
    ([node("Slice", "a b e x t", "w"), node("Sign", "w")],
     {"a": A, "b": ints(-1), "e": ints(-9), "x": ints(1), "t": ints(-2)}),
    ([node("Expand", "v s", "w"), node("Round", "w")], {"v": V, "s": ints(2, 2, 3)}),
    ([node("ReduceSum", "a x")], {"a": A, "x": ints(0, -1)}),
    ([node("ReduceMax", "a", keepdims=0)], {"a": A}),
    ([node("ReduceProd", "v", keepdims=0)], {"v": ints(2, 3, 4)}),
    ([node("ReduceMean", "a x", noop_with_empty_axes=1)], {"a": A, "x": np.zeros(0, np.int64)}),
    ([node("ArgMax", "a", axis=1, keepdims=0)], {"a": A}),
    ([node("CumSum", "v z")], {"v": V, "z": np.array(0)}),
    ([node("NonZero", "v")], {"v": V - 1}),
    ([node("NonZero", "v")], {"v": np.zeros((2, 0), np.float32)}),
    ([node("Tile", "a r")], {"a": A, "r": ints(1, 2, 1)}),
    ([node("Range", "b e d")], {"b": np.array(7), "e": np.array(-3), "d": np.array(-2)}),
    ([node("Range", "b e d")], {"b": np.array(0.0), "e": np.array(1.0), "d": np.array(0.3)}),
    ([node("Range", "b e d")], {"b": np.array(3), "e": np.array(3), "d": np.array(1)}),
    ([node("OneHot", "i d v")], {"i": ints(1, 0), "d": np.array(3), "v": V[:2]}),
    ([node("EyeLike", "a", dtype=TensorProto.INT64, k=1)], {"a": A[0]}),
    ([node("Trilu", "a", upper=0)], {"a": A}),
    ([node("Trilu", "a k")], {"a": A, "k": np.array(1)}),
    ([node("Trilu", "a k", upper=0)], {"a": A, "k": np.array(-1)}),
    ([node("TopK", "v k", "y z")], {"v": V, "k": ints(2)}),
    ([node("Compress", "v c")], {"v": V, "c": np.array([True, False, True])}),
    ([node("Unique", "v")], {"v": V}),
    ([node("MatMul", "a b")], {"a": A, "b": A[0].T}),
    ([node("MatMul", "v v")], {"v": V}),
    ([node("Einsum", "a b", equation="ijk, lk -> lji")], {"a": A, "b": A[0]}),
    ([node("Einsum", "a", equation="ijk")], {"a": A}),
    ([node("Einsum", "a b", equation="kj,ij")], {"a": A[0], "b": A[1]}),
    ([node("Einsum", "s", equation="ii->i")], {"s": A[0, :, :3]}),
    ([node("Gemm", "a b", transB=1)], {"a": A[0], "b": A[1]}),
    ([node("Pad", "a p c")], {"a": A, "p": ints(0, 1, 0, 2, 0, 0), "c": np.array(5, np.float32)}),
    ([node("Softmax", "a", axis=1)], {"a": A}),
    ([node("LogSoftmax", "a")], {"a": A}),
    ([node("DepthToSpace", "a", blocksize=2)], {"a": A.reshape(1, 4, 2, 3)}),
    ([node("SpaceToDepth", "a", blocksize=2)], {"a": A.reshape(1, 1, 4, 6)}),
    ([node("InstanceNormalization", "a s z")], {"a": A / 7, "s": V, "z": V - 1}),
    ([node("LayerNormalization", "a s z")], {"a": A / 7, "s": A[0, 0], "z": A[0, 1]}),
    ([node("LayerNormalization", "a s", axis=1)], {"a": A / 7, "s": A[0]}),
    ([node("MeanVarianceNormalization", "x", axes=[0, 2])], {"x": A / 7}),
    ([node("GlobalAveragePool", "a")], {"a": A}),
    # Statistics of its own, and the mean and variance that were given: what weights are standardized with.
    ([node("BatchNormalization", "a s z m m", "y n w", training_mode=1, momentum=1.0)],
     {"a": A / 7, "s": V, "z": V - 1, "m": V}),
    ([node("Resize", "x - - s", mode="cubic")], {"x": A[None], "s": ints(1, 2, 5, 9)}),
    ([node("DequantizeLinear", "q s")], {"q": np.array([1, -3], np.int8), "s": np.array(0.5, np.float32)}),
    ([node("QuantizeLinear", "v s z")], {"v": V, "s": np.array(0.5, np.float32), "z": np.array(1, np.int8)}),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "constants"), MOVES, ids=[nodes[-1].op_type for nodes, _ in MOVES])
def test_moves_reductions_and_products(nodes: list[Any], constants: dict[str, Any]):
    assert compare(nodes, constants)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_old_versions_are_not_computed_as_new_ones(op: str, axis: int):
    """Until opset 12 these ops went over all dims from the axis on."""
    for opset in (9, 11, 13):
        if op == "Hardmax" and opset < 13:
            # Stays an op: the onnx package would compute the new version.
            assert [
                op.name
                for op in ops_of(model([node(op, "a", axis=axis)], {}, constants={"a": A}, opset=opset))
            ] == ["nn.opaque"]
        else:
            assert compare([node(op, "a", axis=axis)], {"a": A / 10}, opset)


def test_negative_an_ellipsis_is_not_computed_at_import():
    source = model([node("Einsum", "a b", equation="...k,jk->...j")], {}, constants={"a": A[0], "b": A[1]})
    assert [op.name for op in ops_of(source)] == ["nn.opaque"]


def test_negative_an_equation_that_does_not_fit_its_operands():
    source = model([node("Einsum", "a b", equation="ijk,jk->ij")], {}, constants={"a": A[0], "b": A[1]})
    with pytest.raises(OnnxImportError, match=r"'ijk,jk->ij' does not fit operands of \[2, 2\] dims"):
        from_onnx(source)


def test_all_ops_that_take_part_are_tested():
    others = {*index_folding.FOLDERS, *quantization_folding.FOLDERS}  # in files of their own
    tested = {*UNARY, *BINARY, *others, "Where", "Cast", *(nodes[-1].op_type for nodes, _ in MOVES)}
    known = {*evaluation.COSTS, *evaluation.ELEMENTWISE, *folding.ELEMENTWISE, *folding.FOLDERS}
    rest = {
        "ArgMin", "BitShift", "CastLike", "CumProd", "Hardmax", "ReduceL1", "ReduceL2", "ReduceLogSum",
        "ReduceLogSumExp", "ReduceMin", "ReduceSumSquare", "ReverseSequence", "Swish",
    }  # fmt: skip
    assert known - tested == rest


def test_negative_complex_numbers_are_not_cut():
    it = node("Cast", "a", to=TensorProto.FLOAT)
    source = model([it], {}, constants={"a": np.array([1 + 2j], np.complex64)})
    with pytest.raises(OnnxImportError, match=r"node 0 'y' \(Cast\): .*complex"):
        from_onnx(source)


def test_positions_and_masks_do_not_load_the_reference():
    # It takes 0.1 s to import and 5 MB, and every language model has them.
    program = """
import sys
import numpy as np
from layout_ir.frontends.onnx import from_onnx
from tests.frontends.onnx.models import model, node
nodes = [node("Range", "z n o", "p"), node("Unsqueeze", "p a", "q"), node("Tile", "q r", "t"), node("Trilu", "t o")]
constants = {"z": np.array(0), "n": np.array(3), "o": np.array(1), "a": np.array([0]), "r": np.array([3, 1])}
module = from_onnx(model(nodes, {}, constants=constants, opset=21))
(result,) = [op for op in module.walk() if op.name == "nn.constant"]
assert list(result.literal.get_values()) == [0, 1, 2, 0, 0, 2, 0, 0, 0], result
sys.exit("onnx.reference" in sys.modules)
"""
    run_python("-c", program)
