"""Programs of linalg as forms write them: elementwise, reductions, contractions, windows, moves of elements.

    build.elementwise(lambda np, x, y: np.maximum(x + y, 0), a, b)       linalg.generic, operands broadcast
    build.reduced(x, (2, 3), "add")                                      linalg.generic with reduction loops
    build.contracted([x, w], "n c oh*2+kh ow*2+kw, o c kh kw -> n o oh ow", "product")
    build.taken(x, 2, positions)                                         elements of dim 2 at known places

All of it is `linalg.generic`, `linalg.fill`, `linalg.transpose` and ops of `tensor` and `arith`; which generics are
named ops is found out afterwards (`named_ops`). f16 and bf16 are computed in f32, sums of them are kept in f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp, IndexOp, TransposeOp, YieldOp
from xdsl.dialects.utils.dynamic_index_list import split_dynamic_index_list
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.dialects.upstream.wider_ops import WiderExpandShapeOp
from layout_ir.elements.element_types import element_type
from layout_ir.exits.linalg.scalar_body import (
    Number,
    Scalar,
    ScalarBody,
    ScalarNumPy,
    computed_dtype,
    converted,
    element_of,
)

Compute = (
    Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any], Any]
    | Callable[..., Any]
)
"""(np, scalars) -> the scalar computed of them."""

NP = ScalarNumPy()


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A tensor of the program that goes out, and the name of its element type, which has a sign."""

    value: SSAValue
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return cast("TensorType[Attribute]", self.value.type).get_shape()


def tensor_of(shape: Sequence[int], dtype: str) -> TensorType[Attribute]:
    """The type of a tensor that goes out."""
    return TensorType(element_of(dtype), list(shape))


