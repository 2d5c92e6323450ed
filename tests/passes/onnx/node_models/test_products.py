"""Matrix products, against ONNX Runtime, in every order of every operand."""

from __future__ import annotations

from itertools import permutations
from platform import machine
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from layout_ir.passes.onnx.optimized_model import OptimizedModel
from tests.passes.onnx.optimized import (
    Feeds,
    check_optimized,
    initializer,
    model_of,
    op_types,
    transpose,
    value,
)

_STACKS = [
    ((2, 3, 4, 5), (2, 3, 5, 6)),
    ((2, 3, 4, 5), (1, 3, 5, 6)),
    ((2, 1, 4, 5), (3, 5, 6)),
    ((2, 3, 4, 5), (5, 6)),
    ((4, 5), (2, 3, 5, 6)),
]


@pytest.mark.parametrize("shapes", _STACKS, ids=str)
@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
def test_stacks_of_matrices_in_every_order(shapes: tuple[tuple[int, ...], tuple[int, ...]], target: str):
    left, right = shapes
    result = (*np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-1])
    rows = list(permutations(range(len(left))))
    for number in range(24):
        perm = rows[number % len(rows)]
        given = [left[perm.index(d)] for d in range(len(left))]
        others = list(permutations(range(len(right))))
        back = others[(5 * number) % len(others)]
        other = [right[back.index(d)] for d in range(len(right))]
        out = list(permutations(range(len(result))))[(7 * number) % 24]
        nodes = [
            transpose("x", "a", *perm),
            transpose("w", "b", *back),
            oh.make_node("MatMul", ["a", "b"], ["c"]),
        ]
        nodes.append(transpose("c", "y", *out))
        model = model_of(
            nodes, [value("x", *given), value("w", *other)], [value("y", *(result[d] for d in out))]
        )
        check_optimized(model, target=target)


@pytest.mark.parametrize("is_node", [False, True])
def test_a_constant_stays_the_right_operand_for_onnx_runtime(is_node: bool):
    nodes = [oh.make_node("MatMul", ["x", "w"], ["c"]), transpose("c", "y", 1, 0)]
    weights = initializer("w", np.ones((40, 128), np.float32))
    if is_node:
        nodes.insert(0, oh.make_node("Constant", [], ["w"], value=weights))
    model = model_of(nodes, [value("x", 64, 40)], [value("y", 128, 64)], [] if is_node else [weights])
    assert check_optimized(model, target="ort-cpu").after.nbytes == 2 * 4 * 64 * 128
    # Anybody else has both transposed by flags, and w on the left.
    assert op_types(check_optimized(model, target="onnx").model)[-1] == "Gemm"


def _linear(kind: str, rows: int, columns: int) -> onnx.ModelProto:
    """Eight matrices of `rows` rows, there transposed, by a constant, and back; `kind` is what gives the constant."""
    nodes = [
        oh.make_node("DequantizeLinear", ["q", "scale"], ["w"]),
        transpose("x", "t", 0, 2, 1),
        oh.make_node("MatMul", ["t", "w"], ["c"]),
        transpose("c", "y", 0, 2, 1),
    ]
    weights = np.random.default_rng(0).integers(-9, 9, (32, columns))
    constants = [initializer("w", weights.astype(np.float32))]
    if kind == "quantized":
        constants = [initializer("q", weights.astype(np.int8)), initializer("scale", np.float32(0.25))]
    return model_of(
        nodes[kind == "given" :], [value("x", 8, 32, rows)], [value("y", 8, columns, rows)], constants
    )


@pytest.mark.parametrize("kind", ["given", "quantized"])
@pytest.mark.parametrize(("rows", "columns"), [(64, 16), (8, 64)])
def test_a_constant_is_read_on_the_left_where_that_saves_transposes(kind: str, rows: int, columns: int):
    assert check_optimized(_linear(kind, rows, columns)).after.count == 0


@pytest.mark.parametrize("kind", ["given", "quantized"])
def test_negative_a_constant_stays_on_the_right_where_as_much_is_moved(kind: str):
    # On the left, the result would be transposed in place of the operand.
    model = _linear(kind, rows=16, columns=32)
    product, last = model.graph.node[-2:]
    product.output[0] = last.output[0]
    del model.graph.node[-1]
    shape = model.graph.output[0].type.tensor_type.shape.dim
    shape[1].dim_value, shape[2].dim_value = 16, 32
    result = check_optimized(model)
    (product,) = [node for node in result.model.graph.node if node.op_type == "MatMul"]
    assert result.after.count == 1 and product.input[1] == "w"


