"""Options of ops: in which Formats each op can run, given the Formats that reach it.

A model is a function of (op, candidates, target) that yields LayoutOptions; `candidates` gives the Formats known so
far for a value. Convolutions propose Formats on their own; most other ops run in any Format that reaches them, as
long as the dims they treat specially are not blocked. Views run in every Format that has a view. An op without a
model takes and gives row-major tensors, or what its types already say.

Another compiler adds its ops with `layout_ir.extend.register_op`, by class or by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, UnregisteredOp
from xdsl.ir import Attribute, Operation, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.diagnostics import PassError, name_of_op
from layout_ir.dialects import nn
from layout_ir.dialects.layout import (
    OptionAttr,
    ReorderOp,
    ViewOp,
    dtype_of,
    format_of,
    has_layout,
    is_tensor,
)
from layout_ir.errors import LayoutError, UnforeseenError, unforeseen_as_error
from layout_ir.interfaces import OPTIONS, LayoutOption, OpRegistry
from layout_ir.passes.dialect_extensions import extension_of
from layout_ir.passes.pad_queries import has_pad_behaviour
from layout_ir.passes.selection.costs.cost_model import COST_LIMIT
from layout_ir.passes.selection.options.conv_kernels import ConvShape, Model, Target
from layout_ir.passes.selection.options.dim_mapping import mapped_format
from layout_ir.passes.selection.options.format_model import FormatModel, FormatOptions
from layout_ir.passes.selection.options.in_place import check_pairs, obstacle
from layout_ir.passes.selection.options.kept_formats import format_filter
from layout_ir.passes.selection.options.matmul_options import gemm_options, matmul_options
from layout_ir.passes.selection.options.tensor_formats import (
    Candidates,
    bound,
    is_shape_free,
    nbytes,
    row_major,
    shape_of,
)

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
    bias = () if op.b is None else (row_major(op.b),)
    for kernel in target.conv_kernels(conv_shape(op)):
        weights, out = bound(kernel.w, op.w), bound(kernel.y, op.result)
        if weights is None or out is None or bound(kernel.x, op.x) is None:
            continue
        operations = 2 * prod(weights.padded_shape) * y[0] * prod(out.padded_shape[2:])
        ins = (kernel.x, kernel.w, *bias)
        yield LayoutOption(ins, (kernel.y,), operations // kernel.rate, name=kernel.name)


# Ops that run in any format that reaches them -----------------------------------------------------------------------


def _same_format(op: Operation, target: Target) -> FormatOptions:
    """One Format for the tensors that need one, row-major for the rest; time is the bytes read and written."""
    assert isinstance(op, nn.NNOp)
    formatted = op.formatted_operands()
    shared = [op.result, *formatted]
    has_one_shape = len({shape_of(value) for value in shared}) == 1
    keeps = format_filter(op)

    def of(tensor: int, fmt: Format) -> Iterator[LayoutOption]:
        fmt = _with_kept_pads(fmt)
        if not (has_one_shape or is_shape_free(fmt)):
            return
        if any(bound(fmt, value) is None for value in shared) or not keeps(fmt):
            return
        ins = tuple(fmt if value in shared else row_major(value) for value in op.operands)
        yield LayoutOption(ins, (fmt,), _time_to_stream(op, (*ins, fmt), target))

    numbers = [k for k, value in enumerate(op.operands) if value in formatted]
    tensors = ((len(op.operands), op.result), *((k, op.operands[k]) for k in numbers))
    return FormatOptions((), of, tensors)


def _mapped(op: Operation, target: Target) -> FormatOptions:
    """Each Format of operand 0 that the op can run in, and that of the result which follows from it; row-major for the
    rest. Time is the bytes read and written."""
    assert isinstance(op, nn.NNOp)
    images, keeps = op.dim_images(), format_filter(op)
    assert images is not None
    x, *others = op.operands

    def of(tensor: int, fmt: Format) -> Iterator[LayoutOption]:
        fmt = _with_kept_pads(fmt)
        result = mapped_format(fmt, images)
        if result is None or bound(fmt, x) is None or bound(result, op.result) is None or not keeps(fmt):
            return
        ins = (fmt, *map(row_major, others))
        yield LayoutOption(ins, (result,), _time_to_stream(op, (*ins, result), target))

    return FormatOptions((), of, ((0, x),))


def _with_kept_pads(fmt: Format) -> Format:
    """`fmt` with pads of zeros where it may have some that ops keep, and with no promise of others."""
    return fmt.with_pad("zero" if fmt.pad != "undef" or any(b > 1 for b in fmt.blocks()) else "undef")


def _time_to_stream(op: nn.NNOp, formats: Sequence[Format], target: Target) -> int:
    """Nanoseconds in which the operands and the result are read and written once in these Formats."""
    tensors = (*op.operands, op.result)
    return target.rates.stream(sum(nbytes(fmt, value) for fmt, value in zip(formats, tensors, strict=True)))


same_format_options = FormatModel(_same_format)
mapped_options = FormatModel(_mapped)


# Views, constants, reorders ----------------------------------------------------------------------------------------


def _view(op: Operation, target: Target) -> FormatOptions:
    """Every Format of the operand that has a view, and every Format of the result that is the view of one; free."""
    assert isinstance(op, ViewOp)

    def of(tensor: int, fmt: Format) -> Iterator[LayoutOption]:
        layout = bound(fmt, op.result if tensor else op.input)
        if layout is None or (tensor and layout.rank != len(shape_of(op.result))):
            return
        try:
            source, result = (op.unview(layout).format, fmt) if tensor else (fmt, op.view(layout).format)
        except LayoutError:
            return
        yield LayoutOption((source,), (result,), 0)

    return FormatOptions((), of, ((0, op.input), (1, op.result)))


def _maker(op: Operation, target: Target) -> FormatOptions:
    """Any Format of the result; free, for something has to make the tensor anyway."""
    result = op.results[0]

    def of(tensor: int, fmt: Format) -> Iterator[LayoutOption]:
        if bound(fmt, result) is not None:
            yield LayoutOption((), (fmt,), 0)

    return FormatOptions((), of, ((0, result),))


view_options = FormatModel(_view)
maker_options = FormatModel(_maker)


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
    """One option: the Formats of the types, and row-major where a type leaves it to be chosen."""

    def formats(values: Sequence[SSAValue]) -> Iterator[Format]:
        for value in values:
            if has_layout(value.type):
                yield format_of(value.type) or row_major(value)

    yield LayoutOption(tuple(formats(op.operands)), tuple(formats(op.results)), 0)


def opaque_options(op: Operation, candidates: Candidates, target: Target) -> Iterator[LayoutOption]:
    """One option: row-major tensors, whatever reaches the op. Its cost is the same in every choice, and so left out."""
    yield LayoutOption(tuple(map(row_major, op.operands)), tuple(map(row_major, op.results)), 0)


_BUILT_IN: tuple[tuple[type[Operation], Model], ...] = (
    (nn.ConvOp, conv_options),
    (nn.GemmOp, gemm_options),
    (nn.MatmulOp, matmul_options),
    (nn.ConstantOp, maker_options),
    (nn.OpaqueOp, opaque_options),
    (ReorderOp, reorder_options),
    (ViewOp, view_options),
)

MODELS = OpRegistry[Model]()
"""The models registered by users of the package, whose options are checked as carried ones are.

