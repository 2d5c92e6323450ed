"""`layout-ir verify-certificate`: is a choice of layouts proven to be the cheapest, and of which program?"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, cast

from layout_ir.tools.commands.arguments import add_input_shapes

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from layout_ir.passes.selection.costs.cost_model import CostModel
    from layout_ir.passes.selection.options.conv_kernels import Target

_EPILOG = """\
The certificate carries the selection problem, the choice, and integers that prove a lower bound of every choice.
Both cost and bound are recomputed by additions and comparisons alone; no solver is involved.

That the problem is the one of a program is checked where there is a program: the problem is stated again, by the
code that stated it for the solver, and compared.

  proof.json                         the proof alone, of whatever problem the file states
  proof.json --program before.mlir   and that this is the problem of before.mlir, whose layouts are still to be chosen
  proof.json --program better.onnx   and that this is the problem of better.onnx, which --target onnx or ort-cpu wrote:
                                     its Transposes cannot be had for less; for ort-cpu-blocked, give the model that
                                     better.onnx was made from
  chosen.mlir                        a program that carries its certificate (attach=true): the proof, that the problem
                                     is the one of the recorded program before, and that the choice makes chosen.mlir
                                     of it

status 0   the choice is proven to be the cheapest
status 1   the certificate is malformed or altered, states numbers that are not so, is of another program, or leaves
           a gap

