"""Inference that is repeated for a few nodes finds the types that inference of the whole graph finds."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from layout_ir.frontends.onnx.shape_inference import infer_shapes
from layout_ir.passes.onnx import repeated_inference
from layout_ir.passes.onnx.repeated_inference import RepeatedInference, can_repeat
from layout_ir.passes.onnx.whole_inference import WholeInference
from tests.passes.onnx.computed_extents import Draft, alike
from tests.passes.onnx.optimized import FLOAT, initializer, model_of, transpose, value
from tests.seeds import seeds

INT64 = onnx.TensorProto.INT64
UNKNOWN = oh.make_tensor_value_info("y", FLOAT, None)


def _whole(
    model: onnx.ModelProto, stated: Mapping[str, onnx.TypeProto], fixed: Mapping[str, onnx.TensorProto]
) -> dict[str, onnx.TypeProto]:
    """The types that inference finds of a whole model where types of values are stated and others are constants."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.node[:], whole.graph.initializer[:]
    whole.graph.node.extend(n for n in model.graph.node if len(n.output) > 1 or n.output[0] not in fixed)
    whole.graph.initializer.extend([*fixed.values(), *model.graph.initializer])
    inference = WholeInference(whole, lambda graph: [graph])
    if stated:
        inference.state([stated])
    return inference.found[0]


def _repeated(model: onnx.ModelProto) -> RepeatedInference:
    return RepeatedInference(model, _whole(model, {}, {}), frozenset())


def _claim(random: Random, before: onnx.TypeProto | None) -> onnx.TypeProto:
    """A type for a value that may have one, of which it says as much, more or something else."""
    extents: list[int | str | None] = [random.choice((2, 24, "batch", "n", "unk__1", None)) for _ in range(3)]
    dims = before.tensor_type.shape.dim if before is not None else ()
    if len(dims) == 3:
        own = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in dims]
        extents = [random.choice((old, old, new)) for old, new in zip(own, extents, strict=True)]
    return oh.make_tensor_type_proto(FLOAT, extents)


