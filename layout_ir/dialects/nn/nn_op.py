"""What all `nn` ops share: construction, assembly format, and the rules that make an op valid.

An op of this dialect has tensors in, one tensor out, attributes, and no effects. Its assembly is

    %r = nn.NAME operands  attribute = value ...  {other attributes}?  : type

where `type` is one type when the operands and the result all have it, and `(operand types) -> type` otherwise.

The rules, in the order in which they are checked:

1. The element types are allowed, and equal.
2. The result has the inferred shape.
3. Every encoding fits its shape.
4. Where an op needs one Format, its operands and its result have it.
5. Pads that the op reduces over hold the neutral element of the operation.
6. The result's type promises of its pads no more than the op provides.

A value whose format is still to be chosen (`#layout.any`) takes part in the first three only, as does one in an
opaque layout where the op allows that at all.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import FunctionType, TensorType, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    OptOperandDef,
    VarOperandDef,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.layout import AnyAttr, format_of, is_any, layout_of, strip_type, verify_encoding
from layout_ir.dialects.nn.attributes import Field, Required
from layout_ir.dialects.nn.tensor_types import (
    FLOATS,
    Shape,
    Tensor,
    element_text,
    pad_value,
    round_to,
    shape_of,
    tensor_type,
)
from layout_ir.errors import LayoutError, shape_text
from layout_ir.interfaces import LayoutOp, PadRead

DimImages = tuple[tuple[int, ...], ...]
"""Per dim of operand 0 the dims of the result that it becomes, in order: none, one or several."""


class NNOp(IRDLOperation, LayoutOp):
    """An op of the graph: pure, tensors in, one tensor out."""

    result = result_def(TensorType)
    traits = traits_def(Pure())

    ALLOWED: ClassVar[tuple[str, ...]] = FLOATS
    """Element types that operands and result may have."""

    SAME_ELEMENT: ClassVar[bool] = True
    """Whether operands and result have one element type."""

    SAME_FORMAT: ClassVar[bool] = False
    """Whether operands of the result's rank and the result need one Format."""

    # Attributes in the order of the assembly. IRDL knows no class variable of this name, hence no annotation.
    __fields__ = dict[str, Field]()  # noqa: RUF012

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        for name, field in own.items():
            define = prop_def if isinstance(field.default, Required) else opt_prop_def
            setattr(cls, f"{name}_attr", define(field.kind.constraint, prop_name=name))
            setattr(cls, name, property(_reader(name, field)))
        cls.__fields__ = {**cls.__fields__, **own}

    def __init__(self, *operands: SSAValue | Operation, result_type: Tensor | None = None, **values: Any):
        """Attributes by name; without a `result_type` it is the inferred one, its format to be chosen.

        Raises LayoutError if the operands do not fit the attributes or each other.
        """
        values = {name: value for name, value in values.items() if value is not None}
        for name in values:
            if name not in self.__fields__:
                raise TypeError(f"{self.name} has no attribute {name}")
        for name, field in self.__fields__.items():
            if isinstance(field.default, Required) and name not in values:
                raise TypeError(f"{self.name} needs attribute {name}")
        args = [SSAValue.get(operand) for operand in operands]
        Operation.__init__(
            self,
            operands=args,
            result_types=[args[0].type if result_type is None else result_type],
            properties={name: self.__fields__[name].kind.encode(value) for name, value in values.items()},
        )
        for name in values:
            field = self.__fields__[name]
            if not isinstance(field.default, Required) and getattr(self, name) == field.default_of(self):
                del self.properties[name]
        if result_type is None:
            try:
                inferred = TensorType(self.infer_element(), self.infer(), AnyAttr())
            except LayoutError:
                self.drop_all_references()
                raise
            Rewriter.replace_value_with_new_type(self.results[0], inferred)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Logical shapes of the operands."""
        return tuple(shape_of(operand) for operand in self.operands)

    @abstractmethod
    def infer(self) -> Shape:
        """The logical shape of the result. Raises LayoutError, stating both sides, where operands do not fit."""

    def infer_element(self) -> Attribute:
        """The element type of the result."""
        return tensor_type(self.operands[0]).element_type

    def pad_reads(self, operand: int) -> tuple[PadRead, ...]:
        """What the op reads in the pads of an operand: by default nothing, it reads by logical index."""
        return ()

    def pad_result(self, pads: Sequence[float | None]) -> float | None:
        """What the op writes into pads of its result: by default zeros, whatever the operands hold."""
        return 0.0

    def dim_images(self) -> DimImages | None:
        """Where the dims of operand 0 are in the result, whose Format follows from it then.

        By default None: where there is one Format, it is that of all (`SAME_FORMAT`).
        """
        return None

    # --- assembly ---------------------------------------------------------------------------------------------

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        start = parser.pos
        names = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        names = names or []
        low, high = _operand_counts(cls)
        if len(names) < low or (high is not None and len(names) > high):
            wanted = f"{low}" if high == low else f"{low} to {high}" if high else f"at least {low}"
            noun = "operand" if low == 1 and high in (1, None) else "operands"
            parser.raise_error(f"{cls.name} takes {wanted} {noun}, not {len(names)}", start, parser.pos)
        properties = cls._parse_fields(parser)
        extra = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        signature = parser.parse_optional_function_type()
        if signature is None:
            type = parser.parse_type()
            signature = FunctionType.from_lists([type] * len(names), [type])
        if len(signature.inputs) != len(names) or len(signature.outputs) != 1:
            parser.raise_error(
                f"{len(names)} operands and 1 result, but types of "
                f"{len(signature.inputs)} operands and {len(signature.outputs)} results",
                start,
                parser.pos,
            )
        operands = [
            parser.resolve_operand(name, type) for name, type in zip(names, signature.inputs, strict=True)
        ]
        return cls.create(
            operands=operands, result_types=list(signature.outputs), properties=properties, attributes=extra
        )

    @classmethod
    def _parse_fields(cls, parser: Parser) -> dict[str, Attribute]:
        properties: dict[str, Attribute] = {}
        while True:
            start = parser.pos
            name = parser.parse_optional_identifier()
            if name is None:
                break
            end = parser.pos
            field = cls.__fields__.get(name)
            if field is None:
                known = ", ".join(cls.__fields__) or "none"
                parser.raise_error(f"{cls.name} has no attribute {name}, its attributes: {known}", start, end)
            if name in properties:
                parser.raise_error(f"{name} is given twice", start, end)
            parser.parse_punctuation("=")
            start = parser.pos
            value = field.kind.parse(parser)
            try:
                field.check(name, value)
            except LayoutError as error:
                parser.raise_error(str(error), start, parser.pos)
            properties[name] = field.kind.encode(value)
        for name, field in cls.__fields__.items():
            if isinstance(field.default, Required) and name not in properties:
                parser.raise_error(f"{cls.name} needs attribute {name}, {field.kind.noun}")
        return properties

    def print(self, printer: Printer) -> None:
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_operand)
        for name, field in self.__fields__.items():
            value = getattr(self, name)
            if isinstance(field.default, Required) or value != field.default_of(self):
                printer.print_string(f" {name} = {field.kind.show(value)}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        result = self.result.type
        if self.operands and all(type == result for type in self.operand_types):
            printer.print_attribute(result)
        else:
            printer.print_function_type(self.operand_types, [result])

    # --- verification -----------------------------------------------------------------------------------------

    def formatted_operands(self) -> Sequence[SSAValue]:
        """The operands that need the result's format, where SAME_FORMAT."""
        return self.operands

    def verify_(self) -> None:
        try:
            self.check()
        except LayoutError as error:
            raise VerifyException(str(error)) from error

    def check(self) -> None:
        """Raises LayoutError, stating both sides, if the op breaks a rule."""
        self.check_elements()
        for name, field in self.__fields__.items():
            field.check(name, getattr(self, name))
        self.check_shapes()
        if self.SAME_FORMAT:
            self._check_formats()
        self._check_pads()

    def check_elements(self) -> None:
        """Rule 1: raises LayoutError where an element type is not allowed, or differs from that of operand 0."""
        values = (*self.operands, self.result)
        self.check_allowed(values)
        if self.SAME_ELEMENT:
            self.check_equal_elements(values)

    def check_allowed(self, values: Sequence[SSAValue]) -> None:
        """Raises LayoutError where the element type of a tensor is none of `ALLOWED`."""
        for value in values:
            element = element_text(tensor_type(value).element_type)
            if element not in self.ALLOWED:
                raise LayoutError(
                    f"element type {element} of {self._title(value)} is not supported by {self.name}, "
                    f"expected one of {', '.join(self.ALLOWED)}"
                )

    def check_equal_elements(self, values: Sequence[SSAValue]) -> None:
        """Raises LayoutError where a tensor has another element type than the first."""
        for value in values:
            ours, theirs = tensor_type(values[0]).element_type, tensor_type(value).element_type
            if ours != theirs:
                raise LayoutError(
                    f"element type mismatch between {self._title(values[0])} and {self._title(value)}: "
                    f"{ours} != {theirs}"
                )

    def check_truth_value(self, value: SSAValue) -> None:
        """Raises LayoutError where a tensor is not one of truth values."""
        element = tensor_type(value).element_type
        if element != i1:
            raise LayoutError(f"{self._title(value)} of {self.name} has element type {element}, expected i1")

    def check_shapes(self) -> None:
        """Rules 2 and 3: raises LayoutError where the result has another shape than inferred, a shape is dynamic, or
        an encoding does not fit its shape."""
        for value in (*self.operands, self.result):
            if any(extent < 0 for extent in shape_of(value)):
                raise LayoutError(
                    f"{self._title(value)} has a dynamic dim in {strip_type(tensor_type(value))}"
                )
        inferred, declared = self.infer(), shape_of(self.result)
        if inferred != declared:
            raise LayoutError(
                f"shape mismatch between the inferred result and the declared one: "
                f"{shape_text(inferred)} != {shape_text(declared)}"
            )
        for value in (*self.operands, self.result):
            verify_encoding(tensor_type(value))

    def _check_formats(self) -> None:
        result = tensor_type(self.result)
        for value in () if is_any(result) else self.formatted_operands():
            type = tensor_type(value)
            if not is_any(type) and type.encoding != result.encoding and not _same_format(type, result):
                raise LayoutError(
                    f"{self.name} needs one format, but {self._title(value)} has {_format_text(type)} "
                    f"and the result has {_format_text(result)}; insert a layout.reorder"
                )

    def _check_pads(self) -> None:
        for number, value in enumerate(self.operands):
            type = tensor_type(value)
            for read in self.pad_reads(number) if format_of(type) is not None else ():
                padded = read.dim in layout_of(type).padded_dims()
                if padded and not _same_number(pad_value(type), read.neutral):
                    raise LayoutError(
                        f"{self.name} reduces over dim {read.dim} of {self._title(value)}, pads included, so they "
                        f"must hold {read.neutral:g}, but the format is {format_of(type)}; use layout.fill_pads"
                    )
        result = tensor_type(self.result)
        fmt = format_of(result)
        if fmt is None or fmt.pad == "undef" or not layout_of(result).is_padded:
            return
        provided, claim = self.pad_result(self.operand_pads()), pad_value(result)
        provided = None if provided is None else round_to(provided, result.element_type)
        claim = None if claim is None else round_to(claim, result.element_type)
        if not _same_number(provided, claim):
            left = "values that are not known" if provided is None else f"{provided:g}"
            raise LayoutError(
                f"the result claims {fmt}, but {self.name} leaves {left} in its pads; "
                f"declare pad = undef and use layout.fill_pads"
            )

    def operand_pads(self) -> list[float | None]:
        """Per operand, the number in its pads at the addresses that are pads of the result; None where unknown."""
        result = tensor_type(self.result)
        pads: list[float | None] = []
        for value in self.operands:
            type = tensor_type(value)
            known = pad_value(type) if type.get_shape() == result.get_shape() else None
            aligned = known is not None and layout_of(type).same_store(layout_of(result))
            pads.append(known if aligned else None)
        return pads

    def _title(self, value: SSAValue) -> str:
        """`value` as messages name it: operand 0, the result."""
        for number, operand in enumerate(self.operands):
            if operand is value:
                return f"operand {number}"
        return "the result"


