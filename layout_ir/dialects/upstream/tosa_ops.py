"""The ops of tosa that xDSL lacks, as one table: the attributes of each. All have one custom form.

    %r = tosa.transpose %x {perms = array<i32: 2, 0, 1>} : (tensor<13x21x3xf32>) -> tensor<3x13x21xf32>

Modes are written as a bare word (`mode = BILINEAR`) or as the attribute. What ops of shapes compute is not checked, nor
whether the types of an op fit: tosa's own verifier in `mlir-opt` does that.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import FunctionType, IntAttr
from xdsl.dialects.tosa import (
    ClampOp,
    ConstOp,
    NanMode,
    NanModeAttr,
    ReduceMaxOp,
    ReduceMinOp,
    RoundingMode,
    RoundingModeAttr,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure, RecursiveMemoryEffect

from layout_ir.dialects.upstream.linalg_syntax import parse_results, print_results
from layout_ir.dialects.upstream.operand_syntax import parse_binding, print_binding
from layout_ir.dialects.upstream.word_attributes import BlockSizeAttr, ResizeModeAttr


@irdl_attr_definition
class ShapeType(ParametrizedAttribute, TypeAttribute):
    """The type of a shape of so many dims, `!tosa.shape<3>`."""

    name = "tosa.shape"

    rank: IntAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [IntAttr(parser.parse_integer(allow_boolean=False, allow_negative=False))]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.rank.data}>")


@irdl_attr_definition
class BlockScaledIntegerType(ParametrizedAttribute, TypeAttribute):
    """The 8-bit integer element of block-scaled tensors, `!tosa.mxint8`."""

    name = "tosa.mxint8"


def _nan_mode(word: str) -> Attribute:
    return NanModeAttr(NanMode(word))


def _rounding_mode(word: str) -> Attribute:
    return RoundingModeAttr(RoundingMode(word))


_WORDS: dict[str, Callable[[str], Attribute]] = {
    "nan_mode": _nan_mode,
    "rounding_mode": _rounding_mode,
    "mode": ResizeModeAttr,
    "block_size": BlockSizeAttr,
}
"""The attributes that may be written as a bare word, and what makes them of it."""


def _parse_entry(parser: Parser) -> tuple[str, Attribute]:
    name = parser.parse_optional_identifier() or parser.parse_str_literal()
    if parser.parse_optional_punctuation("=") is None:
        return name, parser.parse_attribute()
    start = parser.pos
    word = parser.parse_optional_identifier() if name in _WORDS and not _starts_attribute(parser) else None
    if word is None:
        value = parser.parse_attribute()
        if parser.parse_optional_punctuation(":") is not None:
            parser.parse_type()  # the type that MLIR takes behind an enumeration
        return name, value
    try:
        return name, _WORDS[name](word)
    except ValueError:
        parser.raise_error(f"'{word}' is no {name}", start, parser.pos)


def _starts_attribute(parser: Parser) -> bool:
    text = parser.lexer.input.content
    return text[parser.pos : parser.pos + 1] in "#!"


def _parse(cls: type[IRDLOperation], parser: Parser) -> Any:
    """The op of class `cls`: operands, attributes, the types as of a function."""
    start = parser.pos
    operands = parser.parse_optional_undelimited_comma_separated_list(
        parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
    )
    entries = parser.parse_optional_comma_separated_list(
        parser.Delimiter.BRACES, lambda: _parse_entry(parser)
    )
    parser.parse_punctuation(":")
    type = parser.parse_function_type()
    found = dict(entries or ())
    known = cls.get_irdl_definition().properties
    properties = {name: found.pop(name) for name in list(found) if name in known}
    return cls.create(
        operands=parser.resolve_operands(operands or [], type.inputs.data, start),
        result_types=type.outputs.data,
        properties=properties,
        attributes=found,
    )


class TosaOp(IRDLOperation, ABC):
    """An op with any operands and results; its attributes are properties."""

    arguments = var_operand_def()
    outputs = var_result_def()

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        return _parse(cls, parser)

    def print(self, printer: Printer) -> None:
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_ssa_value)
        shown = {**self.properties, **self.attributes}
        if shown:
            printer.print_op_attributes(shown)
        printer.print_string(" : ")
        with printer.in_parens():
            printer.print_list(self.operand_types, printer.print_attribute)
        printer.print_string(" -> ")
        if len(self.results) == 1:
            printer.print_attribute(self.result_types[0])
        else:
            with printer.in_parens():
                printer.print_list(self.result_types, printer.print_attribute)


_POOL = ("kernel", "stride", "pad")
_CONV = ("pad", "stride", "dilation", "acc_type", "local_bound")

TABLE: dict[str, tuple[str, ...]] = {
    # tensors
    "argmax": ("axis", "nan_mode"),
    "conv2d": _CONV,
    "conv3d": _CONV,
    "depthwise_conv2d": _CONV,
    "transpose_conv2d": ("out_pad", "stride", "acc_type", "local_bound", "out_shape"),
    "matmul_t_block_scaled": ("block_size",),
    "fft2d": ("inverse", "local_bound"),
    "rfft2d": ("local_bound",),
    "matmul": (),
    "max_pool2d": (*_POOL, "nan_mode"),
    "avg_pool2d": (*_POOL, "acc_type"),
    # elementwise
    "erf": (),
    "sigmoid": (),
    "tanh": (),
    "abs": (),
    "bitwise_not": (),
    "ceil": (),
    "clz": (),
    "exp": (),
    "floor": (),
    "log": (),
    "logical_not": (),
    "negate": (),
    "rsqrt": (),
    "arithmetic_right_shift": ("round",),
    "bitwise_and": (),
    "bitwise_or": (),
    "bitwise_xor": (),
    "intdiv": (),
    "logical_and": (),
    "logical_left_shift": (),
    "logical_right_shift": (),
    "logical_or": (),
    "logical_xor": (),
    "maximum": ("nan_mode",),
    "minimum": ("nan_mode",),
    "pow": (),
    "table": (),
    "select": (),
    "equal": (),
    "greater": (),
    "greater_equal": (),
    # data movement
    "pad": (),
    "reshape": (),
    "reverse": ("axis",),
    "slice": (),
    "tile": (),
    "transpose": ("perms",),
    "gather": (),
    "scatter": (),
    "resize": ("mode",),
    # conversions
    "rescale": ("scale32", "rounding_mode", "per_channel", "input_unsigned", "output_unsigned"),
    "cast": (),
    "cast_from_block_scaled": ("block_size",),
    "cast_to_block_scaled": ("block_size",),
    "identity": (),
    "custom": ("operator_name", "domain_name", "implementation_attrs"),
    "apply_scale": ("rounding_mode",),
    # shapes
    "const_shape": ("values",),
    "dim": ("axis",),
    "add_shape": (),
    "sub_shape": (),
    "mul_shape": (),
    "div_ceil_shape": (),
    "div_floor_shape": (),
    "mod_shape": (),
    "max_shape": (),
    "min_shape": (),
    "exp2_shape": (),
    "log2_ceil_shape": (),
    "log2_floor_shape": (),
    "concat_shape": (),
    "slice_shape": (),
    "assert_equal_shape": ("allow_broadcast",),
}
"""The attributes of each op, which MLIR keeps as properties."""

_WITH_EFFECTS = ("custom", "assert_equal_shape")


def _define(name: str, attributes: Sequence[str]) -> type[Operation]:
    content: dict[str, Any] = {
        "__doc__": f"`tosa.{name}`",
        "__module__": __name__,
        "__annotations__": {},
        "name": f"tosa.{name}",
        **{attribute: opt_prop_def(Attribute) for attribute in attributes},
    }
    base = _EffectfulOp if name in _WITH_EFFECTS else TosaOp
    class_name = "".join(word.capitalize() for word in name.split("_")) + "Op"
    made: Any = type(class_name, (base,), content)
    return irdl_op_definition(made)


class _EffectfulOp(TosaOp, ABC):
    """An op that does more than compute its results."""

    traits = traits_def()


def _with_words(own: type[Operation], result: str, attributes: Sequence[str]) -> type[Operation]:
    """xDSL's class `own` of one operand, `input`, with modes as words and elements of any type."""
    content: dict[str, Any] = {
        "__doc__": f"`{own.name}`",
        "__module__": __name__,
        "__annotations__": {},
        "name": own.name,
        "assembly_format": None,
        "input": operand_def(),
        result: result_def(),
        **{attribute: opt_prop_def(Attribute) for attribute in attributes},
        "parse": classmethod(_parse),
        "print": TosaOp.print,
        "verify_": _no_check,
    }
    made: Any = type(own.__name__, (own,), content)
    return irdl_op_definition(made)


