"""How an op of any dialect states what it does with layouts.

Padding is part of the meaning of a blocked tensor, so each op says two things about it: what it needs the pads
of its operands to hold (`pad_reads`), and what it leaves in the pads of its result (`pad_result`). Everything
else (verifiers, `layout-legalize-pads`, selection) follows from these two answers.

An op of another compiler says it in one of three ways:

    class MyOp(LayoutOp)                                        pads, by the op itself
    layout_ir.extend.register_op(MyOp, options=model, ...)      options, pads and meaning, from outside
    layout.options = [#layout.option<...>]                      options, in the program and without Python

and `passes.dialect_extensions.register_extension` does for a whole dialect what the second does for a class.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.diagnostics import name_of_op
from layout_ir.entry_points import load_ops
from layout_ir.errors import LayoutError

Entry = TypeVar("Entry")


class OpRegistry(Generic[Entry]):
    """Entries for ops, registered by name or by class; a name takes precedence, then the most derived class."""

    def __init__(self) -> None:
        self._entries: dict[type[Operation] | str, Entry] = {}

    def register(self, op: type[Operation] | str, entry: Entry) -> None:
        """Registers `entry` for the ops of a class, or for those of a name, unregistered ones too; the last one
        holds."""
        self._entries[op] = entry

    def find(self, op: Operation) -> Entry | None:
        """The entry for `op`; None where there is none. An installed package that registers ops of its dialect does so
        first (`entry_points`)."""
        name = name_of_op(op)
        load_ops(name.partition(".")[0])
        if not self._entries:
            return None
        keys = (name, *type(op).__mro__)
        return next((self._entries[key] for key in keys if key in self._entries), None)

    @contextmanager
    def isolated(self) -> Generator[None]:
        """In the body nothing is registered at first; what is registered there is forgotten behind it. For tests."""
        entries, self._entries = self._entries, {}
        try:
            yield
        finally:
            self._entries = entries


@dataclass(frozen=True, slots=True)
class PadRead:
    """The op reduces over `dim` of an operand, pads included, so pads along it must hold `neutral`."""

    dim: int
    neutral: float


class LayoutOp(Operation, ABC):
    """An op that knows its padding behaviour."""

    @abstractmethod
    def pad_reads(self, operand: int) -> tuple[PadRead, ...]:
        """What the pads of operand number `operand` must hold, per reduced dim. Empty: pads are not read."""

    @abstractmethod
    def pad_result(self, pads: Sequence[float | None]) -> float | None:
        """What the pads of the result hold when those of operand k hold `pads[k]` (None: unknown)."""


def _reads_nothing(op: Operation, operand: int) -> tuple[PadRead, ...]:
    return ()


def _leaves_unknown(op: Operation) -> float | None:
    return None


@dataclass(frozen=True, slots=True)
class PadBehaviour:
    """What ops of a class that is not ours do with pads: the two answers of `LayoutOp`, given from outside.

    `reads(op, operand)` is `pad_reads`; `leaves(op)` is what the result's pads hold, given the types of op's operands
    and the Format of its result (None: unknown). Raises LayoutError where one is no function.
    """

    reads: Callable[[Operation, int], tuple[PadRead, ...]] = _reads_nothing
    leaves: Callable[[Operation], float | None] = _leaves_unknown

    def __post_init__(self) -> None:
        for name, given in (("reads", self.reads), ("leaves", self.leaves)):
            if not callable(given):
                raise LayoutError(f"{name} of a PadBehaviour is a function, not {given!r}")


PAD_BEHAVIOURS = OpRegistry[PadBehaviour]()
"""The padding behaviour of ops that do not implement `LayoutOp`."""


ArraySemantics = Callable[..., Any]
"""(op, *operands) -> the result, or a tuple of one per result, as NumPy arrays of logical shapes.

Arrays are of the type that is computed in: f16 and bf16 come as float32 and are rounded afterwards. Operands that are
no tensors come as they are."""

ARRAY_SEMANTICS = OpRegistry[ArraySemantics]()
"""What ops of others compute, for the reference (`backends.reference.registered_ops`)."""


@dataclass(frozen=True, slots=True)
class RegionLink:
    """An equality constraint: `uses` (ops and numbers of operands) and `values` are one tensor under several names.

    The operands of the op itself and of the ops that end its regions are uses, its results and the arguments of its
    blocks values. All have one shape, and get one Format.
    """

    uses: Sequence[tuple[Operation, int]]
    values: Sequence[SSAValue]


class RegionLinks(Operation, ABC):
    """An op with regions that says which tensors cross them. Tensors of any other op do so in row-major order."""

    @abstractmethod
    def links(self) -> Iterable[RegionLink]:
        """What must agree; each use and each value in one link at most."""


OPTIONS = "layout.options"
"""The attribute by which an op of any dialect carries its options in the program."""

CHOSEN = "layout.chosen"
"""The attribute in which an op carries the name of the option that was chosen for it: the kernel that is meant."""


@dataclass(frozen=True, slots=True)
class LayoutOption:
    """One way to run an op: the Formats of its tensor operands and results, in order, and what it costs.

    Tensors that can have no layout (of dynamic extents, of element types that layouts do not know, or under another
    encoding) are left out.

    None for an operand means that it is taken as it comes (in all options of the op, or in none). `cost` is in
    nanoseconds of the target (or in whatever one unit a cost table uses). For an op that states its own padding
    (`LayoutOp`) the pad policies in the Formats do not matter. For options that an op carries as `layout.options` they
    say it: what the pads of an operand must hold (undef: nothing), and what those of a result will.

    `in_place` has pairs (operand, result), numbered among the tensors of the op, that share a buffer: such an option
    is only there where the operand is not used behind the op.

    `name` says which kernel is meant; the op carries it as `layout.chosen` once the option is chosen. Empty: no name.
    """

    ins: tuple[Format | None, ...]
    outs: tuple[Format, ...]
    cost: int
    in_place: tuple[tuple[int, int], ...] = ()
    name: str = ""
