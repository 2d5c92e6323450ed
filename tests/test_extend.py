"""Ops and targets that others register take part in the choice, and what is wrong with them is said."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# Registered functions take any arrays: a type checker knows nothing of the parameters of lambdas.
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, UnregisteredOp
from xdsl.ir import Dialect, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def

import layout_ir as li
from layout_ir.dialects import nn
from layout_ir.extend import (
    CHOSEN,
    FORBIDDEN,
    ConvKernel,
    CostModel,
    LayoutOption,
    PadBehaviour,
    Rates,
    Target,
    elementwise_options,
    elementwise_pads,
    register_op,
)
from layout_ir.interfaces import ARRAY_SEMANTICS, PAD_BEHAVIOURS
from layout_ir.passes.selection.options.models import MODELS

NCHW, NHWC, BLOCKED, WEIGHTS = (li.Format.from_tag(tag) for tag in ("nchw", "nhwc", "nChw8c", "OIhw8i8o"))
PLAIN, OPEN = "tensor<1x12x4x4xf32>", "tensor<1x12x4x4xf32, #layout.any>"


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    with MODELS.isolated(), ARRAY_SEMANTICS.isolated(), PAD_BEHAVIOURS.isolated():
        yield


def chain(*ops: str) -> Any:
    """A program that applies `ops` one after the other, its edges row-major."""
    lines = [f"%v0 = layout.reorder %x : {PLAIN} -> {OPEN}"]
    lines += [f'%v{k + 1} = "{op}"(%v{k}) : ({OPEN}) -> {OPEN}' for k, op in enumerate(ops)]
    lines.append(f"%y = layout.reorder %v{len(ops)} : {OPEN} -> {PLAIN}")
    body = "\n".join(lines)
    return li.parse(
        f"func.func @main(%x: {PLAIN}) -> {PLAIN} {{\n{body}\nfunc.return %y : {PLAIN}\n}}",
        allow_unregistered=True,
    )


def op_of(module: Any, name: str) -> Operation:
    return next(op for op in module.walk() if isinstance(op, UnregisteredOp) and op.op_name.data == name)


def only(*options: tuple[li.Format, int, str]) -> Any:
    def model(op: Operation, candidates: Any, target: Target) -> Iterator[LayoutOption]:
        for fmt, cost, name in options:
            yield LayoutOption((fmt,), (fmt,), cost, name=name)

    return model


def moves(module: Any) -> int:
    return sum(op.name == "layout.reorder" for op in module.walk())


# Targets -------------------------------------------------------------------------------------------------------------


def chosen_at(rates: Rates | None = None, costs: CostModel | None = None, **arguments: Any) -> str:
    """The kernel that an op gets which is 5000 slower where its neighbours are."""
    register_op("theirs.op", options=only((NHWC, 0, "last"), (NCHW, 5000, "rows")))
    module = chain("theirs.op")
    li.optimize(module, target=Target("theirs", rates=rates or Rates(), costs=costs), **arguments)
    return op_of(module, "theirs.op").attributes[CHOSEN].data  # pyright: ignore


def test_rates_of_a_target_decide():
    # Two reorders of 768 bytes each way.
    assert chosen_at() == "last"
    assert chosen_at(Rates(call_ns=3000)) == "rows"
    assert chosen_at(Rates(bytes_per_ns=0.1)) == "rows"


class Dear(CostModel):
    unit = "cycles"

    def reorder(self, source: li.Layout, destination: li.Layout, dtype: str) -> int:
        return 0 if source.same_store(destination) else 4000


def test_costs_of_a_target_decide_and_those_of_the_call_precede_them():
    assert chosen_at(costs=Dear()) == "rows"
    module = chain("theirs.op")
    li.optimize(module, Target("theirs", costs=Dear()), costs=CostModel())
    assert op_of(module, "theirs.op").attributes[CHOSEN].data == "last"  # pyright: ignore


def test_a_cost_model_may_replace_what_options_cost():
    class Fast(Dear):
        def op(self, name: str, option: LayoutOption, shapes: Any) -> int:
            return 1 if option.name == "rows" else super().op(name, option, shapes)

    assert chosen_at(costs=Fast()) == "rows"


def test_a_forbidden_reorder_is_not_taken():
    class Never(CostModel):
        def reorder(self, source: li.Layout, destination: li.Layout, dtype: str) -> int:
            return 0 if source.same_store(destination) else FORBIDDEN

    assert chosen_at(costs=Never()) == "rows"


@pytest.mark.parametrize("answer", [-1, 1.5, None, True, "x", 1 << 50])
def test_negative_a_cost_that_is_none_names_the_model(answer: Any):
    class Wrong(CostModel):
        def reorder(self, source: li.Layout, destination: li.Layout, dtype: str) -> Any:
            return answer

    with pytest.raises(li.LayoutError, match=r"cost model Wrong: reorder\(.*\) = .* is no(t in| int)"):
        chosen_at(costs=Wrong())


def test_negative_a_cost_model_that_raises_is_named():
    class Raises(CostModel):
        def op(self, name: str, option: LayoutOption, shapes: Any) -> int:
            raise KeyError(name)

    with pytest.raises(li.LayoutError, match=r"cost model Raises: op\(.*\): KeyError"):
        chosen_at(costs=Raises())


@pytest.mark.parametrize(
    "rates", [{"bytes_per_ns": 0}, {"call_ns": -1}, {"operations_per_ns": "x"}, {"bytes_per_ns": np.inf}]
)
def test_negative_rates_are_numbers(rates: dict[str, Any]):
    with pytest.raises(li.LayoutError, match=rf"^{next(iter(rates))} = .* is no number (above 0|from 0 on)$"):
        Rates(**rates)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": 5}, "name of a target is a str, not of type int"),
        ({"rates": {"bytes_per_ns": 4}}, "rates of a target is Rates, not of type dict"),
        ({"costs": CostModel}, "costs of target npu is a CostModel, not of type type"),
        ({"conv_kernels": []}, "conv_kernels of target npu is a function, not of type list"),
        ({"refine": "zero"}, "refine of target npu is a function, not of type str"),
    ],
)
def test_negative_the_parts_of_a_target_have_types(arguments: Any, message: str):
    given: dict[str, Any] = {"name": "npu", **arguments}
    with pytest.raises(li.LayoutError, match=f"^{message}$"):
        Target(**given)


def test_a_convolution_carries_the_name_of_the_targets_kernel():
    target = Target(
        "theirs", conv_kernels=lambda conv: [ConvKernel(BLOCKED, WEIGHTS, BLOCKED, 10, name="conv8")]
    )
    module = li.parse(f"""
      func.func @main(%x: {PLAIN}) -> {PLAIN} {{
        %v = layout.reorder %x : {PLAIN} -> {OPEN}
        %w = nn.constant dense<1.0> : tensor<12x12x1x1xf32, #layout.any>
        %c = nn.conv %v, %w : ({OPEN}, tensor<12x12x1x1xf32, #layout.any>) -> {OPEN}
        %y = layout.reorder %c : {OPEN} -> {PLAIN}
        func.return %y : {PLAIN}
      }}""")
    li.optimize(module, target=target)
    (conv,) = [op for op in module.walk() if isinstance(op, nn.ConvOp)]
    assert conv.attributes[CHOSEN].data == "conv8"  # pyright: ignore
    assert moves(module) == 2


# Ops -----------------------------------------------------------------------------------------------------------------


def test_an_elementwise_op_runs_where_its_neighbours_do():
    register_op("theirs.op", options=only((BLOCKED, 0, "blocks")))
    register_op("theirs.relu", options=elementwise_options, pads=elementwise_pads(lambda x: max(x, 0)))
    module = chain("theirs.op", "theirs.relu", "theirs.op")
    li.optimize(module, target="blocked8")
    # 12 channels have pads in blocks of 8: what the first leaves there is still zero behind the second.
    assert moves(module) == 2
    assert li.formats(module)[op_of(module, "theirs.relu").results[0]] == BLOCKED


@pytest.mark.parametrize(
    "pads", [elementwise_pads(lambda x: x + 1), elementwise_pads(lambda x: 1 / x), PadBehaviour()]
)
def test_negative_where_zero_does_not_stay_zero_pads_are_filled(pads: PadBehaviour):
    register_op("theirs.op", options=only((BLOCKED, 0, "blocks")))
    register_op("theirs.f", options=elementwise_options, pads=pads)
    module = chain("theirs.op", "theirs.f", "theirs.op")
    li.optimize(module, target="blocked8")
    fills = [op for op in module.walk() if op.name == "layout.fill_pads"]
    assert moves(module) + len(fills) > 2


def test_pads_of_a_broadcast_operand_are_not_known():
    register_op("theirs.add", options=elementwise_options, pads=elementwise_pads(lambda x, y: x + y))
    blocked = "tensor<1x12x4x4xf32, #layout.tag<nChw8c>>"
    module = li.parse(f"""
      func.func @main(%x: {blocked}, %b: tensor<1x12x1x1xf32>) -> {OPEN} {{
        %v = layout.reorder %b : tensor<1x12x1x1xf32> -> tensor<1x12x1x1xf32, #layout.any>
        %y = "theirs.add"(%x, %v) : ({blocked}, tensor<1x12x1x1xf32, #layout.any>) -> {OPEN}
        func.return %y : {OPEN}
      }}""", allow_unregistered=True)  # fmt: skip
    li.optimize(module, target="blocked8")
    found = li.formats(module)[op_of(module, "theirs.add").results[0]]
    assert found.pad == "undef"


def test_what_is_registered_last_holds_and_none_leaves_what_was():
    register_op("theirs.op", options=only((NHWC, 0, "first")))
    register_op("theirs.op", options=only((NHWC, 0, "second")), semantics=lambda op, x: x)
    register_op("theirs.op", options=None, semantics=lambda op, x: x + 1)
    module = chain("theirs.op")
    x = np.zeros((1, 12, 4, 4), np.float32)
    li.optimize(module)
    assert op_of(module, "theirs.op").attributes[CHOSEN].data == "second"  # pyright: ignore
    assert (li.run(module, [x])[0] == 1).all()


@pytest.mark.parametrize(
    ("op", "arguments", "message"),
    [
        ("conv", {}, "a class of ops or a name such as 'npu.conv', not 'conv'"),
        (5, {}, "a class of ops or a name"),
        (int, {}, "a class of ops or a name"),
        ("theirs.op", {"options": 5}, "options of theirs.op is a function, not of type int"),
        ("theirs.op", {"semantics": "numpy"}, "semantics of theirs.op is a function, not of type str"),
        ("theirs.op", {"pads": 0.0}, "pads of theirs.op is a PadBehaviour, not of type float"),
        (nn.ReluOp, {"pads": PadBehaviour()}, "nn.relu says itself what it does with pads"),
        (nn.ReluOp, {"semantics": lambda op, x: x}, "nn.relu has semantics"),
        ("nn.relu", {"semantics": lambda op, x: x}, "nn.relu has semantics"),
    ],
)
def test_negative_what_cannot_be_registered_is_said(op: Any, arguments: dict[str, Any], message: str):
    with pytest.raises(li.LayoutError, match=message.replace(".", r"\.")):
        register_op(op, **{"options": None, **arguments})


# Beside our own ------------------------------------------------------------------------------------------------------


@irdl_op_definition
class TheirRelu(IRDLOperation):
    """An op of another package with the name of one of ours, which doubles."""

    name = "nn.relu"
    x = operand_def(TensorType)
    y = result_def(TensorType)


def with_their_nn() -> Any:
    """The chain of one `nn.relu` that is theirs."""
    ctx = li.context(without=["nn"])
    ctx.load_dialect(Dialect("nn", [TheirRelu]))
    return li.parse(li.to_text(chain("nn.relu"), generic=True), ctx=ctx)


def test_a_dialect_of_the_name_of_ours_takes_part_as_any_other():
    register_op(
        TheirRelu,
        options=only((NHWC, 0, "last")),
        semantics=lambda op, x: 2 * x,
    )
    module = with_their_nn()
    x = np.random.default_rng(0).standard_normal((1, 12, 4, 4)).astype(np.float32)
    li.optimize(module, target="blocked8")
    (op,) = (op for op in module.walk() if isinstance(op, TheirRelu))
    assert op.attributes[CHOSEN].data == "last"  # pyright: ignore
    assert li.formats(module)[op.y] == NHWC
    np.testing.assert_array_equal(li.run(module, [x])[0], 2 * x)


def test_negative_nothing_is_known_of_an_op_because_of_its_name():
    module = with_their_nn()
    li.optimize(module, target="channels-last")
    assert moves(module) == 0, "row-major, as an op without options"
    with pytest.raises(li.LayoutError, match=r"nn\.relu"):
        li.run(module, [np.zeros((1, 12, 4, 4), np.float32)])