class LinalgBuilder:
    """Makes what stands for `op`, in front of it and with its location."""

    def __init__(self, op: Operation):
        self.op = op

    def insert(self, op: Operation) -> SSAValue:
        """Puts `op` in front; returns its first result."""
        op.location = self.op.location
        Rewriter.insert_op(op, InsertPoint.before(self.op))
        return op.results[0]

    # Tensors without operands -----------------------------------------------------------------------------------

    def scalar(self, number: Number, dtype: str) -> SSAValue:
        """A constant number."""
        block = Block()
        value = ScalarBody(block).constant(number, dtype).value
        op = cast(Operation, value.owner)
        op.detach()
        return self.insert(op)

    def index(self, number: int) -> SSAValue:
        """A constant of type index."""
        return self.insert(arith.ConstantOp(IntegerAttr(number, IndexType())))

    def empty(self, shape: Sequence[int], dtype: str) -> TensorValue:
        """A tensor whose elements do not matter."""
        return TensorValue(self.insert(tensor.EmptyOp([], tensor_of(shape, dtype))), dtype)

    def filled(self, shape: Sequence[int], dtype: str, number: Number) -> TensorValue:
        """A tensor of one number everywhere, to be written to."""
        init = self.empty(shape, dtype)
        fill = FillOp([self.scalar(number, dtype)], [init.value], [init.value.type])
        return TensorValue(self.insert(fill), dtype)

    def constant(self, shape: Sequence[int], dtype: str, data: bytes) -> TensorValue:
        """A constant of stored elements, little endian, or of one element for all."""
        type = tensor_of(shape, dtype)
        value = DenseIntOrFPElementsAttr(cast(Any, type), BytesAttr(data))
        return TensorValue(self.insert(arith.ConstantOp(value, type)), dtype)

    def numbers(self, shape: Sequence[int], dtype: str, numbers: Sequence[Number]) -> TensorValue:
        """A constant of numbers, or of one number for all."""
        element = cast(Any, element_of(dtype))
        return self.constant(shape, dtype, element.pack(tuple(numbers)))

    # linalg.generic ---------------------------------------------------------------------------------------------

    def generic(
        self, inputs: Sequence[tuple[TensorValue, Sequence[AffineExpr]]],
        outputs: Sequence[tuple[TensorValue, Sequence[AffineExpr]]], iterators: str,
        compute: Callable[..., Sequence[SSAValue]],
    ) -> list[TensorValue]:  # fmt: skip
        """The op with loops `iterators`, a letter p (parallel) or r (reduction) for each.

        `compute` has the body and its arguments, as Values of IR, and returns what is yielded, one per output.
        """
        loops = len(iterators)
        tensors = [*inputs, *outputs]
        block = Block(arg_types=[element_of(x.dtype) for x, _ in tensors])
        yielded = compute(ScalarBody(block), *block.args)
        block.add_op(YieldOp(*yielded))
        kinds = {"p": IteratorType.PARALLEL, "r": IteratorType.REDUCTION}
        op = GenericOp(
            [x.value for x, _ in inputs],
            [x.value for x, _ in outputs],
            Region(block),
            [AffineMapAttr(AffineMap(loops, 0, tuple(exprs))) for _, exprs in tensors],
            [IteratorTypeAttr(kinds[letter]) for letter in iterators],
            [x.value.type for x, _ in outputs],
        )
        self.insert(op)
        return [TensorValue(value, x.dtype) for value, (x, _) in zip(op.results, outputs, strict=True)]

    def elementwise(
        self, compute: Compute, *operands: TensorValue, shape: Sequence[int] | None = None, dtype: str | None = None,
        stores: bool = False,
    ) -> TensorValue:  # fmt: skip
        """`compute` at every element of operands that broadcast as in NumPy.

        The result has the `shape` to which they broadcast, and the element type of the first one, unless given.
        `stores` says that `compute` has stored elements, and returns one.
        """
        rank = max(len(shape or ()), *(len(x.shape) for x in operands))
        padded = [(1,) * (rank - len(x.shape)) + x.shape for x in operands]
        if shape is None:
            shape = tuple(next((e for e in extents if e != 1), 1) for extents in zip(*padded, strict=True))
        dtype = dtype or operands[0].dtype
        dims = [AffineExpr.dimension(d) for d in range(rank)]
        kept: list[tuple[TensorValue, Sequence[AffineExpr]]] = []
        numbers: dict[int, tuple[Number, str]] = {}
        for position, x in enumerate(operands):
            number = splat_number(x)
            if number is not None and x.shape != tuple(shape):
                numbers[position] = (number, x.dtype)
                continue
            first = rank - len(x.shape)
            kept.append((x, [
                AffineExpr.constant(0) if extent == 1 and shape[first + d] != 1 else dims[first + d]
                for d, extent in enumerate(x.shape)
            ]))  # fmt: skip

        run = cast("Callable[..., Scalar | Number]", compute)

        def body(scalars: ScalarBody, *args: SSAValue) -> list[SSAValue]:
            left = iter(args[:-1])
            values: list[Scalar] = []
            for position, x in enumerate(operands):
                if position in numbers:
                    number, own = numbers[position]
                    values.append(scalars.constant(number, own if stores else computed_dtype(own)))
                else:
                    value = next(left)
                    values.append(
                        Scalar(scalars, value, x.dtype) if stores else scalars.widened(value, x.dtype)
                    )
            return [scalars.narrowed(run(NP, *values), dtype)]

        init = self.empty(shape, dtype)
        return self.generic(kept, [(init, dims)], "p" * rank, body)[0]

    def folded(
        self, x: TensorValue, axes: Sequence[int], fold: str, start: Number, *,
        each: Compute | None = None, with_each: Sequence[TensorValue] = (),
    ) -> TensorValue:  # fmt: skip
        """`each` element folded over `axes`, which stay as dims of extent 1; in the computed type.

        `fold` is the name of a NumPy ufunc: add, multiply, maximum, minimum. `with_each` are further operands of
        `each`, of extent 1 in `axes`.
        """
        rank, wide = len(x.shape), computed_dtype(x.dtype)
        shape = tuple(1 if d in axes else extent for d, extent in enumerate(x.shape))
        dims = [AffineExpr.dimension(d) for d in range(rank)]
        outer = [AffineExpr.constant(0) if d in axes else dims[d] for d in range(rank)]

        def body(scalars: ScalarBody, *args: SSAValue) -> list[SSAValue]:
            dtypes = [x.dtype, *(y.dtype for y in with_each)]
            values = [scalars.widened(arg, dtype) for arg, dtype in zip(args[:-1], dtypes, strict=True)]
            total = Scalar(scalars, args[-1], wide)
            element = values[0] if each is None else cast("Callable[..., Scalar]", each)(NP, *values)
            return [scalars.narrowed(FOLDS[fold](total, element), wide)]

        init = self.filled(shape, wide, start)
        letters = "".join("r" if d in axes else "p" for d in range(rank))
        inputs = [(x, dims), *((y, outer) for y in with_each)]
        return self.generic(inputs, [(init, outer)], letters, body)[0]

    def contracted(
        self, operands: Sequence[TensorValue], notation: str, body: str, *, shape: Sequence[int], start: Number = 0,
        extents: Mapping[str, int] | None = None,
    ) -> TensorValue:  # fmt: skip
        """The `product` of two operands summed up, or the `add` or `maximum` of one folded, over what `notation` names.

        `notation` is that of einsum with names for letters, `*` and `+`: "n c oh*2+kh, o c kh -> n o oh". A dim that is
        "0" is read at 0. Loops that no operand has alone need `extents`. The result has `shape`, in the computed type.
        """
        sources, target = notation.split("->")
        written = [part.split() for part in [*sources.split(","), target]]
        names = list(dict.fromkeys(written[-1]))
        for part in written[:-1]:
            for text in part:
                names += [name for name, _ in _terms(text) if name not in names]
        numbers = {name: AffineExpr.dimension(k) for k, name in enumerate(names)}
        maps = [[_expression(text, numbers) for text in part] for part in written]
        wide = computed_dtype(operands[0].dtype)
        inputs = list(zip(operands, maps[:-1], strict=True))
        alone = {text for part in written for text in part}
        window = [name for name in names if name not in alone]
        if window:
            # Loops over windows that nothing else has the extents of: an operand that is not read says them.
            assert extents is not None
            sizes = [extents[name] for name in window]
            inputs.append((self.empty(sizes, operands[0].dtype), [numbers[name] for name in window]))

        def compute(scalars: ScalarBody, *args: SSAValue) -> list[SSAValue]:
            values = [scalars.widened(arg, x.dtype) for arg, x in zip(args, operands, strict=False)]
            each = values[0] * values[1] if body == "product" else values[0]
            total = Scalar(scalars, args[-1], wide)
            return [FOLDS["add" if body == "product" else body](total, each).value]

        init = self.filled(shape, wide, start)
        letters = "".join("p" if name in written[-1] else "r" for name in names)
        return self.generic(inputs, [(init, maps[-1])], letters, compute)[0]

    def narrowed(self, x: TensorValue, dtype: str) -> TensorValue:
        """A computed tensor as stored elements of `dtype`."""
        if x.dtype == dtype:
            return x
        return self.elementwise(lambda np, value: converted(value, dtype), x, dtype=dtype, stores=True)

    # Moving elements --------------------------------------------------------------------------------------------

    def reshaped(self, x: TensorValue, shape: Sequence[int]) -> TensorValue:
        """The elements in row-major order under another shape: dims are merged, dims are split, or first all merged."""
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if not shape:
            return self._collapsed(x, shape, [])
        if not x.shape:
            return self._expanded(x, shape, [])
        groups = _groups(x.shape, shape)
        if groups is None:
            flat = (math.prod(x.shape),)
            return self._expanded(self._collapsed(x, flat, [range(len(x.shape))]), shape, [range(len(shape))])
        middle = tuple(math.prod(x.shape[k] for k in old) for old, _ in groups)
        return self._expanded(
            self._collapsed(x, middle, [old for old, _ in groups]), shape, [new for _, new in groups]
        )

    def _collapsed(
        self, x: TensorValue, shape: Sequence[int], groups: Sequence[Sequence[int]]
    ) -> TensorValue:
        if x.shape == tuple(shape):
            return x
        op = tensor.CollapseShapeOp(
            operands=[x.value],
            result_types=[tensor_of(shape, x.dtype)],
            properties={"reassociation": _reassociation(groups)},
        )
        return TensorValue(self.insert(op), x.dtype)

    def _expanded(self, x: TensorValue, shape: Sequence[int], groups: Sequence[Sequence[int]]) -> TensorValue:
        if x.shape == tuple(shape):
            return x
        op = WiderExpandShapeOp(x.value, [], _reassociation(groups), list(shape), tensor_of(shape, x.dtype))
        return TensorValue(self.insert(op), x.dtype)

    def transposed(self, x: TensorValue, perm: Sequence[int]) -> TensorValue:
        """Dim k of the result is dim `perm[k]` of `x`; two transpositions in a row are one, or none."""
        owner = x.value.owner
        if isinstance(owner, TransposeOp):
            inner = owner.permutation.get_values()
            x, perm = TensorValue(owner.operands[0], x.dtype), [inner[dim] for dim in perm]
        if list(perm) == sorted(perm):
            return x
        init = self.empty([x.shape[dim] for dim in perm], x.dtype)
        op = TransposeOp(x.value, init.value, DenseArrayBase.from_list(i64, list(perm)), init.value.type)
        return TensorValue(self.insert(op), x.dtype)

    def sliced(
        self, x: TensorValue, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int] | None = None
    ) -> TensorValue:
        """Per dim, `sizes` elements from `starts` at distance `steps`; backwards too."""
        steps = list(steps or [1] * len(x.shape))
        for dim, (start, size, step) in enumerate(zip(starts, sizes, steps, strict=True)):
            if step < 0 and size > 1:
                x = self._backwards(x, dim, start, size, step)
                starts = [*starts[:dim], 0, *starts[dim + 1 :]]
                steps[dim] = 1
            elif size <= 1:
                steps[dim] = 1
        if x.shape == tuple(sizes):
            return x
        if 0 in sizes:
            return self.empty(sizes, x.dtype)  # mlir-opt refuses a slice that begins at the end of a dim
        op = tensor.ExtractSliceOp(x.value, list(starts), list(sizes), steps, tensor_of(sizes, x.dtype))
        return TensorValue(self.insert(op), x.dtype)

    def _backwards(self, x: TensorValue, dim: int, start: int, size: int, step: int) -> TensorValue:
        """`size` elements of one dim from `start` at distance `step`, which is negative: an indexing map."""
        dims = [AffineExpr.dimension(d) for d in range(len(x.shape))]
        there = [*dims[:dim], AffineExpr.constant(start) + dims[dim] * step, *dims[dim + 1 :]]
        init = self.empty([*x.shape[:dim], size, *x.shape[dim + 1 :]], x.dtype)
        return self.generic([(x, there)], [(init, dims)], "p" * len(dims), unchanged)[0]

    def padded(
        self, x: TensorValue, before: Sequence[int], after: Sequence[int], number: Number
    ) -> TensorValue:
        """`x` with more elements of `number` around it; negative numbers take elements away."""
        if any(side < 0 for side in (*before, *after)):
            starts = [max(-b, 0) for b in before]
            sizes = [
                extent - start + min(a, 0) for extent, start, a in zip(x.shape, starts, after, strict=True)
            ]
            if min(sizes) < 0:
                shape = [b + e + a for b, e, a in zip(before, x.shape, after, strict=True)]
                return self.filled(shape, x.dtype, number)
            x = self.sliced(x, starts, sizes)
            before, after = [max(b, 0) for b in before], [max(a, 0) for a in after]
        if not any(before) and not any(after):
            return x
        shape = [b + e + a for b, e, a in zip(before, x.shape, after, strict=True)]
        value = self.scalar(number, x.dtype)
        block = Block(arg_types=[IndexType()] * len(shape))
        block.add_op(tensor.YieldOp(value))
        op = tensor.PadOp(
            x.value, [], [], Region(block), list(before), list(after), tensor_of(shape, x.dtype)
        )
        return TensorValue(self.insert(op), x.dtype)

    def placed(
        self, x: TensorValue, target: TensorValue, starts: Sequence[SSAValue | int], steps: Sequence[int] | None = None
    ) -> TensorValue:  # fmt: skip
        """`target` with the elements of `x` from `starts`, numbers or values, at distance `steps`."""
        if 0 in x.shape:
            return target  # mlir-opt refuses a slice that begins at the end of a dim
        offsets, dynamic = split_dynamic_index_list(starts, DYNAMIC_INDEX)
        op = tensor.InsertSliceOp(
            operands=[x.value, target.value, dynamic, [], []],
            result_types=[target.value.type],
            properties={
                "static_offsets": DenseArrayBase.from_list(i64, offsets),
                "static_sizes": DenseArrayBase.from_list(i64, list(x.shape)),
                "static_strides": DenseArrayBase.from_list(i64, list(steps or [1] * len(x.shape))),
            },
        )
        return TensorValue(self.insert(op), target.dtype)

    def joined(self, parts: Sequence[TensorValue], dim: int) -> TensorValue:
        """The parts one behind the other in `dim`."""
        ends = list(accumulate(part.shape[dim] for part in parts))
        shape = list(parts[0].shape)
        shape[dim] = ends[-1]
        whole = self.empty(shape, parts[0].dtype)
        for part, end in zip(parts, ends, strict=True):
            starts: list[SSAValue | int] = [0] * len(shape)
            starts[dim] = end - part.shape[dim]
            whole = self.placed(part, whole, starts)
        return whole

    def taken(self, x: TensorValue, dim: int, positions: Sequence[int]) -> TensorValue:
        """The elements of `dim` at `positions`, which are known."""
        if list(positions) == list(range(x.shape[dim])):
            return x
        step = positions[1] - positions[0] if len(positions) > 1 else 1
        if step and all(b - a == step for a, b in pairwise(positions)) and positions:
            starts, sizes, steps = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
            starts[dim], sizes[dim], steps[dim] = positions[0], len(positions), step
            return self.sliced(x, starts, sizes, steps)
        where = self.numbers((len(positions),), "i64", positions)
        return self.gathered(x, dim, where, bounded=True)

    def gathered(self, x: TensorValue, dim: int, where: TensorValue, *, bounded: bool = False) -> TensorValue:
        """The elements of `dim` at the indices `where`, whose dims take its place; unless `bounded`, an index below 0
        counts from the end, and one out of range is that of the nearest element."""
        inner, extent = len(where.shape), x.shape[dim]
        shape = (*x.shape[:dim], *where.shape, *x.shape[dim + 1 :])
        dims = [AffineExpr.dimension(d) for d in range(len(shape))]

        def body(scalars: ScalarBody, *args: SSAValue) -> list[SSAValue]:
            index = converted(Scalar(scalars, args[0], where.dtype), "i64")
            if not bounded:
                index = NP.clip(NP.where(index < 0, index + extent, index), 0, extent - 1)
            position = arith.IndexCastOp(index.value, IndexType())
            loops = [IndexOp(d) for d in range(len(shape)) if not dim <= d < dim + inner]
            scalars.block.add_ops([position, *loops])
            places = [op.results[0] for op in loops]
            found = tensor.ExtractOp(
                x.value, [*places[:dim], position.result, *places[dim:]], element_of(x.dtype)
            )
            scalars.block.add_op(found)
            return [found.result]

        init = self.empty(shape, x.dtype)
        return self.generic([(where, dims[dim : dim + inner])], [(init, dims)], "p" * len(shape), body)[0]


