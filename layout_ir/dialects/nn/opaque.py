"""`nn.opaque`: a node of an ONNX model of which only the types are known.

The op has all that the node has, so that the same node can be written again: operator, domain, versions of operators,
attributes with their subgraphs, and which inputs and outputs are left out. Outer values that subgraphs use by
name are operands behind the inputs. Every tensor is dense and row-major, the order in which ONNX defines the operator.

    %v, %i = nn.opaque "TopK" opset 11 (%x, %k) {axis = 1 : i64} : (TYPE, TYPE) -> (TYPE, TYPE)
    %y = nn.opaque "com.microsoft::Attention" opset 1 (%x, %w, none, %mask) {num_heads = 4 : i64} : (TYPE, ...) -> TYPE
    %y = nn.opaque "If" opset 17 (%c) captures(%x as "x") {then_branch = #nn.proto<"...">, ...} : (TYPE, TYPE) -> TYPE
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    NoneType,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.layout import has_layout, is_any, layout_of, verify_encoding
from layout_ir.dialects.nn.tensor_types import Tensor, tensor_type
from layout_ir.errors import LayoutError

DEFAULT_DOMAIN = "ai.onnx"


@irdl_attr_definition
class ProtoAttr(ParametrizedAttribute):
    """A message of an ONNX file in protobuf's text format: an attribute of a node that is a tensor or a graph, say."""

    name = "nn.proto"

    text: StringAttr


