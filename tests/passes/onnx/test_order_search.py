"""Rounds of the search: what the graph that was written tells, a search of that graph would find."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.certificate.checking import verify
from layout_ir.passes.onnx import order_selection
from layout_ir.passes.onnx.model_certificate import check_model
from layout_ir.selection.solver.certificate import certify
from tests.passes.onnx.optimized import check_optimized, initializer, model_of, transpose, value

_CHANNELS, _HEADS = 240, 4


class _Draft:
    """A model in the making, whose values have numbers as names."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """The result of a new node."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(oh.make_node(op_type, list(inputs), [name], **attributes))
        return name

    def constant(self, given: Any) -> str:
        """The name of a new constant."""
        name = f"c{len(self.constants)}"
        self.constants.append(initializer(name, np.asarray(given)))
        return name

    def extent(self, x: str, dim: int) -> str:
        """An extent as the model computes it."""
        return self.add("Gather", self.add("Shape", x), self.constant(dim))

    def reshape(self, x: str, *extents: str | int) -> str:
        """To extents that are constants, or values of the model."""
        scalars = [self.constant(e) if isinstance(e, int) else e for e in extents]
        axes = self.constant([0])
        parts = [self.add("Unsqueeze", scalar, axes) for scalar in scalars]
        return self.add("Reshape", x, self.add("Concat", *parts, axis=0))

    def transpose(self, x: str, *perm: int) -> str:
        """The result of a Transpose."""
        return self.add("Transpose", x, perm=perm)

    def projection(self, x: str, seed: int) -> str:
        """A product with weights that are there transposed."""
        weights = np.random.default_rng(seed).standard_normal((_CHANNELS, _CHANNELS)) / 16
        return self.add("MatMul", x, self.transpose(self.constant(weights), 1, 0))

    def heads(self, x: str) -> str:
        """The heads of a stack of rows, as attention takes them."""
        apart = self.reshape(x, self.extent(x, 0), self.extent(x, 1), _HEADS, _CHANNELS // _HEADS)
        return self.transpose(apart, 0, 2, 1, 3)


def _attention_in_patches() -> onnx.ModelProto:
    """Attention between the patches of an image, of which there is one; how many, the model computes."""
    draft = _Draft()
    batch, channels = draft.extent("x", 0), draft.extent("x", 1)
    patches = draft.add("Div", draft.extent("x", 2), draft.constant(2))
    planes = draft.reshape("x", draft.add("Mul", batch, channels), 2, 1, 2)
    apart = draft.reshape(draft.transpose(planes, 0, 2, 1, 3), batch, channels, patches, 4)
    places = draft.add("Mul", batch, draft.constant(4))
    rows = draft.reshape(draft.transpose(apart, 0, 3, 2, 1), places, patches, -1)
    ones = draft.constant(np.ones(_CHANNELS, np.float32))
    normalized = draft.add("LayerNormalization", rows, ones)
    q, k, v = (draft.heads(draft.projection(normalized, seed)) for seed in range(3))
    scores = draft.add("Softmax", draft.add("MatMul", q, draft.transpose(k, 0, 1, 3, 2)), axis=-1)
    mixed = draft.transpose(draft.add("MatMul", scores, v), 0, 2, 1, 3)
    joined = draft.reshape(mixed, draft.extent(mixed, 0), draft.extent(mixed, 1), _CHANNELS)
    added = draft.add("Add", draft.projection(joined, 3), rows)
    draft.nodes.append(oh.make_node("LayerNormalization", [added, ones], ["y"]))
    inputs, outputs = [value("x", "batch", _CHANNELS, 2, 2)], [value("y", "rows", 1, _CHANNELS)]
    return model_of(draft.nodes, inputs, outputs, draft.constants)


def test_extents_that_a_reshape_is_asked_for_are_known_in_the_first_round():
    x = np.random.default_rng(4).standard_normal((2, _CHANNELS, 2, 2)).astype(np.float32)
    result = check_optimized(_attention_in_patches(), {"x": x}, target="ort-cpu")
    assert result.after.count == 1  # that of the patches


def test_negative_a_transpose_of_such_extents_that_nothing_undoes_stays():
    nodes = [
        oh.make_node("Reshape", ["x", "s"], ["r"]),
        transpose("r", "t", 1, 0),
        oh.make_node("CumSum", ["t", "axis"], ["c"]),
        oh.make_node("Flatten", ["c"], ["y"], axis=0),
    ]
    inputs = [value("x", "batch", 6), value("s", 2, dtype=onnx.TensorProto.INT64)]
    model = model_of(nodes, inputs, [value("y", 1, "all")], [initializer("axis", np.array(0))])
    feeds = {"x": np.arange(24, dtype=np.float32).reshape(4, 6), "s": np.array([3, 8])}
    assert check_optimized(model, feeds, target="ort-cpu").after.count == 1


def _one_head(x: str, draft: _Draft) -> str:
    """Attention of one head over the places of `x`, which has its channels in front of them, as Stable Diffusion's
    decoder has it."""
    rows = draft.transpose(x, 0, 2, 1)
    queries, keys, values = (draft.add("MatMul", rows, draft.constant(_weights(seed))) for seed in range(3))
    heads = draft.constant([0, -1, 1, 8])
    queries, keys, values = (draft.add("Reshape", each, heads) for each in (queries, keys, values))
    # The size of the queries as they are keeps a Reshape from taking their heads apart in another order.
    sizes = draft.add("Cast", draft.add("Shape", queries, start=1), to=onnx.TensorProto.FLOAT)
    scale = draft.add("ReduceMax", sizes, keepdims=0)
    left = draft.add("Mul", draft.transpose(queries, 0, 2, 1, 3), scale)
    right = draft.add("Mul", draft.transpose(keys, 0, 2, 3, 1), scale)
    shares = draft.add("Softmax", draft.add("MatMul", left, right))
    mixed = draft.transpose(draft.add("MatMul", shares, draft.transpose(values, 0, 2, 1, 3)), 0, 2, 1, 3)
    whole = draft.add("Reshape", mixed, draft.constant([0, -1, 8]))
    return draft.transpose(draft.add("MatMul", whole, draft.constant(_weights(3))), 0, 2, 1)


def _weights(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((8, 8)) / 8


def _rounds() -> onnx.ModelProto:
    """A model that takes more than one round."""
    draft = _Draft()
    y = draft.add("Relu", _one_head("x", draft))
    draft.nodes.append(oh.make_node("Reshape", [y, draft.constant([0, 4, 2, -1])], ["y"]))
    return model_of(draft.nodes, [value("x", "b", 8, "n")], [value("y", "b", 4, 2, "n")], draft.constants)


def test_what_lies_between_a_squeeze_and_an_unsqueeze_is_known_in_the_next_round():
    model = _rounds()
    result = check_optimized(
        model, {"x": np.random.default_rng(9).standard_normal((2, 8, 5)).astype(np.float32)}
    )
    assert {"Squeeze", "Unsqueeze"} <= {node.op_type for node in result.model.graph.node}
    assert (result.before.count, result.after.count) == (6, 1)
    again = li.optimize_onnx(result.model, "onnx")
    assert again.model == result.model


@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
def test_of_all_rounds_the_last_alone_has_a_certificate(target: str, monkeypatch: pytest.MonkeyPatch):
    """It takes longer to write one down than to find what it proves, and time is for the rounds."""
    made: list[Any] = []

    def certified(*given: Any, **options: Any) -> Any:
        made.append(given)
        return certify(*given, **options)

    monkeypatch.setattr(order_selection, "certify", certified)
    with_proof = li.optimize_onnx(_rounds(), target, certificate=True)
    assert len(made) == 1 and with_proof.certificate is not None
    assert verify(with_proof.certificate).is_optimal
    check_model(with_proof.certificate, with_proof.model, target, {})
    without = li.optimize_onnx(_rounds(), target)
    assert list(with_proof.model.graph.node) == list(without.model.graph.node)
    assert len(made) == 1


def test_negative_a_certificate_that_time_cut_does_not_take_the_proof_away(monkeypatch: pytest.MonkeyPatch):
    def cut(problem: Any, time_limit: float | None = None, **options: Any) -> Any:
        solution, certificate = certify(problem, time_limit, **options)
        return solution, {**certificate, "bound": certificate["cost"] - 1}

    monkeypatch.setattr(order_selection, "certify", cut)
    result = li.optimize_onnx(_rounds(), certificate=True)
    assert result.solution.is_optimal
    assert any("its certificate" in note for note in result.notes)
