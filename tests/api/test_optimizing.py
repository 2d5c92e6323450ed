"""`optimize_onnx` on networks: on blocked channels they compute what they did, and ONNX Runtime moves less."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest

import layout_ir as li
from layout_ir.api.optimizing import check_proof
from layout_ir.certificate.checking import verify
from layout_ir.errors import LayoutError
from layout_ir.passes.onnx import optimize_model
from layout_ir.passes.onnx.consumers import BLOCKED
from layout_ir.tools.layout_ir import main
from tests.passes.onnx.blocked_networks import (
    BLOCK,
    Op,
    floats,
    left,
    moves,
    names,
    network,
    runtime,
    session,
)

B = BLOCK


def _squeezed(*, channels: int = 4 * B, last: bool = False) -> onnx.ModelProto:
    """Blocks that scale their channels, with an activation that ONNX Runtime moves tensors for, and a sum."""
    constants: dict[str, Any] = {"w0": floats(channels, 3, 3, 3)}
    ops: list[Op] = [("Conv", ["x", "w0"], "v0", {"pads": [1, 1, 1, 1], "strides": [2, 2]})]
    for k in range(3):
        constants[f"a{k}"] = floats(channels, channels, 1, 1, seed=k)
        constants[f"g{k}"] = floats(channels, channels, 1, 1, seed=k + 10)
        ops += [
            ("Softplus", [f"v{k}"], f"s{k}", {}),
            ("Conv", [f"s{k}", f"a{k}"], f"c{k}", {}),
            ("GlobalAveragePool", [f"c{k}"], f"m{k}", {}),
            ("Conv", [f"m{k}", f"g{k}"], f"f{k}", {}),
            ("Sigmoid", [f"f{k}"], f"e{k}", {}),
            ("Mul", [f"c{k}", f"e{k}"], f"n{k}", {}),
            ("Add", [f"n{k}", f"v{k}"], f"v{k + 1}", {}),
        ]
    result = "v3"
    if last:
        ops.append(("Transpose", ["v3"], "y", {"perm": [0, 2, 3, 1]}))
        result = "y"
    return network(ops, constants, {"x": (1, 3, 32, 32)}, [result], 20)


def _same(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    (shape,) = {tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in before.graph.input}
    feeds = {before.graph.input[0].name: floats(*shape)}
    want, found = session(before, "ORT_DISABLE_ALL").run(None, feeds), session(after).run(None, feeds)
    for one, other in zip(want, found, strict=True):
        assert np.abs(one - other).max() <= 1e-4 * np.abs(one).max()


@pytest.mark.parametrize("last", [False, True])
def test_a_network_keeps_its_blocks_where_onnx_runtime_leaves_them(last: bool) -> None:
    runtime()
    model = _squeezed(last=last)
    result = li.optimize_onnx(model, BLOCKED)
    ours, theirs = names(left(result.model)), names(left(model))
    # One reorder at the output, channels last where the network has a Transpose there.
    assert moves(ours) == 1 == result.after.count and moves(theirs) > 6
    inputs, outputs = theirs.count("ReorderInput*"), theirs.count("ReorderOutput*")
    assert f"{inputs} reorders into blocks and {outputs} out of them" in result.notes[-1]
    assert ours.count("Conv*") == 10 and "Mul" not in ours and "Add" not in ours
    _same(model, result.model)
    cast(Any, onnx).checker.check_model(result.model)


def test_what_is_in_blocks_already_stays_as_it_is_and_that_is_said() -> None:
    runtime()
    result = li.optimize_onnx(_squeezed(), BLOCKED)
    again = li.optimize_onnx(result.model, BLOCKED, certificate=True)
    assert again.model == result.model
    assert again.target == "ort-cpu" and "nodes on blocked channels" in again.notes[-1]
    assert again.certificate is not None and check_proof(again.certificate, result.model, "ort-cpu", {})


def test_inputs_and_outputs_of_a_blocked_model_are_described_as_they_were() -> None:
    runtime()
    model = _squeezed()
    model.graph.input[0].doc_string = "a picture"
    (output,) = model.graph.output
    output.doc_string = "what is seen in it"
    output.type.CopyFrom(onnx.helper.make_tensor_type_proto(1, ["batch", None, 16, "columns"]))
    result = li.optimize_onnx(model, BLOCKED).model
    assert result.graph.input == model.graph.input and result.graph.output == model.graph.output


@pytest.mark.parametrize("batch", ["batch", "unk__7"])
def test_what_stands_behind_reorders_costs_as_much_when_the_model_is_read_again(batch: str) -> None:
    # Nodes on blocked channels mean nothing to shape inference. The name is one that it could have made up.
    runtime()
    ops: list[Op] = [
        ("Conv", ["x", "w"], "c", {}),
        ("Reshape", ["c", "list"], "r", {}),
        ("Transpose", ["r"], "t", {"perm": [2, 0, 1]}),
        ("Softmax", ["t"], "y", {"axis": 2}),
    ]
    constants = {"w": floats(4 * B, 2 * B, 1, 1), "list": np.array([0, 0, 64])}
    model = network(ops, constants, {"x": (batch, 2 * B, 8, 8)}, ["y"])
    result = li.optimize_onnx(model, BLOCKED)
    again = li.optimize_onnx(result.model, BLOCKED)
    assert again.model == result.model
    assert again.before.nbytes == 2 * 4 * 4 * B * 64  # of the Transpose, for a batch of one


def test_negative_a_proof_for_blocks_is_of_no_model_that_has_them() -> None:
    runtime()
    result = li.optimize_onnx(_squeezed(), BLOCKED, certificate=True)
    assert result.certificate is not None
    with pytest.raises(LayoutError, match="give the one that it was made from"):
        check_proof(result.certificate, result.model, BLOCKED, {})


def test_negative_where_nothing_is_to_be_in_blocks_the_model_is_that_for_plain_orders() -> None:
    runtime()
    ops: list[Op] = [
        ("Transpose", ["x"], "t", {"perm": [0, 2, 3, 1]}),
        ("Gelu", ["t"], "g", {}),
        ("Transpose", ["g"], "y", {"perm": [0, 3, 1, 2]}),
    ]
    model = network(ops, {}, {"x": (1, B, 6, 6)}, ["y"], 20)
    result = li.optimize_onnx(model, BLOCKED)
    assert result.model == li.optimize_onnx(model, "ort-cpu").model
    assert names(result.model.graph.node) == ["Gelu"] and result.target == "ort-cpu"
    assert "no value is to be in blocks" in result.notes[-1]


def test_negative_a_model_without_what_starts_blocks_is_not_fused_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtime()

    def fused(*_: object) -> None:
        raise LayoutError("ONNX Runtime was asked")

    monkeypatch.setattr("layout_ir.backends.onnxruntime.fused_model.fused_model", fused)
    ops: list[Op] = [("Relu", ["x"], "r", {}), ("Concat", ["r", "x"], "y", {"axis": 1})]
    assert li.optimize_onnx(network(ops, {}, {"x": (1, B, 6, 6)}, ["y"]), BLOCKED).target == "ort-cpu"
    with pytest.raises(LayoutError, match="was asked"):
        li.optimize_onnx(
            network(
                [*ops, ("MaxPool", ["x"], "z", {"kernel_shape": [2, 2]})], {}, {"x": (1, B, 6, 6)}, ["y", "z"]
            ),
            BLOCKED,
        )


def test_a_network_of_half_precision_is_in_blocks_where_onnx_runtime_casts() -> None:
    runtime()
    half = {f"w{k}": floats(2 * B, 2 * B, 3, 3, seed=k).astype(np.float16) / 16 for k in range(2)}
    ops: list[Op] = [
        ("Conv", ["x", "w0"], "p", {"pads": [1, 1, 1, 1]}),
        ("Relu", ["p"], "q", {}),
        ("Conv", ["q", "w1"], "y", {}),
    ]
    model = network(ops, half, {"x": (1, 2 * B, 6, 6)}, ["y"])
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    ours, theirs = names(left(li.optimize_onnx(model, BLOCKED).model)), names(left(model))
    assert ours.count("Conv*") == 2 and moves(ours) <= moves(theirs)


def test_the_proof_is_of_the_fused_model_which_is_fused_again_to_check_it() -> None:
    runtime()
    model = _squeezed()
    result = li.optimize_onnx(model, BLOCKED, certificate=True)
    assert result.certificate is not None
    assert verify(result.certificate).is_optimal
    assert "fuses" in check_proof(result.certificate, model, BLOCKED, {})


def test_all_that_is_optimized_for_blocks_has_one_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime()
    limits: list[float | None] = []
    optimize = optimize_model.optimize_orders

    def recorded(*arguments: Any, time_limit: float | None, **options: Any) -> Any:
        limits.append(time_limit)
        return optimize(*arguments, time_limit=time_limit, **options)

    monkeypatch.setattr(optimize_model, "optimize_orders", recorded)
    li.optimize_onnx(_squeezed(), BLOCKED, time_limit=1000)
    first, second = limits
    assert first == 1000 and second is not None and 0 <= second < 1000
    li.optimize_onnx(_squeezed(), BLOCKED, time_limit=None)
    assert limits[2:] == [None, None]


def test_negative_the_proof_of_another_model_is_refused() -> None:
    runtime()
    result = li.optimize_onnx(_squeezed(), BLOCKED, certificate=True)
    assert result.certificate is not None
    with pytest.raises(LayoutError):
        check_proof(result.certificate, _squeezed(channels=5 * B), BLOCKED, {})


def test_inputs_that_are_free_are_asked_for_in_the_order_that_costs_least() -> None:
    runtime()
    weights = {"w": floats(2 * B, 2 * B, 3, 3)}
    ops: list[Op] = [
        ("Transpose", ["x"], "t", {"perm": [0, 3, 1, 2]}),
        ("Relu", ["t"], "r", {}),
        ("Conv", ["r", "w"], "y", {}),
    ]
    model = network(ops, weights, {"x": (1, 6, 6, 2 * B)}, ["y"])
    result = li.optimize_onnx(model, BLOCKED, inputs="free")
    assert [entry.name for entry in result.obligations] == ["x"]
    assert result.before.count == 1


def test_the_command_optimizes_for_blocked_channels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime()
    (tmp_path / "in.onnx").write_bytes(_squeezed().SerializeToString())
    source, target, proof = (str(tmp_path / name) for name in ("in.onnx", "out.onnx", "proof.json"))
    assert main(["optimize", source, "--target", BLOCKED, "-o", target, "--certificate", proof]) == 0
    assert "Conv*" in names(onnx.ModelProto.FromString(Path(target).read_bytes()).graph.node)
    assert "(0, 1, 2, 3, 1) to (0, 1, 2, 3)" in capsys.readouterr().out
    assert main(["verify-certificate", proof, "--program", source]) == 0


def test_negative_an_unknown_target_is_named() -> None:
    with pytest.raises(
        LayoutError,
        match=r"unknown target 'ort-gpu' for an ONNX model .*: targets are onnx, ort-cpu, ort-cpu-blocked",
    ):
        li.optimize_onnx(_squeezed(), "ort-gpu")
