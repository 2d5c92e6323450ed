"""Ops of linalg, tensor, arith and math on the tensors of their memory.

An op that is loops (`layout_ir.foreign.structured`) becomes `linalg.generic` with one loop per digit:

    linalg.matmul, A (m, k), B (k, n:8), C (m, n:8)   ->   m, N, n (parallel), k (reduction)
                                                           A[m, k] B[N, k, n] C[m, N, n]

A dim that is read at a sum of loops lies in one physical dim, and its index is the same sum of digits. linalg.index is
the number that the digits stand for. A tensor whose elements do not matter, a constant, and pack and unpack, which
rename digits, have forms of their own, and what copies every element to where it lies already is nothing at all.
Elementwise ops of arith and math whose tensors have one structure stay as they are, on the tensors of the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import isinf, prod
from typing import Any, cast

from xdsl.dialects import arith, tensor, tosa
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp, IndexOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from layout_ir.algebra.pads import pad_number
from layout_ir.algebra.physical import PhysicalDim, PhysicalTensor, row_major
from layout_ir.dialects import nn
from layout_ir.dialects.layout import strip_type
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.dialects.nn.constant import element_size, literal
from layout_ir.dialects.upstream.linalg_relayout import PackOp, RelayoutOp
from layout_ir.elements.splats import is_splat
from layout_ir.errors import LayoutError
from layout_ir.foreign.pointwise import pointwise_operands
from layout_ir.foreign.scalar import constant_value
from layout_ir.foreign.structured import ELEMENTWISE, Structured, element, initial_value, loop_of, structured
from layout_ir.passes.physical.generic_ops import common_digits, needed_loops_of_one
from layout_ir.passes.physical.physical_builder import PhysicalBuilder, PhysicalValue, unknown_pads
from layout_ir.passes.physical.tensor_rewrites import rewrite_move

Key = tuple[int, int]
"""A loop of the op, and the unit of one of its digits."""


def rewrite_structured(
    build: PhysicalBuilder, op: Operation, values: Mapping[SSAValue, PhysicalValue], results: Sequence[PhysicalTensor]
) -> list[PhysicalValue] | None:  # fmt: skip
    """What stands for the results of `op`, whose physical tensors are to be `results`; None for an op of another kind.

    `values` has what stands for the tensors that it takes, and for those that its body takes from around it.

    Raises LayoutError where the op cannot be written on the physical dims of its tensors.
    """
    if isinstance(op, tensor.EmptyOp):
        type = TensorType(tensor_type(op.results[0].type).element_type, results[0].shape)
        return [PhysicalValue(build.insert(tensor.EmptyOp([], type)), unknown_pads(results[0]))]
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseIntOrFPElementsAttr):
        return [_constant(build, op, op.value, results[0])]
    if isinstance(op, tosa.ConstOp):
        return [_constant(build, op, op.values, results[0])]
    if isinstance(op, RelayoutOp):
        return [_relayout(build, op, values[op.source], results[0])]
    moved = rewrite_move(build, op, values, results[0])
    if moved is not None:
        return [moved]
    if isinstance(op, FillOp):
        return [_fill(build, op, values[op.outputs[0]], results[0])]
    operands = [values.get(x, x) for x in op.operands]
    if count := pointwise_operands(op):
        return [_pointwise(build, op, count, operands, results[0])]
    loops = structured(op)
    if loops is None:
        return None
    if isinstance(op, ELEMENTWISE) or _is_elementwise(loops):
        return [_elementwise(build, op, operands, results[0])]
    if loops.block is None and loops.function is None and len(operands) == 1:
        (x,) = operands
        assert isinstance(x, PhysicalValue)
        return [_permuted(build, loops, x, results[0])]
    return _generic(build, loops, operands, results, values)


def _constant(
    build: PhysicalBuilder, op: Operation, values: DenseIntOrFPElementsAttr[Any], result: PhysicalTensor
) -> PhysicalValue:
    type = strip_type(op.results[0].type)
    # xDSL writes a small splat out when it reads one.
    data, size = values.data.data, element_size(type.element_type)
    value = literal(type, data[:size] if is_splat(data, size) else data)
    plain = nn.ConstantOp.create(result_types=[type], properties={"value": value})
    if plain.is_splat:
        made = build.splat(plain, result)
    else:
        made = build.reorder(PhysicalValue(build.insert(plain), row_major(result.extents)), result)
    owner = made.value.owner
    assert isinstance(owner, nn.ConstantOp)
    is_tosa = isinstance(op, tosa.ConstOp)
    new = tosa.ConstOp(owner.literal) if is_tosa else arith.ConstantOp(owner.literal, made.value.type)
    return PhysicalValue(build.insert(new), made.tensor)


def _is_elementwise(loops: Structured) -> bool:
    """Whether it is an op without a body (tosa) that reads every operand where it writes the result."""
    (target, *others) = loops.result_maps
    return loops.function is not None and not others and all(source == target for source in loops.maps)


def _permuted(
    build: PhysicalBuilder, loops: Structured, x: PhysicalValue, result: PhysicalTensor
) -> PhysicalValue:
    """A copy from dims to dims: digits get the numbers of the dims of the result, and move where they lie apart."""
    (source,), (target,) = loops.maps, loops.result_maps
    dim_of = {loop_of(expr): dim for dim, expr in enumerate(target)}
    to = [dim_of[loop_of(expr)] for expr in source]
    dims = tuple(replace(place, dim=to[place.dim]) for place in x.tensor.dims)
    lo = tuple(x.tensor.lo[to.index(dim)] for dim in range(len(to)))
    return build.kept(PhysicalValue(x.value, PhysicalTensor(result.extents, dims, lo, x.tensor.pad)), result)


def _fill(build: PhysicalBuilder, op: FillOp, target: PhysicalValue, result: PhysicalTensor) -> PhysicalValue:
    """linalg.fill of the memory, pads too."""
    to = build.reorder(target, unknown_pads(result)).value
    number = constant_value(op.inputs[0])
    known = isinstance(number, int | float) and not isinstance(number, bool) and number == number
    made = FillOp(op.inputs, [to], [to.type])
    return PhysicalValue(build.insert(made), replace(result, pad=number if known else "undef"))


def _elementwise(
    build: PhysicalBuilder,
    op: Operation,
    operands: Sequence[PhysicalValue | SSAValue],
    result: PhysicalTensor,
) -> PhysicalValue:
    """The same op, on operands brought to the dims of the result."""
    moved = [
        build.reorder(x, replace(result, pad=x.tensor.pad)).value if isinstance(x, PhysicalValue) else x
        for x in operands
    ]
    type = TensorType(tensor_type(op.results[0].type).element_type, result.shape)
    new = op.create(operands=moved, result_types=[type], properties=op.properties, attributes=op.attributes)
    return PhysicalValue(build.insert(new), result)


def _pointwise(
    build: PhysicalBuilder,
    op: Operation,
    count: int,
    operands: Sequence[PhysicalValue | SSAValue],
    result: PhysicalTensor,
) -> PhysicalValue:
    """The same op on the dims of the result, to which its first `count` operands are brought; the others row-major."""
    made = unknown_pads(result)
    moved: list[SSAValue] = []
    for k, x in enumerate(operands):
        if not isinstance(x, PhysicalValue):
            moved.append(x)
            continue
        extents = x.tensor.extents
        if k >= count:
            to = row_major(extents)
        elif extents == result.extents:
            to = made
        else:  # a broadcast, of dims without blocks
            dims = tuple(replace(place, count=extents[place.dim]) for place in made.dims)
            to = replace(made, extents=extents, dims=dims)
        moved.append(build.reorder(x, to).value)
    type = TensorType(tensor_type(op.results[0].type).element_type, made.shape)
    new = op.create(operands=moved, result_types=[type], properties=op.properties, attributes=op.attributes)
    return build.kept(PhysicalValue(build.insert(new), made), result)


# pack and unpack --------------------------------------------------------------------------------------------------


def _relayout(
    build: PhysicalBuilder, op: RelayoutOp, x: PhysicalValue, result: PhysicalTensor
) -> PhysicalValue:
    """The reorder that pack or unpack is, once the digits of the packed tensor are those of the unpacked one."""
    if op.PACKS:
        return PhysicalValue(build.reorder(x, _unpacked(op, result)).value, result)
    return build.reorder(PhysicalValue(x.value, _unpacked(op, x.tensor)), result)


def _unpacked(op: RelayoutOp, packed: PhysicalTensor) -> PhysicalTensor:
    """The physical tensor of the packed tensor of `op`, as one of the unpacked tensor."""
    if any(packed.is_padded(dim) for dim in range(len(packed.extents))):
        raise LayoutError("the packed tensor has pads of its own")
    tiles = dict(zip(op.tiled_dims, op.tile_sizes, strict=True))
    digits = [(dim, tiles.get(dim, 1)) for dim in op.outer_order] + [(dim, 1) for dim in op.tiled_dims]
    dims = tuple(
        PhysicalDim(digits[place.dim][0], digits[place.dim][1] * place.unit, place.count)
        for place in packed.dims
    )
    extents = op.unpacked_type.get_shape()
    number = None
    if isinstance(op, PackOp) and op.padding_value is not None:
        number = constant_value(op.padding_value)
        if number is None:
            raise LayoutError("its padding value is no constant")
    pad = "undef" if number is None else "zero" if number == 0 else number
    tensor = PhysicalTensor(extents, dims, (0,) * len(extents), pad)  # pyright: ignore[reportArgumentType]
    assert number is None or pad_number(tensor.pad) == number or number != number
    return tensor


# Loops ------------------------------------------------------------------------------------------------------------


def _generic(
    build: PhysicalBuilder, loops: Structured, operands: Sequence[PhysicalValue | SSAValue],
    results: Sequence[PhysicalTensor], values: Mapping[SSAValue, PhysicalValue],
) -> list[PhysicalValue]:  # fmt: skip
    """The op as `linalg.generic` on the digits that its tensors have in common."""
    read = [k for k in range(len(operands)) if k not in loops.init and _is_read(loops, k)]
    inputs = [operands[k] for k in read]
    input_maps = [loops.maps[k] for k in read]
    targets: list[PhysicalValue] = []
    for k, place in zip(loops.init, results, strict=True):
        x = None if k is None else operands[k]
        if isinstance(x, PhysicalValue):
            targets.append(PhysicalValue(build.reorder(x, unknown_pads(place)).value, place))
        else:
            targets.append(_started(build, loops, place))
    sources = [*inputs, *targets]
    maps = [*input_maps, *loops.result_maps]
    extents = _padded_extents(loops, sources, maps)
    sources = [
        _grown(build, x, exprs, extents) if isinstance(x, PhysicalValue) else x
        for x, exprs in zip(sources, maps, strict=True)
    ]
    digits = {
        loop: common_digits(extent, [(t, dim) for t, dim, _ in _readers(loop, sources, maps)])
        for loop, extent in extents.items()
    }
    reads = [
        (expr.used_dims(), x.tensor.extents[dim])
        for x, exprs in zip(sources, maps, strict=True)
        if isinstance(x, PhysicalValue)
        for dim, expr in enumerate(exprs)
        if loop_of(expr) is None
    ]
    single = needed_loops_of_one(reads, extents)
    digits.update((loop, [(1, 1)]) for loop in single)
    order: list[Key] = [(loop, unit) for loop in sorted(extents) for unit, _ in digits[loop]]
    numbers = {key: AffineExpr.dimension(k) for k, key in enumerate(order)}
    whole = [_sum([(numbers[loop, unit], unit) for unit, _ in digits[loop]]) for loop in sorted(extents)]
    new_values: list[SSAValue] = []
    new_maps: list[AffineMap] = []
    split: list[PhysicalTensor] = []
    for x, exprs in zip(sources, maps, strict=True):
        if isinstance(x, SSAValue):
            new_values.append(x)
            new_maps.append(AffineMap(len(order), 0, ()))
            continue
        dims = _split(x.tensor, exprs, digits)
        apart = replace(x.tensor, dims=tuple(dims))
        new_values.append(build.reshaped(x, apart).value)
        new_maps.append(
            AffineMap(
                len(order),
                0,
                tuple(_index(exprs[place.dim], place, numbers, whole, single) for place in dims),
            )
        )
        split.append(apart)
    count = len(inputs)
    if _is_renaming(loops, new_values, new_maps):
        # Its pads are those of the input.
        made = PhysicalValue(new_values[0], replace(split[-1], pad=split[0].pad))
        return [build.reshaped(made, replace(results[0], pad=split[0].pad))]
    kinds = [
        IteratorTypeAttr(IteratorType.REDUCTION if loop in loops.reductions else IteratorType.PARALLEL)
        for loop, _ in order
    ]
    if loops.block is None:
        body = _body_of_function(loops, [element(value) for value in new_values])
    else:
        body = _body(loops.block, order, digits, _captured(build, loops.block, values))
        for value in new_values[len(body.block.args) :]:
            body.block.insert_arg(
                element(value), len(body.block.args)
            )  # what it starts from, which nobody reads
    new = GenericOp(
        new_values[:count], new_values[count:], body, [AffineMapAttr(m) for m in new_maps],
        kinds, [value.type for value in new_values[count:]],
    )  # fmt: skip
    build.insert(new)
    found: list[PhysicalValue] = []
    for value, lies, result in zip(new.results, split[-len(results) :], results, strict=True):
        made = PhysicalValue(value, lies)
        # Where the loops ran over pads of other tensors, those of the result are taken off again.
        has_more = prod(lies.shape) != prod(result.shape)
        whole = build.reorder(made, result) if has_more else build.reshaped(made, result)
        found.append(PhysicalValue(whole.value, result))
    return found


def _is_read(loops: Structured, operand: int) -> bool:
    """Whether the body takes elements of an operand: the scalar op that stands for a body takes two, and leaves out the
    shift of a product of floats."""
    return loops.block is not None or operand < 2


def _started(build: PhysicalBuilder, loops: Structured, result: PhysicalTensor) -> PhysicalValue:
    """What an op that names no initial tensor writes its result to: the initial value where it reduces."""
    kind = element(loops.op.results[0])
    empty = build.insert(tensor.EmptyOp([], TensorType(kind, result.shape)))
    first = initial_value(loops.op) if loops.reductions else None
    if first is None:
        return PhysicalValue(empty, result)
    number = build.insert(arith.ConstantOp(_scalar_attribute(first, kind)))
    return PhysicalValue(build.insert(FillOp([number], [empty], [empty.type])), result)


def _scalar_attribute(number: float, type: Attribute) -> FloatAttr[AnyFloat] | IntegerAttr[IntegerType]:
    """A constant of `type`; an infinity stands for the bound of an integer type."""
    if isinstance(type, AnyFloat):
        return FloatAttr(number, type)
    kind = cast("IntegerType", type)
    if isinf(number):
        low, end = Signedness.SIGNED.value_range(kind.width.data)
        number = low if number < 0 else end - 1
    return IntegerAttr(int(number), kind)


def _is_renaming(loops: Structured, values: Sequence[SSAValue], maps: Sequence[AffineMap]) -> bool:
    """Whether every element of the one result is that of the one input at the same place of the memory: a
    transposition between tensors whose memory it does not change."""
    if len(maps) != 2 or maps[0] != maps[1] or values[0].type != values[1].type or loops.reductions:
        return False
    exprs = maps[0].results
    if not loops.is_copy:
        return False
    whole = [expr.position for expr in exprs if isinstance(expr, AffineDimExpr)]
    shape = tensor_type(values[0].type).get_shape()
    return len(set(whole)) == len(whole) and all(
        isinstance(expr, AffineDimExpr) or (expr == AffineExpr.constant(0) and extent == 1)
        for expr, extent in zip(exprs, shape, strict=True)
    )


def _readers(
    loop: int, sources: Sequence[PhysicalValue | SSAValue], maps: Sequence[Sequence[AffineExpr]]
) -> list[tuple[PhysicalTensor, int, int]]:
    """The tensors with a dim that is this loop: tensor, dim, number of the tensor."""
    return [
        (x.tensor, dim, number)
        for number, (x, exprs) in enumerate(zip(sources, maps, strict=True))
        if isinstance(x, PhysicalValue)
        for dim, expr in enumerate(exprs)
        if loop_of(expr) == loop
    ]


def _padded_extents(
    loops: Structured, sources: Sequence[PhysicalValue | SSAValue], maps: Sequence[Sequence[AffineExpr]]
) -> dict[int, int]:
    """How far each loop runs: over the pads that its tensors have. Raises LayoutError for loops that cannot."""
    windowed = {
        k for exprs in maps for e in exprs if loop_of(e) is None and not isinstance(e, AffineConstantExpr)
        for k in e.used_dims()
    }  # fmt: skip
    result: dict[int, int] = {}
    for loop, extent in loops.extents.items():
        found = _readers(loop, sources, maps)
        for x, dim, _ in found:
            if x.lo[dim]:
                raise LayoutError(f"dim {dim} of one of its tensors has pads in front")
        far = max((x.padded_extent(dim) for x, dim, _ in found), default=extent)
        if loop in windowed and far != extent:
            raise LayoutError(f"a window runs over dim {found[0][1]}, which has pads")
        result[loop] = far
    if 0 in result.values():
        raise LayoutError("a tensor without elements is known in the order of its dims only")
    return result


def _grown(
    build: PhysicalBuilder, x: PhysicalValue, exprs: Sequence[AffineExpr], extents: Mapping[int, int]
) -> PhysicalValue:
    """`x` with pads behind its dims, as far as the loops run."""
    tensor, after = x.tensor, dict[int, int]()
    for dim, expr in enumerate(exprs):
        loop = loop_of(expr)
        if loop is None or tensor.padded_extent(dim) == extents[loop]:
            continue
        at = tensor.places(dim)[0]
        unit = tensor.dims[at].unit
        if extents[loop] % unit:
            raise LayoutError(f"blocks of {unit} do not fill the {extents[loop]} positions of dim {dim}")
        after[at] = extents[loop] // unit - tensor.dims[at].count
        tensor = tensor.with_dim(dim, extents[loop] // unit, 0)
    # Zeros: they are read for pads of the result alone, or summed up.
    return build.padded(x, {}, after, 0.0, tensor) if after else x


def _split(
    tensor: PhysicalTensor, exprs: Sequence[AffineExpr], digits: Mapping[int, list[tuple[int, int]]]
) -> list[PhysicalDim]:
    """The physical dims, cut into the digits of the loops."""
    result: list[PhysicalDim] = []
    for place in tensor.dims:
        loop, end = loop_of(exprs[place.dim]), place.unit * place.count
        mine = [(u, n) for u, n in digits.get(loop, ()) if place.unit <= u < end] if loop is not None else []
        if loop is None and (len(tensor.places(place.dim)) > 1 or tensor.is_padded(place.dim)):
            raise LayoutError(
                f"dim {place.dim} is read at {exprs[place.dim]}, and lies in blocks or has pads"
            )
        result += [PhysicalDim(place.dim, unit, count) for unit, count in mine] or [place]
    return result


def _index(
    expr: AffineExpr, place: PhysicalDim, numbers: Mapping[Key, AffineExpr], whole: Sequence[AffineExpr],
    single: Collection[int],
) -> AffineExpr:  # fmt: skip
    """The index of a physical dim, whose dim is read at `expr`; `single` are the loops of one value with a digit."""
    loop = loop_of(expr)
    if loop is not None and loop in single:
        return numbers[loop, 1]
    if place.count == 1:
        return AffineExpr.constant(0)
    return expr.replace_dims_and_symbols(whole, []) if loop is None else numbers[loop, place.unit]


def _sum(terms: Sequence[tuple[AffineExpr, int]]) -> AffineExpr:
    total: AffineExpr | None = None
    for expr, unit in terms:
        term = expr * unit if unit != 1 else expr
        total = term if total is None else total + term
    return AffineExpr.constant(0) if total is None else total


def _body_of_function(loops: Structured, types: Sequence[Attribute]) -> Region:
    """The body of an op without a region: its scalar op on the elements, or on element and accumulator; a copy yields
    the element."""
    block = Block(arg_types=types)
    value: SSAValue = block.args[0]
    if loops.function is not None:
        scalar = cast("Callable[[SSAValue, SSAValue], Operation]", loops.function)(*block.args[:2])
        block.add_op(scalar)
        value = scalar.results[0]
    block.add_op(YieldOp(value))
    return Region(block)


def _captured(
    build: PhysicalBuilder, body: Block, values: Mapping[SSAValue, PhysicalValue]
) -> dict[SSAValue, SSAValue]:
    """The tensors that a body takes from around it, in the order of their dims: it reads them by logical index."""
    used = [x for op in body.ops for each in op.walk() for x in each.operands if x in values]
    return {x: build.row_major(values[x], number).value for number, x in enumerate(dict.fromkeys(used))}


def _body(
    source: Block,
    order: Sequence[Key],
    digits: Mapping[int, list[tuple[int, int]]],
    captured: Mapping[SSAValue, SSAValue],
) -> Region:
    """The body `source` on the digits: linalg.index is what they stand for."""
    block = Block(arg_types=[argument.type for argument in source.args])
    values: dict[SSAValue, SSAValue] = dict(captured) | dict(zip(source.args, block.args, strict=True))

    def add(op: Operation) -> SSAValue:
        block.add_op(op)
        return op.results[0]

    for op in source.ops:
        if isinstance(op, IndexOp):
            loop = op.dim.value.data
            total: SSAValue | None = None
            for unit, _ in digits[loop]:
                term = add(IndexOp(order.index((loop, unit))))
                if unit != 1:
                    term = add(arith.MuliOp(term, add(arith.ConstantOp(IntegerAttr(unit, IndexType())))))
                total = term if total is None else add(arith.AddiOp(total, term))
            values[op.result] = total or add(arith.ConstantOp(IntegerAttr(0, IndexType())))
        elif isinstance(op, YieldOp):
            block.add_op(YieldOp(*(values.get(x, x) for x in op.operands)))
        else:
            new = op.clone(value_mapper=dict(values))
            block.add_op(new)
            values |= dict(zip(op.results, new.results, strict=True))
    return Region(block)
