"""Every op of `nn` becomes nodes that compute the same, in each version of the ONNX operators that has them."""

from __future__ import annotations

from importlib.metadata import version
from random import Random
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

import layout_ir as li
from layout_ir.api.onnx_export import to_onnx
from layout_ir.dialects import nn
from layout_ir.exits.onnx.node_forms import FORMS
from tests.backends.reference.catalog import MAKERS, case
from tests.backends.reference.catalog.cases import Case
from tests.backends.reference.catalog.numbers import to_numbers
from tests.backends.reference.programs import plain_op
from tests.exits.onnx.models import Array, check, counts, evaluate, with_opset
from tests.programs import parse
from tests.seeds import seeds

OPS = sorted(MAKERS, key=lambda op: op.name)
VERSIONS = (9, 10, 11, 13, 17, 18, 20, 22)
# Attributes of nodes are in single precision, those of ops in double.
TOLERANCE = {"f64": 1e-6, "f32": 1e-4, "f16": 8e-3, "bf16": 4e-2}

NO_FORM = {
    *((op, dtype) for op in ("nn.pow", "nn.prelu") for dtype in ("i8", "ui8", "i16", "ui16")),
    *((op, dtype) for op in ("nn.reduce_max", "nn.reduce_min") for dtype in ("i16", "ui16")),
    ("nn.pow", "ui32"), ("nn.pow", "ui64"),
}  # fmt: skip
"""Ops of element types that no version of the operator takes."""

WRONGLY_EVALUATED = (nn.LrnOp, nn.GlobalMaxPoolOp, nn.ConvTransposeOp)
"""Ops that the evaluator of the onnx package gets wrong, or cannot do; ONNX Runtime has them for f32, and LRN of rank 4
alone."""


def is_wrong_in_old_releases(one: Case) -> bool:
    """Whether the installed release computes a case otherwise than the newest: ONNX Runtime before 1.26 counted, with
    ceil_mode, elements beyond the pads; the evaluator of onnx before 1.23 mixes bf16 and f32 in products."""
    runtime, onnx_itself = (
        tuple(map(int, version(package).split(".")[:2])) for package in ("onnxruntime", "onnx")
    )
    if one.op is nn.AvgPoolOp:
        return runtime < (1, 26) and bool(one.attributes.get("count_include_pad"))
    return one.op is nn.MatmulOp and one.dtype == "bf16" and onnx_itself < (1, 23)


def program(one: Case) -> ModuleOp:
    """The op of a case as `@main`."""
    op = plain_op(one)
    function = FuncOp("main", FunctionType.from_lists(list(op.operand_types), [op.result.type]))
    block = function.body.block
    op.operands = block.args
    block.add_ops([op, ReturnOp(op.result)])
    return ModuleOp([function])


def close(ours: Array, theirs: Array, stored: str, dtype: str) -> None:
    """Raises unless elements stored as `stored` are the same, up to the precision of `dtype` where that is a float."""
    ours, theirs = (
        to_numbers(a.view(np.uint16) if a.dtype.name == "bfloat16" else a, stored) for a in (ours, theirs)
    )
    if dtype in TOLERANCE:
        ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
        limit = TOLERANCE[dtype] * max(1.0, float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0)))
        np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE[dtype], atol=limit)
    else:
        np.testing.assert_array_equal(ours, theirs)


def test_every_op_has_a_form():
    missing = {op for op in nn.NN.operations if op not in (nn.ConstantOp, nn.OpaqueOp)} - set(FORMS)
    assert missing == set[type[Operation]]()


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
@pytest.mark.parametrize("third", seeds(1, 3))
def test_an_op_computes_the_same_in_every_version(op: type[nn.NNOp], third: int):
    written = set[int]()
    for seed in range(third * len(VERSIONS), (third + 1) * len(VERSIONS)):
        one = case(Random(seed), op)
        module = with_opset(program(one), VERSIONS[seed % len(VERSIONS)])
        model = to_onnx(module)
        check(model)
        (entry,) = model.opset_import
        assert entry.version >= VERSIONS[seed % len(VERSIONS)]
        written.add(entry.version)
        if (op is nn.LrnOp and one.arrays[0].ndim != 4) or is_wrong_in_old_releases(one):
            continue
        (want,) = li.run(module, one.arrays)
        (got,) = evaluate(model, one.arrays)
        assert got.shape == want.shape
        assert got.dtype == want.dtype or got.dtype.name == "bfloat16"
        close(got, want, one.result_dtype, one.result_dtype)
    assert max(VERSIONS) in written


