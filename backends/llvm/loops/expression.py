"""What a loop computes, as a graph of scalar operations: NumPy functions on symbols that only take notes.

The definitions of ops are functions of NumPy and arrays. Run on `Symbolic` arrays, with `SymbolicNumPy` for NumPy, they
leave a graph, in which elementwise functions are applied to elements, and reductions (`np.sum`, `np.add.reduce`,
`np.max`, ...) fold all elements of a row into one number. All reductions of a graph are over the same dims; which, and
where elements lie, is no part of it. So the softmax that the reference runs

    power = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return power / np.sum(power, axis=axis, keepdims=True)

is a graph with two folds, of which the second has the first in it: a kernel reads a row three times.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, cast

from layout_ir.backends.llvm.loops.vector_numpy import (
    INVERSE_FUNCTIONS,
    Number,
    Vector,
    VectorNumPy,
    converted,
    rounded,
)
from layout_ir.elements.element_types import element_type
from layout_ir.elements.scalar_type import ScalarType, computed_dtype
from layout_ir.errors import LayoutError

python: Any = operator
"""The operators of Python: some of their stubs have no types."""


@dataclass(eq=False)
class Symbolic:
    """An array of which only the element type is known, computed in `dtype_name`: a node of the graph.

    It is operand number `operand`, a `number`, a fold of its arguments, or a `function` of the
    arguments, numbers of Python among them.
    """

    dtype_name: str
    arguments: tuple[Symbolic | Number, ...] = ()
    function: Callable[..., Any] | None = None
    operand: int = -1
    number: Number | None = None
    fold: str = ""
    shape: tuple[int, ...] = ()
    depth: int = 0
    """How many folds are behind one another in it."""
    is_row: bool = False
    """Whether there is one number per row, not one per element."""

    __hash__ = object.__hash__

    def __post_init__(self) -> None:
        nodes = self.nodes
        self.depth = max((node.depth for node in nodes), default=0) + bool(self.fold)
        known = [node for node in nodes if node.number is None]
        self.is_row = bool(self.fold) or (bool(known) and all(node.is_row for node in known))
        self.shape = self.shape or next((node.shape for node in nodes), ())

    @property
    def nodes(self) -> list[Symbolic]:
        """The arguments that are no numbers."""
        return [argument for argument in self.arguments if isinstance(argument, Symbolic)]

    # What definitions ask of an array ---------------------------------------------------------------------------

    @property
    def dtype(self) -> ScalarType:
        """The element type."""
        return ScalarType(self.dtype_name)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    def reshape(self, *_shape: Any) -> Symbolic:
        """The same elements: where they lie is no part of the graph."""
        return self

    def astype(self, dtype: ScalarType) -> Symbolic:
        """Integers as integers of another type, with wrap-around."""
        return _applied(partial(converted, dtype=dtype.name), self, dtype=dtype.name)

    def __add__(self, other: Symbolic | Number) -> Symbolic:
        return _applied(python.add, self, other)

    def __radd__(self, other: Number) -> Symbolic:
        return _applied(python.add, other, self)

    def __sub__(self, other: Symbolic | Number) -> Symbolic:
        return _applied(python.sub, self, other)

    def __rsub__(self, other: Number) -> Symbolic:
        return _applied(python.sub, other, self)

    def __mul__(self, other: Symbolic | Number) -> Symbolic:
        return _applied(python.mul, self, other)

    def __rmul__(self, other: Number) -> Symbolic:
        return _applied(python.mul, other, self)

    def __floordiv__(self, other: Symbolic | Number) -> Symbolic:
        return _applied(python.floordiv, self, other)

    def __and__(self, other: Symbolic | Number) -> Symbolic:
        return _applied(python.and_, self, other)

    def __or__(self, other: Symbolic | Number) -> Symbolic:
        return _applied(python.or_, self, other)

    def __xor__(self, other: Symbolic | Number) -> Symbolic:
        return _applied(python.xor, self, other)

    def __lshift__(self, other: Symbolic | Number) -> Symbolic:
        return _applied(python.lshift, self, other)

    def __rshift__(self, other: Symbolic | Number) -> Symbolic:
        return _applied(python.rshift, self, other)

    def __truediv__(self, other: Symbolic | Number) -> Symbolic:
        x = self
        if isinstance(other, Double) and self.dtype.kind != "f":
            x = _applied(partial(converted, dtype="f64"), self, dtype="f64")
        return _applied(python.truediv, x, other)

    def __rtruediv__(self, other: Number) -> Symbolic:
        return _applied(python.truediv, other, self)

    def __pow__(self, power: int) -> Symbolic:
        return _applied(python.pow, self, power)

    def __neg__(self) -> Symbolic:
        return _applied(python.neg, self)

    def __lt__(self, other: Symbolic | Number) -> Symbolic:
        return _applied(python.lt, self, other, dtype="i1")

    def __le__(self, other: Symbolic | Number) -> Symbolic:
        return _applied(python.le, self, other, dtype="i1")

    def __gt__(self, other: Symbolic | Number) -> Symbolic:
        return _applied(python.gt, self, other, dtype="i1")

    def __ge__(self, other: Symbolic | Number) -> Symbolic:
        return _applied(python.ge, self, other, dtype="i1")

    def __eq__(self, other: object) -> Symbolic:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _applied(python.eq, self, cast("Symbolic | Number", other), dtype="i1")

    def __ne__(self, other: object) -> Symbolic:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _applied(python.ne, self, cast("Symbolic | Number", other), dtype="i1")


class Double(float):
    """A number that makes f64 of the integers it divides, as NumPy's do."""