def _no_check(op: Operation) -> None:
    """In place of the verifier of a base class, which asks for its own fields."""


@irdl_op_definition
class ConstantOp(ConstOp):
    """`tosa.const` of values of any kind, resources included."""

    name = "tosa.const"

    values = prop_def(Attribute)
    output = result_def()

    def verify_(self) -> None:
        """Leaves out the verifier of the base class."""


@irdl_op_definition
class WhileOp(IRDLOperation):
    """The second region again and again, while the first says so of what is carried along."""

    name = "tosa.while_loop"

    inputs = var_operand_def()
    outputs = var_result_def()
    condition = region_def()
    body = region_def()

    traits = traits_def(RecursiveMemoryEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        start = parser.pos
        entries = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_binding(parser))
        parser.parse_punctuation(":")
        type = parser.parse_function_type()
        if len(type.inputs) != len(entries):
            parser.raise_error(f"{len(entries)} values, but {len(type.inputs)} types", start, parser.pos)
        arguments = [argument.resolve(of) for (argument, _), of in zip(entries, type.inputs, strict=True)]
        condition = parser.parse_region(arguments)
        parser.parse_keyword("do")
        body = parser.parse_region()
        operands = parser.resolve_operands([value for _, value in entries], type.inputs.data, start)
        attributes = parser.parse_optional_attr_dict()
        return cls.build(
            operands=[operands],
            result_types=[list(type.outputs)],
            regions=[condition, body],
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        block = self.condition.block
        pairs = list(zip(block.args, self.inputs, strict=True))

        printer.print_string(" (")
        printer.print_list(pairs, lambda pair: print_binding(printer, *pair))
        printer.print_string(") : ")
        printer.print_attribute(FunctionType.from_lists(list(self.operand_types), list(self.result_types)))
        printer.print_string(" ")
        printer.print_region(self.condition, print_entry_block_args=False)
        printer.print_string(" do ")
        printer.print_region(self.body)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class ConditionalOp(IRDLOperation):
    """`tosa.cond_if`: one of two regions. What it hands to them is an argument of both."""

    name = "tosa.cond_if"

    cond = operand_def()
    inputs = var_operand_def()
    outputs = var_result_def()
    true_region = region_def()
    false_region = region_def()

    traits = traits_def(RecursiveMemoryEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        start = parser.pos
        condition = parser.parse_unresolved_operand()
        bindings = parser.parse_optional_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_binding(parser)
        )
        values = [value for _, value in bindings or ()]
        parser.parse_punctuation(":")
        type = parser.parse_type()
        types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type) or []
        results = parse_results(parser)
        regions = [parser.parse_region()]
        parser.parse_keyword("else")
        regions.append(parser.parse_region())
        return cls.build(
            operands=[
                parser.resolve_operand(condition, type),
                parser.resolve_operands(values, types, start),
            ],
            result_types=[results],
            regions=regions,
            attributes=parser.parse_optional_attr_dict(),
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.cond)
        if self.inputs:
            printer.print_string(" (")
            printer.print_list(
                list(zip(self.true_region.block.args, self.inputs, strict=True)),
                lambda pair: print_binding(printer, *pair),
            )
            printer.print_string(")")
        printer.print_string(" : ")
        printer.print_attribute(self.cond.type)
        if self.inputs:
            printer.print_string(" (")
            printer.print_list([value.type for value in self.inputs], printer.print_attribute)
            printer.print_string(")")
        print_results(printer, self.result_types)
        printer.print_string(" ")
        printer.print_region(self.true_region)
        printer.print_string(" else ")
        printer.print_region(self.false_region)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class BodyYieldOp(IRDLOperation):
    """What a region of `tosa.cond_if` or `tosa.while_loop` gives."""

    name = "tosa.yield"

    inputs = var_operand_def()

    traits = traits_def(IsTerminator(), Pure())

    assembly_format = "($inputs^ `:` type($inputs))? attr-dict"


_REPLACED: tuple[tuple[type[Operation], str, tuple[str, ...]], ...] = (
    (ClampOp, "output", ("min_val", "max_val", "nan_mode")),
    (ReduceMaxOp, "output", ("axis", "nan_mode")),
    (ReduceMinOp, "output", ("axis", "nan_mode")),
)

TOSA_OPS: dict[str, type[Operation]] = {
    **{f"tosa.{name}": _define(name, TABLE[name]) for name in TABLE},
    **{own.name: _with_words(own, result, attributes) for own, result, attributes in _REPLACED},
    **{op.name: op for op in (ConstantOp, ConditionalOp, WhileOp, BodyYieldOp)},
}
"""The class of each op, by its name."""