def test_matrices_in_stacks_of_one_are_transposed_by_a_flag():
    nodes = [transpose("x", "t", 0, 2, 1), oh.make_node("MatMul", ["x", "t"], ["y"])]
    model = model_of(nodes, [value("x", 1, 6, "N")], [value("y", 1, 6, 6)])
    result = check_optimized(model, {"x": np.random.default_rng(0).random((1, 6, 4), np.float32)})
    assert op_types(result.model) == ["Squeeze", "Squeeze", "Gemm", "Unsqueeze"]


@pytest.mark.parametrize(("stack", "dtype"), [(2, np.float32), (1, np.int32)])
def test_negative_no_flag_transposes_stacks_or_integers(stack: int, dtype: type[np.generic]):
    kind = oh.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [transpose("x", "t", 0, 2, 1), oh.make_node("MatMul", ["x", "t"], ["y"])]
    model = model_of(nodes, [value("x", stack, 6, 4, dtype=kind)], [value("y", stack, 6, 6, dtype=kind)])
    assert check_optimized(model).after.count == 1


def _transposed_result(
    stack: tuple[int, ...], rows: int, columns: int, dtype: type[np.generic]
) -> OptimizedModel:
    """The transposed product of such a stack of four columns with a constant, optimized for ONNX Runtime."""
    rank = len(stack) + 2
    nodes = [oh.make_node("MatMul", ["x", "w"], ["c"])]
    nodes.append(transpose("c", "y", *range(rank - 2), rank - 1, rank - 2))
    kind = oh.np_dtype_to_tensor_dtype(np.dtype(dtype))
    weights = np.random.default_rng(0).standard_normal((4, columns))
    model = model_of(
        nodes,
        [value("x", *stack, rows, 4, dtype=kind)],
        [value("y", *stack, columns, rows, dtype=kind)],
        [initializer("w", weights.astype(dtype))],
    )
    feeds: Feeds = {"x": np.random.default_rng(1).standard_normal((*stack, rows, 4)).astype(dtype)}
    return check_optimized(model, feeds, target="ort-cpu", tolerance=1e-2)


def test_a_constant_of_half_precision_is_the_left_operand_where_much_is_moved():
    result = _transposed_result((), 64, 128, np.float16)
    (product,) = [node for node in result.model.graph.node if node.op_type != "Transpose"]
    assert result.after.nbytes <= 2 * 2 * 64 * 4 and product.input[0].startswith("w")


def test_negative_it_is_not_where_each_matrix_of_a_stack_would_be_a_product_of_its_own():
    result = _transposed_result((64,), 2, 128, np.float16)
    (product,) = [node for node in result.model.graph.node if node.op_type != "Transpose"]
    assert product.input[1] == "w" and result.after.count == 1


_CONVERTS_HALVES = machine().lower() in ("x86_64", "amd64", "i386", "i686")


@pytest.mark.parametrize(
    ("dtype", "is_flagged"), [(np.float32, True), (np.float64, False), (np.float16, _CONVERTS_HALVES)]
)
def test_products_of_some_precisions_take_heads_where_they_are(dtype: type[np.generic], is_flagged: bool):
    kind = {"dtype": oh.np_dtype_to_tensor_dtype(np.dtype(dtype))}
    nodes = [
        transpose("q", "a", 1, 0, 2),
        transpose("k", "b", 1, 2, 0),
        oh.make_node("MatMul", ["a", "b"], ["y"]),
    ]
    inputs = [value("q", 5, 3, 4, **kind), value("k", 6, 3, 4, **kind)]
    model = model_of(nodes, inputs, [value("y", 3, 5, 6, **kind)])
    rng = np.random.default_rng(0)
    feeds: Feeds = {
        "q": rng.standard_normal((5, 3, 4)).astype(dtype),
        "k": rng.standard_normal((6, 3, 4)).astype(dtype),
    }
    types = op_types(check_optimized(model, feeds, target="ort-cpu", tolerance=1e-2).model)
    assert (types == ["FusedMatMul"]) == is_flagged


def _heads_by(weights: tuple[int, ...]) -> onnx.ModelProto:
    """Three heads of rows that lie side by side, by a constant."""
    nodes = [transpose("x", "a", 1, 0, 2), oh.make_node("MatMul", ["a", "w"], ["y"])]
    constant = initializer("w", np.random.default_rng(0).standard_normal(weights).astype(np.float32))
    return model_of(nodes, [value("x", 5, 3, 4)], [value("y", 3, 5, 6)], [constant])


@pytest.mark.parametrize("stack", [3, 1])
def test_a_stack_of_constants_is_packed_by_nobody_and_takes_heads_where_they_are(stack: int):
    assert op_types(check_optimized(_heads_by((stack, 4, 6)), target="ort-cpu").model) == ["FusedMatMul"]


