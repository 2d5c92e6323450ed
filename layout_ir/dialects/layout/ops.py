"""Ops that change a layout, and views that look through one.

    %r = layout.reorder %x : T -> U              the same values in another Format (and, if it differs, element type)
    %r = layout.reorder %x scale = [1.0, 0.05] zero_point = [0, 3] : T -> U      of quantized tensors
    %r = layout.reorder %x scale = [1.0, [0.05, 0.1]] dim = 1 : T -> U           with one number per index of dim 1
    %r = layout.fill_pads %x : T -> U            the same addresses; pads now hold what U promises
    %r = layout.cast %x : T -> U                 the same addresses under another Format; no code
    %r = layout.permute %x perm = [0, 2, 3, 1] : T -> U
    %r = layout.reshape %x : T -> U
    %r = layout.slice %x starts = [0, 8] sizes = [2, 8] : T -> U

Views move nothing: the Format of their result is computed from that of their operand by the algebra, and the
verifier accepts no other. While one side is `any`, or where neither side carries an encoding, only the shapes are
checked: a program without encodings says what is computed, not where it lies.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, NoneAttr, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.layout.attributes import AnyAttr
from layout_ir.dialects.layout.numbers import (
    Numbers,
    check_channels,
    numbers_of,
    numbers_text,
    parse_numbers,
)
from layout_ir.dialects.layout.types import (
    Encoding,
    dtype_of,
    format_of,
    is_any,
    layout_of,
    tensor_type,
    verify_encoding,
    with_format,
)
from layout_ir.errors import LayoutError
from layout_ir.layout import Layout
from layout_ir.quantization import Conversion, conversion_between, pad_after

Tensor = TensorType[Attribute]

NEUTRAL = {"scale": 1.0, "zero_point": 0.0}
"""The numbers that elements stand for themselves with."""


def _text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


class LayoutDialectOp(IRDLOperation):
    """One tensor in, one tensor out, no effects. `FIELDS` are integer-list properties, in assembly order."""

    input = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    FIELDS: ClassVar[tuple[str, ...]] = ()

    @property
    def source_type(self) -> Tensor:
        return tensor_type(self.input.type)

    @property
    def result_type(self) -> Tensor:
        return tensor_type(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        properties: dict[str, Attribute] = {}
        for name in cls.FIELDS:
            parser.parse_keyword(name)
            parser.parse_punctuation("=")
            values = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            properties[name] = DenseArrayBase.from_list(i64, values)
        properties |= cls.parse_options(parser)
        extra = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source = parser.parse_type()
        parser.parse_punctuation("->")
        result = parser.parse_type()
        value = parser.resolve_operand(operand, source)
        return cls.create(operands=[value], result_types=[result], properties=properties, attributes=extra)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.input)
        for name in self.FIELDS:
            printer.print_string(f" {name} = [{', '.join(map(str, self.ints(name)))}]")
        self.print_options(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.input.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse_options(cls, parser: Parser) -> dict[str, Attribute]:
        """The properties that may be left out, behind those of `FIELDS`."""
        return {}

    def print_options(self, printer: Printer) -> None:
        """Prints what `parse_options` reads, a space in front of each."""

    def ints(self, name: str) -> tuple[int, ...]:
        """The integer list of property `name`."""
        return tuple(cast("DenseArrayBase[Attribute]", self.properties[name]).get_values())  # pyright: ignore

    def verify_(self) -> None:
        try:
            verify_encoding(self.source_type)
            verify_encoding(self.result_type)
            self.check()
        except LayoutError as error:
            raise VerifyException(str(error)) from error

    @abstractmethod
    def check(self) -> None:
        """Raises LayoutError, stating both sides, where operand and result do not fit."""

    def same_shape(self) -> None:
        ours, theirs = self.source_type.get_shape(), self.result_type.get_shape()
        if ours != theirs:
            raise LayoutError(
                f"{self.name} keeps the shape: operand has {_text(ours)}, result has {_text(theirs)}"
            )

    def same_element(self) -> None:
        ours, theirs = self.source_type.element_type, self.result_type.element_type
        if ours != theirs:
            raise LayoutError(f"{self.name} keeps the element type: operand has {ours}, result has {theirs}")

    @property
    def is_open(self) -> bool:
        """Whether the layout of one side is still to be chosen."""
        return is_any(self.source_type) or is_any(self.result_type)

    @property
    def is_dynamic(self) -> bool:
        """Whether only the run time knows some extent."""
        return any(extent < 0 for type in (self.source_type, self.result_type) for extent in type.get_shape())

    @property
    def is_bare(self) -> bool:
        """Whether neither side says anything about layouts, as behind `layout-strip`."""
        return isinstance(self.source_type.encoding, NoneAttr) and isinstance(
            self.result_type.encoding, NoneAttr
        )


class ChangeOp(LayoutDialectOp):
    """The same tensor under another encoding."""

    def __init__(self, input: SSAValue | Operation, encoding: Encoding):
        value = SSAValue.get(input)
        super().__init__(operands=[value], result_types=[with_format(value.type, encoding)])


@irdl_op_definition
class ReorderOp(ChangeOp):
    """The same logical values in another Format, pads written as the result's policy says.

    Where the element type changes, values are converted; `scale` and `zero_point`, each with a number for the operand
    and one for the result, say which real numbers the elements of quantized tensors stand for:
    real = (stored - zero_point) * scale. In place of a number there may be a list with one per index of `dim`.
    `layout_ir.quantization` defines both.
    """

    name = "layout.reorder"

    scale = opt_prop_def(ArrayAttr)
    zero_point = opt_prop_def(ArrayAttr)
    dim = opt_prop_def(IntegerAttr)

    @classmethod
    def parse_options(cls, parser: Parser) -> dict[str, Attribute]:
        found: dict[str, Attribute] = {}
        for name in (*NEUTRAL, "dim"):
            if parser.parse_optional_keyword(name) is not None:
                parser.parse_punctuation("=")
                found[name] = (
                    IntegerAttr(parser.parse_integer(), i64) if name == "dim" else parse_numbers(parser)
                )
        return found

    def print_options(self, printer: Printer) -> None:
        for name in NEUTRAL:
            if name in self.properties:
                printer.print_string(f" {name} = {numbers_text(self.numbers(name))}")
        if self.dim is not None:
            printer.print_string(f" dim = {self.dim.value.data}")

    def numbers(self, name: str) -> tuple[Numbers, ...]:
        """The numbers of both sides in `scale` or `zero_point`, neutral ones where it is left out."""
        return numbers_of(self.properties[name], name) if name in self.properties else (NEUTRAL[name],) * 2

    @property
    def conversion(self) -> Conversion:
        """What becomes of the elements. Raises LayoutError where the numbers do not fit the element types."""
        given = {name: self.numbers(name) for name in NEUTRAL}
        dim, shape = None if self.dim is None else self.dim.value.data, self.source_type.get_shape()
        for name, sides in given.items():
            if len(sides) != 2:
                raise LayoutError(
                    f"{name} has {len(sides)} numbers, expected two: the operand's and the result's"
                )
            check_channels(name, sides, dim, shape)
        if dim is not None and not any(isinstance(side, tuple) for sides in given.values() for side in sides):
            raise LayoutError(
                f"dim = {dim} says where channels are, but no list has a number for each: leave it out"
            )
        types = dtype_of(self.source_type), dtype_of(self.result_type)
        if self.keeps_numbers:
            return Conversion(*types)
        return conversion_between(
            *types,
            scale=given["scale"],
            # Floats have no zero point, not even one of 0.
            zero_point=tuple(x if _distinct(x) - {0.0} else None for x in given["zero_point"]),
            dim=dim,
            channels=0 if dim is None else shape[dim],
        )[0]

    @property
    def keeps_numbers(self) -> bool:
        """Whether elements stand for themselves on both sides."""
        return all(
            _distinct(side) <= {neutral} for name, neutral in NEUTRAL.items() for side in self.numbers(name)
        )

    @property
    def keeps_elements(self) -> bool:
        """Whether the result has the elements of the operand, so that only the layout differs."""
        return self.source_type.element_type == self.result_type.element_type and self.keeps_numbers

    def check(self) -> None:
        self.same_shape()
        conversion = self.conversion
        if self.is_dynamic:
            for type in (self.source_type, self.result_type):
                if not is_any(type) and format_of(type) is None:
                    raise LayoutError(f"{type} has no layout: its encoding is {type.encoding}")
            format = format_of(self.result_type)
            if format is not None:
                pad_after(format.pad, conversion)
        elif not self.is_open:
            destination = layout_of(self.result_type)
            pad_after(destination.pad, conversion)
            layout_of(self.source_type)
            if destination.is_injective(padded=destination.pad != "undef") is False:
                raise LayoutError(
                    f"the destination {destination.format} keeps several elements at one address"
                )


def _distinct(numbers: Numbers) -> set[float]:
    return set(numbers) if isinstance(numbers, tuple) else {numbers}


@irdl_op_definition
class FillPadsOp(ChangeOp):
    """Pads are written with the policy of the result's type; elements stay where they are."""

    name = "layout.fill_pads"

    def check(self) -> None:
        self.same_shape()
        self.same_element()
        if self.is_open:
            return
        source, result = layout_of(self.source_type), layout_of(self.result_type)
        if not source.same_store(result):
            raise LayoutError(
                f"layout.fill_pads moves nothing, but {source.format} and {result.format} store {_text(source.shape)} "
                "differently: use layout.reorder"
            )
        if result.pad == "undef":
            raise LayoutError("layout.fill_pads to pad = undef writes nothing: name what the pads shall hold")


