"""Dialects in IRDL: with them, stock `mlir-opt --irdl-file` reads programs of ours in the generic form.

    irdl.dialect @layout {
      irdl.operation @permute {
        %0 = irdl.base "!builtin.tensor"
        %1 = irdl.base "!builtin.tensor"
        %2 = irdl.base "#builtin.dense_array"
        irdl.operands(input: %0)
        irdl.results(result: %1)
        irdl.attributes {"perm" = %2}
      }

The definitions are made from those of the ops: how many operands and results there are, and of which kind, and which
attributes have to be there. Of a variadic one there are many (`irdl_segments`): values that share a constraint have to
be of one type, even where that is `irdl.any`. IRDL says no more. What it cannot say:

* the text inside an attribute: a parameter is an attribute itself, so a format is a string there,
  `#layout.format<"(n, c) : [c, n]">`, as `layout_ir.printing` writes it on request and our parser reads as well;
* attributes that may be left out: they are not named, and any attribute of any name is accepted;
* what relates operands, results and attributes: shapes, element types, whether a format fits its tensor. Our verifiers
  do, when the program comes back.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    ArrayOfConstraint,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Data, Dialect, ParametrizedAttribute
from xdsl.irdl import (
    AnyOf,
    AttrConstraint,
    BaseAttr,
    EqAttrConstraint,
    IRDLOperation,
    MessageConstraint,
    OptionalDef,
    ParamAttrConstraint,
    RangeConstraint,
    RangeLengthConstraint,
    RangeOf,
    VariadicDef,
)

from layout_ir.dialects.layout.irdl_segments import MOST_RUNS, has_runs

_BUILTIN: dict[type[Attribute], str] = {
    ArrayAttr: "#builtin.array",
    DenseArrayBase: "#builtin.dense_array",
    DenseIntOrFPElementsAttr: "#builtin.dense_int_or_fp_elements",
    DenseResourceAttr: "#builtin.dense_resource_elements",
    DictionaryAttr: "#builtin.dictionary",
    FloatAttr: "#builtin.float",
    IntegerAttr: "#builtin.integer",
    StringAttr: "#builtin.string",
    SymbolRefAttr: "#builtin.symbol_ref",
    TensorType: "!builtin.tensor",
    UnitAttr: "#builtin.unit",
}
"""MLIR's names of the builtin attributes and types that our ops have."""

ATTRIBUTES = "attributes"
"""The module that holds the definitions of attributes. Beside those of ops, one could not have the name of an op."""

PARAMETERS: dict[str, dict[str, str]] = {
    "layout.opaque": {"kind": "#builtin.string", "size": "#builtin.integer"},
}
"""The parameters of attributes of ours that have a text of their own, where they are not one string."""


def definitions(dialects: Sequence[Dialect]) -> str:
    """The definitions of all `dialects` in IRDL, ending in a newline; ops of one may have attributes of another."""
    known = {dialect.name for dialect in dialects}
    attributes = [
        line
        for dialect in dialects
        if (found := sorted(dialect.attributes, key=lambda attribute: attribute.name))
        for line in _dialect(dialect.name, [line for one in found for line in _attribute(one, known)])
    ]
    ops = [
        line
        for dialect in dialects
        for line in _dialect(
            dialect.name,
            [
                line
                for op in sorted(dialect.operations, key=lambda op: op.name)
                for line in _operation(op, known)
            ],
        )
    ]
    held = [f"module @{ATTRIBUTES} {{", *(f"  {line}" for line in attributes), "}"] if attributes else []
    return "\n".join([*held, *ops]) + "\n"


def _dialect(name: str, lines: Sequence[str]) -> list[str]:
    return [f"irdl.dialect @{name} {{", *(f"  {line}" for line in lines), "}"]


def _attribute(attribute: type[Attribute], known: set[str]) -> list[str]:
    body = _Body(known)
    if issubclass(attribute, Data):
        stated = PARAMETERS.get(attribute.name, {"text": _BUILTIN[StringAttr]})
        parameters = [f"{name}: {body.base(base)}" for name, base in stated.items()]
    else:
        assert issubclass(attribute, ParametrizedAttribute)
        stated = attribute.get_irdl_definition().parameters
        parameters = [f"{name}: {body.constraint(parameter.constr)}" for name, parameter in stated]
    if not parameters:
        return [f"irdl.attribute @{_own_name(attribute.name)}"]
    return body.around(
        f"irdl.attribute @{_own_name(attribute.name)}", f"irdl.parameters({', '.join(parameters)})"
    )