FOLDS: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "add": lambda total, x: total + x,
    "multiply": lambda total, x: total * x,
    "maximum": NP.maximum,
    "minimum": NP.minimum,
}
"""What a ufunc does with the value so far and one more, by its name in NumPy."""


def unchanged(body: ScalarBody, element: SSAValue, *others: SSAValue) -> list[SSAValue]:
    """The body of a generic that moves elements."""
    return [element]


def splat_number(x: TensorValue) -> Number | None:
    """The one number of all elements of a constant; None for any other tensor."""
    owner = x.value.owner
    if not isinstance(owner, arith.ConstantOp) or not isinstance(owner.value, DenseIntOrFPElementsAttr):
        return None
    data = owner.value.data.data
    size = max(element_type(x.dtype).bits // 8, 1)
    if len(data) != size:
        return None
    if x.dtype == "i1":
        return int(data[0] != 0)
    known = element_type(x.dtype)
    if known.is_float:
        return cast(Any, element_of(x.dtype)).unpack(data, 1)[0]
    return int.from_bytes(data, "little", signed=known.is_signed)


def _terms(text: str) -> list[tuple[str, int]]:
    """The loops of one dim, each with its factor."""
    if text == "0":
        return []
    parts = (term.split("*") for term in text.split("+"))
    return [(name, int(*factor) if factor else 1) for name, *factor in parts]


def _expression(text: str, numbers: Mapping[str, AffineExpr]) -> AffineExpr:
    total: AffineExpr | None = None
    for name, factor in _terms(text):
        term = numbers[name] * factor if factor != 1 else numbers[name]
        total = term if total is None else total + term
    return AffineExpr.constant(0) if total is None else total


def _reassociation(groups: Sequence[Sequence[int]]) -> ArrayAttr[Any]:
    return ArrayAttr([ArrayAttr([IntegerAttr(dim, i64) for dim in group]) for group in groups])


def _groups(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]] | None:
    """Dims of `old` and of `new` that hold the same elements, smallest groups in order; None where there is one.

    Every group has dims of both; an extent of 0 makes one group of all.
    """
    if 0 in old or 0 in new or not old or not new:
        return None
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        if i == len(old) or j == len(new):
            # Only ones are left: they belong to the last group.
            groups[-1][0].extend(range(i, len(old)))
            groups[-1][1].extend(range(j, len(new)))
            break
        a, b = [i], [j]
        left, right = old[i], new[j]
        while left != right:
            if left < right:
                i += 1
                a.append(i)
                left *= old[i]
            else:
                j += 1
                b.append(j)
                right *= new[j]
        groups.append((a, b))
        i, j = i + 1, j + 1
    return groups