def test_negative_a_constant_matrix_is_packed_and_takes_no_heads():
    result = check_optimized(_heads_by((4, 6)), target="ort-cpu")
    (product,) = [node for node in result.model.graph.node if node.op_type != "Transpose"]
    assert product.op_type == "MatMul" and product.input[1] == "w" and result.after.count == 1


def test_negative_integers_have_no_product_with_flags():
    kind = {"dtype": onnx.TensorProto.INT32}
    nodes = [transpose("k", "b", 0, 2, 1), oh.make_node("MatMul", ["q", "b"], ["y"])]
    inputs = [value("q", 2, 5, 4, **kind), value("k", 2, 6, 4, **kind)]
    model = model_of(nodes, inputs, [value("y", 2, 5, 6, **kind)])
    feeds = {"q": np.ones((2, 5, 4), np.int32), "k": np.arange(48, dtype=np.int32).reshape(2, 6, 4)}
    assert op_types(check_optimized(model, feeds, target="ort-cpu").model) == ["Transpose", "MatMul"]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_constant_behind_a_transpose_stays_the_right_operand_too(dtype: type[np.generic]):
    kind = {"dtype": oh.np_dtype_to_tensor_dtype(np.dtype(dtype))}
    nodes = [
        transpose("w", "t", 1, 0),
        oh.make_node("MatMul", ["x", "t"], ["c"]),
        transpose("c", "y", 0, 2, 1),
    ]
    weights = initializer("w", np.random.default_rng(0).standard_normal((128, 40)).astype(dtype))
    model = model_of(nodes, [value("x", 8, 16, 40, **kind)], [value("y", 8, 128, 16, **kind)], [weights])
    feeds: Feeds = {"x": np.random.default_rng(1).standard_normal((8, 16, 40)).astype(dtype)}
    result = check_optimized(model, feeds, target="ort-cpu", tolerance=1e-2)
    (product,) = [node for node in result.model.graph.node if node.op_type == "MatMul"]
    assert product.input[0] == "x" and result.after.count == 1
    # Anybody else has it on the left.
    assert check_optimized(model, feeds, tolerance=1e-2).after.nbytes <= result.after.nbytes


@pytest.mark.parametrize("stack", [(), (2,), (2, 3)])
def test_an_operand_is_transposed_by_a_flag_where_the_product_is_cheap(stack: tuple[int, ...]):
    rank = len(stack) + 2
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    nodes = [transpose("x", "a", *swapped), oh.make_node("MatMul", ["a", "w"], ["y"])]
    weights = initializer("w", np.random.default_rng(0).standard_normal((6, 5)))
    model = model_of(nodes, [value("x", *stack, 6, 4)], [value("y", *stack, 4, 5)], [weights])
    assert op_types(check_optimized(model, target="ort-cpu").model) == ["FusedMatMul"]


def test_negative_no_long_operand_is_turned_by_a_flag_so_that_short_ones_are_not():
    """Attention over a graph: scores of all pairs of nodes come of much more than the nodes are."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 48, 4, 16] x, float[32, 1] w, float[64, 64] v) => (float[1, 48, 64] y)
    <int64[3] whole = {1, 48, 64}, int64[5] pairs = {1, 4, 48, 48, 16},
     int64[1] third = {3}, int64[1] second = {2}, int64[1] last = {-1}> {
      heads = Transpose <perm = [0, 2, 1, 3]> (x)
      rows = Unsqueeze (heads, third)
      ones = Expand (rows, pairs)
      columns = Unsqueeze (heads, second)
      others = Expand (columns, pairs)
      both = Concat <axis = -1> (ones, others)
      column = MatMul (both, w)
      scores = Squeeze (column, last)
      shares = Softmax <axis = -1> (scores)
      sums = MatMul (shares, heads)
      turned = Transpose <perm = [0, 2, 1, 3]> (sums)
      joined = Reshape (turned, whole)
      y = MatMul (joined, v)
    }"""
    model = onnx.parser.parse_model(text)
    del model.graph.input[1:]
    rng = np.random.default_rng(0)
    for name, shape in (("w", (32, 1)), ("v", (64, 64))):
        model.graph.initializer.append(initializer(name, rng.standard_normal(shape).astype(np.float32)))
    feeds: Feeds = {"x": rng.standard_normal((1, 48, 4, 16)).astype(np.float32)}
    result = check_optimized(model, feeds, target="ort-cpu")
    (product,) = [node for node in result.model.graph.node if "w" in node.input]
    assert product.op_type == "MatMul" and product.input[1] == "w"


