"""Models whose shapes depend on numbers, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.errors import LayoutError
from tests.backends.onednn.node_models import Array, check_alike, onnx
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library


def model(
    nodes: Sequence[Any], inputs: Mapping[str, Array], outputs: Sequence[str], constants: Mapping[str, Array]
) -> Any:
    helper = onnx.helper
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(list(nodes), "graph", values, results, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    names = ["" if name == "-" else name for name in inputs.split()]
    return onnx.helper.make_node(op, names, outputs.split(), **attributes)


def compare(made: Any, *calls: Mapping[str, Array], fallbacks: dict[str, int]) -> li.Executable:
    """Runs a model part by part and by ONNX Runtime, once per call; `fallbacks` are those of all calls."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(made.SerializeToString())
    executable = li.compile(made, checked=True)
    for inputs in calls:
        for ours, theirs in zip(executable(inputs), session.run(None, dict(inputs)), strict=True):
            check_alike(ours, theirs)
    assert executable.fallbacks == fallbacks
    return executable


def test_boxes_that_are_selected_are_gathered_and_go_on():
    """The end of a detector: per selected box its coordinates, through a layer."""
    constants = {
        "k": numbers((4, 3, 1, 1)), "w": numbers((4, 4), 1), "most": np.array([20]),
        "overlap": np.array([0.3], np.float32), "least": np.array([0.1], np.float32),
        "column": np.array([2]), "minus": np.array([-1]), "boxes": np.array([0, -1, 4]), "flat": np.array([0, 1, -1]),
    }  # fmt: skip
    nodes = [
        node("Conv", "x k", "c"), node("Sigmoid", "c", "p"), node("Transpose", "p", "t", perm=[0, 2, 3, 1]),
        node("Reshape", "t boxes", "b"), node("ReduceMax", "p column0", "s", keepdims=0),
        node("Reshape", "s flat", "scores"),
        node("NonMaxSuppression", "b scores most overlap least", "chosen"),
        node("Gather", "chosen column", "i", axis=1), node("Squeeze", "i column0", "places"),
        node("Squeeze", "b zero", "rows"), node("Gather", "rows places", "found"), node("MatMul", "found w", "y"),
        node("Shape", "y", "n"),
    ]  # fmt: skip
    constants |= {"column0": np.array([1]), "zero": np.array([0])}
    calls = [{"x": numbers((1, 3, 5, 5), seed)} for seed in (0, 1, 0)]
    made = model(nodes, calls[0], ["y", "chosen", "n"], constants)
    executable = compare(made, *calls, fallbacks={"NonMaxSuppression": 1})
    assert "between" in executable.describe()


def test_a_shape_that_is_computed_is_compiled_for_its_value():
    nodes = [
        node("Mul", "s two", "t"),
        node("Relu", "x", "r"),
        node("Reshape", "r t", "z"),
        node("Exp", "z", "y"),
    ]
    x = numbers((4, 6))
    calls = [{"x": x, "s": np.array(s)} for s in ([6, 1], [1, 6], [2, 3], [6, 1])]
    compare(model(nodes, calls[0], ["y"], {"two": np.array([2, 2])}), *calls, fallbacks={})


def test_branches_of_other_shapes():
    empty = [onnx.ValueInfoProto(name="p")], [onnx.ValueInfoProto(name="q")]
    for [value] in empty:
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    branches = [
        onnx.helper.make_graph([node("Concat", "r r", "p", axis=0)], "then", [], empty[0]),
        onnx.helper.make_graph([node("Neg", "r", "q")], "else", [], empty[1]),
    ]
    nodes = [
        node("Relu", "x", "r"), node("ReduceMax", "x", "m", keepdims=0), node("Greater", "m limit", "c"),
        node("If", "c", "z", then_branch=branches[0], else_branch=branches[1]), node("Exp", "z", "y"),
    ]  # fmt: skip
    x = numbers((3, 4))
    made = model(nodes, {"x": x}, ["y"], {"limit": np.array(0, np.float32)})
    compare(made, {"x": x}, {"x": -np.abs(x)}, {"x": x}, fallbacks={})


def test_sequences_go_from_node_to_node():
    nodes = [
        node("Relu", "x", "r"), node("SplitToSequence", "r -", "parts", axis=0, keepdims=1),
        node("SequenceAt", "parts place", "part"), node("Exp", "part", "y"), node("SequenceLength", "parts", "n"),
    ]  # fmt: skip
    x = numbers((3, 4))
    made = model(nodes, {"x": x, "place": np.array(1)}, ["y", "n"], {})
    calls = [{"x": x, "place": np.array(place)} for place in (1, 2, -3)]
    compare(made, *calls, fallbacks={"SplitToSequence": 1, "SequenceAt": 1})


