"""Options of ops: in which Formats each op can run, given the Formats that reach it.

A model is a function of (op, candidates, target) that yields LayoutOptions; `candidates` gives the Formats known so
far for a value. Convolutions propose Formats on their own; most other ops run in any Format that reaches them, as
long as the dims they treat specially are not blocked. Views run in every Format that has an image. An op without a
model takes and gives row-major tensors, or what its types already say.

Another compiler adds its ops with `register`, by class or by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from math import prod
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, UnregisteredOp
from xdsl.ir import Attribute, Operation, SSAValue

from layout_ir.diagnostics import PassError
from layout_ir.dialects import nn
from layout_ir.dialects.layout import OptionAttr, ReorderOp, ViewOp, dtype_of, format_of, is_tensor
from layout_ir.errors import LayoutError
from layout_ir.format import Format
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.rewriting import FOREIGN
from layout_ir.passes.selection.costs import stream_ns
from layout_ir.passes.selection.in_place import check_pairs, obstacle
from layout_ir.passes.selection.kernels import ConvShape, Target
from layout_ir.passes.selection.products import gemm_options, matmul_options
from layout_ir.passes.selection.tensors import (
    OPTIONS,
    Candidates,
    bound,
    is_recipe,
    name_of_op,
    nbytes,
    plain,
    shape_of,
)

Model = Callable[[Operation, Candidates, Target], Iterable[LayoutOption]]


# Convolution -----------------------------------------------------------------------------------------------------


def conv_shape(op: nn.ConvOp) -> ConvShape:
    """What a target chooses the kernels of `op` by."""
    x, w = shape_of(op.x), shape_of(op.w)
    windows = op.strides, op.pads, op.dilations
    return ConvShape(
        x[0], x[1], w[0], op.group, x[2:], w[2:], *windows, dtype_of(op.x.type), op.b is not None
    )


def conv_options(op: Operation, candidates: Candidates, target: Target) -> Iterator[LayoutOption]:
    """The target's kernels; time is the arithmetic on padded channels over the kernel's rate."""
    assert isinstance(op, nn.ConvOp)
    y = shape_of(op.result)
    bias = () if op.b is None else (plain(op.b),)
    for kernel in target.conv_kernels(conv_shape(op)):
        weights, out = bound(kernel.w, op.w), bound(kernel.y, op.result)
        if weights is None or out is None or bound(kernel.x, op.x) is None:
            continue
        operations = 2 * prod(weights.padded_shape) * y[0] * prod(out.padded_shape[2:])
        yield LayoutOption((kernel.x, kernel.w, *bias), (kernel.y,), operations // kernel.rate)


# Ops that run in any format that reaches them -----------------------------------------------------------------------


def same_format_options(op: Operation, candidates: Candidates, target: Target) -> Iterator[LayoutOption]:
    """One Format for the tensors that need one, row-major for the rest; time is the bytes read and written."""
    assert isinstance(op, nn.NNOp)
    shared = [op.result, *op.formatted_operands()]
    keeps = _keeps(op)
    seen: set[Format] = set()
    for fmt in (plain(op.result), *(f for value in shared for f in candidates(value))):
        fmt = fmt.with_pad("zero" if fmt.pad != "undef" or any(b > 1 for b in fmt.blocks()) else "undef")
        if fmt in seen:
            continue
        seen.add(fmt)
        if not is_recipe(fmt) and len({shape_of(value) for value in shared}) > 1:
            continue
        if any(bound(fmt, value) is None for value in shared) or not keeps(fmt):
            continue
        ins = tuple(fmt if value in shared else plain(value) for value in op.operands)
        total = sum(nbytes(f, value) for f, value in zip((*ins, fmt), (*op.operands, op.result), strict=True))
        yield LayoutOption(ins, (fmt,), stream_ns(total))


def _keeps(op: nn.NNOp) -> Callable[[Format], bool]:
    """Whether the op can run in a Format: which dims it treats specially, and what they must be like."""
    if isinstance(op, nn.ConcatOp):
        return lambda fmt: _concat_keeps(op, fmt)
    if isinstance(op, nn.PadOp | nn.SliceOp | nn.ResizeOp):
        old, new = shape_of(op.operands[0]), shape_of(op.result)
        changed = [d for d in range(len(old)) if old[d] != new[d]]
        return lambda fmt: all(fmt.blocks()[d] == 1 for d in changed)
    if isinstance(op, nn.DivOp) and op.pad_reads(1):
        # Integers: a division by a pad ends the program, so there are none.
        return lambda fmt: not fmt.bind(shape_of(op.result)).is_padded
    return lambda fmt: True


def _concat_keeps(op: nn.ConcatOp, fmt: Format) -> bool:
    """Whether each part of a concat starts at a block of its own."""
    axis = op.axis % fmt.rank
    return all(shape_of(value)[axis] % fmt.blocks()[axis] == 0 for value in op.operands[:-1])


# Views, constants, reorders ----------------------------------------------------------------------------------------


def view_options(op: Operation, candidates: Candidates, target: Target) -> Iterator[LayoutOption]:
    """Every Format of the operand that has an image, and every Format of the result that is one; free."""
    assert isinstance(op, ViewOp)
    fallback: list[tuple[Format, Format]] = []
    for fmt in (plain(op.input), *candidates(op.input)):
        layout = bound(fmt, op.input)
        if layout is not None:
            try:
                fallback.append((fmt, op.view(layout).format))
            except LayoutError:
                continue
    for fmt in (plain(op.result), *candidates(op.result)):
        layout = bound(fmt, op.result)
        if layout is not None and layout.rank == len(shape_of(op.result)):
            try:
                source = op.unview(layout)
            except LayoutError:
                continue
            fallback.append((source.format, fmt))
    for source, result in dict.fromkeys(fallback):
        yield LayoutOption((source,), (result,), 0)


def constant_options(op: Operation, candidates: Candidates, target: Target) -> Iterator[LayoutOption]:
    """Any Format: the bytes are written when the program is built."""
    result = op.results[0]
    for fmt in dict.fromkeys((plain(result), *candidates(result))):
        if bound(fmt, result) is not None:
            yield LayoutOption((), (fmt,), 0)


def reorder_options(op: Operation, candidates: Candidates, target: Target) -> Iterator[LayoutOption]:
    """A reorder asks for a Format and is itself free: what the change costs is counted where it is inserted."""
    assert isinstance(op, ReorderOp)
    fixed = format_of(op.result.type)
    for fmt in (
        (fixed,) if fixed is not None else dict.fromkeys((*candidates(op.input), *candidates(op.result)))
    ):
        if bound(fmt, op.result) is not None:
            yield LayoutOption((fmt,), (fmt,), 0)


def default_options(op: Operation, candidates: Candidates, target: Target) -> Iterator[LayoutOption]:
    """What the types say, and row-major where they leave it open."""

    def formats(values: Sequence[SSAValue]) -> Iterator[Format]:
        for value in values:
            if is_tensor(value.type):
                yield format_of(value.type) or plain(value)

    yield LayoutOption(tuple(formats(op.operands)), tuple(formats(op.results)), 0)


_MODELS: list[tuple[type[Operation], Model]] = [
    (nn.ConvOp, conv_options),
    (nn.GemmOp, gemm_options),
    (nn.MatmulOp, matmul_options),
    (nn.ConstantOp, constant_options),
    (ReorderOp, reorder_options),
    (ViewOp, view_options),
]
_BY_NAME: dict[str, Model] = {}
_LOCAL = frozenset(model for _, model in _MODELS)


def is_local(op: Operation, target: Target) -> bool:
    """Whether the options of ops of the class of `op` follow from their attributes, types and candidates alone.

    What others register, what is derived for other dialects, and what a target refines may look at the neighbours.
    """
    if target.refine is not None or op.name in _BY_NAME or isinstance(op, UnregisteredOp):
        return False
    for cls, model in _MODELS:
        if isinstance(op, cls):
            return model in _LOCAL
    return isinstance(op, nn.NNOp) or op.dialect_name() not in FOREIGN


def register(op: type[Operation] | str, model: Model) -> None:
    """Gives the ops of a class, or those of a name (unregistered ones too), a model."""
    if isinstance(op, str):
        _BY_NAME[op] = model
    else:
        _MODELS.insert(0, (op, model))


def options_of(op: Operation, candidates: Candidates, target: Target) -> Iterable[LayoutOption]:
    """The options of `op`: those it carries as `layout.options`, else what the target makes of those of its model."""
    if OPTIONS in op.attributes:
        return carried_options(op)
    options = model_options(op, candidates, target)
    return options if target.refine is None else target.refine(op, options)


def model_options(op: Operation, candidates: Candidates, target: Target) -> Iterable[LayoutOption]:
    """The options of the op's model: by name, by class, or by what the op says of itself."""
    if (name := name_of_op(op)) in _BY_NAME:
        return _BY_NAME[name](op, candidates, target)
    for cls, model in _MODELS:
        if isinstance(op, cls):
            return model(op, candidates, target)
    if isinstance(op, nn.NNOp) and op.SAME_FORMAT:
        return same_format_options(op, candidates, target)
    if op.dialect_name() in FOREIGN and (model := _derived()(op)) is not None:
        return model(op, candidates, target)
    return default_options(op, candidates, target)