@irdl_op_definition
class CastOp(ChangeOp):
    """The same bytes under another Format that says the same of every element."""

    name = "layout.cast"

    def check(self) -> None:
        self.same_shape()
        self.same_element()
        if self.is_open:
            return
        source, result = layout_of(self.source_type), layout_of(self.result_type)
        reason = cast_obstacle(source, result)
        if reason is not None:
            raise LayoutError(reason)


def cast_obstacle(source: Layout, result: Layout) -> str | None:
    """Why a tensor in `source` cannot be read as `result` without touching memory; None where it can."""
    if not source.same_map(result):
        return (
            f"{source.format} and {result.format} keep {_text(source.shape)} at different addresses: "
            "use layout.reorder"
        )
    if result.extent > source.extent:
        return f"{result.format} needs {result.extent} elements, the buffer of {source.format} has {source.extent}"
    if result.is_padded and result.pad != "undef" and not source.same_contract(result):
        return f"{source.format} does not promise the pads of {result.format}: use layout.fill_pads"
    return None


class ViewOp(LayoutDialectOp):
    """The same buffer under another index."""

    @abstractmethod
    def result_shape(self) -> tuple[int, ...]:
        """The logical shape of the result. Raises LayoutError where the attributes do not fit the operand."""

    @abstractmethod
    def view(self, layout: Layout) -> Layout:
        """The layout of the result for an operand in `layout`. Raises LayoutError where there is none."""

    @abstractmethod
    def unview(self, layout: Layout) -> Layout:
        """The layout the operand must have for the result to be in `layout`. Raises LayoutError where there is none."""

    def check(self) -> None:
        self.same_element()
        shape = self.result_shape()
        if shape != self.result_type.get_shape():
            raise LayoutError(
                f"{self.name} of {_text(self.source_type.get_shape())} has shape {_text(shape)}, "
                f"the result is declared {_text(self.result_type.get_shape())}"
            )
        if self.is_open or self.is_bare:
            return
        result = layout_of(self.result_type)
        view = self.view(layout_of(self.source_type))
        reason = cast_obstacle(replace(view, size=result.extent), result)
        if reason is not None:
            raise LayoutError(
                f"{self.name} of a tensor in {layout_of(self.source_type).format} is in {view.format}, "
                f"the result is declared {result.format}: insert a layout.reorder"
            )