def _same_format(type: Tensor, other: Tensor) -> bool:
    """Whether the Format of `type`, bound to the shape of `other`, is the same map as the layout of `other`."""
    ours, theirs = format_of(type), format_of(other)
    if ours is None or theirs is None or ours.rank != theirs.rank:
        return False
    try:
        return ours.bind(other.get_shape()).same_map(layout_of(other))
    except LayoutError:
        return ours == theirs


def _format_text(type: Tensor) -> str:
    fmt = format_of(type)
    return str(type.encoding if fmt is None else fmt)


def _same_number(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return False
    return left == right or (math.isnan(left) and math.isnan(right))


def _reader(name: str, field: Field) -> Any:
    def read(self: NNOp) -> Any:
        attr = self.properties.get(name)
        return field.default_of(self) if attr is None else field.kind.decode(attr)

    read.__doc__ = f"Attribute {name}: {field.kind.noun}."
    return read


def _operand_counts(cls: type[NNOp]) -> tuple[int, int | None]:
    defs = [definition for _, definition in cls.get_irdl_definition().operands]
    low = sum(not isinstance(definition, VarOperandDef) for definition in defs)
    optional = [definition for definition in defs if isinstance(definition, VarOperandDef)]
    if any(not isinstance(definition, OptOperandDef) for definition in optional):
        return max(low, 1), None
    return low, low + len(optional)