Of an op that does not state its padding (`LayoutOp`, `PAD_BEHAVIOURS`), the pad policies in the Formats say it, as in
options that an op carries: what the pads of operands must hold, and what those of results will.
"""


def is_local(op: Operation, target: Target) -> bool:
    """Whether the options of ops of the class of `op` follow from their attributes, types and candidates alone.

    What others register, and what a target refines may look at the neighbours; of what is derived for other dialects,
    the extension says so of each op.
    """
    refines = target.refine is not None and not target.refines_locally
    return not refines and not isinstance(op, UnregisteredOp) and MODELS.find(op) is None


def options_state_pads(op: Operation) -> bool:
    """Whether it is the pad policies in the options of `op` that say what it does with pads."""
    return OPTIONS in op.attributes or (MODELS.find(op) is not None and not has_pad_behaviour(op))


def options_of(op: Operation, candidates: Candidates, target: Target) -> Iterable[LayoutOption]:
    """The options of `op`: those it carries as `layout.options`, else what the target makes of those of its model.

    Raises PassError, naming op and model, where options do not fit the op.
    """
    if OPTIONS in op.attributes:
        return carried_options(op)
    registered = MODELS.find(op)
    if registered is None:
        options = (_built_in_model(op) or default_options)(op, candidates, target)
    else:
        options = _asked(f"model {_name(registered)}", op, lambda: registered(op, candidates, target))
    if target.refine is None:
        return options
    refine = target.refine
    return _asked(f"target {target.name}", op, lambda: refine(op, options))


def _name(model: Model) -> str:
    return getattr(model, "__qualname__", None) or repr(model)


def _asked(who: str, op: Operation, options: Callable[[], Iterable[LayoutOption]]) -> list[LayoutOption]:
    """The options that a registered function gives, checked. Raises PassError that names `who` and the op."""
    subject = f"{who} of {name_of_op(op)}"
    try:
        with unforeseen_as_error(subject, PassError):
            given = cast("object", options())
            if not isinstance(given, Iterable):
                what = "None" if given is None else f"{given!r}"
                raise LayoutError(f"gives {what}: expected LayoutOptions, yielded or in a list")
            return checked(op, list(cast("Iterable[object]", given)), f"{subject}: options")
    except PassError:  # which names the model and the op
        raise
    except UnforeseenError as error:
        raise PassError(str(error), op) from error
    except LayoutError as error:
        raise PassError(f"{subject}: {error}", op) from error


def format_options_of(op: Operation, target: Target) -> FormatOptions | None:
    """What the model of `op` says of one Format at a time; None where its options are those of all Formats together."""
    if OPTIONS in op.attributes or target.refine is not None or MODELS.find(op) is not None:
        return None
    model = _built_in_model(op)
    return model.says(op, target) if isinstance(model, FormatModel) else None


def has_model(op: Operation) -> bool:
    """Whether more is known of `op` than that it runs as its types say."""
    return MODELS.find(op) is not None or _built_in_model(op) is not None


def _built_in_model(op: Operation) -> Model | None:
    """The model of an op that nobody registered one for: by class, or by what the op says of itself."""
    if any(is_tensor(value.type) and not has_layout(value.type) for value in (*op.operands, *op.results)):
        return None  # models speak of all tensors of an op
    for cls, model in _BUILT_IN:
        if isinstance(op, cls):
            return model
    if isinstance(op, nn.NNOp) and op.SAME_FORMAT:
        return same_format_options if op.dim_images() is None else mapped_options
    extension = extension_of(op)
    return None if extension is None else extension.model_of(op)


def carried_options(op: Operation) -> list[LayoutOption]:
    """The options in the attribute `layout.options`. Raises PassError where they do not fit the op."""
    attribute = op.attributes[OPTIONS]
    entries = cast("ArrayAttr[Attribute]", attribute).data if isinstance(attribute, ArrayAttr) else ()
    if not entries:
        raise PassError(f"{OPTIONS} = {attribute} is no list of #layout.option", op)
    for k, entry in enumerate(entries):
        if not isinstance(entry, OptionAttr):
            raise PassError(f"{OPTIONS}[{k}] = {entry} is no #layout.option", op)
    return checked(op, [entry.data for entry in entries if isinstance(entry, OptionAttr)], OPTIONS)


def checked(op: Operation, given: Sequence[object], source: str) -> list[LayoutOption]:
    """The options `given` for `op`, without those that write over an operand which must be kept.

    Raises PassError, naming `source` and the number of the option, where one does not fit the op, or two contradict.
    """
    operands = [value for value in op.operands if has_layout(value.type)]
    results = [value for value in op.results if has_layout(value.type)]
    options: list[LayoutOption] = []
    for k, option in enumerate(given):
        try:
            options.append(_fitting(option, operands, results))
        except LayoutError as error:
            raise PassError(f"{source}[{k}] {error}", op) from error
        for j, other in enumerate(options[:-1]):
            _compare(op, source, (j, other), (k, options[-1]))
    reasons = [obstacle(option, op, operands) for option in options]
    if reasons and None not in reasons:
        raise PassError(f"{source}: every option writes over an operand, but {reasons[0]}", op)
    return [option for option, reason in zip(options, reasons, strict=True) if reason is None]


def _fitting(option: object, operands: Sequence[SSAValue], results: Sequence[SSAValue]) -> LayoutOption:
    """`option`, which is one for these tensors. Raises LayoutError where it is not."""
    if not isinstance(option, LayoutOption):
        raise LayoutError(f"= {option!r} is no LayoutOption")
    for kind, given, values in (("ins", option.ins, operands), ("outs", option.outs, results)):
        formats = cast("object", given)
        if not isinstance(formats, tuple | list):
            raise LayoutError(f"{kind} = {formats!r} is no tuple of Formats")
        formats = cast("Sequence[object]", formats)
        if len(formats) != len(values):
            raise LayoutError(f"has {len(formats)} {kind}, the op has {len(values)} such tensors")
        for fmt, value in zip(formats, values, strict=True):
            if fmt is None and kind == "ins":
                continue
            if not isinstance(fmt, Format):
                hint = f": Format.from_tag({fmt!r}) may be meant" if isinstance(fmt, str) else ""
                raise LayoutError(f"{kind}: {fmt!r} is no Format{hint}")
            try:
                fmt.bind(shape_of(value))
            except LayoutError as error:
                raise LayoutError(f"{kind}: {error}") from error
    cost = cast("object", option.cost)
    if not isinstance(cost, int) or isinstance(cost, bool):
        raise LayoutError(f"cost = {cost!r} is no int")
    if not 0 <= cost < COST_LIMIT:
        raise LayoutError(f"cost = {cost} is not in [0, 2^48)")
    pairs = cast("object", option.in_place)
    if not isinstance(pairs, tuple | list):
        raise LayoutError(f"in_place = {pairs!r} is no tuple of pairs of an operand and a result")
    for pair in cast("Sequence[object]", pairs):
        numbers = cast("Sequence[object]", pair if isinstance(pair, tuple | list) else ())
        if len(numbers) != 2 or any(type(n) is not int or n < 0 for n in numbers):
            raise LayoutError(f"in_place: {pair!r} is no pair of an operand and a result")
    check_pairs(option, operands, results)
    name = cast("object", option.name)
    if not isinstance(name, str):
        raise LayoutError(f"name = {name!r} is no str")
    return replace(option, ins=tuple(option.ins), outs=tuple(option.outs))


def _compare(
    op: Operation, source: str, one: tuple[int, LayoutOption], two: tuple[int, LayoutOption]
) -> None:
    """Raises PassError where two options, each with its number, contradict each other."""
    (j, other), (k, option) = one, two
    same = [(each.ins, each.outs, each.in_place, each.name) for each in (other, option)]
    alike = same[0] == same[1]
    if alike and other.cost != option.cost:
        raise PassError(f"{source}[{k}] contradicts {source}[{j}]: cost {option.cost} != {other.cost}", op)
    if [fmt is None for fmt in other.ins] != [fmt is None for fmt in option.ins]:
        raise PassError(f"{source}[{k}] leaves other operands open than {source}[{j}]", op)