def _ints(values: Sequence[int]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, list(values))


@irdl_op_definition
class PermuteOp(ViewOp):
    """Dim k of the result is dim perm[k] of the operand (ONNX Transpose, numpy.transpose)."""

    name = "layout.permute"
    FIELDS: ClassVar[tuple[str, ...]] = ("perm",)
    perm = prop_def(DenseArrayBase)

    def __init__(self, input: SSAValue | Operation, perm: Sequence[int], encoding: Encoding | None = None):
        value = SSAValue.get(input)
        source = tensor_type(value.type)
        shape = source.get_shape()
        element = source.element_type
        result = with_format(
            TensorType(element, [shape[d] for d in perm]), AnyAttr() if encoding is None else encoding
        )
        super().__init__(operands=[value], result_types=[result], properties={"perm": _ints(perm)})

    def result_shape(self) -> tuple[int, ...]:
        perm, shape = self.ints("perm"), self.source_type.get_shape()
        if sorted(perm) != list(range(len(shape))):
            raise LayoutError(
                f"perm = {list(perm)} is not a permutation of the {len(shape)} dims of {_text(shape)}"
            )
        return tuple(shape[d] for d in perm)

    def view(self, layout: Layout) -> Layout:
        return layout.permute(self.ints("perm"))

    def unview(self, layout: Layout) -> Layout:
        perm = self.ints("perm")
        return layout.permute([perm.index(d) for d in range(len(perm))])


