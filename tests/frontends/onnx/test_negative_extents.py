"""Extents below 0 in a model, of which ONNX's own inference aborts the process."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.frontends.onnx.import_error import OnnxImportError
from layout_ir.frontends.onnx.negative_extents import looks_at_nodes
from layout_ir.frontends.onnx.shape_inference import infer_shapes, node_of_negative_extent, would_abort
from layout_ir.frontends.onnx.subgraphs import graphs_within
from layout_ir.tools.layout_ir import main

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def _model(
    nodes: list[onnx.NodeProto],
    extents: list[int],
    constants: dict[str, list[int]],
    *weights: onnx.TensorProto,
    opset: int = 17,
) -> onnx.ModelProto:
    """`nodes` from x to e, of which rows 0 to 5 are cut."""
    graph = oh.make_graph(
        [*nodes, oh.make_node("Slice", ["e", "start", "end", "axis"], ["y"])],
        "g",
        [oh.make_tensor_value_info("x", FLOAT, extents)],
        [oh.make_tensor_value_info("y", FLOAT, None)],
        [
            *weights,
            *(
                oh.make_tensor(name, INT64, [len(values)], values)
                for name, values in {"start": [0], "end": [5], "axis": [0], **constants}.items()
            ),
        ],
    )
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", opset)], ir_version=9)


CASES: dict[str, Any] = {
    "declared": _model([oh.make_node("Relu", ["x"], ["e"])], [-1, 4], {}),
    "Expand": _model([oh.make_node("Expand", ["x", "shape"], ["e"])], [1, 4], {"shape": [-1, 4]}),
    "Constant": _model(
        [
            oh.make_node("Constant", [], ["shape"], value_ints=[-3, 4]),
            oh.make_node("ConstantOfShape", ["shape"], ["e"]),
        ],
        [1, 4],
        {},
    ),
    "Tile": _model([oh.make_node("Tile", ["x", "times"], ["e"])], [1, 4], {"times": [-2, 1]}),
    "TopK": _model([oh.make_node("TopK", ["x", "k"], ["e", "i"], axis=0)], [4, 4], {"k": [-2]}),
    "Split": _model([oh.make_node("Split", ["x", "parts"], ["u", "e"], axis=0)], [4, 4], {"parts": [6, -2]}),
}
_WIDE = oh.make_tensor("w", FLOAT, [1, 1, 5, 5], [1.0] * 25)
_LAST = {"axis": [3]}
"""Along which dim what comes out of windows is cut."""
COMPUTED: dict[str, Any] = {
    "Conv": _model([oh.make_node("Conv", ["x", "w"], ["e"])], [1, 1, 2, 2], _LAST, _WIDE),
    "MaxPool": _model([oh.make_node("MaxPool", ["x"], ["e"], kernel_shape=[5, 5])], [1, 1, 2, 2], _LAST),
    "Pad": _model([oh.make_node("Pad", ["x", "p"], ["e"])], [2, 2], {"p": [-3, 0, -3, 0]}),
    "Expand by a long table": _model(
        [
            oh.make_node("Gather", ["table", "places"], ["shape"]),
            oh.make_node("Expand", ["x", "shape"], ["e"]),
        ],
        [1, 4],
        {"table": [4, -3] * 2000, "places": [3001, 3000]},
    ),
    "Expand by a difference": _model(
        [
            oh.make_node("Shape", ["x"], ["extents"]),
            oh.make_node("Sub", ["extents", "less"], ["shape"]),
            oh.make_node("Expand", ["x", "shape"], ["e"]),
        ],
        [1, 4],
        {"less": [4, 0]},
    ),
    "Expand by joined numbers": _model(
        [
            oh.make_node("Concat", ["rows", "columns"], ["shape"], axis=0),
            oh.make_node("Expand", ["x", "shape"], ["e"]),
        ],
        [1, 4],
        {"rows": [-2], "columns": [4]},
    ),
    "ConvTranspose": _model(
        [oh.make_node("ConvTranspose", ["x", "w"], ["e"], pads=[9] * 4)], [1, 1, 2, 2], _LAST, _WIDE
    ),
    "Split": _model(
        [oh.make_node("Split", ["x"], ["u", "v", "e"], axis=0, num_outputs=3)], [1, 4], {}, opset=18
    ),
    "behind others": _model(
        [
            oh.make_node("Conv", ["x", "w"], ["c"]),
            oh.make_node("Slice", ["c", "start", "end", "axis"], ["s"]),
            oh.make_node("Neg", ["s"], ["n"]),
            oh.make_node("AveragePool", ["n"], ["p"], kernel_shape=[5, 5]),
            oh.make_node("Transpose", ["p"], ["e"], perm=[0, 1, 3, 2]),
        ],
        [1, 1, 7, 7],
        {"axis": [2]},
        _WIDE,
    ),
}
CASES.update({f"{name} computed": model for name, model in COMPUTED.items()})


def _in_a_branch(model: onnx.ModelProto) -> onnx.ModelProto:
    """The nodes of a model as a branch, of a condition that nobody knows."""
    inner = onnx.GraphProto()
    inner.CopyFrom(model.graph)
    inner.ClearField("input")
    same = oh.make_graph(
        [oh.make_node("Identity", ["x"], ["z"])], "same", [], [oh.make_tensor_value_info("z", FLOAT, None)]
    )
    graph = oh.make_graph(
        [oh.make_node("If", ["c"], ["r"], then_branch=inner, else_branch=same)],
        "g",
        [oh.make_tensor_value_info("c", onnx.TensorProto.BOOL, []), *model.graph.input],
        [oh.make_tensor_value_info("r", FLOAT, None)],
    )
    return oh.make_model(graph, opset_imports=model.opset_import, ir_version=9)


@pytest.mark.parametrize("case", COMPUTED)
def test_in_a_branch_too(case: str):
    model = _in_a_branch(COMPUTED[case])
    found = infer_shapes(model)
    assert found.graph.node[0].attribute[0].g.node == model.graph.node[0].attribute[0].g.node


@pytest.mark.parametrize("case", COMPUTED)
@pytest.mark.parametrize("count", [1, 2])
def test_in_a_function_too(case: str, count: int):
    """All of the nodes are in one, or the Slice is in a second."""
    graph, opset = COMPUTED[case].graph, COMPUTED[case].opset_import
    constants = [oh.make_node("Constant", [], [each.name], value=each) for each in graph.initializer]
    nodes = list(graph.node)
    parts = [("x", "y", nodes)] if count == 1 else [("x", "e", nodes[:-1]), ("e", "y", nodes[-1:])]
    functions = [
        oh.make_function("own", f"F{k}", [x], [y], [*constants, *inner], opset)
        for k, (x, y, inner) in enumerate(parts)
    ]
    calls = [oh.make_node(f"F{k}", [x], [y], domain="own") for k, (x, y, _) in enumerate(parts)]
    model = oh.make_model(
        oh.make_graph(calls, "g", graph.input, [oh.make_tensor_value_info("y", FLOAT, None)]),
        functions=functions,
        opset_imports=[*opset, oh.make_opsetid("own", 1)],
        ir_version=9,
    )
    found = infer_shapes(model)
    assert list(found.functions) == functions and found.graph.node == model.graph.node
    assert node_of_negative_extent(model) is not None


@pytest.mark.parametrize("case", CASES)
def test_a_node_of_an_extent_below_0_is_named(case: str):
    model = CASES[case]
    given = model.SerializeToString(deterministic=True)
    found = node_of_negative_extent(model)
    assert model.SerializeToString(deterministic=True) == given
    assert found in model.graph.node if case != "declared" else found is None


@pytest.mark.parametrize("case", [case for case in COMPUTED if case != "behind others"])
def test_a_node_of_a_branch_is_named_too(case: str):
    """But for one behind another Slice, at which inference of a branch ends with an error, as ONNX Runtime does."""
    found = node_of_negative_extent(_in_a_branch(COMPUTED[case]))
    assert found is not None and found.op_type in {node.op_type for node in COMPUTED[case].graph.node}


@pytest.mark.parametrize("case", COMPUTED)
def test_behind_a_branch_that_gives_a_value_of_the_graph_around_it_too(case: str):
    model = onnx.ModelProto()
    model.CopyFrom(COMPUTED[case])
    cut = model.graph.node.pop()
    given = oh.make_graph([], "given", [], [oh.make_tensor_value_info(cut.input[0], FLOAT, None)])
    model.graph.node.append(oh.make_node("If", ["c"], ["b"], then_branch=given, else_branch=given))
    model.graph.input.append(oh.make_tensor_value_info("c", onnx.TensorProto.BOOL, []))
    cut.input[0] = "b"
    model.graph.node.append(cut)
    assert infer_shapes(model).graph.node[-1] == cut


def test_in_the_body_of_a_scan_too():
    """The body sees the extents of what it goes over."""
    body = oh.make_graph(
        [oh.make_node("Slice", ["row", "start", "end", "axis"], ["cut"])],
        "body",
        [oh.make_tensor_value_info("row", FLOAT, None)],
        [oh.make_tensor_value_info("cut", FLOAT, None)],
        [oh.make_tensor(name, INT64, [1], [n]) for name, n in (("start", 0), ("end", 5), ("axis", 2))],
    )
    nodes = [
        oh.make_node("Conv", ["x", "w"], ["c"]),
        oh.make_node("Scan", ["c"], ["s"], body=body, num_scan_inputs=1),
        oh.make_node("Relu", ["s"], ["e"]),
    ]
    model = _model(nodes, [1, 1, 2, 2], {}, _WIDE)
    assert infer_shapes(model).graph.node[1].attribute == model.graph.node[1].attribute


def test_negative_windows_that_fit_are_inferred_however_many_slices_are_behind_them():
    windows: list[onnx.NodeProto] = []
    for k in range(3):
        windows.append(oh.make_node("MaxPool", [f"t{k}" if k else "x"], [f"m{k}"], kernel_shape=[2, 2]))
        windows.append(oh.make_node("Slice", [f"m{k}", "start", "end", "axis"], [f"t{k + 1}"]))
    windows.append(oh.make_node("Split", ["t3"], ["u", "v", "e"], axis=3, num_outputs=3))
    model = _model(windows, [1, 1, 9, 9], {"end": [-1], "axis": [3]}, opset=18)
    (result,) = infer_shapes(model).graph.output
    assert [dim.dim_value for dim in result.type.tensor_type.shape.dim] == [1, 1, 6, 0]


def _is_looked_at_in_parts(model: onnx.ModelProto) -> bool:
    return looks_at_nodes(model, list(graphs_within(model.graph))) is not None


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose", "MaxPool", "LpPool"])
def test_windows_have_a_look_of_their_own_where_inference_computes_an_extent_below_0(operator: str):
    """And not everywhere: most that networks have fit into any extent."""
    looks: list[bool] = []
    for size, stride, dilation, begin, end in product((1, 2, 3, 5), (1, 2, 3), (1, 2), (0, 1, 2), (0, 2)):
        attributes: dict[str, Any] = {"kernel_shape": [size], "strides": [stride], "pads": [begin, end]}
        if operator != "LpPool":
            attributes["dilations"] = [dilation]
        node = oh.make_node(operator, ["x", "w"] if "Conv" in operator else ["x"], ["e"], **attributes)
        weights = oh.make_tensor("w", FLOAT, [1, 1, size], [1.0] * size)
        looks.append(_is_looked_at_in_parts(_model([node], [1, 1, 1], {"axis": [2]}, weights)))
        for extent in range(5):
            model = _model([node], [1, 1, extent], {}, weights)
            model.graph.ClearField("output")
            del model.graph.node[1:]
            for value in onnx.shape_inference.infer_shapes(model).graph.value_info:
                assert looks[-1] or value.type.tensor_type.shape.dim[2].dim_value >= 0, (node, extent)
    assert 0.25 < looks.count(False) / len(looks) < 1


@pytest.mark.parametrize("scales", [[1.0, 1.0, 2.0, 0.5], [1.0, 1.0, 2.0, -0.5], None])
def test_scales_have_a_look_of_their_own_where_they_may_be_below_0(scales: list[float] | None):
    given = [oh.make_tensor("scales", FLOAT, [4], scales)] if scales else []
    node = oh.make_node("Resize", ["x", "", "scales"], ["e"])
    is_late = _is_looked_at_in_parts(_model([node], [1, 1, 4, 4], {}, *given))
    assert is_late == (scales is None or min(scales) < 0)


@pytest.mark.parametrize("case", CASES)
def test_inference_survives_an_extent_below_0_and_leaves_the_model_as_it_is(case: str):
    model = CASES[case]
    given = model.SerializeToString(deterministic=True)
    found = infer_shapes(model)
    assert model.SerializeToString(deterministic=True) == given
    assert [node.op_type for node in found.graph.node] == [node.op_type for node in model.graph.node]
    (result,) = found.graph.output
    assert all(dim.dim_value >= 0 for dim in result.type.tensor_type.shape.dim)


def test_inference_survives_a_product_that_leaves_32_bits():
    """It is below 0 in onnx 1.22."""
    nodes = [oh.make_node("Mul", ["many", "more"], ["shape"]), oh.make_node("Expand", ["x", "shape"], ["e"])]
    model = _model(nodes, [1, 4], {"many": [1 << 30, 4], "more": [2, 1]})
    assert _is_looked_at_in_parts(model)
    (result,) = infer_shapes(model).graph.output
    assert all(dim.dim_value >= 0 for dim in result.type.tensor_type.shape.dim)


def test_an_extent_that_is_not_known_stays_so_and_the_others_are_inferred():
    (result,) = infer_shapes(CASES["declared"]).graph.output
    rows, columns = result.type.tensor_type.shape.dim
    assert not rows.HasField("dim_value") and columns.dim_value == 4


@pytest.mark.parametrize("case", CASES)
def test_inference_does_not_look_into_an_operator_that_it_does_not_know(case: str):
    inner = CASES[case].graph
    model = _model([oh.make_node("Apply", ["x"], ["e"], domain="org.example", body=inner)], [1, 4], {})
    model.opset_import.append(oh.make_opsetid("org.example", 1))
    found = infer_shapes(model)
    assert found.graph.node[0].attribute[0].g == inner


def test_negative_a_shape_of_whole_extents_is_inferred():
    model = _model([oh.make_node("Expand", ["x", "shape"], ["e"])], [1, 4], {"shape": [7, 4]})
    (result,) = infer_shapes(model).graph.output
    assert [dim.dim_value for dim in result.type.tensor_type.shape.dim] == [5, 4]


def test_one_node_alone_is_not_asked_either():
    node = oh.make_node("Slice", ["x", "start", "end"], ["y"])
    assert would_abort(node, {"x": oh.make_tensor_type_proto(FLOAT, [-1, 4])})
    assert not would_abort(node, {"x": oh.make_tensor_type_proto(FLOAT, [2, 4])})


@pytest.mark.parametrize(("op_type", "ends"), [("Slice", True), ("EyeLike", True), ("Relu", False)])
def test_a_node_with_a_branch_is_not_asked_where_what_it_has_there_may_end_the_process(
    op_type: str, ends: bool
):
    inner = oh.make_node(op_type, ["x", "start", "end"] if op_type == "Slice" else ["x"], ["y"])
    branch = oh.make_graph([inner], "branch", [], [oh.make_tensor_value_info("y", FLOAT, None)])
    node = oh.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)
    assert would_abort(node, {"c": oh.make_tensor_type_proto(onnx.TensorProto.BOOL, [])}) == ends


def test_the_copies_of_such_a_model_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "declared.onnx"
    path.write_bytes(CASES["declared"].SerializeToString())
    assert main(["explain-model", str(path)]) == 0
    assert "2 ops, no copy" in capsys.readouterr().out


def test_negative_functions_that_call_themselves_are_refused():
    opsets = [oh.make_opsetid("", 18), oh.make_opsetid("my", 1)]
    call = oh.make_node("F", ["x"], ["y"], domain="my")
    graph = oh.make_graph(
        [call],
        "graph",
        [oh.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])],
        [oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
    )
    function = oh.make_function("my", "F", ["x"], ["y"], [call], opsets)
    with pytest.raises(OnnxImportError, match=r"my\.F' calls itself"):
        node_of_negative_extent(oh.make_model(graph, opset_imports=opsets, functions=[function]))


def _doubling(levels: int) -> onnx.ModelProto:
    """Functions of which each calls the next twice, the last one a Relu."""
    opsets = [oh.make_opsetid("", 18), oh.make_opsetid("my", 1)]

    def body(level: int) -> list[onnx.NodeProto]:
        if level == levels:
            return [oh.make_node("Relu", ["a"], ["b"])]
        name = f"F{level + 1}"
        return [oh.make_node(name, [a], [b], domain="my") for a, b in (("a", "t"), ("t", "b"))]

    functions = [oh.make_function("my", f"F{k}", ["a"], ["b"], body(k), opsets) for k in range(levels + 1)]
    values = [oh.make_tensor_value_info(name, FLOAT, [2, 3]) for name in ("x", "y")]
    nodes = [
        oh.make_node("Transpose", ["x"], ["t"]),
        oh.make_node("F0", ["t"], ["u"], domain="my"),
        oh.make_node("Transpose", ["u"], ["y"]),
    ]
    graph = oh.make_graph(nodes, "g", values[:1], values[1:])
    return oh.make_model(graph, opset_imports=opsets, functions=functions, ir_version=9)


@pytest.mark.parametrize("look", [infer_shapes, node_of_negative_extent])
def test_negative_functions_that_would_make_too_many_nodes_are_not_looked_at(look: Any):
    with pytest.raises(OnnxImportError, match="shape inference looks at"):
        look(_doubling(40))


def test_functions_that_make_few_nodes_are_looked_at():
    found = infer_shapes(_doubling(4)).graph.value_info
    assert {value.name for value in found} == {"t", "u"}
    assert node_of_negative_extent(_doubling(4)) is None


@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
def test_such_functions_are_called_as_before(target: str):
    model = _doubling(40)
    assert li.optimize_onnx(model, target).model.graph.node == model.graph.node