@pytest.mark.parametrize("worth", [8, 1e-9])
@pytest.mark.parametrize("seed", seeds(20, 2000))
def test_types_are_those_of_the_whole_graph(seed: int, worth: float, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(repeated_inference, "WORTH", worth)
    random = Random(seed)
    draft = Draft(random)
    for _ in range(random.randint(8, 40)):
        draft.step()
    model = draft.model()
    inference = _repeated(model)
    stated: dict[str, onnx.TypeProto] = {}
    fixed: dict[str, onnx.TensorProto] = {}
    for _ in range(3):
        names = [name for node in draft.nodes for name in node.output if name not in fixed]
        computed = [name for name in (*draft.lists, *draft.scalars) if name in names]
        if computed and random.random() < 0.5:
            name = random.choice(computed)
            number = random.choice((1, 2, 4))
            new = {name: initializer(name, np.array([number] if name in draft.lists else number))}
            inference.fix(new)
            fixed = {**new, **fixed}
        else:
            claimed = random.sample([n for n in draft.floats if n in names] or ["x"], 1)
            types = {name: _claim(random, inference.types.get(name)) for name in claimed}
            inference.state([types])
            stated.update(types)
        (found,) = inference.tables()
        assert alike(found) == alike(_whole(model, stated, fixed))


def _halves(rows: int | str) -> onnx.ModelProto:
    """The first half of the rows of `x`, how many these are being computed from its shape, and much that follows."""
    nodes = [
        oh.make_node("Shape", ["x"], ["shape"]),
        oh.make_node("Gather", ["shape", "zero"], ["rows"]),
        oh.make_node("Div", ["rows", "two"], ["half"]),
        oh.make_node("Slice", ["x", "zero", "half", "zero"], ["front"]),
        *(oh.make_node("Relu", [f"r{n}" if n else "front"], [f"r{n + 1}"]) for n in range(20)),
        oh.make_node("Sum", ["r20", "r20"], ["y"]),
    ]
    constants = [initializer("zero", np.array([0])), initializer("two", np.array([2]))]
    return model_of(nodes, [value("x", rows, 3)], [UNKNOWN], constants)


@pytest.mark.parametrize("half", [5, 4])
def test_what_completes_all_extents_is_inferred_at_once(half: int, monkeypatch: pytest.MonkeyPatch):
    model = _halves(10)
    inference = _repeated(model)
    parts: list[onnx.ModelProto] = []

    def infer(part: onnx.ModelProto) -> onnx.ModelProto:
        parts.append(part)
        return infer_shapes(part)

    monkeypatch.setattr(repeated_inference, "infer_shapes", infer)
    monkeypatch.setattr(repeated_inference, "WholeInference", None)
    fixed = {"half": initializer("half", np.array([half]))}
    inference.fix(fixed, may_complete=True)
    assert [len(part.graph.node) for part in parts] == [22]
    monkeypatch.undo()
    assert inference.types["y"] == oh.make_tensor_type_proto(FLOAT, [half, 3])
    assert inference.tables()[0] == {**_whole(model, {}, fixed), "half": inference.types["half"]}


def test_negative_what_does_not_close_is_inferred_as_ever():
    model = _halves("rows")
    model.graph.input.append(value("free", 1, dtype=INT64))
    model.graph.node.append(oh.make_node("Slice", ["x", "zero", "free", "zero"], ["open"]))
    fixed = {"half": initializer("half", np.array([5]))}
    one, other = _repeated(model), _repeated(model)
    one.fix(fixed, may_complete=True)
    other.fix(fixed)
    assert one.tables() == other.tables()
    assert not one.types["open"].tensor_type.shape.dim[0].dim_value


def test_a_copy_goes_on_by_itself():
    nodes = [oh.make_node("Thing", ["x"], ["a"], domain="my"), transpose("a", "y", 1, 0)]
    model = model_of(nodes, [value("x", "N", 3)], [UNKNOWN])
    model.opset_import.add(domain="my", version=1)
    first = _repeated(model)
    again = first.copy()
    again.state([{"a": oh.make_tensor_type_proto(FLOAT, ["N", 3])}])
    assert [dim.dim_param or dim.dim_value for dim in again.types["y"].tensor_type.shape.dim] == [3, "N"]
    assert "a" not in first.types and not first.types["y"].tensor_type.HasField("shape")


def test_only_nodes_are_inferred_that_may_have_other_types(monkeypatch: pytest.MonkeyPatch):
    layers = [oh.make_node("Relu", [f"r{k}"], [f"r{k + 1}"]) for k in range(60)]
    nodes = [*layers, oh.make_node("Thing", ["x"], ["a"], domain="my"), oh.make_node("Neg", ["a"], ["b"])]
    nodes.append(oh.make_node("Add", ["b", "r60"], ["y"]))
    model = model_of(nodes, [value("x", "N", 3), value("r0", "N", 3)], [UNKNOWN])
    model.opset_import.add(domain="my", version=1)
    inference = _repeated(model)
    seen: list[str] = []

    def counted(part: onnx.ModelProto) -> onnx.ModelProto:
        seen.extend(node.op_type for node in part.graph.node)
        return infer_shapes(part)

    monkeypatch.setattr(repeated_inference, "infer_shapes", counted)
    inference.state([{"a": oh.make_tensor_type_proto(FLOAT, ["N", 3])}])
    assert seen == ["Thing", "Neg", "Add"]


def test_a_name_that_is_known_is_not_made_up_again():
    """ONNX gives extents names that no input and no value with a type has: else two extents would seem to be equal."""
    nodes = [oh.make_node("NonZero", ["x"], ["a"]), oh.make_node("Identity", ["b"], ["c"])]
    model = model_of(nodes, [value("x", "unk__0", 3)], [oh.make_tensor_value_info("a", INT64, None)])
    model.graph.value_info.append(value("b", "unk__1"))
    found = {
        v.name: v.type for v in (*infer_shapes(model).graph.output, *infer_shapes(model).graph.value_info)
    }
    assert found["a"].tensor_type.shape.dim[1].dim_param not in ("unk__0", "unk__1")


@pytest.mark.parametrize("op_type", ["EyeLike", "LabelEncoder"])
def test_negative_what_inference_sees_late_is_not_inferred_alone(op_type: str):
    model = model_of([oh.make_node(op_type, ["x"], ["y"])], [value("x", 2, 3)], [UNKNOWN])
    assert not can_repeat(model)
    assert can_repeat(model_of([oh.make_node("Relu", ["x"], ["y"])], [value("x", 2, 3)], [UNKNOWN]))