@irdl_op_definition
class ReshapeOp(ViewOp):
    """The elements in row-major order of the logical index under another shape (ONNX Reshape, Flatten, Squeeze)."""

    name = "layout.reshape"

    def __init__(self, input: SSAValue | Operation, shape: Sequence[int], encoding: Encoding | None = None):
        value = SSAValue.get(input)
        element = tensor_type(value.type).element_type
        result = with_format(TensorType(element, list(shape)), AnyAttr() if encoding is None else encoding)
        super().__init__(operands=[value], result_types=[result])

    def result_shape(self) -> tuple[int, ...]:
        old, new = self.source_type.get_shape(), self.result_type.get_shape()
        count = [1, 1]
        for k, shape in enumerate((old, new)):
            for extent in shape:
                count[k] *= extent
        if count[0] != count[1]:
            raise LayoutError(
                f"cannot reshape {_text(old)} into {_text(new)}: {count[0]} != {count[1]} elements"
            )
        return new

    def view(self, layout: Layout) -> Layout:
        return layout.reshape(self.result_type.get_shape())

    def unview(self, layout: Layout) -> Layout:
        return layout.reshape(self.source_type.get_shape())


@irdl_op_definition
class SliceOp(ViewOp):
    """The box [starts, starts + sizes) of the operand, in its buffer."""

    name = "layout.slice"
    FIELDS: ClassVar[tuple[str, ...]] = ("starts", "sizes")
    starts = prop_def(DenseArrayBase)
    sizes = prop_def(DenseArrayBase)

    def __init__(
        self,
        input: SSAValue | Operation,
        starts: Sequence[int],
        sizes: Sequence[int],
        encoding: Encoding | None = None,
    ):
        value = SSAValue.get(input)
        element = tensor_type(value.type).element_type
        result = with_format(TensorType(element, list(sizes)), AnyAttr() if encoding is None else encoding)
        properties = {"starts": _ints(starts), "sizes": _ints(sizes)}
        super().__init__(operands=[value], result_types=[result], properties=properties)

    def result_shape(self) -> tuple[int, ...]:
        starts, sizes, shape = self.ints("starts"), self.ints("sizes"), self.source_type.get_shape()
        if not len(starts) == len(sizes) == len(shape):
            raise LayoutError(
                f"rank mismatch between starts = {list(starts)}, sizes = {list(sizes)} and operand shape {_text(shape)}"
            )
        for dim, (start, size, extent) in enumerate(zip(starts, sizes, shape, strict=True)):
            if start < 0 or size < 0 or start + size > extent:
                raise LayoutError(f"slice [{start}, {start + size}) leaves dim {dim} of extent {extent}")
        return sizes

    def view(self, layout: Layout) -> Layout:
        return layout.slice(self.ints("starts"), self.ints("sizes"))

    def unview(self, layout: Layout) -> Layout:
        raise LayoutError("the layout of a slice does not determine that of the whole")