def _applied(
    function: Callable[..., Any], *arguments: Symbolic | Number, dtype: str | None = None
) -> Symbolic:
    """A node: a function of vectors, of the element type of the first argument that is no number."""
    known = next(argument for argument in arguments if isinstance(argument, Symbolic))
    return Symbolic(dtype or known.dtype_name, arguments, function)


@dataclass(frozen=True)
class _Fold:
    """A function of two arrays that also folds one: `np.add`, `np.maximum`."""

    name: str
    identity: int | None
    function: Callable[..., Any]

    def __call__(self, x: Symbolic, y: Symbolic | Number) -> Symbolic:
        return _applied(self.function, x, y)

    def reduce(self, x: Symbolic, **_options: Any) -> Symbolic:
        """All elements of a row as one."""
        return Symbolic(x.dtype_name, (x,), fold=self.name)


@dataclass
class SymbolicNumPy:
    """What stands for NumPy in the definitions. `count` is the number of elements of a row."""

    count: int = 1
    add: ClassVar[_Fold] = _Fold("add", 0, python.add)
    multiply: ClassVar[_Fold] = _Fold("multiply", 1, python.mul)
    maximum: ClassVar[_Fold] = _Fold("maximum", None, VectorNumPy.maximum)
    minimum: ClassVar[_Fold] = _Fold("minimum", None, VectorNumPy.minimum)
    float64 = Double

    def sum(self, x: Symbolic, **_options: Any) -> Symbolic:
        """The sum of a row."""
        return self.add.reduce(x)

    def max(self, x: Symbolic, **_options: Any) -> Symbolic:
        """The largest element of a row."""
        return self.maximum.reduce(x)

    def mean(self, x: Symbolic, **_options: Any) -> Symbolic:
        """The mean of a row."""
        return self.add.reduce(x) / self.count

    @staticmethod
    def iinfo(dtype: ScalarType) -> Any:
        """The bounds of an integer type."""
        return VectorNumPy.iinfo(dtype)

    @staticmethod
    def ones(_shape: Any, _dtype: Any) -> Number:
        """One."""
        return 1

    @staticmethod
    def squeeze(x: Symbolic, _axes: Any) -> Symbolic:
        """The same elements."""
        return x

    @staticmethod
    def broadcast_arrays(*arrays: Symbolic) -> tuple[Symbolic, ...]:
        """The same elements."""
        return arrays

    @staticmethod
    def where(condition: Symbolic, x: Symbolic | Number, y: Symbolic | Number) -> Symbolic:
        """`x` where the condition is true, else `y`; one of the two is no number."""
        known = x if isinstance(x, Symbolic) else y
        assert isinstance(known, Symbolic)
        return _applied(VectorNumPy.where, condition, x, y, dtype=known.dtype_name)

    @staticmethod
    def isfinite(x: Symbolic) -> Symbolic:
        """Whether x is neither infinite nor NaN."""
        return _applied(VectorNumPy.isfinite, x, dtype="i1")

    @staticmethod
    def isnan(x: Symbolic) -> Symbolic:
        """Whether x is no number."""
        return _applied(VectorNumPy.isnan, x, dtype="i1")

    @staticmethod
    def clip(x: Symbolic, low: Number, high: Number) -> Symbolic:
        """`x` within the bounds."""
        return _applied(partial(VectorNumPy.clip, low=low, high=high), x)

    @staticmethod
    def fmod(x: Symbolic, y: Symbolic | Number) -> Symbolic:
        """The remainder of floats."""
        return _applied(VectorNumPy.fmod, x, y)

    @staticmethod
    def power(x: Symbolic, y: Symbolic | Number) -> Symbolic:
        """`x` to the power of `y`; a whole power of few factors is a product."""
        power = y.number if isinstance(y, Symbolic) else y
        if power in (1, 2, 3, 4) and x.dtype.kind == "f":
            return x ** int(power)
        return _applied(VectorNumPy.power, x, y)


