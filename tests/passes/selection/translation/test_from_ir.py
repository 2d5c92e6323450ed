"""Stating the problem takes work that follows the classes of ops and not their number, and alike is not the same."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.certificate.checking import verify
from layout_ir.diagnostics import Severity, collect
from layout_ir.dialects import nn
from layout_ir.passes.propagate import LayoutPropagatePass, propagate
from layout_ir.passes.selection.costs.cost_model import CostModel
from layout_ir.passes.selection.options import format_model, models
from layout_ir.passes.selection.options.targets import target_named
from layout_ir.passes.selection.translation import apply as applying
from layout_ir.passes.selection.translation import from_ir as building
from layout_ir.passes.selection.translation import point_options
from layout_ir.passes.selection.translation.from_ir import build
from tests.programs import parse

ANY = "tensor<1x16x8x8xf32, #layout.any>"
PLAIN = "tensor<1x16x8x8xf32>"
WEIGHT = "tensor<16x16x1x1xf32>"


def _chain(blocks: int) -> ModuleOp:
    """Convolutions with one weight, additions and activations; every value open."""
    lines = [f"func.func @f(%x : {PLAIN}, %w : {WEIGHT}) -> {PLAIN} {{"]
    x, type = "%x", PLAIN
    for k in range(blocks):
        lines.append(f"  %c{k} = nn.conv {x}, %w : ({type}, {WEIGHT}) -> {ANY}")
        lines.append(f"  %r{k} = nn.relu %c{k} : {ANY}")
        lines.append(f"  %a{k} = nn.add %r{k}, %c{k} : {ANY}")
        x, type = f"%a{k}", ANY
    lines.append(f"  %y = layout.reorder {x} : {type} -> {PLAIN}")
    lines += [f"  func.return %y : {PLAIN}", "}"]
    return parse("\n".join(lines))


class _Counted(list[Any]):
    """A list that counts what is read of it."""

    read = 0

    def __iter__(self) -> Any:
        _Counted.read += len(self)
        return super().__iter__()


def _work(blocks: int, patch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the slow steps are taken in the pass, over a chain of so many blocks."""
    work: Counter[str] = Counter()

    def counted(where: Any, name: str) -> None:
        inner = getattr(where, name)

        def outer(*args: Any, **options: Any) -> Any:
            work[name] += 1
            return inner(*args, **options)

        patch.setattr(where, name, outer)

    module = _chain(blocks)
    for where, name in (
        (building, "options_of"),
        (point_options, "bound"),
        (building._Builder, "_reorders"),  # pyright: ignore[reportPrivateUsage]
        (models, "shape_of"),
        (applying, "with_format"),
        (applying, "needed_pad"),
        (Format, "bind"),
    ):
        counted(where, name)
    propagate(module, "blocked8")
    patch.undo()
    return work


def test_slow_steps_follow_the_kinds_of_ops_and_not_their_number(monkeypatch: pytest.MonkeyPatch):
    few, many = _work(40, monkeypatch), _work(160, monkeypatch)
    assert few == many and few["options_of"] < 30


def test_a_value_of_very_many_uses_is_read_as_often_as_it_has_uses(monkeypatch: pytest.MonkeyPatch):
    from layout_ir.selection.solver.selection_problem import Problem
    from layout_ir.selection.solver.solve import solve_exact

    inner = Problem.uses
    monkeypatch.setattr(Problem, "uses", lambda self: [_Counted(own) for own in inner(self)])  # pyright: ignore
    read: list[int] = []
    for blocks in (50, 200):
        problem = build(_chain(blocks), target_named("blocked8")).problem
        assert max(len(uses) for uses in inner(problem)) == blocks
        _Counted.read = 0
        solve_exact(problem)
        read.append(_Counted.read)
    assert 0 < read[1] < 5 * read[0]


def test_a_choice_that_is_not_proven_is_said_to_be_so():
    with collect() as found:
        LayoutPropagatePass(target="blocked8", time_limit=0.0).apply(Context(), _chain(6))
    assert [d.severity for d in found] == [Severity.REMARK]
    assert "may not be the cheapest" in found[0].message
    with collect() as found:
        LayoutPropagatePass(target="blocked8").apply(Context(), _chain(6))
    assert not found


def test_problem_of_equal_ops_shares_what_is_equal():
    selection = build(_chain(6), target_named("blocked8"))
    convs = [node.choices for node, place in zip(selection.problem.ops, selection.decisions, strict=True)
             if isinstance(place.point.op, nn.ConvOp)]  # fmt: skip
    # The first one reads the argument.
    assert len({id(choices) for choices in convs[1:]}) == 1


def test_formats_keep_the_names_they_were_given():
    formats = [f"#layout.format<({names}) : [{names}]>" for names in ("n, c, h, w", "a, b, c, d")]
    text = ""
    for k, fmt in enumerate(formats):
        type = f"tensor<1x16x8x8xf32, {fmt}>"
        text += f"""func.func @f{k}(%x : {type}) -> {type} {{
  %0 = nn.relu %x : ({type}) -> {ANY}
  %1 = layout.reorder %0 : {ANY} -> {type}
  func.return %1 : {type}
}}
"""
    selection = build(parse(text), target_named("blocked8"))
    named = [
        own[0].names
        for value, own in zip(selection.values, selection.formats, strict=True)
        if isinstance(value, BlockArgument)
    ]
    assert named == [("n", "c", "h", "w"), ("a", "b", "c", "d")]