def test_a_branch_that_a_constant_decides_is_compiled_part_by_part():
    """Its initializer, and a second result of one of its nodes, are used behind what the run time knows."""
    then = onnx.helper.make_graph(
        [
            node("MaxPool", "x", "largest where", kernel_shape=[2, 2]), node("NonZero", "largest", "places"),
            node("Cast", "where", "w", to=1), node("ReduceMax", "w", "most", keepdims=0),
            node("Cast", "places", "p", to=1), node("Mul", "p factor", "q"), node("Add", "q most", "r"),
        ],
        "then", [], [onnx.ValueInfoProto(name="r")],
        [onnx.numpy_helper.from_array(np.array(3, np.float32), "factor")],
    )  # fmt: skip
    other = onnx.helper.make_graph([node("Neg", "x", "r")], "else", [], [onnx.ValueInfoProto(name="r")])
    for graph in (then, other):
        graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    nodes = [
        node("Shape", "x", "extents"), node("Size", "extents", "rank"), node("Equal", "rank four", "c"),
        node("If", "c", "z", then_branch=then, else_branch=other), node("Exp", "z", "y"),
    ]  # fmt: skip
    x = numbers((1, 2, 3, 4)) / 10
    made = model(nodes, {"x": x}, ["y"], {"four": np.array(4)})
    compare(made, {"x": x}, {"x": np.maximum(x, 0)}, fallbacks={"NonZero": 1})


def test_a_model_of_open_sizes_whose_shapes_depend_on_numbers():
    nodes = [node("NonZero", "x", "places"), node("Transpose", "places", "t"), node("Cast", "t", "y", to=1)]
    made = model(nodes, {"x": numbers((3, 4))}, ["y"], {})
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    calls = [{"x": (numbers((n, 4), n) > 0).astype(np.float32)} for n in (2, 3, 2)]
    compare(made, *calls, fallbacks={"NonZero": 1})


def test_shapes_that_come_once_run_by_the_reference_and_those_that_come_again_are_compiled():
    """As tokens of an expert: how many rows are chosen, multiplied and written back differs from call to call."""
    constants = {
        "limit": np.array(0, np.float32), "w": numbers((4, 4), 1), "k": numbers((1, 1, 3, 3), 2),
        "one": np.array([1]), "minus": np.array([-1]), "zeros": np.zeros((9, 4), np.float32),
    }  # fmt: skip
    then = onnx.helper.make_graph([node("Relu", "found", "p")], "then", [], [onnx.ValueInfoProto(name="p")])
    other = onnx.helper.make_graph([node("Neg", "found", "q")], "else", [], [onnx.ValueInfoProto(name="q")])
    nodes = [
        node("Greater", "s limit", "is_chosen"), node("NonZero", "is_chosen", "places"),
        node("Reshape", "places minus", "rows"), node("Gather", "x rows", "found"), node("Size", "rows", "n"),
        node("Cast", "n", "m", to=1), node("Greater", "m limit", "any"),
        node("If", "any", "one_way", then_branch=then, else_branch=other), node("MatMul", "one_way w", "z"),
        node("Unsqueeze", "rows one", "column"), node("ScatterND", "zeros column z", "back"),
        node("Unsqueeze", "z zero_one", "picture"),
        node("Conv", "picture k", "y", pads=[1, 1, 1, 1]), node("Exp", "y", "e"),
    ]  # fmt: skip
    constants["zero_one"] = np.array([0, 1])
    rows = [[1, 0, 1, 0, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0], [0] * 8 + [1]]
    calls = [{"x": numbers((9, 4), k), "s": np.array(rows[k], np.float32)} for k in (0, 1, 1, 2, 0, 2)]
    executable = compare(
        model(nodes, calls[0], ["back", "e", "places"], constants), *calls, fallbacks={"NonZero": 1}
    )
    counts = [executable.describe().count("arena")]
    for _ in range(2):
        executable({"x": numbers((9, 4), 7), "s": (np.arange(9) < 5).astype(np.float32)})
        counts.append(executable.describe().count("arena"))
    # The first time the convolution alone and what is behind it, the second time what is in front of it too.
    assert counts[0] + 1 == counts[1] < counts[2]


def test_negative_a_model_that_is_wrong_is_refused_when_it_is_compiled_or_reached():
    nodes = [node("NonZero", "x", "places"), node("Conv", "x w", "y")]
    made = model(nodes, {"x": numbers((1, 3, 4, 4))}, ["places", "y"], {"w": numbers((2, 5, 1, 1))})
    with pytest.raises(LayoutError, match="Conv"):
        li.compile(made)({"x": numbers((1, 3, 4, 4))})


def test_negative_what_is_compiled_in_parts_has_no_plan_to_save(tmp_path: Any):
    x = numbers((3, 4))
    executable = li.compile(model([node("NonZero", "x", "y")], {"x": x}, ["y"], {}))
    executable({"x": x})
    with pytest.raises(LayoutError, match="compiled in parts"):
        executable.save(str(tmp_path / "network.exe"))
    with pytest.raises(LayoutError, match="compiled in parts"):
        executable.profile({"x": x})


def test_negative_an_input_of_another_type_is_an_error():
    x = numbers((3, 4))
    executable = li.compile(model([node("NonZero", "x", "y")], {"x": x}, ["y"], {}))
    with pytest.raises(LayoutError, match="input 'x' is float32"):
        executable({"x": x.astype(np.float64)})
    with pytest.raises(LayoutError, match="missing"):
        executable({})


def test_negative_texts_that_do_not_fill_their_shape_are_refused():
    texts = onnx.helper.make_tensor("texts", onnx.TensorProto.STRING, [1], [b"a"])
    texts.dims[0] = 3
    made = model([node("Identity", "texts", "y")], {}, ["y"], {})
    made.graph.initializer.append(texts)
    with pytest.raises(
        LayoutError, match=r"initializer 'texts' has 1 texts, which its shape \[3\] does not take"
    ):
        li.compile(made)
