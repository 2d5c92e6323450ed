"""`affine.parallel`, whose bounds are expressions, several of which `min` and `max` put together.

%r = affine.parallel (%i, %j) = (0, max(%a, %b)) to (min(%n + 4, 100), 8) step (2, 1) reduce ("addf") -> (f32) {
  affine.yield %x : f32
}
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from xdsl.dialects import affine
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseIntElementsAttr,
    IndexType,
    IntegerAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import (
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.upstream.affine_accesses import Subscripts, print_expression
from layout_ir.dialects.upstream.affine_ops import with_yield
from layout_ir.dialects.upstream.linalg_syntax import parse_results
from layout_ir.dialects.upstream.operand_syntax import (
    ATOMIC_KINDS,
    parse_atomic_kind,
    parse_variables,
    print_values,
)

_Bounds = tuple[AffineMapAttr, list[int], list[SSAValue]]
"""The map of all bounds one behind the other, how many of its results belong to each loop, and its operands."""


def _parse_bounds(parser: Parser, word: str) -> _Bounds:
    """`(0, word(%a, %b + 1))`: of each loop one expression, or several in parentheses behind `word`."""
    subscripts = Subscripts(parser)

    def parse_bound() -> list[AffineExpr]:
        if parser.parse_optional_keyword(word) is None:
            return [subscripts.expression()]
        return parser.parse_comma_separated_list(parser.Delimiter.PAREN, subscripts.expression)

    groups = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_bound)
    map, operands = subscripts.map_of([expression for group in groups for expression in group])
    return map, [len(group) for group in groups], operands


def _counts(values: Sequence[int]) -> DenseIntElementsAttr:
    return DenseIntElementsAttr.from_list(TensorType(i32, [len(values)]), values)


@irdl_op_definition
class ParallelOp(affine.ParallelOp):
    """Loops whose iterations run in any order, or at once, and what is reduced over them."""

    name = "affine.parallel"

    map_operands = var_operand_def(IndexType)
    reductions = prop_def(ArrayAttr[IntegerAttr])
    lowerBoundsMap = prop_def(AffineMapAttr)
    lowerBoundsGroups = prop_def(DenseIntElementsAttr)
    upperBoundsMap = prop_def(AffineMapAttr)
    upperBoundsGroups = prop_def(DenseIntElementsAttr)
    steps = prop_def(ArrayAttr[IntegerAttr])
    res = var_result_def()
    body = region_def("single_block")

    traits = traits_def(RecursiveMemoryEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        variables = parse_variables(parser)
        parser.parse_punctuation("=")
        lower_map, lower_groups, lower = _parse_bounds(parser, "max")
        parser.parse_keyword("to")
        upper_map, upper_groups, upper = _parse_bounds(parser, "min")
        steps = [1] * len(variables)
        if parser.parse_optional_keyword("step") is not None:
            steps = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parser.parse_integer(allow_boolean=False)
            )
        reductions: list[IntegerAttr[Any]] = []
        if parser.parse_optional_keyword("reduce") is not None:
            reductions = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parse_atomic_kind(parser, parser.parse_str_literal)
            )
        types = parse_results(parser)
        body = with_yield(parser.parse_region(variables))
        return cls.create(
            operands=[*lower, *upper],
            result_types=types,
            properties={
                "reductions": ArrayAttr(reductions),
                "lowerBoundsMap": lower_map,
                "lowerBoundsGroups": _counts(lower_groups),
                "upperBoundsMap": upper_map,
                "upperBoundsGroups": _counts(upper_groups),
                "steps": ArrayAttr(IntegerAttr(step, i64) for step in steps),
            },
            regions=[body],
            attributes=parser.parse_optional_attr_dict(),
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_values(printer, self.body.block.args, "()")
        lower = self.lowerBoundsMap.data
        own = lower.num_dims + lower.num_symbols
        printer.print_string(" = ")
        self._print_bounds(
            printer, self.lowerBoundsMap, self.lowerBoundsGroups, self.map_operands[:own], "max"
        )
        printer.print_string(" to ")
        self._print_bounds(
            printer, self.upperBoundsMap, self.upperBoundsGroups, self.map_operands[own:], "min"
        )
        steps = [step.value.data for step in self.steps]
        if any(step != 1 for step in steps):
            printer.print_string(f" step ({', '.join(map(str, steps))})")
        if self.res:
            words = ", ".join(f'"{ATOMIC_KINDS[kind.value.data]}"' for kind in self.reductions)
            printer.print_string(f" reduce ({words}) -> (")
            printer.print_list(self.res.types, printer.print_attribute)
            printer.print_string(")")
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_block_terminators=bool(self.res))
        printer.print_op_attributes(self.attributes)

    @staticmethod
    def _print_bounds(
        printer: Printer,
        map: AffineMapAttr,
        groups: DenseIntElementsAttr,
        operands: Sequence[SSAValue],
        word: str,
    ) -> None:
        ends = (0, *accumulate(groups.get_values()))

        def print_bound(range: tuple[int, int]) -> None:
            expressions = map.data.results[slice(*range)]
            printer.print_string("" if len(expressions) == 1 else f"{word}(")
            printer.print_list(expressions, lambda each: print_expression(printer, each, map.data, operands))
            printer.print_string("" if len(expressions) == 1 else ")")

        with printer.in_parens():
            printer.print_list(pairwise(ends), print_bound)

    def verify_(self) -> None:
        """In place of the verifier of the base class, which counts results among the operands."""
        loops = len(self.steps)
        wanted = 0
        for map, groups in (
            (self.lowerBoundsMap.data, self.lowerBoundsGroups),
            (self.upperBoundsMap.data, self.upperBoundsGroups),
        ):
            counts = groups.get_values()
            if len(counts) != loops or any(count < 1 for count in counts) or sum(counts) != len(map.results):
                raise VerifyException(
                    f"groups {list(counts)} of the {len(map.results)} bounds for {loops} loops: each takes one or more"
                )
            wanted += map.num_dims + map.num_symbols
        if len(self.map_operands) != wanted:
            raise VerifyException(f"{len(self.map_operands)} operands for bounds that take {wanted}")
        if any(step.value.data < 1 for step in self.steps):
            raise VerifyException("steps are numbers from 1 on")
        if self.body.block.arg_types != (IndexType(),) * loops:
            raise VerifyException(f"the body takes an index for each of the {loops} loops")
        kinds = [kind.value.data for kind in self.reductions]
        if len(kinds) != len(self.res):
            raise VerifyException(f"{len(kinds)} reductions for {len(self.res)} results")
        if any(not 0 <= kind < len(ATOMIC_KINDS) for kind in kinds):
            raise VerifyException(f"reductions are numbers from 0 to {len(ATOMIC_KINDS) - 1}, not {kinds}")
        end = self.body.block.last_op
        yielded: Sequence[Attribute] = end.operand_types if isinstance(end, affine.YieldOp) else ()
        if tuple(yielded) != self.res.types:
            raise VerifyException("the body has to yield values of the types of the results")


PARALLEL_OPS: tuple[type[Operation], ...] = (ParallelOp,)
