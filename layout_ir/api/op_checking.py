"""What is wrong with what an op says of itself: `check_op`, for the tests of who adds ops.

A model that is wrong for some formats may go unnoticed for long, since no program brings them to it. So an op is asked
with formats that neighbours may well bring: row-major, column-major, channels last, blocks with pads, and those of its
own options. For each option the op is made with these types: its verifier must take them, and what it says of pads must
make sense.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.diagnostics import Diagnostic, Severity, location_of, name_of_op
from layout_ir.dialects.layout import ViewOp, format_of, has_layout, layout_of, with_format
from layout_ir.errors import LayoutError, public, unforeseen_as_error
from layout_ir.forking import loading
from layout_ir.interfaces import ARRAY_SEMANTICS, OPTIONS, LayoutOption, RegionLinks
from layout_ir.passes.pad_queries import needed_pad, pad_reads, provided_pad
from layout_ir.passes.rewriting import retype
from layout_ir.passes.selection.costs.cost_model import CheckedCosts, CostModel
from layout_ir.passes.selection.options.conv_kernels import Target
from layout_ir.passes.selection.options.models import has_model, options_of, options_state_pads
from layout_ir.passes.selection.options.targets import find_target
from layout_ir.passes.selection.options.tensor_formats import bound, row_major, shape_of

_ROUNDS = 4
"""How often an op is asked again with the formats that its own options added."""


@public
def check_op(
    op: Operation, *, target: str | Target = "host", formats: Sequence[Format | str] = ()
) -> list[Diagnostic]:
    """What is wrong with the options, the pads and the semantics of `op` for `target`; empty where all is well.

    Errors are what `optimize` would refuse or do wrong; a warning or a remark says what is not known of the op. The op
    is asked with common formats of each of its tensors, and with those of `formats` that fit them. It is not changed.
    Nothing is asked of ops without tensors, and of those that are the structure of a program: functions, calls, control
    flow, ends of blocks. Raises LayoutError for an unknown target or a format that is none.
    """
    if not isinstance(op, Operation):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LayoutError(f"an op is an Operation of xDSL, not of type {type(op).__name__}")
    checker = _Checker(op, find_target(target), [Format.of(fmt) for fmt in formats])
    if checker.tensors and not _is_structure(op):
        checker.options()
        checker.semantics()
    return list(dict.fromkeys(checker.found))


def _is_structure(op: Operation) -> bool:
    dialect = name_of_op(op).partition(".")[0]
    return (
        dialect in ("builtin", "cf", "func", "scf")
        or isinstance(op, RegionLinks)
        or op.has_trait(IsTerminator, value_if_unregistered=False)
    )


class _Checker:
    def __init__(self, op: Operation, target: Target, formats: Sequence[Format]):
        self.op = op
        self.target = target
        self.costs = CheckedCosts(target.own_costs() or CostModel())
        self.tensors = [value for value in (*op.operands, *op.results) if has_layout(value.type)]
        self.formats = formats
        self.found: list[Diagnostic] = []

    def say(self, severity: Severity, message: str) -> None:
        self.found.append(Diagnostic(severity, f"{name_of_op(self.op)}: {message}", location_of(self.op)))

    def error(self, error: Exception) -> None:
        self.found.append(Diagnostic(Severity.ERROR, str(error), location_of(self.op)))

    def options(self) -> None:
        if OPTIONS not in self.op.attributes and not has_model(self.op):
            self.say(
                Severity.WARNING, "no options are known: its tensors are row-major, or as their types say"
            )
        # First without any, as an op is asked that stands alone.
        known: dict[SSAValue, list[Format]] = {value: [] for value in self.tensors}
        tried: set[LayoutOption] = set()
        for number in range(_ROUNDS):
            options = self.asked(known)
            if options is None:
                return
            before = {value: list(formats) for value, formats in known.items()}
            for option in options:
                if option not in tried:
                    tried.add(option)
                    self.check(option)
                for value, fmt in zip(self.tensors, (*option.ins, *option.outs), strict=True):
                    if fmt is not None and fmt not in known[value]:
                        known[value].append(fmt)
            if number == 0:
                for value in self.tensors:
                    known[value] += [fmt for fmt in self.likely(value) if fmt not in known[value]]
            elif known == before:
                break
        if not tried:
            self.say(Severity.ERROR, f"no option on target {self.target.name}, whatever formats are known")

    def asked(self, known: dict[SSAValue, list[Format]]) -> list[LayoutOption] | None:
        """The options for these formats; None after an error."""
        try:
            once, twice = (
                list(options_of(self.op, lambda v: known.get(v, []), self.target)) for _ in range(2)
            )
        except LayoutError as error:
            self.error(error)
            return None
        if once != twice:
            self.say(
                Severity.ERROR,
                "options differ between two calls: they must follow from the op and the formats that are known",
            )
        return once

    def likely(self, value: SSAValue) -> list[Format]:
        """Formats that neighbours may bring to `value`."""
        names = row_major(value).names
        dims = range(len(names))
        orders = [tuple(dims), tuple(reversed(dims))]
        blocked: list[Format] = []
        if len(names) >= 2:
            orders.append((0, *range(2, len(names)), 1))
            whole = [Factor(dim) for dim in dims]
            blocked = [
                Format(names, (*whole, Factor(dim, 8)), pad=pad)
                for dim in (1, len(names) - 1)
                for pad in ("zero", "undef")
            ]
        orderly = [Format(names, tuple(map(Factor, order))) for order in orders]
        given = [fmt for fmt in self.formats if bound(fmt, value) is not None]
        return list(dict.fromkeys((*orderly, *blocked, *given)))

    def check(self, option: LayoutOption) -> None:
        """Asks what the op, made with the formats of `option`, says: its verifier, its costs, its pads."""
        shapes = [shape_of(value) for value in self.tensors]
        text = ", ".join("_" if fmt is None else f"[{fmt}]" for fmt in (*option.ins, *option.outs))
        what = f"with {text}{f' ({option.name})' if option.name else ''}"
        try:
            self.costs.op(name_of_op(self.op), option, shapes)
            made = self.made(option)
            self.settle_pads(made)
            with unforeseen_as_error(f"the verifier of {name_of_op(self.op)} {what}", VerifyException):
                made.verify(verify_nested_ops=False)
        except VerifyException as error:
            self.say(Severity.ERROR, f"{what} its verifier says: {' '.join(str(error).split())}")
        except LayoutError as error:
            self.error(error)

    def made(self, option: LayoutOption) -> Operation:
        """The op on operands that have the formats of `option`, without a place in a program."""
        formats = iter((*option.ins, *option.outs))
        types = [
            with_format(value.type, next(formats) or row_major(value))
            if has_layout(value.type)
            else value.type
            for value in (*self.op.operands, *self.op.results)
        ]
        count = len(self.op.operands)
        block = Block(arg_types=types[:count])
        copy = self.op.clone()
        copy.operands = block.args
        block.add_op(copy)
        for result, type in zip(copy.results, types[count:], strict=True):
            retype(result, type)
        return copy

    def settle_pads(self, made: Operation) -> None:
        """Gives the operands the pads that the op asks for, and its result those that it leaves, as selection does."""
        if options_state_pads(self.op):
            return
        for k, operand in enumerate(made.operands):
            pad_reads(made, k)
            needed = needed_pad(made, k)
            fmt = format_of(operand.type)
            if needed is not None and fmt is not None:
                retype(operand, with_format(operand.type, fmt.with_pad(needed)))
        if len(made.results) == 1 and (fmt := format_of(made.results[0].type)) is not None:
            result = retype(made.results[0], with_format(made.results[0].type, fmt.with_pad("undef")))
            if isinstance(made, ViewOp):
                fmt = made.view(layout_of(made.input.type)).format
            else:
                held = provided_pad(made)
                fmt = fmt.with_pad("undef" if held is None else held)
            retype(result, with_format(result.type, fmt))

    def semantics(self) -> None:
        with loading:
            from layout_ir.backends.reference.interpreter import has_semantics
            from layout_ir.backends.reference.registered_ops import trial

        if not has_semantics(self.op):
            self.say(Severity.REMARK, "no semantics are known: programs with it cannot be run")
        elif ARRAY_SEMANTICS.find(self.op) is not None:
            try:
                with unforeseen_as_error("its semantics"):
                    trial(self.op)
            except LayoutError as error:
                self.say(Severity.ERROR, str(error))