def test_negative_models_of_others_are_asked_for_every_op():
    asked: list[Operation] = []

    def model(op: Operation, candidates: Any, target: Any) -> Any:
        asked.append(op)
        return models.same_format_options(op, candidates, target)

    with models.MODELS.isolated():
        models.MODELS.register(nn.ReluOp, model)
        build(_chain(5), target_named("blocked8"))
    assert len(set(asked)) == 5


def _many(options: int) -> str:
    """An op that makes a value in one of many formats, the dearest first, and one that takes it in the last of them.

    The cheapest choice is the last option of the one and the first of the other.
    """
    formats = [
        f"#layout.format<(n, c, h, w) : [n, c, h, w, c:{block}], pad = zero>"
        for block in range(2, options + 2)
    ]
    makes = ", ".join(
        f"#layout.option<ins = [], outs = [{fmt}], cost = {100 - k}>" for k, fmt in enumerate(formats)
    )
    takes = f"#layout.option<ins = [{formats[-1]}], outs = [], cost = 5>"
    return f"""func.func @f() {{
  %a = "test.op"() {{layout.options = [{makes}]}} : () -> {ANY}
  "test.op"(%a) {{layout.options = [{takes}]}} : ({ANY}) -> ()
  func.return
}}"""


@pytest.mark.parametrize("options", [2, 13, 16, 40, 98])
def test_every_option_that_an_op_carries_takes_part(options: int):
    solution = propagate(parse(_many(options)), "blocked8")
    assert solution is not None and solution.is_optimal
    assert solution.cost == 100 - (options - 1) + 5