--json prints one object: cost, bound, optimal, ops, values, checked, not_checked
"""


def add_parser(subparsers: Any) -> None:
    """Adds the command `verify-certificate` and its arguments."""
    parser = subparsers.add_parser(
        "verify-certificate",
        help="check the proof that a choice of layouts is the cheapest",
        description="Recompute the cost of a choice of layouts and the bound of all choices, and compare.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "file", help="a certificate (JSON), or a program (.mlir) that has one; - for standard input"
    )
    parser.add_argument(
        "--program",
        metavar="FILE",
        help="the program (.mlir, .onnx) of which the certificate is, before the choice",
    )
    add_input_shapes(parser)
    parser.add_argument(
        "--target", metavar="NAME", help="the target (default: the one the certificate names)"
    )
    parser.add_argument(
        "--costs",
        metavar="FILE",
        action="append",
        help="the cost table or prices (once for each file), or 'calibrated' or 'measured', if the choice was made "
        "with one",
    )
    parser.add_argument("--json", action="store_true", help="print an object instead of sentences")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Raises LayoutError where the file is no certificate, states numbers that are not so, or is of another program."""
    import json

    from layout_ir.certificate.checking import verify
    from layout_ir.errors import LayoutError
    from layout_ir.passes.selection.costs.json_checks import unique_keys

    module: ModuleOp | None = None
    if args.file.endswith(".mlir"):
        if args.program is not None:
            raise LayoutError(
                f"{args.file} carries the program it was chosen from: --program is for a certificate alone"
            )
        module, text = _carried(args.file)
        where = f"{args.file}: the certificate"
    else:
        text, where = _read(args.file), args.file
    try:
        certificate: Any = json.loads(text, object_pairs_hook=unique_keys)
    except LayoutError as error:
        raise LayoutError(f"{where}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise LayoutError(f"{where} is not JSON: {error}") from error
    try:
        verdict = verify(certificate)
        checked = ["the proof: cost and bound of the problem that the certificate states"]
        cut = verdict.omitted > 0 and _was_cut(certificate)
        more, left = ([], [_CUT]) if cut else _about_program(certificate, module, args)
    except LayoutError as error:
        raise LayoutError(f"{args.file}: {error}") from error
    checked += more
    ops, values = (len(certificate["problem"][key]) for key in ("ops", "values"))
    if args.json:
        result = {"cost": verdict.cost, "bound": verdict.bound, "optimal": verdict.is_optimal}
        print(json.dumps({**result, "ops": ops, "values": values, "checked": checked, "not_checked": left}))
        return 0 if verdict.is_optimal else 1
    if verdict.is_optimal:
        print(f"optimal: cost {verdict.cost} = bound {verdict.bound}, {ops} ops, {values} values")
        for word, what in (("checked", checked), ("not checked", left)):
            for line in what:
                print(f"{word}: {line}")
        return 0
    gap = verdict.cost - verdict.bound
    reason = f"cost {verdict.cost} is above bound {verdict.bound}, a gap of {gap} ({gap / max(verdict.cost, 1):.2%})"
    if verdict.omitted:
        reason = f"the problem leaves out {verdict.omitted} part(s) of the choice that its program has"
        reason += f"; not checked: {_CUT}" if cut else ""
    print(f"{args.file}: error: not proven optimal: {reason}", file=sys.stderr)
    return 1


_CUT = "that this is the problem of any program: it is stated as far as time_limit let it, not as a whole"


def _was_cut(certificate: dict[str, Any]) -> bool:
    """Whether the certificate says that the time for stating its problem was over before all of it was stated."""
    origin: Any = certificate.get("origin")
    return isinstance(origin, dict) and cast("dict[str, Any]", origin).get("cut") is True


def _read(path: str) -> str:
    """The text of a certificate. Raises OSError, and LayoutError where it is too large for one or not UTF-8."""
    from layout_ir.errors import LayoutError
    from layout_ir.files import read_bounded, read_stream

    try:
        data = read_stream(sys.stdin.buffer, _MOST_BYTES) if path == "-" else read_bounded(path, _MOST_BYTES)
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LayoutError(f"{path} is not JSON: not UTF-8 text: {error.reason}") from error
    except LayoutError as error:
        raise LayoutError(f"{path}: {error}") from error


_MOST_BYTES = 1 << 29
"""Of a certificate, as of the JSON of other compilers: parsed, it takes some gigabytes."""


def _carried(path: str) -> tuple[ModuleOp, str]:
    """The program in `path` and the certificate that it carries. Raises LayoutError where it has none."""
    from xdsl.dialects.builtin import StringAttr

    from layout_ir.certificate.checking import ATTRIBUTE
    from layout_ir.errors import LayoutError
    from layout_ir.tools.program import load_program

    module = load_program(path)
    text = module.attributes.get(ATTRIBUTE)
    if not isinstance(text, StringAttr):
        raise LayoutError(
            f"{path}: the module carries no {ATTRIBUTE}: layout-propagate{{attach=true}} writes it"
        )
    return module, text.data


def _about_program(
    certificate: dict[str, Any], module: ModuleOp | None, args: argparse.Namespace
) -> tuple[list[str], list[str]]:
    """Two lists of sentences: what was checked about the program of the certificate, and what was not.

    `module` is the program that carries it. Raises LayoutError where the certificate is of another one.
    """
    from layout_ir.errors import LayoutError
    from layout_ir.passes.selection.costs.cost_model import proven_for
    from layout_ir.passes.selection.costs.cost_table import load_costs
    from layout_ir.passes.selection.translation.origin import check_problem
    from layout_ir.tools.commands.optimize import MODEL_TARGETS
    from layout_ir.tools.program import is_model, load_program

    given: Any = certificate.get("origin", {})
    if module is None and args.program is None:
        return [], ["that this is the problem of any program: --program FILE states it again and compares"]
    origin = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    if module is None and origin.get("target") in MODEL_TARGETS and is_model(args.program):
        return _about_model(certificate, origin["target"], args)
    target = _agreed(origin, args)
    costs = None if args.costs is None else load_costs(args.costs)
    if module is None:
        check_problem(certificate, load_program(args.program, shapes=args.shapes or ()), target, costs)
        return [f"that this is the problem of {args.program} for {proven_for(costs, target.name)}"], [
            "that any program was rewritten as the choice says"
        ]
    recorded, chosen_by = origin.get("program"), origin.get("pass")
    if not isinstance(recorded, str):
        raise LayoutError(
            "the certificate does not record which program it is of: the proof holds, and nothing ties it to this "
            "module; layout-propagate{attach=true} records the program"
        )
    _check_rewritten(certificate, module, recorded, chosen_by, target, costs)
    return [
        f"that this is the problem of the program before, for {proven_for(costs, target.name)}",
        f"that the choice and {chosen_by} make this program of it",
    ], ["the values of constants of more than 16 elements", "that the recorded program is the one you had"]


def _about_model(
    certificate: dict[str, Any], target: str, args: argparse.Namespace
) -> tuple[list[str], list[str]]:
    """`_about_program` for an ONNX model that went out as one."""
    from layout_ir.api.optimizing import check_proof
    from layout_ir.errors import LayoutError
    from layout_ir.tools.program import input_shapes, shipped_network

    if args.target not in (None, target) or args.costs is not None:
        raise LayoutError(f"the certificate is for target {target} and its own costs")
    path = shipped_network(args.program) if args.program.startswith("onnx:") else args.program
    about = check_proof(certificate, path, target, input_shapes(args.shapes or ()))
    subject = f"{args.program} for {target}" + ("" if about == "the model" else f", {about}")
    return [
        f"that this is the problem of {subject}: of all that the models of its nodes offer, nothing costs less"
    ], []


def _agreed(origin: dict[str, Any], args: argparse.Namespace) -> Target:
    """The target. Raises LayoutError where certificate and arguments differ, or neither names it.

    What `--target` names may be imported for it; what a file names is one of the targets that are known.
    """
    from layout_ir.errors import LayoutError
    from layout_ir.passes.selection.options.targets import find_target

    stated: Any = origin.get("target")
    if args.target is None and not isinstance(stated, str):
        raise LayoutError("the certificate names no target: name it with --target")
    if args.target is None and ":" in stated:
        raise LayoutError(f"the certificate names target '{stated}', which is no name: name it with --target")
    target = find_target(stated if args.target is None else args.target)
    if args.target is not None and isinstance(stated, str) and target.name != stated:
        raise LayoutError(f"the certificate is for target {stated}, not for {target.name}")
    table: Any = origin.get("costs")
    if table is not None and args.costs is None:
        raise LayoutError(f"the choice was made with cost table {table}: give it with --costs")
    if table is None and args.costs is not None and "target" in origin:
        raise LayoutError(
            f"the choice was made with the costs of target {target.name}, not with a cost table"
        )
    return target


def _check_rewritten(
    certificate: dict[str, Any],
    module: ModuleOp,
    recorded: str,
    chosen_by: Any,
    target: Target,
    costs: CostModel | None,
) -> None:
    """Raises LayoutError unless the choice makes `module` of the program that the certificate records."""
    from layout_ir.api.program_text import parse_program
    from layout_ir.errors import LayoutError
    from layout_ir.passes.optimize_pipeline import clean_up
    from layout_ir.passes.propagate import apply_choices
    from layout_ir.passes.selection.translation.origin import check_problem, text_of

    before = parse_program(recorded, "the recorded program")
    check_problem(certificate, before, target, costs)
    apply_choices(before, certificate["choices"], target, costs)
    if chosen_by == "layout-optimize":
        clean_up(before, costs or target.own_costs())
    elif chosen_by != "layout-propagate":
        raise LayoutError(f"{chosen_by!r} is no pass that chooses layouts")
    # Names of values are not part of a program.
    expected = text_of(parse_program(text_of(before), "the program that the choice makes"))
    found = text_of(parse_program(text_of(module), "the program"))
    if expected != found:
        pairs = zip(expected.splitlines(), found.splitlines(), strict=False)
        line = next((pair for pair in pairs if pair[0] != pair[1]), ("the end", "the end"))
        raise LayoutError(
            "this is not the program that the certified choice makes: "
            f"expected '{line[0].strip()[:120]}', found '{line[1].strip()[:120]}'"
        )