@irdl_op_definition
class OpaqueOp(IRDLOperation):
    """An ONNX node without an op of its own here. See the top of the file for its assembly."""

    name = "nn.opaque"
    traits = traits_def(Pure())

    args = var_operand_def(TensorType)
    outs = var_result_def(TensorType)

    op_type = prop_def(StringAttr)
    domain = prop_def(StringAttr)
    """The domain of the operator, empty for ONNX's own."""
    opsets = prop_def(DictionaryAttr)
    """Versions of the operators by domain (`ai.onnx` is ONNX's own), for the node and its subgraphs."""
    inputs = prop_def(ArrayAttr[IntegerAttr])
    """Per input of the node whether it is given: each that is, is an operand."""
    captures = prop_def(ArrayAttr[StringAttr])
    """Names by which subgraphs use the operands behind the inputs."""
    outputs = prop_def(ArrayAttr[IntegerAttr])
    """Per output of the node whether it is a result, as `inputs`."""
    node_attributes = prop_def(DictionaryAttr)

    @staticmethod
    def of_node(
        op_type: str,
        domain: str,
        opsets: Mapping[str, int],
        inputs: Sequence[SSAValue | None],
        captures: Mapping[str, SSAValue],
        attributes: Mapping[str, Attribute],
        outputs: Sequence[Tensor | None],
    ) -> OpaqueOp:
        """The op for a node; an input or output that is None is left out. `opsets` has "" for ONNX's own domain."""
        versions = {key or DEFAULT_DOMAIN: IntegerAttr(version, i64) for key, version in opsets.items()}
        return OpaqueOp.create(
            operands=[*(value for value in inputs if value is not None), *captures.values()],
            result_types=[type for type in outputs if type is not None],
            properties={
                "op_type": StringAttr(op_type),
                "domain": StringAttr(domain),
                "opsets": DictionaryAttr(versions),
                "inputs": _given(inputs),
                "captures": ArrayAttr(StringAttr(name) for name in captures),
                "outputs": _given(outputs),
                "node_attributes": DictionaryAttr(dict(attributes)),
            },
        )

    @property
    def title(self) -> str:
        """Domain and operator, as in the assembly: "TopK", "com.microsoft::Gelu"."""
        domain = self.domain.data
        return f"{domain}::{self.op_type.data}" if domain else self.op_type.data

    @property
    def versions(self) -> dict[str, int]:
        """Versions of the operators by domain, "" for ONNX's own."""
        return {
            "" if key == DEFAULT_DOMAIN else key: cast(IntegerAttr, value).value.data
            for key, value in self.opsets.data.items()
        }

    @property
    def given_inputs(self) -> tuple[bool, ...]:
        """Per input of the node whether it is given."""
        return tuple(bool(entry.value.data) for entry in self.inputs.data)

    @property
    def given_outputs(self) -> tuple[bool, ...]:
        """Per output of the node whether it is a result of the op."""
        return tuple(bool(entry.value.data) for entry in self.outputs.data)

    def node_attribute(self, name: str, default: Any = None) -> Any:
        """The number, text or list of them that attribute `name` of the node is; `default` where it has none.

        Raises LayoutError for an attribute of another kind.
        """
        match self.node_attributes.data.get(name):
            case None:
                return default
            case IntegerAttr() | FloatAttr() as found:
                return found.value.data
            case StringAttr() as found:
                return found.data
            case DenseArrayBase() as found:
                numbers: Any = found
                return tuple(numbers.get_values())
            case ArrayAttr() as found if all(isinstance(text, StringAttr) for text in found.data):
                return tuple(text.data for text in found.data if isinstance(text, StringAttr))
            case _:
                raise LayoutError(f"{self.title}: {name} is no number, text or list of them")

    def verify_(self) -> None:
        try:
            self._check()
        except LayoutError as error:
            raise VerifyException(str(error)) from error

    def _check(self) -> None:
        operands = sum(self.given_inputs) + len(self.captures.data)
        if operands != len(self.operands):
            raise LayoutError(
                f"{self.title} has {operands} inputs and captured values, but the op {len(self.operands)} operands"
            )
        if sum(self.given_outputs) != len(self.results):
            raise LayoutError(
                f"{self.title} has {sum(self.given_outputs)} outputs, but the op {len(self.results)} results"
            )
        key = self.domain.data or DEFAULT_DOMAIN
        if key not in self.opsets.data:
            raise LayoutError(f"the version of the operators of {key} is missing")
        for version in self.opsets.data.values():
            if not isinstance(version, IntegerAttr):
                raise LayoutError(f"{version} is no version of operators")
        names = [name.data for name in self.captures.data]
        if len(set(names)) != len(names):
            raise LayoutError(f"captured names are given twice: {', '.join(names)}")
        for kind, values in (("operand", self.operands), ("result", self.results)):
            for number, value in enumerate(values):
                _check_row_major(tensor_type(value), f"{kind} {number}")

    # --- assembly ---------------------------------------------------------------------------------------------

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        domain, op_type = domain_and_operator(parser.parse_str_literal())
        parser.parse_keyword("opset")
        if (version := parser.parse_optional_integer(allow_negative=False)) is not None:
            opsets = DictionaryAttr({domain or DEFAULT_DOMAIN: IntegerAttr(version, i64)})
        else:
            opsets = DictionaryAttr(dict(parser.parse_optional_dictionary_attr_dict()))
        inputs = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN,
            lambda: None if parser.parse_optional_keyword("none") else parser.parse_unresolved_operand(),
        )
        operands = [value for value in inputs if value is not None]
        names: list[StringAttr] = []
        if parser.parse_optional_keyword("captures") is not None:

            def captured() -> None:
                operands.append(parser.parse_unresolved_operand())
                parser.parse_keyword("as")
                names.append(StringAttr(parser.parse_str_literal()))

            parser.parse_comma_separated_list(parser.Delimiter.PAREN, captured)
        attributes = parser.parse_optional_dictionary_attr_dict()
        extra = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_punctuation(":")
        start = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        if len(types) != len(operands):
            parser.raise_error(
                f"{len(operands)} operands, but {len(types)} types of operands", start, parser.pos
            )
        parser.parse_punctuation("->")
        results = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        results = [parser.parse_type()] if results is None else results
        given = [None if isinstance(type, NoneType) else type for type in results]
        return cls.create(
            operands=[parser.resolve_operand(*pair) for pair in zip(operands, types, strict=True)],
            result_types=[type for type in given if type is not None],
            properties={
                "op_type": StringAttr(op_type),
                "domain": StringAttr(domain),
                "opsets": opsets,
                "inputs": _given(inputs),
                "captures": ArrayAttr(names),
                "outputs": _given(given),
                "node_attributes": DictionaryAttr(dict(attributes)),
            },
            attributes={} if extra is None else extra.data,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.title)
        printer.print_string(" opset ")
        if set(self.opsets.data) == {self.domain.data or DEFAULT_DOMAIN}:
            printer.print_string(str(next(iter(self.versions.values()))))
        else:
            printer.print_attr_dict(self.opsets.data)
        printer.print_string(" ")
        operands = iter(self.operands)
        with printer.in_parens():
            printer.print_list(
                self.given_inputs,
                lambda given: (
                    printer.print_operand(next(operands)) if given else printer.print_string("none")
                ),
            )
        if self.captures.data:
            printer.print_string(" captures")
            with printer.in_parens():
                printer.print_list(
                    zip(operands, self.captures.data, strict=True), lambda pair: _capture(printer, *pair)
                )
        if self.node_attributes.data:
            printer.print_string(" ")
            printer.print_attr_dict(self.node_attributes.data)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" : ")
        with printer.in_parens():
            printer.print_list(self.operand_types, printer.print_attribute)
        printer.print_string(" -> ")
        types = iter(self.result_types)
        results = [next(types) if given else NoneType() for given in self.given_outputs]
        if len(results) == 1:
            printer.print_attribute(results[0])
        else:
            with printer.in_parens():
                printer.print_list(results, printer.print_attribute)


def domain_and_operator(title: str) -> tuple[str, str]:
    """The domain, "" for ONNX's own, and the operator that `OpaqueOp.title` puts together."""
    domain, _, operator = title.rpartition("::")
    return domain, operator


def _capture(printer: Printer, value: SSAValue, name: StringAttr) -> None:
    printer.print_operand(value)
    printer.print_string(" as ")
    printer.print_string_literal(name.data)


def _given(entries: Sequence[object]) -> ArrayAttr[IntegerAttr]:
    return ArrayAttr(IntegerAttr.from_bool(entry is not None) for entry in entries)


def _check_row_major(type: Tensor, title: str) -> None:
    """Raises LayoutError unless a tensor of this type is dense and row-major, or still to be laid out."""
    verify_encoding(type)
    if not has_layout(type):
        raise LayoutError(f"{title} is {type}, a tensor of static shape and a known element type is needed")
    if is_any(type):
        return
    layout = layout_of(type)
    if layout.is_padded or layout.offset or not layout.is_contiguous():
        raise LayoutError(f"{title} is {type}: an opaque op has row-major tensors only")
