"""Classes of ops that are alike, so that the options of one, and their costs, hold for all.

Networks repeat themselves. Two ops are of one class if they have the same Python class, attributes and types, the same
operands are one value, and the extension of their dialect tells no difference (`DialectExtension.class_key_of`); for
ops whose options follow from that and from the Formats that reach them (`models.is_local`), work is done per class and
not per op.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from layout_ir.dialects import nn
from layout_ir.dialects.layout import format_of, is_tensor
from layout_ir.interfaces import OPTIONS
from layout_ir.passes.dialect_extensions import extension_of
from layout_ir.passes.selection.costs.moved_share import concats_of
from layout_ir.passes.selection.costs.price_keys import kind_of_constant
from layout_ir.passes.selection.options.conv_kernels import Target
from layout_ir.passes.selection.options.models import is_local


class OpClasses:
    """Numbers for attributes, equal for equal ones, and for ops that are alike."""

    def __init__(self, target: Target, *, tells_constants: bool = False):
        """`tells_constants`: ops are alike only where the same operands are constants, and joined as often."""
        self.target = target
        self.tells_constants = tells_constants
        self._attributes: dict[object, int] = {}
        # The program keeps its attributes while this is in use, so that ids stay what they are.
        self._by_id: dict[int, int] = {}
        self._classes: dict[object, int] = {}
        self._local: dict[type[Operation], bool] = {}

    def attribute(self, attribute: Attribute) -> int:
        """The number of `attribute`, equal for equal ones that print alike."""
        # Hashing one is slow, and most are met again as the same object.
        number = self._by_id.get(id(attribute))
        if number is None:
            number = self._by_id[id(attribute)] = self._attributes.setdefault(
                (attribute, _names(attribute)), len(self._attributes)
            )
        return number

    def of(self, op: Operation, values: Sequence[SSAValue], positions: tuple[int, ...]) -> int | None:
        """The number of the class of `op`, or None where its options may depend on more, so that it is like no other.

        `values` are its operands and results; `positions` says which of them are the same value.
        """
        cls = type(op)
        local = self._local.get(cls)
        if local is None:
            local = self._local[cls] = is_local(op, self.target)
        if not local or OPTIONS in op.attributes:
            return None
        extension = None if isinstance(op, nn.NNOp) else extension_of(op)
        own = () if extension is None else extension.class_key_of(op)
        if own is None:
            return None
        number = self.attribute
        said = [(name, number(given)) for name, given in op.attributes.items()]
        said += [(name, number(given)) for name, given in op.properties.items()]
        known = tuple([kind_of_constant(value) for value in values]) if self.tells_constants else ()
        joined = tuple(map(concats_of, op.operands)) if known and cls is nn.ConcatOp else ()
        key = cls, tuple(said), tuple([number(value.type) for value in values]), positions, known, joined, own
        return self._classes.setdefault(key, len(self._classes))


def _names(attribute: Attribute) -> tuple[str, ...]:
    """Formats are equal whatever their dims are called, but a program is printed with its own names."""
    fmt = format_of(attribute) if is_tensor(attribute) else None
    return () if fmt is None else fmt.names
