"""Convolutions, pools and matrix products on physical dims in which `nn` has no such op, as `linalg.generic`.

Every loop of the op becomes one loop per digit. Where operand and result, or two operands, hold a dim in other blocks,
the digits are those that both have in common, into which all are reshaped. For a convolution in nChw8c with weights
OIhw8i8o:

    for n, O, h, w, o (parallel), I, kh, kw, i (reduction):
        y[n, O, h, w, o] += x[n, I, h * stride + kh, w * stride + kw, i] * w[O, I, kh, kw, i, o]

Pads of the dims that are summed over are zeros in both operands, which the verifiers of `nn` have checked, so loops run
over whole blocks. Spatial dims in blocks are refused: a window over them is no affine function.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AffineMapAttr, AnyFloat, Float64Type, TensorType, f32
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from layout_ir.algebra.physical import PhysicalDim, PhysicalTensor, row_major
from layout_ir.dialects import nn
from layout_ir.dialects.nn.constant import literal
from layout_ir.errors import LayoutError
from layout_ir.passes.physical.physical_builder import PhysicalBuilder, PhysicalValue, unknown_pads

_Loop = TypeVar("_Loop", int, str)

Access = str | Mapping[str, int]
"""How an op reads one logical dim: by a loop, digit by digit, or at a sum of loops times numbers (then the dim is one
physical dim)."""


@dataclass(frozen=True)
class _Operand:
    x: PhysicalValue
    access: tuple[Access, ...]


def contraction(
    build: PhysicalBuilder, result: PhysicalTensor, access: tuple[str, ...], operands: Sequence[_Operand],
    *, start: float, body: str,
) -> PhysicalValue:  # fmt: skip
    """The `linalg.generic` that folds its body over the loops that `access` of the result does not name.

    Folds from `start`, in f32 or f64, "product" (adds up the products of two operands), "sum" or "max" (of the first
    operand). The result has the dims of `result`, cut into the digits of the loops. Raises LayoutError where a dim has
    pads in front, or lies in blocks where it cannot.
    """
    loops: dict[str, int] = {}
    for operand in operands:
        for dim, way in enumerate(operand.access):
            if isinstance(way, str):
                if operand.x.tensor.lo[dim]:
                    raise LayoutError(f"dim {dim} of an operand has pads in front")
                extent = max(loops.get(way, 0), operand.x.tensor.padded_extent(dim))
                unit = math.lcm(*(_outer_unit(t, d) for t, d in _users(way, operands, access, result)))
                loops[way] = -(-extent // unit) * unit
    for dim, loop in enumerate(access):
        loops.setdefault(loop, result.padded_extent(dim))
    if 0 in loops.values():
        raise LayoutError("a tensor without elements is known in the order of its dims only")
    operands = [_grown(build, operand, loops) for operand in operands]
    natural = result
    for dim, loop in enumerate(access):
        natural = natural.with_dim(dim, loops[loop] // _outer_unit(result, dim), 0)
    digits = {
        loop: common_digits(extent, _users(loop, operands, access, natural)) for loop, extent in loops.items()
    }
    reads = [
        (way, operand.x.tensor.extents[dim])
        for operand in operands
        for dim, way in enumerate(operand.access)
        if not isinstance(way, str)
    ]
    single = needed_loops_of_one(reads, loops)
    digits.update((loop, [(1, 1)]) for loop in single)
    summed = [loop for loop in loops if loop not in access]
    order = [(loop, unit) for loop in (*access, *summed) for unit, _ in digits[loop]]
    numbers = {key: AffineExpr.dimension(k) for k, key in enumerate(order)}

    operands = [
        replace(operand, x=build.reshaped(operand.x, _split(operand.x.tensor, operand.access, digits)))
        for operand in operands
    ]
    natural = replace(_split(natural, access, digits), pad="undef")
    maps = [
        AffineMap(
            len(order),
            0,
            tuple(_index(ways[place.dim], place, digits, numbers, single) for place in tensor.dims),
        )
        for tensor, ways in [*((o.x.tensor, o.access) for o in operands), (natural, access)]
    ]
    element = operands[0].x.element
    wide = element if isinstance(element, Float64Type) else f32
    init = constant(build, wide, natural.shape, [start])
    parallel = [
        IteratorTypeAttr(IteratorType.PARALLEL if loop in access else IteratorType.REDUCTION)
        for loop, _ in order
    ]
    op = GenericOp(
        [operand.x.value for operand in operands], [init.value], _body([o.x.element for o in operands], wide, body),
        [AffineMapAttr(map) for map in maps], parallel, [init.value.type],
    )  # fmt: skip
    return PhysicalValue(build.insert(op), natural)


def _users(
    loop: str, operands: Iterable[_Operand], access: Sequence[str], result: PhysicalTensor
) -> list[tuple[PhysicalTensor, int]]:
    """The tensors that read or write a dim digit by digit of `loop`, and that dim."""
    tensors = [(operand.x.tensor, operand.access) for operand in operands]
    return [
        (tensor, dim)
        for tensor, ways in [*tensors, (result, access)]
        for dim, way in enumerate(ways)
        if way == loop
    ]


def _outer_unit(tensor: PhysicalTensor, dim: int) -> int:
    return tensor.dims[tensor.places(dim)[0]].unit


def _grown(build: PhysicalBuilder, operand: _Operand, loops: Mapping[str, int]) -> _Operand:
    """The operand with zeros behind its blocks, as far as its loops run."""
    tensor = operand.x.tensor
    after: dict[int, int] = {}
    for dim, way in enumerate(operand.access):
        if isinstance(way, str) and tensor.padded_extent(dim) != loops[way]:
            at = tensor.places(dim)[0]
            count = loops[way] // tensor.dims[at].unit
            after[at] = count - tensor.dims[at].count
            tensor = tensor.with_dim(dim, count, 0)
    return replace(operand, x=build.padded(operand.x, {}, after, 0.0, tensor)) if after else operand


def common_digits(extent: int, users: Iterable[tuple[PhysicalTensor, int]]) -> list[tuple[int, int]]:
    """Unit and count of each digit of a loop, coarse to fine; none for a loop of one value.

    Raises LayoutError where the blocks of its users do not divide one another."""
    bounds = {1, extent}
    for tensor, dim in users:
        for place in tensor.dims:
            if place.dim == dim and place.count != 1:
                bounds |= {place.unit, place.unit * place.count}
    ascending = sorted(bounds)
    for lower, upper in pairwise(ascending):
        if upper % lower:
            raise LayoutError(f"blocks of {lower} and of {upper} of one dim do not fit into one another")
    return [(lower, upper // lower) for lower, upper in pairwise(ascending)][::-1]


def needed_loops_of_one(
    reads: Iterable[tuple[Collection[_Loop], int]], extents: Mapping[_Loop, int]
) -> set[_Loop]:
    """The loops of one value that an index needs, given the loops of each sum and the extent of the dim that it reads.

    Without them, an index would be another loop alone, and MLIR holds such a loop to be as long as the dim: it is not
    for windows that do not reach the end of a dim, where the result has one element.
    """
    needed = set[_Loop]()
    for used, extent in reads:
        longer = [loop for loop in used if extents[loop] > 1]
        if len(longer) == 1 and extent != extents[longer[0]]:
            needed.update(loop for loop in used if extents[loop] == 1)
    return needed


def _split(
    tensor: PhysicalTensor, access: Sequence[Access], digits: Mapping[str, list[tuple[int, int]]]
) -> PhysicalTensor:
    """`tensor` with its physical dims cut into the digits of the loops."""
    dims: list[PhysicalDim] = []
    for place in tensor.dims:
        way, end = access[place.dim], place.unit * place.count
        mine = (
            [(unit, count) for unit, count in digits[way] if place.unit <= unit < end]
            if isinstance(way, str)
            else []
        )
        dims += [PhysicalDim(place.dim, unit, count) for unit, count in mine] or [place]
    return replace(tensor, dims=tuple(dims))


def parted_dim(tensor: PhysicalTensor, dim: int, size: int) -> PhysicalTensor:
    """`tensor` with logical dim `dim` as two: which part of `size` elements, and where in it.

    Raises LayoutError where parts cut through blocks, or the dim has pads.
    """
    if tensor.is_padded(dim) or tensor.lo[dim]:
        raise LayoutError(f"dim {dim} has pads, and is cut into parts of {size}")
    dims: list[PhysicalDim] = []
    for place in tensor.dims:
        if place.dim != dim:
            dims.append(replace(place, dim=place.dim + (place.dim > dim)))
            continue
        end = place.unit * place.count
        if place.unit < size < end:
            if size % place.unit or end % size:
                raise LayoutError(f"parts of {size} in dim {dim} cut through its blocks")
            dims += [PhysicalDim(dim, 1, end // size), PhysicalDim(dim + 1, place.unit, size // place.unit)]
        elif end <= size:
            dims.append(PhysicalDim(dim + 1, place.unit, place.count))
        elif place.unit % size:
            raise LayoutError(f"parts of {size} in dim {dim} cut through its blocks")
        else:
            dims.append(PhysicalDim(dim, place.unit // size, place.count))
    extents = (*tensor.extents[:dim], tensor.extents[dim] // size, size, *tensor.extents[dim + 1 :])
    return PhysicalTensor(extents, tuple(dims), (*tensor.lo[:dim], 0, *tensor.lo[dim:]), tensor.pad)


def joined_dims(tensor: PhysicalTensor, dim: int) -> PhysicalTensor:
    """The inverse of `parted_dim`: logical dims `dim` and `dim` + 1 as one."""
    size = tensor.extents[dim + 1]
    dims = tuple(
        replace(place, unit=place.unit * size if place.dim == dim else place.unit, dim=place.dim - (place.dim > dim))
        for place in tensor.dims
    )  # fmt: skip
    extents = (*tensor.extents[:dim], tensor.extents[dim] * size, *tensor.extents[dim + 2 :])
    return PhysicalTensor(extents, dims, (*tensor.lo[:dim], *tensor.lo[dim + 1 :]), tensor.pad)


def _index(
    way: Access, place: PhysicalDim, digits: Mapping[str, list[tuple[int, int]]],
    numbers: Mapping[tuple[str, int], AffineExpr], single: Collection[str],
) -> AffineExpr:  # fmt: skip
    """Where the loops read in one physical dim: at a digit, or at a sum of whole loops. `single` are the loops of one
    value that have a digit."""
    if isinstance(way, str) and way in single:
        return numbers[way, 1]
    if place.count == 1:
        return AffineExpr.constant(0)
    if isinstance(way, str):
        return numbers[way, place.unit]
    total: AffineExpr | None = None
    for loop, factor in way.items():
        for unit, _ in digits[loop]:
            term = numbers[loop, unit] * (unit * factor) if unit * factor != 1 else numbers[loop, unit]
            total = term if total is None else total + term
    return AffineExpr.constant(0) if total is None else total


def _body(elements: Sequence[Attribute], wide: Attribute, body: str) -> Region:
    block = Block(arg_types=[*elements, wide])
    values: list[SSAValue] = []
    for argument in block.args[:-1]:
        value: SSAValue = argument
        if argument.type != wide:
            extended = arith.ExtFOp(argument, cast(AnyFloat, wide))
            block.add_op(extended)
            value = extended.result
        values.append(value)
    if body == "product":
        product = arith.MulfOp(values[0], values[1])
        block.add_op(product)
        values = [product.result]
    fold = (arith.MaximumfOp if body == "max" else arith.AddfOp)(block.args[-1], values[0])
    block.add_ops([fold, YieldOp(fold.result)])
    return Region(block)


def constant(
    build: PhysicalBuilder, element: Attribute, shape: Sequence[int], numbers: Sequence[float]
) -> PhysicalValue:
    """A row-major constant of floats; one number is that of all elements."""
    assert isinstance(element, AnyFloat)
    type = cast("TensorType[Attribute]", TensorType(element, list(shape)))
    value = build.insert(nn.ConstantOp(literal(type, element.pack(tuple(numbers))), type))
    return PhysicalValue(value, row_major(tuple(shape)))


def narrowed(build: PhysicalBuilder, x: PhysicalValue, element: Attribute) -> PhysicalValue:
    """`x` in the element type of the op, where the sum was kept in a wider one."""
    return x if x.element == element else build.new(nn.CastOp, [x], x.tensor, element)


def widened(build: PhysicalBuilder, x: PhysicalValue, element: Attribute) -> PhysicalValue:
    """`x` in the type in which the sum is kept."""
    return narrowed(build, x, element)


# Ops --------------------------------------------------------------------------------------------------------------


def conv(
    build: PhysicalBuilder, op: nn.ConvOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    """A convolution in any dims but blocked spatial ones; without the bias."""
    x, w = operands[:2]
    rank = len(result.extents) - 2
    kernel = w.tensor.extents[2:]
    x = _windows(build, x, result, kernel, op.strides, op.pads, op.dilations, 0.0)
    outer, space = _window_access(rank, op.strides, op.dilations)
    taps: list[Access] = [f"k{d}" for d in range(rank)]
    for d in range(rank):
        build.place(w.tensor, d + 2)
        w = build.trimmed(w, d + 2)
    natural = result
    if op.group == 1:
        reads, weights, writes = ("n", "c"), ("o", "c"), ("n", "o")
    elif w.tensor.extents[1] == 1 and op.group == w.tensor.extents[0]:
        reads, weights, writes = ("n", "o"), ("o", "one"), ("n", "o")
    else:
        # Channels are two dims, group and channel in it.
        reads, weights, writes = ("n", "g", "c"), ("g", "o", "c"), ("n", "g", "o")
        x = _parted(build, x, 1, x.tensor.extents[1] // op.group)
        w = _parted(build, w, 0, w.tensor.extents[0] // op.group)
        natural = parted_dim(result, 1, result.extents[1] // op.group)
    if weights == ("o", "one") and w.tensor.padded_extent(1) != 1:
        w = build.trimmed(w, 1)
    y = contraction(
        build, natural, (*writes, *outer), [_Operand(x, (*reads, *space)), _Operand(w, (*weights, *taps))],
        start=0.0, body="product",
    )  # fmt: skip
    return y if natural is result else replace(y, tensor=joined_dims(y.tensor, 1))


def _parted(build: PhysicalBuilder, x: PhysicalValue, dim: int, size: int) -> PhysicalValue:
    """`x` with logical dim `dim` as two dims, parts of `size` and places in a part; pads of it are left off."""
    x = build.trimmed(x, dim) if x.tensor.is_padded(dim) else x
    return build.reshaped(x, parted_dim(x.tensor, dim, size))


def conv_transpose(
    build: PhysicalBuilder, op: nn.ConvTransposeOp, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    """A transposed convolution in any dims but blocked spatial ones; without the bias.

    A convolution with the kernel backwards over x with zeros between and around its elements.
    """
    x, w = operands[:2]
    rank = len(result.extents) - 2
    if op.group != 1 and not op.is_depthwise:
        raise LayoutError("groups of several channels are known in N, C, space only")
    for tensor, dim in ((x.tensor, 1), (w.tensor, 0)):
        if tensor.is_padded(dim) and tensor.pad != "zero":
            raise LayoutError(f"it sums over dim {dim} of an operand, whose pads are not known to be zeros")
    for d in range(2, rank + 2):
        if len(result.places(d)) != 1 or result.is_padded(d):
            raise LayoutError(f"its result holds dim {d} in blocks, or with pads")
    for d, (before, after) in enumerate(op.borders(), 2):
        x = _spread(build, x, d, op.strides[d - 2], before, after)
    w = _backwards(build, w, range(2, rank + 2))
    outer, space = _window_access(rank, (1,) * rank, op.dilations)
    taps: list[Access] = [f"k{d}" for d in range(rank)]
    reads, weights = (("n", "c"), ("c", "o")) if op.group == 1 else (("n", "o"), ("o", "one"))
    return contraction(
        build, result, ("n", "o", *outer), [_Operand(x, (*reads, *space)), _Operand(w, (*weights, *taps))],
        start=0.0, body="product",
    )  # fmt: skip


def _spread(
    build: PhysicalBuilder, x: PhysicalValue, dim: int, stride: int, before: int, after: int
) -> PhysicalValue:
    """x with `stride` - 1 zeros between the elements of `dim`, `before` in front of them and `after` behind them."""
    x = build.trimmed(x, dim)
    at, extent = build.place(x.tensor, dim), x.tensor.extents[dim]

    def tensor(length: int, *places: PhysicalDim) -> PhysicalTensor:
        dims = (*x.tensor.dims[:at], *places, *x.tensor.dims[at + 1 :])
        return replace(
            x.tensor, dims=dims, extents=(*x.tensor.extents[:dim], length, *x.tensor.extents[dim + 1 :])
        )

    if stride > 1:
        apart = tensor(extent * stride, PhysicalDim(dim, stride, extent), PhysicalDim(dim, 1, stride))
        single = build.reshaped(x, tensor(extent, PhysicalDim(dim, 1, extent), PhysicalDim(dim, 1, 1)))
        filled = build.padded(single, {}, {at + 1: stride - 1}, 0.0, apart)
        y = build.reshaped(filled, tensor(extent * stride, PhysicalDim(dim, 1, extent * stride)))
        # Zeros behind the last element are there already.
        after -= stride - 1
    else:
        y = x
    length = extent * stride + before + after
    return build.padded(y, {at: before}, {at: after}, 0.0, tensor(length, PhysicalDim(dim, 1, length)))


def _backwards(build: PhysicalBuilder, x: PhysicalValue, dims: Iterable[int]) -> PhysicalValue:
    """x with the elements of some dims in the other order; a dim of one element stays as it is."""
    for dim in dims:
        x = build.trimmed(x, dim)
    shape = x.tensor.shape
    turned = {build.place(x.tensor, dim) for dim in dims if x.tensor.extents[dim] > 1}
    if not turned:
        return x
    starts = [extent - 1 if k in turned else 0 for k, extent in enumerate(shape)]
    steps = [-1 if k in turned else 1 for k in range(len(shape))]
    return build.new(nn.SliceOp, [x], x.tensor, x.element, starts=starts, sizes=shape, steps=steps)


def pool(
    build: PhysicalBuilder,
    op: nn.MaxPoolOp | nn.AvgPoolOp,
    operands: Sequence[PhysicalValue],
    result: PhysicalTensor,
) -> PhysicalValue:
    """A pool in any dims but blocked spatial ones."""
    (x,) = operands
    if not isinstance(x.element, AnyFloat):
        raise LayoutError("a pool of integers is known in N, C, space only")
    rank = len(op.kernel)
    start = -math.inf if isinstance(op, nn.MaxPoolOp) else 0.0
    element = x.element
    x = _windows(build, x, result, op.kernel, op.strides, op.pads, op.dilations, start)
    outer, space = _window_access(rank, op.strides, op.dilations)
    # Its elements are not read: it says how far the loops of the window run.
    window = constant(build, element, op.kernel, [0.0])
    taps = tuple(f"k{d}" for d in range(rank))
    folded = contraction(
        build, result, ("n", "c", *outer), [_Operand(x, ("n", "c", *space)), _Operand(window, taps)],
        start=start, body="max" if isinstance(op, nn.MaxPoolOp) else "sum",
    )  # fmt: skip
    if isinstance(op, nn.MaxPoolOp):
        return folded
    counts = op.window_counts()
    shape = tuple(map(len, counts))
    numbers = [1.0]
    for each in counts:
        numbers = [a * b for a in numbers for b in each]
    divisor = constant(build, folded.element, shape, numbers)
    return build.new(
        nn.DivOp, [folded, build.broadcast(divisor, folded.tensor)], folded.tensor, folded.element
    )


def windows_of_channels(build: PhysicalBuilder, x: PhysicalValue, size: int) -> PhysicalValue:
    """Per channel of `x` the sum over channels c - (size-1)//2 to c + size//2: a product with a matrix of ones in a
    band, since a shift of channels in blocks is no affine function. The pads of the channels are to be zeros."""
    channels, rank = x.tensor.extents[1], len(x.tensor.extents)
    band = [float(-((size - 1) // 2) <= c - o <= size // 2) for o in range(channels) for c in range(channels)]
    matrix = constant(build, x.element, (channels, channels), band)
    blocked = PhysicalTensor((channels, channels), tuple(
        replace(place, dim=dim) for dim in (0, 1) for place in x.tensor.dims if place.dim == 1
    ), (0, 0), "zero")  # fmt: skip
    space = tuple(f"s{d}" for d in range(rank - 2))
    return contraction(
        build, unknown_pads(x.tensor), ("n", "o", *space),
        [_Operand(x, ("n", "c", *space)), _Operand(build.reorder(matrix, blocked), ("o", "c"))],
        start=0.0, body="product",
    )  # fmt: skip


def _window_access(
    rank: int, strides: Sequence[int], dilations: Sequence[int]
) -> tuple[list[str], list[Access]]:
    """The loops over windows, and where in the operand they and the loops over taps read."""
    outer = [f"s{d}" for d in range(rank)]
    return outer, [{f"s{d}": strides[d], f"k{d}": dilations[d]} for d in range(rank)]


def _windows(
    build: PhysicalBuilder, x: PhysicalValue, result: PhysicalTensor, kernel: Sequence[int], strides: Sequence[int],
    pads: Sequence[int], dilations: Sequence[int], value: float,
) -> PhysicalValue:  # fmt: skip
    """x with as many elements of `value` around its spatial dims as its windows reach."""
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    for d in range(len(kernel)):
        x = build.trimmed(x, d + 2)
    tensor = x.tensor
    for d in range(len(kernel)):
        at, extent = build.place(x.tensor, d + 2), x.tensor.extents[d + 2]
        if len(result.places(d + 2)) != 1 or result.is_padded(d + 2):
            raise LayoutError(f"its result holds dim {d + 2} in blocks, or with pads")
        reach = (result.extents[d + 2] - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1
        before[at], after[at] = pads[d], max(reach - extent - pads[d], 0)
        grown = extent + before[at] + after[at]
        extents = (*tensor.extents[: d + 2], grown, *tensor.extents[d + 3 :])
        tensor = replace(tensor.with_dim(d + 2, grown, 0), extents=extents)
    return build.padded(x, before, after, value, tensor)


def matrix_product(
    build: PhysicalBuilder,
    operands: Sequence[PhysicalValue],
    result: PhysicalTensor,
    transposed: tuple[bool, bool],
) -> PhysicalValue:
    """The product of two matrices in any dims."""
    a, b = operands[:2]
    left = ("k", "m") if transposed[0] else ("m", "k")
    right = ("n", "k") if transposed[1] else ("k", "n")
    return contraction(
        build, result, ("m", "n"), [_Operand(a, left), _Operand(b, right)], start=0.0, body="product"
    )


def batched_product(
    build: PhysicalBuilder, operands: Sequence[PhysicalValue], result: PhysicalTensor
) -> PhysicalValue:
    """The product of batches of matrices in any dims; a vector is a matrix of one row or column."""
    a, b = operands
    if not isinstance(a.element, AnyFloat):
        raise LayoutError("a product of integers is known for matrices without blocks only")
    rows, columns = (["m"] if len(a.tensor.extents) > 1 else []), (["n"] if len(b.tensor.extents) > 1 else [])
    batch = result.extents[: len(result.extents) - len(rows) - len(columns)]
    names = [f"b{d}" for d in range(len(batch))]

    def access(x: PhysicalValue, inner: list[str]) -> tuple[Access, ...]:
        own = x.tensor.extents[: len(x.tensor.extents) - len(inner)]
        first = len(batch) - len(own)
        # A dim that is broadcast is read at 0.
        outer: list[Access] = [names[first + d] if e == batch[first + d] else {} for d, e in enumerate(own)]
        return (*outer, *inner)

    return contraction(
        build, result, (*names, *rows, *columns),
        [_Operand(a, access(a, [*rows, "k"])), _Operand(b, access(b, ["k", *columns]))], start=0.0, body="product",
    )  # fmt: skip
