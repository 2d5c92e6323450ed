"""Loops of scf in the forms that xDSL lacks, and `scf.forall`, which it has not.

    %r = scf.forall (%i, %j) in (%n, 4) shared_outs(%o = %x) -> (tensor<?x4xf32>) {
      scf.forall.in_parallel {
        tensor.parallel_insert_slice %y into %o[%i, %j] [1, 1] [1, 1] : tensor<1x1xf32> into tensor<?x4xf32>
      }
    }
    scf.parallel (%i) = (%a) to (%b) step (%s) init (%z) -> f32 { ... scf.reduce(%x : f32) { ... } }
    scf.for unsigned %i = %a to %b step %s : i32 { ... }

The classes that stand for ops of xDSL derive from its own, so that its passes know them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerType,
    TensorType,
    UnitAttr,
    i1,
    i64,
)
from xdsl.dialects.utils import (
    get_dynamic_index_list,
    parse_dynamic_index_list_without_types,
    print_dynamic_index_list,
    split_dynamic_index_list,
    verify_dynamic_index_list,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsTerminator,
    NoTerminator,
    RecursiveMemoryEffect,
    SingleBlockImplicitTerminator,
    ensure_terminator,
)
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.upstream.linalg_syntax import parse_results, print_results
from layout_ir.dialects.upstream.operand_syntax import (
    parse_binding,
    parse_indices,
    parse_variables,
    print_binding,
    print_values,
)
from layout_ir.dialects.upstream.tensor_ops import ParallelInsertSliceOp


def _ints(values: Sequence[int]) -> Attribute:
    return DenseArrayBase.from_list(i64, values)


def _parse_bindings(parser: Parser) -> tuple[list[Any], list[Any]]:
    """`(%a = %x, %b = %y)`: arguments of a region, and what they are bound to."""
    pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_binding(parser))
    return [argument for argument, _ in pairs], [operand for _, operand in pairs]


def _print_bindings(printer: Printer, arguments: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
    printer.print_string("(")
    printer.print_list(zip(arguments, values, strict=True), lambda pair: print_binding(printer, *pair))
    printer.print_string(")")


def _terminated(op: Operation) -> Operation:
    """`op`, with the terminators that its text may leave out."""
    for trait in op.get_traits_of_type(SingleBlockImplicitTerminator):
        ensure_terminator(op, trait)
    return op


# scf.forall -----------------------------------------------------------------------------------------------------------


@irdl_op_definition
class InParallelOp(IRDLOperation):
    """The end of the body of `scf.forall`: which slices of the shared tensors the iteration writes."""

    name = "scf.forall.in_parallel"

    body = region_def("single_block")

    traits = lazy_traits_def(lambda: (IsTerminator(), NoTerminator(), HasParent(ForallOp)))

    def __init__(self) -> None:
        super().__init__(regions=[Region(Block())])

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        body = parser.parse_region()
        if body.first_block is None:
            body.add_block(Block())
        return cls.create(regions=[body], attributes=parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_region(self.body)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        for op in self.body.block.ops:
            if not isinstance(op, ParallelInsertSliceOp):
                raise VerifyException(f"it takes tensor.parallel_insert_slice alone, not {op.name}")


@irdl_op_definition
class ForallOp(IRDLOperation):
    """Iterations that run in any order, or at once. Each may write a slice of the tensors that they share."""

    name = "scf.forall"

    dynamicLowerBound = var_operand_def(IndexType)
    dynamicUpperBound = var_operand_def(IndexType)
    dynamicStep = var_operand_def(IndexType)
    outputs = var_operand_def(TensorType)
    staticLowerBound = prop_def(DenseArrayBase.constr(i64))
    staticUpperBound = prop_def(DenseArrayBase.constr(i64))
    staticStep = prop_def(DenseArrayBase.constr(i64))
    mapping = opt_prop_def(ArrayAttr)
    res = var_result_def(TensorType)
    region = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    traits = traits_def(RecursiveMemoryEffect(), SingleBlockImplicitTerminator(InParallelOp))

    @property
    def rank(self) -> int:
        """How many loops are nested in it."""
        return len(self.staticUpperBound)

    @property
    def lower_bounds(self) -> Sequence[int | SSAValue]:
        """The first index of each loop."""
        return get_dynamic_index_list(
            self.staticLowerBound.get_values(), self.dynamicLowerBound, DYNAMIC_INDEX
        )

    @property
    def upper_bounds(self) -> Sequence[int | SSAValue]:
        """The index that each loop does not reach."""
        return get_dynamic_index_list(
            self.staticUpperBound.get_values(), self.dynamicUpperBound, DYNAMIC_INDEX
        )

    @property
    def steps(self) -> Sequence[int | SSAValue]:
        """The distance of two indices of each loop."""
        return get_dynamic_index_list(self.staticStep.get_values(), self.dynamicStep, DYNAMIC_INDEX)

    @property
    def is_normalized(self) -> bool:
        """Whether all loops start at 0 and step by 1, so that only their upper bounds are written."""
        return set(self.lower_bounds) <= {0} and set(self.steps) <= {1}

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        indices = parse_variables(parser)
        lower, steps = [0] * len(indices), [1] * len(indices)
        if parser.parse_optional_keyword("in") is not None:
            upper = cls._parse_bounds(parser)
        else:
            parser.parse_punctuation("=")
            lower = cls._parse_bounds(parser)
            parser.parse_keyword("to")
            upper = cls._parse_bounds(parser)
            parser.parse_keyword("step")
            steps = cls._parse_bounds(parser)
        start = parser.pos
        names: list[Any] = []
        given: list[Any] = []
        if parser.parse_optional_keyword("shared_outs") is not None:
            names, given = _parse_bindings(parser)
        types = parse_results(parser)
        outputs = parser.resolve_operands(given, types, start)
        arguments = [*indices, *(name.resolve(type) for name, type in zip(names, types, strict=True))]
        region = parser.parse_region(arguments)
        if not isinstance(region.block.last_op, InParallelOp):
            region.block.add_op(InParallelOp())
        attributes = parser.parse_optional_attr_dict()
        lists = [split_dynamic_index_list(bounds, DYNAMIC_INDEX) for bounds in (lower, upper, steps)]
        return cls.build(
            operands=[*(dynamic for _, dynamic in lists), outputs],
            properties={
                "staticLowerBound": _ints(lists[0][0]),
                "staticUpperBound": _ints(lists[1][0]),
                "staticStep": _ints(lists[2][0]),
                "mapping": attributes.pop("mapping", None),
            },
            attributes=attributes,
            result_types=[types],
            regions=[region],
        )

    @staticmethod
    def _parse_bounds(parser: Parser) -> Any:
        dynamic, static = parse_dynamic_index_list_without_types(
            parser, DYNAMIC_INDEX, delimiter=parser.Delimiter.PAREN
        )
        values = [parser.resolve_operand(value, IndexType()) for value in dynamic]
        return get_dynamic_index_list(static, values, DYNAMIC_INDEX)

    def print(self, printer: Printer) -> None:
        block = self.region.block
        printer.print_string(" ")
        print_values(printer, block.args[: self.rank], "()")

        def print_bounds(word: str, dynamic: Sequence[SSAValue], static: DenseArrayBase[Any]) -> None:
            printer.print_string(f" {word} ")
            print_dynamic_index_list(
                printer, DYNAMIC_INDEX, dynamic, static.get_values(), delimiter=Parser.Delimiter.PAREN
            )

        if self.is_normalized:
            print_bounds("in", self.dynamicUpperBound, self.staticUpperBound)
        else:
            print_bounds("=", self.dynamicLowerBound, self.staticLowerBound)
            print_bounds("to", self.dynamicUpperBound, self.staticUpperBound)
            print_bounds("step", self.dynamicStep, self.staticStep)
        if self.outputs:
            printer.print_string(" shared_outs")
            _print_bindings(printer, block.args[self.rank :], self.outputs)
            printer.print_string(" -> (")
            printer.print_list(self.res.types, printer.print_attribute)
            printer.print_string(")")
        printer.print_string(" ")
        end = block.last_op
        is_written = not isinstance(end, InParallelOp) or bool(end.body.block.ops) or bool(end.attributes)
        printer.print_region(self.region, print_entry_block_args=False, print_block_terminators=is_written)
        mapping = {} if self.mapping is None else {"mapping": self.mapping}
        printer.print_op_attributes({**self.attributes, **mapping})

    def verify_(self) -> None:
        for static, dynamic in (
            (self.staticLowerBound, self.dynamicLowerBound),
            (self.staticUpperBound, self.dynamicUpperBound),
            (self.staticStep, self.dynamicStep),
        ):
            verify_dynamic_index_list(static.get_values(), dynamic, DYNAMIC_INDEX)
            if len(static) != self.rank:
                raise VerifyException(f"{len(static)} and {self.rank} bounds or steps for the same loops")
        if self.outputs.types != self.res.types:
            raise VerifyException("the results have to have the types of the shared tensors")
        shared = self.region.block.args[self.rank :]
        end = self.region.block.last_op
        for op in end.body.block.ops if isinstance(end, InParallelOp) else ():
            if isinstance(op, ParallelInsertSliceOp) and op.dest not in shared:
                raise VerifyException("slices are written into the shared tensors that the body takes alone")
        expected = (*((IndexType(),) * self.rank), *self.outputs.types)
        if tuple(self.region.block.arg_types) != expected:
            raise VerifyException(
                f"the body takes an index for each of the {self.rank} loops, and each of the "
                f"{len(self.outputs)} shared tensors"
            )


# Forms of ops that xDSL has -------------------------------------------------------------------------------------------


class ParallelOp(scf.ParallelOp):
    """`scf.parallel`, with a custom form."""

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        indices = parse_variables(parser)
        bounds: list[Sequence[SSAValue]] = []
        parser.parse_punctuation("=")
        for word in ("to", "step", ""):
            bounds.append(parse_indices(parser, parser.Delimiter.PAREN))
            if word:
                parser.parse_keyword(word)
        start = parser.pos
        given: list[Any] = []
        if parser.parse_optional_keyword("init") is not None:
            given = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        types = parse_results(parser)
        inits = parser.resolve_operands(given, types, start)
        region = parser.parse_region(indices)
        op = cls.build(
            operands=[*bounds, inits],
            result_types=[types],
            regions=[region],
            attributes=parser.parse_optional_attr_dict(),
        )
        return _terminated(op)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_values(printer, self.body.block.args, "()")
        for word, values in (("=", self.lowerBound), ("to", self.upperBound), ("step", self.step)):
            printer.print_string(f" {word} ")
            print_values(printer, values, "()")
        if self.initVals:
            printer.print_string(" init ")
            print_values(printer, self.initVals, "()")
        print_results(printer, self.res.types)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class ForOp(scf.ForOp):
    """`scf.for`, which may compare its index unsigned."""

    name = "scf.for"

    lb = operand_def()
    ub = operand_def()
    step = operand_def()
    iter_args = var_operand_def()
    unsignedCmp = opt_prop_def(UnitAttr)
    res = var_result_def()
    body = region_def("single_block")

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        is_unsigned = parser.parse_optional_keyword("unsigned") is not None
        op = super().parse(parser)
        if is_unsigned:
            op.properties["unsignedCmp"] = UnitAttr()
        return op

    def print(self, printer: Printer) -> None:
        if self.unsignedCmp is not None:
            printer.print_string(" unsigned")
        super().print(printer)

    def verify_(self) -> None:
        """In place of the verifier of the base class, which knows no flag."""
        index, carried = self.lb.type, self.iter_args.types
        if not isinstance(index, IndexType | IntegerType):
            raise VerifyException(f"bounds are of index or integers, not of {index}")
        if {self.ub.type, self.step.type} != {index}:
            raise VerifyException(f"bounds of {index} and {self.ub.type}, and a step of {self.step.type}")
        if self.unsignedCmp is not None and not isinstance(index, IntegerType):
            raise VerifyException(f"'unsigned' is said of integers, not of {index}")
        if self.res.types != carried:
            raise VerifyException("the results have to have the types of what the loop carries")
        block = self.body.block
        if tuple(block.arg_types) != (index, *carried):
            raise VerifyException(
                f"the body takes an {index} and the {len(carried)} values that the loop carries"
            )
        end = block.last_op
        if isinstance(end, scf.YieldOp) and end.operand_types != carried:
            raise VerifyException("the body has to yield values of the types that the loop carries")


class WhileOp(scf.WhileOp):
    """`scf.while`, which may carry nothing."""

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        text = parser.lexer.input.content
        if text[parser.pos : parser.pos + 1] != ":":
            return super().parse(parser)
        parser.parse_punctuation(":")
        type = parser.parse_function_type()
        before = parser.parse_region(())
        parser.parse_keyword("do")
        after = parser.parse_region()
        given = parser.parse_optional_attr_dict_with_keyword()
        op = cls((), type.outputs.data, before, after)
        op.attributes |= {} if given is None else given.data
        return op


@irdl_op_definition
class ExecuteRegionOp(scf.ExecuteRegionOp):
    """`scf.execute_region`, which may ask not to be inlined."""

    name = "scf.execute_region"

    outs = var_result_def()
    no_inline = opt_prop_def(UnitAttr)
    region = region_def()

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        types = parse_results(parser)
        properties: dict[str, Attribute] = {}
        if parser.parse_optional_keyword("no_inline") is not None:
            properties["no_inline"] = UnitAttr()
        region = parser.parse_region()
        return cls.create(
            result_types=types,
            properties=properties,
            regions=[region],
            attributes=parser.parse_optional_attr_dict(),
        )

    def print(self, printer: Printer) -> None:
        print_results(printer, self.outs.types)
        printer.print_string(" no_inline " if self.no_inline is not None else " ")
        printer.print_region(self.region)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        """In place of the verifier of the base class, which knows no flag."""
        if self.region.first_block is None:
            raise VerifyException("the region has no block")


class IndexSwitchOp(scf.IndexSwitchOp):
    """`scf.index_switch`, whose regions may be written without `scf.yield`."""

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        op = super().parse(parser)
        for region in op.regions:
            if region.first_block is None:
                region.add_block(Block())
        return _terminated(op)


def _parse_branch(parser: Parser) -> Region:
    """A region, with the `scf.yield` that its text may leave out behind an op of any dialect."""
    region = parser.parse_region()
    if region.last_block is None:
        region.add_block(Block())
    if region.last_block is not None and not isinstance(region.last_block.last_op, scf.YieldOp):
        region.last_block.add_op(scf.YieldOp())
    return region


class IfOp(scf.IfOp):
    """`scf.if`, whose one result type may be written without parentheses. What it reads is xDSL's op."""

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        condition = parser.parse_operand(i1)
        types = parse_results(parser)
        then = _parse_branch(parser)
        other = _parse_branch(parser) if parser.parse_optional_keyword("else") is not None else Region()
        return scf.IfOp(condition, types, then, other, parser.parse_optional_attr_dict())


class ReduceOp(scf.ReduceOp):
    """`scf.reduce`, with commas between its regions."""

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        start = parser.pos
        given: list[Any] = []
        types: list[Attribute] = []
        if parser.parse_optional_punctuation("(") is not None:
            given = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            parser.parse_punctuation(")")
        regions = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_region, parser.parse_region
        )
        return cls.create(
            operands=parser.resolve_operands(given, types, start),
            regions=regions or (),
            attributes=parser.parse_optional_attr_dict(),
        )

    def print(self, printer: Printer) -> None:
        if self.args:
            printer.print_string("(")
            print_values(printer, self.args)
            printer.print_string(" : ")
            printer.print_list(self.args.types, printer.print_attribute)
            printer.print_string(") ")
        printer.print_list(self.reductions, printer.print_region)
        printer.print_op_attributes(self.attributes)


SCF_OPS: tuple[type[Operation], ...] = (
    *(ForallOp, InParallelOp, ParallelOp, ForOp, WhileOp, ExecuteRegionOp, IfOp, IndexSwitchOp, ReduceOp),
)