def test_negative_no_cache_is_turned_so_that_one_word_is_not():
    """Attention of few words to many of a cache: the values of the cache stay the right operand, as they are."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[b, 4, s, 16] q, float[b, 4, p, 16] k, float[b, 4, p, 16] v, float[64, 64] w) => (float[b, s, 64] y)
    <int64[3] whole = {0, 0, 64}> {
      turned = Transpose <perm = [0, 1, 3, 2]> (k)
      scores = MatMul (q, turned)
      shares = Softmax <axis = -1> (scores)
      heads = MatMul (shares, v)
      rows = Transpose <perm = [0, 2, 1, 3]> (heads)
      joined = Reshape (rows, whole)
      y = MatMul (joined, w)
    }"""
    rng = np.random.default_rng(0)
    shapes = {"q": (2, 4, 1, 16), "k": (2, 4, 9, 16), "v": (2, 4, 9, 16), "w": (64, 64)}
    feeds: Feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    result = check_optimized(onnx.parser.parse_model(text), feeds, target="ort-cpu")
    products = [node for node in result.model.graph.node if node.op_type in ("MatMul", "FusedMatMul")]
    assert [node.input[0] for node in products][1] == "shares" and result.after.count == 1


def test_negative_a_flag_that_would_slow_a_long_product_down_is_not_set():
    nodes = [transpose("x", "a", 0, 2, 1), oh.make_node("MatMul", ["a", "w"], ["y"])]
    model = model_of(
        nodes,
        [value("x", 1, 384, 196)],
        [value("y", 1, 196, 1536)],
        [initializer("w", np.ones((384, 1536), np.float32))],
    )
    assert op_types(check_optimized(model, target="ort-cpu").model) == ["Transpose", "MatMul"]


@pytest.mark.parametrize("zero_points", [("a", "b"), ("a",), ("", "b"), ()], ids=str)
def test_a_product_of_integers_has_its_zero_points_swapped_with_its_operands(zero_points: tuple[str, ...]):
    nodes = [transpose("x", "t", 0, 2, 1), oh.make_node("MatMulInteger", ["t", "w", *zero_points], ["c"])]
    nodes.append(transpose("c", "y", 0, 2, 1))
    weights = np.random.default_rng(0).integers(0, 255, (5, 7)).astype(np.uint8)
    constants = [
        initializer("w", weights),
        initializer("a", np.uint8(3)),
        initializer("b", np.array([99], np.uint8)),
    ]
    kinds = {"dtype": onnx.TensorProto.UINT8}, {"dtype": onnx.TensorProto.INT32}
    model = model_of(nodes, [value("x", 2, 5, 6, **kinds[0])], [value("y", 2, 7, 6, **kinds[1])], constants)
    feeds = {"x": np.random.default_rng(1).integers(0, 255, (2, 5, 6)).astype(np.uint8)}
    assert op_types(check_optimized(model, feeds).model) == ["MatMulInteger"]


_PER_COLUMN = np.arange(7, dtype=np.uint8)


@pytest.mark.parametrize("zero_point", [np.int8(3), _PER_COLUMN], ids=["signed", "per column"])
def test_negative_a_product_of_integers_of_which_one_may_not_be_on_the_left_is_not_swapped(zero_point: Any):
    nodes = [transpose("x", "t", 1, 0), oh.make_node("MatMulInteger", ["t", "w", "a", "b"], ["c"])]
    nodes.append(transpose("c", "y", 1, 0))
    weights = np.ones((5, 7), zero_point.dtype)
    constants = [initializer("w", weights), initializer("a", np.uint8(3)), initializer("b", zero_point)]
    given = value("x", 5, 6, dtype=onnx.TensorProto.UINT8)
    model = model_of(nodes, [given], [value("y", 7, 6, dtype=onnx.TensorProto.INT32)], constants)
    feeds = {"x": np.random.default_rng(1).integers(0, 255, (5, 6)).astype(np.uint8)}
    assert check_optimized(model, feeds).after.count == 2


def test_equations_of_einsum_say_any_order():
    nodes = [transpose("x", "a", 2, 0, 1), oh.make_node("Einsum", ["a", "w"], ["c"], equation="abc,cd->bad")]
    nodes.append(transpose("c", "y", 2, 1, 0))
    model = model_of(nodes, [value("x", 3, 4, 2), value("w", 4, 5)], [value("y", 5, 2, 3)])
    result = check_optimized(model)
    assert op_types(result.model) == ["Einsum"]


def test_negative_ellipses_stay():
    nodes = [
        transpose("x", "a", 1, 0, 2),
        oh.make_node("Einsum", ["a", "w"], ["c"], equation="...c,cd->...d"),
    ]
    nodes.append(transpose("c", "y", 1, 0, 2))
    model = model_of(nodes, [value("x", 2, 3, 4), value("w", 4, 5)], [value("y", 2, 3, 5)])
    assert check_optimized(model).after.count == 2
