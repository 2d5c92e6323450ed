"""Hypothesis strategies: shapes, formats, layouts, and programs that choose and move layouts.

By default no extent is 1 and no two extents of a shape are equal. A dim of extent 1 lies nowhere, and two dims of one
extent can be taken for each other: both hide mistakes, and a test that draws them alone proves little. `unit_extents`
and `equal_extents` allow them, for a second test.

    @given(programs())
    def test_my_pass_keeps_what_programs_compute(text: str): ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from hypothesis import strategies as st

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import PadPolicy
from layout_ir.algebra.tag import names_for
from layout_ir.errors import LayoutError, shape_text

_BLOCKS = (2, 3, 4, 5, 8)
_POLICIES: tuple[PadPolicy, ...] = ("undef", "undef", "zero", 1.0)


@st.composite
def shapes(
    draw: st.DrawFn,
    rank: int | None = None,
    *,
    max_extent: int = 9,
    max_elements: int = 4000,
    unit_extents: bool = False,
    equal_extents: bool = False,
) -> tuple[int, ...]:
    """Extents of `rank` dims (None: 1 to 4), each at most `max_extent`, with a product of at most `max_elements`.

    Raises LayoutError where there are no such extents.
    """
    count = draw(st.integers(1, 4)) if rank is None else rank
    least = 1 if unit_extents else 2
    shape: list[int] = []
    for place in range(count):
        # What the dims that follow need at least, so that the last of them find an extent.
        rest = (
            prod(range(least, least + count - place - 1))
            if not equal_extents
            else least ** (count - place - 1)
        )
        known = [
            extent
            for extent in range(least, max_extent + 1)
            if (equal_extents or extent not in shape) and extent * prod(shape) * rest <= max_elements
        ]
        if not known:
            raise LayoutError(
                f"no shape of {count} dims has extents from {least} to {max_extent}"
                f"{'' if equal_extents else ', no two of them equal,'} and at most {max_elements} elements"
            )
        shape.append(draw(st.sampled_from(known)))
    return tuple(draw(st.permutations(shape)))


@st.composite
def formats(
    draw: st.DrawFn,
    rank: int | None = None,
    *,
    max_blocks: int = 2,
    policies: Sequence[PadPolicy] = _POLICIES,
    halos: bool = False,
) -> Format:
    """Dense formats of `rank` dims (None: 1 to 4): the dims in any order, then up to `max_blocks` blocks.

    Blocks need not divide an extent: what is left over are pads, whose policy is one of `policies`. With `halos` a dim
    may have pads in front as well.
    """
    count = draw(st.integers(1, 4)) if rank is None else rank
    outer = draw(st.permutations(range(count)))
    blocks: list[tuple[int, int]] = []
    if count:
        block = st.tuples(st.integers(0, count - 1), st.sampled_from(_BLOCKS))
        blocks = draw(st.lists(block, max_size=max_blocks))
    lo = tuple(draw(st.lists(st.sampled_from((0, 0, 1, 3)), min_size=count, max_size=count))) if halos else ()
    factors = [*(Factor(dim) for dim in outer), *(Factor(dim, size) for dim, size in blocks)]
    pad = draw(st.sampled_from(tuple(policies))) if blocks or any(lo) else "undef"
    return Format(names_for(count), tuple(factors), pad=pad, lo=lo if any(lo) else ())


@st.composite
def layouts(
    draw: st.DrawFn,
    rank: int | None = None,
    *,
    max_blocks: int = 2,
    policies: Sequence[PadPolicy] = _POLICIES,
    halos: bool = False,
    unit_extents: bool = False,
    equal_extents: bool = False,
) -> Layout:
    """Formats as `formats` draws them, bound to extents as `shapes` draws them."""
    format = draw(formats(rank, max_blocks=max_blocks, policies=policies, halos=halos))
    shape = draw(shapes(format.rank, unit_extents=unit_extents, equal_extents=equal_extents))
    return format.bind(shape)


@st.composite
def programs(
    draw: st.DrawFn,
    *,
    max_ops: int = 6,
    unit_extents: bool = False,
    equal_extents: bool = False,
) -> str:
    """Programs as MLIR text: a function @main of f32 tensors, which can be executed.

    Arguments and results have formats as `formats` draws them, all values between have `#layout.any`, so that there
    is something to choose: convolutions, products, pools, elementwise ops, reductions, concats, slices and transposes.
    """
    writer = _Writer(unit_extents, equal_extents)
    for _ in range(draw(st.integers(1, 2))):
        # Images and matrices are what convolutions and products take.
        rank = draw(st.sampled_from((4, 4, 4, 2, 3)))
        shape = draw(shapes(rank, max_elements=1000, unit_extents=unit_extents, equal_extents=equal_extents))
        writer.argument(shape, draw(formats(rank)))
    for add in draw(st.lists(st.sampled_from(_OPS), min_size=min(3, max_ops), max_size=max_ops)):
        add(draw, writer)
    unused = [name for name in writer.values if name not in writer.used]
    kept = [draw(st.sampled_from(unused))] if unused else [list(writer.values)[-1]]
    return writer.text([(name, draw(formats(len(writer.values[name])))) for name in kept])


@dataclass
class _Writer:
    """A program as it is written; extents of new values are held to what is allowed."""

    unit_extents: bool
    equal_extents: bool
    values: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """The shape of each value to which ops can be applied, by name."""
    used: set[str] = field(default_factory=set[str])
    arguments: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    count: int = 0

    def is_allowed(self, shape: Sequence[int]) -> bool:
        """Whether a value may have `shape`."""
        return (
            len(shape) > 0
            and all(extent > (0 if self.unit_extents else 1) for extent in shape)
            and (self.equal_extents or len(set(shape)) == len(shape))
            and prod(shape) <= 4000
        )

    def argument(self, shape: tuple[int, ...], format: Format) -> str:
        """Adds an argument, reordered to a layout that is open; returns the name of the result."""
        name = f"arg{len(self.arguments)}"
        type = _type(shape, format)
        self.arguments.append(f"%{name}: {type}")
        result = f"in{len(self.arguments) - 1}"
        self.lines.append(f"%{result} = layout.reorder %{name} : {type} -> {_type(shape)}")
        self.values[result] = shape
        return result

    def op(self, text: str, operands: Sequence[str], shape: tuple[int, ...]) -> None:
        """Adds a value of `shape`: `text` is the op with its operands and attributes. Left out where not allowed."""
        if not self.is_allowed(shape):
            return
        types = ", ".join(_type(self.values[name]) for name in operands)
        types = types if text.startswith("layout.") else f"({types})"
        self.lines.append(f"%v{self.count} = {text} : {types} -> {_type(shape)}")
        self.values[f"v{self.count}"] = shape
        self.used.update(operands)
        self.count += 1

    def text(self, results: Sequence[tuple[str, Format]]) -> str:
        """The program that returns these values, each in its format."""
        lines = list(self.lines)
        names: list[str] = []
        types: list[str] = []
        for number, (name, format) in enumerate(results):
            shape = self.values[name]
            names.append(f"%out{number}")
            types.append(_type(shape, format))
            lines.append(f"{names[-1]} = layout.reorder %{name} : {_type(shape)} -> {types[-1]}")
        lines.append(f"func.return {', '.join(names)} : {', '.join(types)}")
        head = f"func.func @main({', '.join(self.arguments)}) -> ({', '.join(types)}) {{"
        return "\n".join([head, *(f"  {line}" for line in lines), "}"]) + "\n"


def _type(shape: Sequence[int], format: Format | None = None) -> str:
    encoding = "#layout.any" if format is None else f"#layout.format<{format}>"
    return f"tensor<{shape_text(shape)}xf32, {encoding}>"


def _value(draw: st.DrawFn, writer: _Writer, rank: int | None = None) -> str | None:
    """A value, of that rank if given; None where there is none. Later ones are drawn more often."""
    known = [name for name, shape in writer.values.items() if rank is None or len(shape) == rank]
    if not known:
        return None
    return draw(st.sampled_from(known[-3:] if draw(st.booleans()) else known))


def _unary(draw: st.DrawFn, writer: _Writer) -> None:
    if (x := _value(draw, writer)) is not None:
        name = draw(st.sampled_from(("relu", "exp", "neg", "sigmoid", "abs", "cos")))
        # exp of exp leaves every number infinite, which would equal every other.
        name = "sigmoid" if name == "exp" and any("nn.exp" in line for line in writer.lines) else name
        writer.op(f"nn.{name} %{x}", [x], writer.values[x])


def _binary(draw: st.DrawFn, writer: _Writer) -> None:
    if (x := _value(draw, writer)) is None:
        return
    shape = writer.values[x]
    # Of equal operands neither order nor layout shows.
    others = [name for name, other in writer.values.items() if other == shape and name != x]
    y = draw(st.sampled_from(others or [x]))
    writer.op(f"nn.{draw(st.sampled_from(('add', 'sub', 'mul', 'max')))} %{x}, %{y}", [x, y], shape)


def _transpose(draw: st.DrawFn, writer: _Writer) -> None:
    if (x := _value(draw, writer)) is not None:
        shape = writer.values[x]
        order = draw(st.permutations(range(len(shape))))
        writer.op(f"layout.permute %{x} perm = {list(order)}", [x], tuple(shape[d] for d in order))


def _reduce(draw: st.DrawFn, writer: _Writer) -> None:
    x = _value(draw, writer)
    if x is None or len(writer.values[x]) < 2:
        return
    shape = writer.values[x]
    axis = draw(st.integers(0, len(shape) - 1))
    name = draw(st.sampled_from(("reduce_sum", "reduce_mean", "reduce_max", "reduce_min")))
    writer.op(f"nn.{name} %{x} axes = [{axis}] keepdims = false", [x], shape[:axis] + shape[axis + 1 :])


def _softmax(draw: st.DrawFn, writer: _Writer) -> None:
    if (x := _value(draw, writer)) is not None:
        axis = draw(st.integers(0, len(writer.values[x]) - 1))
        writer.op(f"nn.softmax %{x} axis = {axis}", [x], writer.values[x])


def _concat(draw: st.DrawFn, writer: _Writer) -> None:
    if (x := _value(draw, writer)) is None:
        return
    shape = writer.values[x]
    axis = draw(st.integers(0, len(shape) - 1))
    rest = shape[:axis] + shape[axis + 1 :]
    alike = [
        name
        for name, other in writer.values.items()
        if len(other) == len(shape) and other[:axis] + other[axis + 1 :] == rest
    ]
    y = draw(st.sampled_from(alike))
    joined = _with(shape, axis, shape[axis] + writer.values[y][axis])
    writer.op(f"nn.concat %{x}, %{y} axis = {axis}", [x, y], joined)


def _slice(draw: st.DrawFn, writer: _Writer) -> None:
    if (x := _value(draw, writer)) is None:
        return
    shape = writer.values[x]
    axis = draw(st.integers(0, len(shape) - 1))
    possible = [size for size in range(1, shape[axis]) if writer.is_allowed(_with(shape, axis, size))]
    if possible:
        sizes = _with(shape, axis, draw(st.sampled_from(possible)))
        starts = _with((0,) * len(shape), axis, draw(st.integers(0, shape[axis] - sizes[axis])))
        attributes = f"starts = {list(starts)} sizes = {list(sizes)} steps = {[1] * len(shape)}"
        writer.op(f"nn.slice %{x} {attributes}", [x], sizes)


def _with(shape: tuple[int, ...], axis: int, extent: int) -> tuple[int, ...]:
    """`shape` with another extent at `axis`."""
    return (*shape[:axis], extent, *shape[axis + 1 :])


def _conv(draw: st.DrawFn, writer: _Writer) -> None:
    if (x := _value(draw, writer, 4)) is None:
        return
    n, channels, height, width = writer.values[x]
    possible = [
        ((out, channels, kh, kw), (n, out, height - kh + 1, width - kw + 1))
        for kh, kw in ((3, 2), (2, 3), (2, 4), (4, 3), (3, 5))
        for out in (5, 6, 7, 11, 12)
    ]
    possible = [both for both in possible if all(map(writer.is_allowed, both))]
    if possible:
        weights, shape = draw(st.sampled_from(possible))
        w = writer.argument(weights, draw(formats(4)))
        writer.op(f"nn.conv %{x}, %{w}", [x, w], shape)


def _matmul(draw: st.DrawFn, writer: _Writer) -> None:
    if (x := _value(draw, writer, 2)) is None:
        return
    rows, depth = writer.values[x]
    possible = [((depth, columns), (rows, columns)) for columns in (5, 7, 10, 11)]
    possible = [both for both in possible if all(map(writer.is_allowed, both))]
    if possible:
        factor, shape = draw(st.sampled_from(possible))
        w = writer.argument(factor, draw(formats(2)))
        writer.op(f"nn.matmul %{x}, %{w}", [x, w], shape)


def _pool(draw: st.DrawFn, writer: _Writer) -> None:
    if (x := _value(draw, writer, 4)) is None:
        return
    n, channels, height, width = writer.values[x]
    possible = [
        (kernel, (n, channels, height - kernel[0] + 1, width - kernel[1] + 1))
        for kernel in ((2, 3), (3, 2), (2, 2), (3, 4))
    ]
    possible = [(kernel, shape) for kernel, shape in possible if writer.is_allowed(shape)]
    if possible:
        kernel, shape = draw(st.sampled_from(possible))
        name = draw(st.sampled_from(("max_pool", "avg_pool")))
        writer.op(f"nn.{name} %{x} kernel = {list(kernel)}", [x], shape)


_OPS: tuple[Callable[[st.DrawFn, _Writer], None], ...] = (
    _unary, _binary, _transpose, _reduce, _softmax, _concat, _slice, _conv, _conv, _matmul, _pool,
)  # fmt: skip
