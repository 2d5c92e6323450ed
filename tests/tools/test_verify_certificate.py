"""`layout-ir verify-certificate` says whether a choice is proven, with both numbers where it is not."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from layout_ir.certificate.checking import ATTRIBUTE, seal
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.propagate import propagate
from layout_ir.passes.selection.costs.cost_table import load_costs, parse_costs
from layout_ir.printing import print_module
from layout_ir.selection.solver.certificate import certify
from layout_ir.tools.layout_ir import main
from tests.programs import parse
from tests.selection.problems import random_problem, tangled_problem

ANY = "tensor<1x16x8x8xf32, #layout.any>"
PLAIN = "tensor<1x16x8x8xf32>"


def _program(op: str = "relu", last: str = PLAIN) -> str:
    """A convolution, something behind it, and fixed layouts at both ends."""
    return f"""func.func @f(%x : {PLAIN}) -> {last} {{
  %w = nn.constant dense<1.0> : tensor<16x16x3x3xf32, #layout.any>
  %c = nn.conv %x, %w pads = [1, 1, 1, 1] : ({PLAIN}, tensor<16x16x3x3xf32, #layout.any>) -> {ANY}
  %r = nn.{op} %c : {ANY}
  %y = layout.reorder %r : {ANY} -> {last}
  func.return %y : {last}
}}"""


def _chosen(text: str, chooser: Any = propagate) -> str:
    """The program after the choice, which carries its certificate."""
    module = parse(text)
    chooser(module, "blocked8", attach=True)
    return print_module(module)


def test_command_says_optimal(tmp_path: Any, capsys: pytest.CaptureFixture[str]):
    solution, certificate = certify(random_problem(random.Random(2), 5, 3))
    file = tmp_path / "proof.json"
    file.write_text(json.dumps(certificate))
    assert main(["verify-certificate", str(file)]) == 0
    assert f"optimal: cost {solution.cost} = bound {solution.cost}" in capsys.readouterr().out
    assert main(["verify-certificate", "--json", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["optimal"] is True


def test_negative_command_refuses_with_both_numbers(tmp_path: Any, capsys: pytest.CaptureFixture[str]):
    solution, certificate = certify(random_problem(random.Random(2), 5, 3))
    file = tmp_path / "proof.json"
    file.write_text(json.dumps({**certificate, "cost": solution.cost - 1}))
    assert main(["verify-certificate", str(file)]) == 1
    error = capsys.readouterr().err
    assert f"states cost {solution.cost - 1}, its numbers give {solution.cost}" in error
    file.write_text("{")
    assert main(["verify-certificate", str(file)]) == 1
    assert "is not JSON" in capsys.readouterr().err
    file.write_text('{"cost": 1, ' + json.dumps(certificate)[1:])
    assert main(["verify-certificate", str(file)]) == 1
    assert "key 'cost' stands twice" in capsys.readouterr().err


def test_negative_command_does_not_take_a_gap_for_a_proof(tmp_path: Any, capsys: pytest.CaptureFixture[str]):
    rng = random.Random(7)
    certificate = next(
        found
        for found in (certify(tangled_problem(rng, 9, 3), 0, 8)[1] for _ in range(100))
        if found["bound"] < found["cost"]
    )
    file = tmp_path / "proof.json"
    file.write_text(json.dumps(certificate))
    assert main(["verify-certificate", str(file)]) == 1
    error = capsys.readouterr().err
    assert f"cost {certificate['cost']} is above bound {certificate['bound']}" in error


@pytest.mark.parametrize("chooser", [propagate, optimize])
def test_a_program_is_what_its_certificate_makes_of_the_program_before(
    chooser: Any, tmp_path: Any, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "chosen.mlir"
    file.write_text(_chosen(_program(), chooser))
    assert main(["verify-certificate", str(file)]) == 0
    said = capsys.readouterr().out
    assert "checked: that the choice and layout-" in said and "for the cost model of target blocked8" in said
    assert "not checked: " in said


def _pasted(donor: str, text: str) -> str:
    """The program `text` with the certificate of `donor`."""
    module = parse(text)
    module.attributes[ATTRIBUTE] = parse(donor).attributes[ATTRIBUTE]
    return print_module(module)


def test_negative_a_pasted_certificate_is_not_taken(tmp_path: Any, capsys: pytest.CaptureFixture[str]):
    """Into an empty module, another program, the program before, and the same one in other layouts."""
    donor = _chosen(_program())
    blocked = {"name": "nn.conv", "ins": ["nChw8c", "OIhw8i8o"], "outs": ["nChw8c"], "cost": 0}
    ends = [{"from": "nchw", "to": "nChw8c", "cost": 0}, {"from": "nChw8c", "to": "nchw", "cost": 0}]
    other = parse(_program())
    propagate(other, "blocked8", costs=parse_costs({"op": [blocked], "reorder": ends}, "costs"))
    elsewhere = print_module(other)
    assert "#nChw8c" in elsewhere and "#nChw8c" not in donor.split("} {", 1)[1]
    file = tmp_path / "chosen.mlir"
    for text in ("builtin.module {}", _program("exp"), _chosen(_program("exp")), _program(), elsewhere):
        file.write_text(_pasted(donor, text))
        assert main(["verify-certificate", str(file)]) == 1, text
        assert "not the program that the certified choice makes" in capsys.readouterr().err


def test_negative_a_certificate_that_was_made_up_around_a_problem_is_not_taken(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
):
    """A right proof of another problem, said to be of this program."""
    module = parse(_chosen(_program()))
    text: Any = module.attributes[ATTRIBUTE]
    real = json.loads(text.data)
    _, other = certify(random_problem(random.Random(2), 5, 3), extra={"origin": real["origin"]})
    module.attributes[ATTRIBUTE] = type(text)(json.dumps(other))
    file = tmp_path / "chosen.mlir"
    file.write_text(print_module(module))
    assert main(["verify-certificate", str(file)]) == 1
    assert "the problem of the program has" in capsys.readouterr().err
    dear = json.loads(text.data)
    for op in dear["problem"]["ops"]:
        op["choices"] = [[ins, outs, cost + 1] for ins, outs, cost in op["choices"]]
    dear["seal"] = seal(dear)
    module.attributes[ATTRIBUTE] = type(text)(json.dumps(dear))
    file.write_text(print_module(module))
    assert main(["verify-certificate", str(file)]) == 1
    without = {key: value for key, value in real.items() if key != "origin"}
    module.attributes[ATTRIBUTE] = type(text)(json.dumps({**without, "seal": seal(without)}))
    file.write_text(print_module(module))
    assert main(["verify-certificate", str(file)]) == 1


def test_a_certificate_alone_is_compared_with_the_program_it_is_given(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
):
    before, proof, other = (tmp_path / name for name in ("before.mlir", "proof.json", "other.mlir"))
    before.write_text(_program())
    other.write_text(_program("exp").replace("16x8x8", "16x9x9"))
    propagate(parse(_program()), "blocked8", report=str(proof))
    assert main(["verify-certificate", str(proof)]) == 0
    assert "not checked: that this is the problem of any program" in capsys.readouterr().out
    assert main(["verify-certificate", str(proof), "--program", str(before)]) == 0
    assert f"checked: that this is the problem of {before}" in capsys.readouterr().out
    assert main(["verify-certificate", str(proof), "--program", str(before), "--target", "blocked8"]) == 0
    for wrong in (["--program", str(other)], ["--program", str(before), "--target", "blocked16"]):
        assert main(["verify-certificate", str(proof), *wrong]) == 1
    error = capsys.readouterr().err
    assert "is not that of the certificate" in error and "is for target blocked8, not for blocked16" in error


def test_the_cost_table_of_a_choice_is_asked_for(tmp_path: Any, capsys: pytest.CaptureFixture[str]):
    before, proof, table, dear = (tmp_path / name for name in ("b.mlir", "p.json", "t.json", "d.json"))
    before.write_text(_program())
    entry = {"from": "nchw", "to": "nChw8c", "cost": 7}
    table.write_text(json.dumps({"reorder": [entry]}))
    dear.write_text(json.dumps({"reorder": [{**entry, "cost": 8}]}))
    propagate(parse(_program()), "blocked8", costs=load_costs(str(table)), report=str(proof))
    command = ["verify-certificate", str(proof), "--program", str(before)]
    assert main(command) == 1
    assert "give it with --costs" in capsys.readouterr().err
    assert main([*command, "--costs", str(table)]) == 0
    assert f"for cost table {table}, target blocked8" in capsys.readouterr().out
    assert main([*command, "--costs", str(dear)]) == 1


def test_negative_a_module_without_a_certificate_is_told_so(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "loop.mlir"
    file.write_text("func.func @f() { func.return }")
    assert main(["verify-certificate", str(file)]) == 1
    error = capsys.readouterr().err
    assert "the module carries no layout.certificate" in error and "JSON" not in error


THEIRS = """\
from layout_ir.extend import CostModel, Target
from layout_ir.passes.selection.options.targets import find_target
class Dear(CostModel):
    def reorder(self, source, destination, dtype):
        return 0 if source.same_store(destination) else 70_000
NPU = Target("npu", conv_kernels=find_target("blocked8").conv_kernels, costs=Dear())
"""


def test_a_target_of_ones_own_is_named_with_its_package(
    install: Any, tmp_path: Any, capsys: pytest.CaptureFixture[str]
):
    install(THEIRS)
    before, proof, chosen = (tmp_path / name for name in ("before.mlir", "proof.json", "chosen.mlir"))
    before.write_text(_program())
    optimize(parse(_program()), "theirs:NPU", report=str(proof))
    module = parse(_program())
    optimize(module, "theirs:NPU", attach=True)
    chosen.write_text(print_module(module))
    given = [str(proof), "--program", str(before)]
    assert main(["verify-certificate", *given, "--target", "theirs:NPU"]) == 0
    assert "for the cost model of target npu" in capsys.readouterr().out
    assert main(["verify-certificate", str(chosen), "--target", "theirs:NPU"]) == 0
    # Without the package the name says nothing, and with other costs it is another problem.
    assert main(["verify-certificate", *given]) == 1
    assert "unknown target 'npu'" in capsys.readouterr().err


def test_negative_a_certificate_has_nothing_imported(
    install: Any, tmp_path: Any, capsys: pytest.CaptureFixture[str]
):
    install("raise SystemExit(77)")
    before, proof = tmp_path / "before.mlir", tmp_path / "proof.json"
    before.write_text(_program())
    propagate(parse(_program()), "blocked8", report=str(proof))
    certificate = json.loads(proof.read_text())
    forged = {**certificate, "origin": {"target": "theirs:NPU", "costs": None}}
    proof.write_text(json.dumps({**forged, "seal": seal(forged)}))
    assert main(["verify-certificate", str(proof), "--program", str(before)]) == 1
    assert "names target 'theirs:NPU', which is no name" in capsys.readouterr().err


def test_negative_a_problem_that_was_cut_is_not_stated_as_a_whole(
    tmp_path: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """That may take as long as time_limit was to save, and gives another problem, of which nothing is said."""
    before, proof, after = (tmp_path / name for name in ("before.mlir", "proof.json", "after.mlir"))
    before.write_text(_program())
    module = parse(_program())
    propagate(module, "blocked8", report=str(proof), attach=True, time_limit=0)
    after.write_text(print_module(module))

    def state(*args: Any, **options: Any) -> None:
        raise AssertionError("the whole problem was stated")

    monkeypatch.setattr("layout_ir.passes.selection.translation.origin.build", state)
    for command in ([str(proof), "--program", str(before)], [str(after)]):
        assert main(["verify-certificate", *command]) == 1
        error = capsys.readouterr().err
        assert "not proven optimal: the problem leaves out 1 part(s)" in error
        assert "not checked: that this is the problem of any program" in error
    assert main(["verify-certificate", str(proof), "--program", str(before), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["not_checked"]


def test_negative_a_certificate_that_leaves_nothing_out_was_not_cut(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
):
    """So saying that it was saves nobody the comparison."""
    other, proof = tmp_path / "other.mlir", tmp_path / "proof.json"
    other.write_text(_program("exp").replace("16x8x8", "16x9x9"))
    propagate(parse(_program()), "blocked8", report=str(proof))
    certificate = json.loads(proof.read_text())
    certificate["origin"]["cut"] = True
    proof.write_text(json.dumps({**certificate, "seal": seal(certificate)}))
    assert main(["verify-certificate", str(proof), "--program", str(other)]) == 1
    assert "is not that of the certificate" in capsys.readouterr().err
