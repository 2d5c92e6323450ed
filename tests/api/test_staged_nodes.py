"""Which nodes run by the reference before they are compiled, and why."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
import pytest

import layout_ir as li
from layout_ir.api import staged_nodes
from layout_ir.api.compilation import Compilation
from layout_ir.api.staged_nodes import CHEAP_OPERATORS, is_cheap
from layout_ir.backends.reference.node_evaluation import NodeEvaluation
from layout_ir.gc_pause import gc_paused
from tests.backends.onednn.small_programs import needs_library

Example = Callable[[int], tuple[list[Any], dict[str, Any]]]
"""Operands and attributes of a node of this extent."""


def _floats(*shape: int) -> Any:
    return np.random.default_rng(1).random(shape, np.float32)


def _ints(*values: int) -> Any:
    return np.array(values, np.int64)


def _bools(n: int) -> Any:
    return _floats(n) > 0.5


def _matrices(count: int, **attributes: Any) -> Example:
    return lambda n: ([_floats(n, n)] * count, attributes)


def _per_channel(count: int) -> Example:
    return lambda n: ([_floats(2, n, n), *[_floats(n)] * count], {})


EXAMPLES: dict[str, Example] = {
    **dict.fromkeys(
        """Add CastLike Div Equal Gemm Greater GreaterOrEqual Less LessOrEqual MatMul Max Mean Min Mul PRelu Pow Sub
        Sum""".split(),  # noqa: SIM905
        _matrices(2),
    ),
    **dict.fromkeys(("And", "Or", "Xor"), lambda n: ([_bools(n), _bools(n)], {})),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), lambda n: ([np.arange(n)] * 2, {})),
    "BatchNormalization": _per_channel(4),
    "BitShift": lambda n: ([np.arange(n, dtype=np.uint64)] * 2, {"direction": "LEFT"}),
    "BitwiseNot": lambda n: ([np.arange(n)], {}),
    "Cast": _matrices(1, to=onnx.TensorProto.INT64),
    "Compress": lambda n: ([_floats(n, n), np.arange(n) % 2 > 0], {"axis": 0}),
    "Concat": _matrices(2, axis=0),
    "Constant": lambda n: ([], {"value": onnx.numpy_helper.from_array(_floats(n))}),
    "ConstantOfShape": lambda n: ([_ints(n, n)], {}),
    "CumSum": lambda n: ([_floats(n, n), np.array(0)], {}),
    "DequantizeLinear": lambda n: ([np.zeros((n, n), np.uint8), np.array(0.1, np.float32)], {}),
    "Expand": lambda n: ([_floats(1, n), _ints(n, n)], {}),
    "Gather": lambda n: ([_floats(n, n), np.arange(n)], {}),
    "GatherElements": lambda n: ([_floats(n, n), np.arange(n).reshape(1, n) % 2], {}),
    "GatherND": lambda n: ([_floats(n, n), np.arange(n).reshape(n, 1)], {}),
    "InstanceNormalization": _per_channel(2),
    "LayerNormalization": lambda n: ([_floats(n, n), _floats(n)], {}),
    "Mod": _matrices(2, fmod=1),
    "NonMaxSuppression": lambda n: (
        [np.sort(_floats(1, n, 4), axis=2), _floats(1, 1, n), _ints(2), np.array([0.5], np.float32)],
        {},
    ),
    "Not": lambda n: ([_bools(n)], {}),
    "OneHot": lambda n: ([np.arange(n), np.array(n), np.array([0, 1], np.float32)], {}),
    "Pad": lambda n: ([_floats(n, n), _ints(1, 0, n, 2)], {}),
    "QuantizeLinear": lambda n: ([_floats(n, n), np.array(0.1, np.float32), np.array(3, np.uint8)], {}),
    "RMSNormalization": lambda n: ([_floats(n, n), _floats(n)], {}),
    "Range": lambda n: ([np.array(0), np.array(n), np.array(1)], {}),
    "Reshape": lambda n: ([_floats(n, n), _ints(n * n)], {}),
    "RoiAlign": lambda n: (
        [_floats(1, 3, n, n), n * _floats(2, 4), _ints(0, 0)],
        {"output_height": 2, "output_width": 2, "sampling_ratio": 2},
    ),
    "ScatterElements": lambda n: ([_floats(n, n), np.arange(n).reshape(1, n) % 2, _floats(1, n)], {}),
    "ScatterND": lambda n: ([_floats(n, n), np.arange(n).reshape(n, 1), _floats(n, n)], {}),
    "Slice": lambda n: ([_floats(n, n), _ints(0), _ints(n // 2)], {}),
    "Split": _matrices(1, num_outputs=2),
    "Squeeze": lambda n: ([_floats(1, n), _ints(0)], {}),
    "Tile": lambda n: ([_floats(n, n), _ints(1, n)], {}),
    "TopK": lambda n: ([_floats(n, n), _ints(2)], {}),
    "Unsqueeze": lambda n: ([_floats(n), _ints(0)], {}),
    "Where": lambda n: ([_bools(n), _floats(n), _floats(n)], {}),
}
"""Of operators with other operands than one matrix."""


def _calls(op: str, extent: int) -> int:
    """How many calls of Python, and of functions in C, the reference makes for a node."""
    operands, attributes = EXAMPLES.get(op, _matrices(1))(extent)
    names = [f"x{number}" for number in range(len(operands))]
    results = ["y", "z"] if op in ("Split", "TopK") else ["y"]
    evaluation = NodeEvaluation([oh.make_node(op, names, results, **attributes)], {"": 23})
    values = dict(zip(names, operands, strict=True))
    evaluation(values)
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    with gc_paused():  # whoever listens to the garbage collector, as hypothesis does, would be counted
        sys.setprofile(note)
        try:
            evaluation(values)
        finally:
            sys.setprofile(before)
    return count


def test_the_reference_computes_cheap_operators_in_as_many_calls_for_every_extent():
    for op in CHEAP_OPERATORS:
        few, many = _calls(op, 4), _calls(op, 12)
        # Where boxes overlap, a few more or less of them are looked at.
        assert abs(many - few) <= 2 and few < 1000, op


def test_negative_what_goes_over_elements_in_python_is_not_cheap(monkeypatch: pytest.MonkeyPatch):
    def picture(n: int) -> tuple[list[Any], dict[str, Any]]:
        nothing = np.zeros(0, np.float32)
        return [_floats(1, 1, n, n), nothing, np.array([1, 1, 2, 2], np.float32)], {}

    monkeypatch.setitem(EXAMPLES, "Resize", picture)
    assert _calls("Resize", 12) > _calls("Resize", 4) + 100
    assert not is_cheap(oh.make_node("Resize", ["x", "", "s"], ["y"]))


@needs_library
def test_a_node_on_which_the_reference_fails_is_compiled_at_once():
    scale = onnx.numpy_helper.from_array(np.ones(4, np.float32), "scale")
    bias = onnx.numpy_helper.from_array(np.zeros(4, np.float32), "bias")
    nodes = [
        oh.make_node("Compress", ["x", "kept"], ["part"], axis=0),
        oh.make_node("GroupNormalization", ["part", "scale", "bias"], ["y"], num_groups=2),
    ]
    inputs = [
        oh.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3, 4, 5]),
        oh.make_tensor_value_info("kept", onnx.TensorProto.BOOL, [3]),
    ]
    outputs = [oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 4, 5])]
    graph = oh.make_graph(nodes, "g", inputs, outputs, [scale, bias])
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 21)], ir_version=10)
    executable = li.compile(model)
    x = _floats(3, 4, 5)
    # By shapes that come the first time behind others, the reference would run what is cheap.
    for kept in ([True, False, True], [True, True, True]):
        (found,) = executable({"x": x, "kept": np.array(kept)})
        rows = x[kept].reshape(-1, 2, 10)
        centered = rows - rows.mean(axis=2, keepdims=True)
        expected = centered / np.sqrt(rows.var(axis=2, keepdims=True) + 1e-5)
        np.testing.assert_allclose(found, expected.reshape(-1, 4, 5), rtol=1e-4, atol=1e-5)


@needs_library
def test_shapes_that_take_turns_are_not_compiled_again_and_again(monkeypatch: pytest.MonkeyPatch):
    """Twice as many as are kept, in turns: at every call the one that is asked for was dropped."""
    kept = 2
    monkeypatch.setattr(staged_nodes, "_KEPT", kept)
    nodes = [
        oh.make_node("NonZero", ["x"], ["places"]),
        oh.make_node("Transpose", ["places"], ["rows"]),
        oh.make_node("Cast", ["rows"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    x = oh.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (9,))
    graph = oh.make_graph(nodes, "g", [x], [onnx.ValueInfoProto(name="y")])
    compiled: list[Any] = []
    part = Compilation.part

    def counted(self: Compilation, module: Any, *, kept: bool) -> Any:
        compiled.append(module)
        return part(self, module, kept=kept)

    monkeypatch.setattr(Compilation, "part", counted)
    executable = li.compile(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 18)], ir_version=9))
    turns = 32
    for call in range(turns * 2 * kept):
        count = call % (2 * kept) + 1
        [found] = executable([(np.arange(9) < count).astype(np.float32)])
        np.testing.assert_array_equal(found, np.arange(count, dtype=np.float32)[:, None])
    # Without a bound it is one per call, but for the first turn.
    assert kept < len(compiled) <= kept + np.log2(turns) + 1


@needs_library
def test_a_repeatable_model_gives_equal_bits_where_a_shape_comes_first_and_again():
    random = np.random.default_rng(0)
    nodes = [
        oh.make_node("NonZero", ["x"], ["places"]),
        oh.make_node("Transpose", ["places"], ["rows"]),
        oh.make_node("Cast", ["rows"], ["numbers"], to=onnx.TensorProto.FLOAT),
        oh.make_node("MatMul", ["numbers", "w"], ["scores"]),
        oh.make_node("Softmax", ["scores"], ["weights"]),
        oh.make_node("MatMul", ["weights", "v"], ["y"]),
    ]
    x = oh.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (99,))
    constants = [
        onnx.numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) / 9, name)
        for name, shape in (("w", (1, 64)), ("v", (64, 33)))
    ]
    graph = oh.make_graph(nodes, "g", [x], [onnx.ValueInfoProto(name="y")], constants)
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 18)], ir_version=9)
    executable = li.compile(model, repeatable=True)
    inputs = [(np.arange(99) < count).astype(np.float32) for count in (40, 71, 99)]
    first, again = ([executable([given])[0].tobytes() for given in inputs] for _ in range(2))
    assert first == again
    close = li.compile(model)
    for given, wanted in zip(inputs, first, strict=True):
        expected = np.frombuffer(wanted, np.float32)
        np.testing.assert_allclose(close([given])[0].reshape(-1), expected, rtol=1e-4, atol=1e-5)