def _unary(name: str) -> Any:
    function: Callable[..., Any] = getattr(VectorNumPy, name)

    def apply(x: Symbolic) -> Symbolic:
        return _applied(function, x)

    return staticmethod(apply)


for _name in (
    "abs", "sign", "rint", "floor", "ceil", "trunc", "sqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tanh",
    "erf", *INVERSE_FUNCTIONS,
):  # fmt: skip
    setattr(SymbolicNumPy, _name, _unary(_name))


def cast_to(x: Symbolic, dtype: str) -> Symbolic:
    """`x` as nn.cast has it."""
    return _applied(partial(converted, dtype=dtype), x, dtype=computed_dtype(dtype))


def rounded_to(x: Symbolic, dtype: str) -> Symbolic:
    """`x` as it would come back from memory of `dtype`: f16 and bf16 are computed in f32."""
    if dtype not in ("f16", "bf16"):
        return x
    return _applied(partial(rounded, dtype=dtype), x)


def neutral(fold: str, dtype: str) -> float:
    """What changes no result of a fold: of maximum and minimum the other end of the range of `dtype`."""
    if fold in ("add", "multiply"):
        return float(fold == "multiply")
    low, high = element_type(dtype).range
    return low if fold == "maximum" else high


def combined(fold: str, x: Vector, y: Vector) -> Vector:
    """The fold of two numbers. Raises LayoutError for one that is not known."""
    match fold:
        case "add":
            return x + y
        case "multiply":
            return x * y
        case "maximum":
            return VectorNumPy.maximum(x, y)
        case "minimum":
            return VectorNumPy.minimum(x, y)
        case _:
            raise LayoutError(f"loops have no fold by {fold}")


def reachable(
    roots: Iterable[Symbolic], goes_on: Callable[[Symbolic], bool] = lambda _: True
) -> Iterator[Symbolic]:
    """The nodes of graphs, each once, but for what nodes are computed from at which `goes_on` is false."""
    seen: set[Symbolic] = set()
    left = list(roots)
    while left:
        node = left.pop()
        if node not in seen:
            seen.add(node)
            yield node
            if goes_on(node):
                left.extend(node.nodes)


def folds_of(result: Symbolic) -> list[list[Symbolic]]:
    """The folds of a graph in passes over a row: those of one list need nothing but what the lists before gave."""
    found = [node for node in reachable([result]) if node.fold]
    passes = [[fold for fold in found if fold.depth == depth] for depth in range(1, result.depth + 1)]
    return [folds for folds in passes if folds]


def evaluated(node: Symbolic, known: dict[Symbolic, Vector], operand: Callable[[Symbolic], Vector]) -> Vector:
    """The code of a node: `known` are those that there is code for, which grows; `operand` gives those of operands and
    numbers.

    The graph may be as deep as a network is long, so no recursion walks it.
    """
    left = [node]
    while left:
        top = left[-1]
        if top in known:
            left.pop()
            continue
        missing = [argument for argument in top.nodes if argument not in known]
        if missing:
            left.extend(missing)
            continue
        left.pop()
        if top.function is None:
            known[top] = operand(top)
            continue
        arguments = [known[a] if isinstance(a, Symbolic) else a for a in top.arguments]
        known[top] = top.function(*arguments)
    return known[node]