@cache
def _derived() -> Callable[[Operation], Model | None]:
    # Imported late: the derived models use this module, and programs without such ops never need them.
    from layout_ir.passes.selection.foreign.registry import model_of

    return model_of


def carried_options(op: Operation) -> list[LayoutOption]:
    """The options in the attribute `layout.options`. Raises PassError where they do not fit the op."""
    attribute = op.attributes[OPTIONS]
    entries = cast("ArrayAttr[Attribute]", attribute).data if isinstance(attribute, ArrayAttr) else ()
    if not entries:
        raise PassError(f"{OPTIONS} = {attribute} is no list of #layout.option", op)
    operands = [value for value in op.operands if is_tensor(value.type)]
    results = [value for value in op.results if is_tensor(value.type)]
    options: list[LayoutOption] = []
    for k, entry in enumerate(entries):
        if not isinstance(entry, OptionAttr):
            raise PassError(f"{OPTIONS}[{k}] = {entry} is no #layout.option", op)
        option = entry.data
        for kind, formats, values in (("ins", option.ins, operands), ("outs", option.outs, results)):
            if len(formats) != len(values):
                message = f"{OPTIONS}[{k}] has {len(formats)} {kind}, the op has {len(values)} such tensors"
                raise PassError(message, op)
            for fmt, value in zip(formats, values, strict=True):
                try:
                    if fmt is not None:
                        fmt.bind(shape_of(value))
                except LayoutError as error:
                    raise PassError(f"{OPTIONS}[{k}] {kind}: {error}", op) from error
        try:
            check_pairs(option, operands, results)
        except LayoutError as error:
            raise PassError(f"{OPTIONS}[{k}] {error}", op) from error
        for j, other in enumerate(options):
            alike = (other.ins, other.outs, other.in_place) == (option.ins, option.outs, option.in_place)
            if alike and other.cost != option.cost:
                message = f"{OPTIONS}[{k}] contradicts {OPTIONS}[{j}]: cost {option.cost} != {other.cost}"
                raise PassError(message, op)
            if [fmt is None for fmt in other.ins] != [fmt is None for fmt in option.ins]:
                message = f"{OPTIONS}[{k}] leaves other operands open than {OPTIONS}[{j}]"
                raise PassError(message, op)
        options.append(option)
    reasons = [obstacle(option, op, operands) for option in options]
    if None not in reasons:
        raise PassError(f"{OPTIONS}: every option writes over an operand, but {reasons[0]}", op)
    return [option for option, reason in zip(options, reasons, strict=True) if reason is None]