@pytest.mark.parametrize(
    ("op", "dtype"),
    [(op, dtype) for op in OPS for dtype in op.ALLOWED if dtype != "f32"],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_an_op_computes_the_same_on_other_element_types(op: type[nn.NNOp], dtype: str):
    for seed in range(3):
        one = case(Random(seed), op, dtype)
        if op in (nn.PowOp, nn.ReduceProdOp) and dtype in ("i32", "i64"):
            # ONNX says nothing about overflow, which ONNX Runtime's arithmetic in double precision loses digits in.
            one.arrays[0] %= 3
        module = with_opset(program(one), 9 + seed)
        if (op.name, dtype) in NO_FORM:
            with pytest.raises(li.LayoutError, match=rf"{op.name} of {dtype} has no form in ONNX"):
                to_onnx(module)
            continue
        model = to_onnx(module)
        check(model)
        if op in WRONGLY_EVALUATED or is_wrong_in_old_releases(one):
            continue
        want = li.run(module, one.arrays)[0]
        got = evaluate(model, one.arrays)[0]
        assert got.shape == want.shape
        rough = (
            one.dtype if one.dtype in ("f16", "bf16") and one.result_dtype in TOLERANCE else one.result_dtype
        )
        close(got, want, one.result_dtype, rough)


def written(op: str, *, opset: int = 20, shape: str = "2x3x4x5xf32", result: str | None = None) -> Any:
    """The model of one op on %x, given behind its name."""
    name, _, rest = op.partition(" ")
    types = f"(tensor<{shape}>) -> tensor<{result or shape}>"
    text = f"%y = {name} %x {rest} : {types} func.return %y : tensor<{result or shape}>"
    module = parse(f"func.func @main(%x: tensor<{shape}>) -> tensor<{result or shape}> {{ {text} }}")
    model = to_onnx(with_opset(module, opset))
    check(model)
    return model


SPELLINGS: list[tuple[str, int, str | None, tuple[str, int, set[str], int]]] = [
    ("nn.clip min = 0.0", 10, None, ("Clip", 1, {"min"}, 10)),
    ("nn.clip min = 0.0", 11, None, ("Clip", 2, set(), 11)),
    ("nn.clip max = 0.0", 11, None, ("Clip", 3, set(), 11)),
    ("nn.clip", 11, None, ("Clip", 1, set(), 11)),
    ("nn.reduce_sum axes = [1]", 11, "2x1x4x5xf32", ("ReduceSum", 1, {"axes"}, 11)),
    ("nn.reduce_sum axes = [1]", 13, "2x1x4x5xf32", ("ReduceSum", 2, set(), 13)),
    ("nn.reduce_max axes = [1]", 13, "2x1x4x5xf32", ("ReduceMax", 1, {"axes"}, 13)),
    ("nn.reduce_max axes = [1] keepdims = false", 18, "2x4x5xf32", ("ReduceMax", 2, {"keepdims"}, 18)),
    ("nn.reduce_max axes = []", 18, None, ("Identity", 1, set(), 18)),
    ("nn.softmax axis = 3", 11, None, ("Softmax", 1, {"axis"}, 11)),
    ("nn.softmax axis = 1", 11, None, ("Softmax", 1, {"axis"}, 13)),
    (
        "nn.slice starts = [0, 1, 0, 0] sizes = [2, 2, 4, 5]",
        9,
        "2x2x4x5xf32",
        ("Slice", 1, {"starts", "ends", "axes"}, 9),
    ),
    ("nn.slice starts = [0, 1, 0, 0] sizes = [2, 2, 4, 5]", 10, "2x2x4x5xf32", ("Slice", 4, set(), 10)),
    (
        "nn.slice starts = [0, 2, 0, 0] sizes = [2, 3, 4, 5] steps = [1, -1, 1, 1]",
        9,
        None,
        ("Slice", 5, set(), 10),
    ),
    ("nn.slice starts = [0, 0, 0, 0] sizes = [2, 3, 4, 5]", 10, None, ("Identity", 1, set(), 10)),
    ("nn.pad pads = [0, 0, 1, 0, 0, 0, 0, 0]", 10, "2x3x5x5xf32", ("Pad", 1, {"pads"}, 10)),
    ("nn.pad pads = [0, 0, 1, 0, 0, 0, 0, 0] value = 2.0", 11, "2x3x5x5xf32", ("Pad", 3, set(), 11)),
    ("nn.pad pads = [0, 0, 1, 0, 0, 0, 0, 0] mode = wrap", 11, "2x3x5x5xf32", ("Pad", 2, {"mode"}, 19)),
    ("nn.gelu", 17, None, ("Gelu", 1, set(), 20)),
    ("nn.max_pool kernel = [2, 2]", 9, "2x3x3x4xf32", ("MaxPool", 1, {"kernel_shape"}, 9)),
    (
        "nn.max_pool kernel = [2, 2] ceil_mode = true",
        9,
        "2x3x3x4xf32",
        ("MaxPool", 1, {"kernel_shape"}, 10),
    ),
    (
        "nn.max_pool kernel = [2, 2] strides = [2, 2] ceil_mode = true",
        9,
        "2x3x2x3xf32",
        ("MaxPool", 1, {"kernel_shape", "strides", "ceil_mode"}, 10),
    ),
    (
        "nn.avg_pool kernel = [2, 2] dilations = [2, 2]",
        9,
        "2x3x2x3xf32",
        ("AveragePool", 1, {"kernel_shape", "dilations"}, 19),
    ),
    ("nn.resize sizes = [2, 3, 8, 10]", 9, "2x3x8x10xf32", ("Resize", 4, set(), 11)),
    ("nn.resize sizes = [2, 3, 8, 10]", 13, "2x3x8x10xf32", ("Resize", 4, set(), 13)),
    (
        "nn.resize scales = [1.0, 1.0, 2.0, 2.0] coordinates = asymmetric nearest_mode = floor",
        10,
        "2x3x8x10xf32",
        ("Resize", 2, set(), 10),
    ),
]


@pytest.mark.parametrize(("op", "opset", "result", "expected"), SPELLINGS)
def test_how_an_op_is_spelled(
    op: str, opset: int, result: str | None, expected: tuple[str, int, set[str], int]
):
    model = written(op, opset=opset, result=result)
    (node,) = model.graph.node
    stored = {attribute.name for attribute in node.attribute}
    assert (node.op_type, len(node.input), stored) == expected[:3]
    assert model.opset_import[0].version == expected[3]


@pytest.mark.parametrize(
    ("source", "result", "op_type"),
    [
        ("2x1x3xf32", "2x3xf32", "Squeeze"),
        ("2x3xf32", "1x2x1x3x1xf32", "Unsqueeze"),
        ("2x3xf32", "2x3xf32", "Identity"),
        ("2x3x4xf32", "6x4xf32", "Reshape"),
        ("1x2x3xf32", "2x3x1xf32", "Reshape"),
        ("1x1xf32", "f32", "Squeeze"),
        ("0x3xf32", "3x0xf32", "Reshape"),
    ],
)
@pytest.mark.parametrize("opset", [9, 13, 20])
def test_a_reshape_about_extents_of_one_is_what_runtimes_see_through(
    source: str, result: str, op_type: str, opset: int
):
    text = f"%y = layout.reshape %x : tensor<{source}> -> tensor<{result}> func.return %y : tensor<{result}>"
    module = parse(f"func.func @main(%x: tensor<{source}>) -> tensor<{result}> {{ {text} }}")
    model = to_onnx(with_opset(module, opset))
    check(model)
    assert counts(model) == {op_type: 1}
    shape = tuple(int(extent) for extent in source.split("x")[:-1])
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    (want,) = li.run(module, [x])
    np.testing.assert_array_equal(evaluate(model, [x])[0], want)