def _operation(op: type[IRDLOperation] | type, known: set[str]) -> list[str]:
    assert issubclass(op, IRDLOperation)
    stated, body = op.get_irdl_definition(), _Body(known)
    lines: list[str] = []
    for keyword, values in (("operands", stated.operands), ("results", stated.results)):
        parts = [
            f"{segment}: {_variadicity(value)}{body.values(value.constr)}"
            for name, value in values
            for segment in _segments(name, value, values)
        ]
        if parts:
            lines.append(f"irdl.{keyword}({', '.join(parts)})")
    required = {
        name: value.constr
        for name, value in (*stated.properties.items(), *stated.attributes.items())
        if not isinstance(value, OptionalDef)
    }
    if required:
        parts = [f'"{name}" = {body.constraint(constraint)}' for name, constraint in required.items()]
        lines.append(f"irdl.attributes {{{', '.join(parts)}}}")
    if not lines:
        return [f"irdl.operation @{_own_name(op.name)}"]
    return body.around(f"irdl.operation @{_own_name(op.name)}", *lines)


def _own_name(name: str) -> str:
    """The name inside its dialect."""
    return name.partition(".")[2]


def _segments(name: str, value: object, beside: Sequence[tuple[str, object]]) -> list[str]:
    """The names of the segments that stand for one definition of operands, or of results."""
    if not isinstance(value, VariadicDef) or not has_runs(beside):
        return [name]
    return [f"{name}{number}" for number in range(MOST_RUNS)]


def _variadicity(value: object) -> str:
    return (
        "optional "
        if isinstance(value, OptionalDef)
        else "variadic "
        if isinstance(value, VariadicDef)
        else ""
    )


class _Body:
    """The constraints of one definition. Each use has one of its own: two that share one would have to be equal."""

    def __init__(self, known: set[str]) -> None:
        self.known = known
        self.lines: list[str] = []

    def around(self, head: str, *lines: str) -> list[str]:
        """The definition with this body: constraints, then `lines`."""
        return [f"{head} {{", *(f"  {line}" for line in (*self.lines, *lines)), "}"]

    def base(self, name: str) -> str:
        """The constraint to an attribute or type of this name."""
        return self._new(f"irdl.base {name}" if name.startswith("@") else f'irdl.base "{name}"')

    def values(self, constraint: RangeConstraint) -> str:
        """The constraint to the type of each value of a segment."""
        while isinstance(constraint, RangeLengthConstraint):
            constraint = constraint.constraint
        return (
            self.constraint(constraint.constr) if isinstance(constraint, RangeOf) else self._new("irdl.any")
        )

    def constraint(self, constraint: AttrConstraint) -> str:
        """The closest constraint that IRDL has: the class of the attribute, or any."""
        match constraint:
            case MessageConstraint():
                return self.constraint(constraint.constr)
            case AnyOf():
                parts = [self.constraint(part) for part in constraint.attr_constrs]
                return self._new(f"irdl.any_of({', '.join(parts)})")
            case BaseAttr():
                return self._of_class(constraint.attr)
            case ParamAttrConstraint():
                return self._of_class(constraint.base_attr)
            case EqAttrConstraint():
                return self._of_class(type(constraint.attr))
            case ArrayOfConstraint():
                return self._of_class(ArrayAttr)
            case SymbolNameConstraint():
                return self._of_class(StringAttr)
            case _:
                return self._new("irdl.any")

    def _of_class(self, cls: type[Attribute]) -> str:
        if cls in _BUILTIN:
            return self.base(_BUILTIN[cls])
        dialect, _, name = cls.name.partition(".")
        return (
            self.base(f"@{ATTRIBUTES}::@{dialect}::@{name}")
            if dialect in self.known
            else self._new("irdl.any")
        )

    def _new(self, line: str) -> str:
        self.lines.append(f"%{len(self.lines)} = {line}")
        return f"%{len(self.lines) - 1}"