def test_formats_that_are_asked_for_take_part_beyond_the_limit_of_derived_ones(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(building, "DERIVED_LIMIT", 3)
    with collect() as found:
        solution = propagate(parse(_many(40)), "blocked8")
    assert solution is not None and solution.is_optimal and solution.cost == 66
    assert not found


def test_negative_where_derived_formats_are_left_out_nothing_is_proven(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """The relu knows the formats only from its neighbours."""
    text = _many(20).replace('"test.op"(%a)', f'%r = nn.relu %a : {ANY}\n  "test.op"(%r)')
    best = propagate(parse(text), "blocked8")
    assert best is not None and best.is_optimal
    monkeypatch.setattr(building, "DERIVED_LIMIT", 3)
    proof = tmp_path / "proof.json"
    module = parse(text)
    with collect() as found:
        LayoutPropagatePass(target="blocked8", report=str(proof)).apply(Context(), module)
    module.verify()
    assert found and all("take no part in the choice" in d.message for d in found)
    assert {d.severity for d in found} == {Severity.REMARK}
    solution = propagate(parse(text), "blocked8")
    assert solution is not None and solution.bound is None and solution.omitted and not solution.is_optimal
    assert solution.cost >= best.cost
    assert not verify(json.loads(proof.read_text())).is_optimal


def test_negative_blocks_that_run_too_often_leave_nothing_proven():
    loop = f"""func.func @f(%x : {ANY}) -> {ANY} {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %many = arith.constant 100000 : index
  %y = scf.for %i = %zero to %many step %one iter_args(%a = %x) -> ({ANY}) {{
    %z = scf.for %j = %zero to %many step %one iter_args(%b = %a) -> ({ANY}) {{
      %c = nn.relu %b : {ANY}
      scf.yield %c : {ANY}
    }}
    scf.yield %z : {ANY}
  }}
  func.return %y : {ANY}
}}"""
    with collect() as found:
        solution = propagate(parse(loop), "blocked8")
    assert solution is not None and solution.bound is None
    assert any("runs 10000000000 times and is counted as 16777216" in d.message for d in found)
    few = propagate(parse(loop.replace("100000", "1000")), "blocked8")
    assert few is not None and few.is_optimal


def test_formats_derived_in_a_loop_end():
    """Each turn of the loop cuts the tensor in another way, so that formats derive from formats without end."""
    block = "#layout.format<(a, b) : [a, b, a:2, b:3]>"
    any = "tensor<64x729xf32, #layout.any>"
    text = f"""func.func @f(%x : tensor<64x729xf32, {block}>, %n : index) {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %s = layout.reorder %x : tensor<64x729xf32, {block}> -> {any}
  %y = scf.for %i = %zero to %n step %one iter_args(%a = %s) -> ({any}) {{
    %b = layout.permute %a perm = [1, 0] : {any} -> tensor<729x64xf32, #layout.any>
    %c = layout.reshape %b : tensor<729x64xf32, #layout.any> -> {any}
    %d = nn.relu %c : {any}
    scf.yield %d : {any}
  }}
  func.return
}}"""
    solution = propagate(parse(text), "blocked8")
    assert solution is not None


def _transposed(blocks: int) -> str:
    """Blocks that cut a tensor in windows and turn these, between two that take any Format; results stay open."""
    cut = "tensor<4x2x4x2x8xf32, #layout.any>"
    turned = "tensor<4x4x2x2x8xf32, #layout.any>"
    whole = "tensor<8x8x8xf32, #layout.any>"
    lines = [f"func.func @f(%x : {whole}) -> {whole} {{"]
    x = "%x"
    for k in range(blocks):
        lines += [
            (
                f"  %e{k} = tensor.expand_shape {x} [[0, 1], [2, 3], [4]] output_shape [4, 2, 4, 2, 8]"
                f" : {whole} into {cut}"
            ),
            f"  %i{k} = tensor.empty() : {turned}",
            f"  %t{k} = linalg.transpose ins(%e{k} : {cut}) outs(%i{k} : {turned}) permutation = [0, 2, 1, 3, 4]",
            f"  %c{k} = tensor.collapse_shape %t{k} [[0, 1], [2, 3], [4]] : {turned} into {whole}",
            f"  %a{k} = arith.addf %c{k}, {x} : {whole}",
        ]
        x = f"%a{k}"
    return "\n".join([*lines, f"  func.return {x} : {whole}", "}"])


def test_the_time_limit_ends_the_spread_of_formats_and_nothing_is_proven_then(tmp_path: Path):
    text, proof = _transposed(3), tmp_path / "proof.json"
    best = propagate(parse(text), "blocked8")
    assert best is not None and best.is_optimal
    module = parse(text)
    with collect() as found:
        cut = propagate(module, "blocked8", time_limit=0.0, report=str(proof))
    module.verify()
    assert cut is not None and cut.bound is None and not cut.is_optimal and cut.cost >= best.cost
    assert any("the time limit was over" in d.message for d in found)
    assert not verify(json.loads(proof.read_text())).is_optimal


def test_negative_a_time_limit_that_is_not_reached_changes_nothing():
    text = _transposed(2)
    assert propagate(parse(text), "blocked8", time_limit=600.0) == propagate(parse(text), "blocked8")


def test_a_structured_op_is_asked_about_each_format_of_each_tensor_once(monkeypatch: pytest.MonkeyPatch):
    asked: Counter[Any] = Counter()
    inner = building.format_options_of

    def counted(op: Operation, target: Any) -> Any:
        said = inner(op, target)
        if said is None:
            return None

        def of(k: int, fmt: Format) -> Any:
            asked[id(op), k, fmt] += 1
            return said.of(k, fmt)

        return format_model.FormatOptions(said.always, of, said.tensors)

    monkeypatch.setattr(building, "format_options_of", counted)
    build(parse(_transposed(4)), target_named("blocked8"))
    assert len(asked) > 20 and set(asked.values()) == {1}


def _windows(count: int) -> ModuleOp:
    """The sum of so many rows of a tensor, each of which is a view of it."""
    row = "tensor<1x16x1x8xf32, #layout.any>"
    lines = [f"func.func @f(%x : {PLAIN}) -> tensor<1x16x1x8xf32> {{"]
    for k in range(count):
        lines.append(
            f"  %s{k} = layout.slice %x starts = [0, 0, {k}, 0] sizes = [1, 16, 1, 8] : {PLAIN} -> {row}"
        )
    total = "%s0"
    for k in range(1, count):
        lines.append(f"  %a{k} = nn.add {total}, %s{k} : {row}")
        total = f"%a{k}"
    lines.append(f"  %y = layout.reorder {total} : {row} -> tensor<1x16x1x8xf32>")
    lines += ["  func.return %y : tensor<1x16x1x8xf32>", "}"]
    return parse("\n".join(lines))


class _Asked(CostModel):
    """Costs as built in, and how many reorders they were asked for."""

    def __init__(self, tells_offsets: bool):
        super().__init__()
        self.tells_offsets = tells_offsets
        self.count = 0

    def reorder(self, source: Layout, destination: Layout, dtype: str) -> int:
        self.count += 1
        return super().reorder(source, destination, dtype)


def test_reorders_between_windows_are_priced_once_however_many_windows_there_are():
    counts: list[int] = []
    for count in (4, 8):
        asked, told = _Asked(tells_offsets=False), _Asked(tells_offsets=True)
        problems = [
            build(_windows(count), target_named("blocked8"), costs).problem for costs in (asked, told)
        ]
        assert problems[0] == problems[1]
        assert told.count > count * (count - 1)
        counts.append(asked.count)
    assert counts[0] == counts[1]


def test_negative_costs_that_depend_on_offsets_are_asked_for_each():
    class Aligned(_Asked):
        def reorder(self, source: Layout, destination: Layout, dtype: str) -> int:
            return super().reorder(source, destination, dtype) + source.offset

    costs = [
        node.reorder for node in build(_windows(4), target_named("blocked8"), Aligned(True)).problem.values
    ]
    assert costs != [node.reorder for node in build(_windows(4), target_named("blocked8")).problem.values]
