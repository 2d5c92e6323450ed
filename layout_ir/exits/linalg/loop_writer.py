"""Programs of linalg on tensors as loops over buffers: `scf.for`, `memref.load`, `memref.store`, scalar and plain.

A tensor becomes a memref of its shape, row-major. An op that makes one writes to a new buffer; one that starts from
what another op has made, and nobody else reads, writes there, unless it may run again before the other one does. A
reshape is a view of the buffer. A buffer is freed where nobody uses it any more (`buffer_lifetimes`), unless it is
handed on: returned, carried by a loop, given to a call.

    memref.global       constants
    scf.for             one per loop of a generic, outermost first, in the order of its indexing maps
    arith.addi, muli    indices of windows and slices

Functions take and return memrefs. Regions are those of the ops that hand buffers on; any other op that holds ops on
tensors is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import cast

from xdsl.dialects import arith, cf, memref, scf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import BroadcastOp, FillOp, IndexOp, TransposeOp, YieldOp
from xdsl.dialects.utils import get_dynamic_index_list
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.diagnostics import LocatedError, name_of_op
from layout_ir.dialects.layout import is_tensor
from layout_ir.dialects.upstream.memref_ops import GlobalOp
from layout_ir.exits.linalg.buffer_lifetimes import free, may_run_again, walk_by_dominance

_HANDED_ON = (
    ReturnOp, CallOp, scf.ForOp, scf.IfOp, scf.WhileOp, scf.ExecuteRegionOp, scf.IndexSwitchOp, scf.ConditionOp,
    scf.YieldOp, cf.BranchOp, cf.ConditionalBranchOp,
)  # fmt: skip
"""Ops that hand buffers on, and in whose regions ops on tensors may stand."""


def write_loops(module: ModuleOp) -> None:
    """Replaces tensors by memrefs and ops on them by loops, in place. Raises LocatedError, naming the op, for one that
    is neither of linalg nor one of the ops of `tensor` that this export writes."""
    writer = _LoopWriter()
    for op in list(module.walk()):
        if isinstance(op, FuncOp):
            writer.function(op)
    for op in module.walk():
        if any(_is_of_tensors(x.type) for x in _values(op)):  # outside of functions
            raise LocatedError(f"{name_of_op(op)} on tensors has no form as loops", op)


def _values(op: Operation) -> list[SSAValue]:
    """The operands and results of `op`, and the arguments of its regions."""
    return [
        *op.operands,
        *op.results,
        *(x for region in op.regions for block in region.blocks for x in block.args),
    ]


def _is_of_tensors(type: Attribute) -> bool:
    """Whether `type` is a tensor, or that of a function of some."""
    return is_tensor(type) or (
        isinstance(type, FunctionType) and any(is_tensor(t) for t in (*type.inputs, *type.outputs))
    )


def _memref_of(type: Attribute) -> Attribute:
    return MemRefType(type.element_type, type.get_shape()) if is_tensor(type) else type


def _shape(value: SSAValue) -> tuple[int, ...]:
    return cast("TensorType[Attribute] | MemRefType[Attribute]", value.type).get_shape()


class _Nest:
    """Code in front of an op: index arithmetic, loops, loads and stores. Constants are written once per nest."""

    def __init__(self, op: Operation):
        self.op = op
        self.indices: dict[int, SSAValue] = {}

    def add(self, op: Operation) -> SSAValue | None:
        """Puts `op` in front; returns its first result if it has one."""
        op.location = self.op.location
        Rewriter.insert_op(op, InsertPoint.before(self.op))
        return op.results[0] if op.results else None

    def index(self, number: int) -> SSAValue:
        """A constant of type index."""
        if number not in self.indices:
            made = self.add(arith.ConstantOp(IntegerAttr(number, IndexType())))
            assert made is not None
            self.indices[number] = made
        return self.indices[number]

    def loops(self, extents: Sequence[int], body: Callable[[_Nest, list[SSAValue]], None]) -> None:
        """One loop per extent, outermost first, around what `body` writes."""
        bounds = [(self.index(0), self.index(extent), self.index(1)) for extent in extents]
        nest, indices = self, list[SSAValue]()
        for low, high, step in bounds:
            end = scf.YieldOp()
            block = Block([end], arg_types=[IndexType()])
            nest.add(scf.ForOp(low, high, step, [], Region(block)))
            nest = _Nest(end)
            nest.indices = dict(self.indices)
            indices.append(block.args[0])
        body(nest, indices)

    def value_of(self, expr: AffineExpr, loops: Sequence[SSAValue]) -> SSAValue:
        """The index that an affine expression of loops is."""
        match expr:
            case AffineDimExpr():
                return loops[expr.position]
            case AffineConstantExpr():
                return self.index(expr.value)
            case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add | AffineBinaryOpKind.Mul):
                lhs, rhs = self.value_of(expr.lhs, loops), self.value_of(expr.rhs, loops)
                cls = arith.AddiOp if expr.kind is AffineBinaryOpKind.Add else arith.MuliOp
                made = self.add(cls(lhs, rhs))
                assert made is not None
                return made
            case _:
                raise LocatedError(f"an index {expr} is no sum of multiples of loops", self.op)

    def load(self, buffer: SSAValue, indices: Sequence[SSAValue]) -> SSAValue:
        """An element."""
        made = self.add(memref.LoadOp.get(buffer, indices))
        assert made is not None
        return made

    def store(self, value: SSAValue, buffer: SSAValue, indices: Sequence[SSAValue]) -> None:
        """Writes an element."""
        self.add(memref.StoreOp.get(value, buffer, indices))


class _LoopWriter:
    """One run over a module."""

    def __init__(self) -> None:
        self.buffers: dict[SSAValue, SSAValue] = {}
        self.roots: dict[SSAValue, SSAValue] = {}
        """Per memref that is a view, the one that it is a view of."""
        self.fresh: set[SSAValue] = set()
        """Tensors in a buffer of their own, which nothing else lies in."""
        self.made: list[SSAValue] = []
        self.kept: set[SSAValue] = set()
        """Buffers that are handed on, so that they are neither freed nor written to again."""
        self.globals: dict[tuple[Block, Attribute], str] = {}
        """The names of constants, by the block that declares them and the value."""
        self.dead: list[Operation] = []

    def function(self, function: FuncOp) -> None:
        """Writes one function, and its type."""
        type = function.function_type
        function.function_type = FunctionType.from_lists(
            [_memref_of(t) for t in type.inputs], [_memref_of(t) for t in type.outputs]
        )
        for op in list(walk_by_dominance(function)):
            for region in op.regions if op is function or isinstance(op, _HANDED_ON) else ():
                for block in region.blocks:
                    self._retype(list(block.args))
            if op is function:
                continue
            if not self._is_inner(op):
                self._write(op)
        for op in reversed(self.dead):
            op.detach()
            op.erase()
        self.dead.clear()
        self._free()

    @staticmethod
    def _is_inner(op: Operation) -> bool:
        """Whether an op is in the body of one that the writer takes as a whole."""
        parent = op.parent_op()
        while parent is not None and not isinstance(parent, FuncOp):
            if not isinstance(parent, _HANDED_ON):
                return True
            parent = parent.parent_op()
        return False

    def _retype(self, values: Sequence[SSAValue]) -> None:
        for value in values:
            if is_tensor(value.type):
                hint = value.name_hint
                new = Rewriter.replace_value_with_new_type(value, _memref_of(value.type))
                new.name_hint = hint
                self.buffers[new] = new

    def _write(self, op: Operation) -> None:
        nest = _Nest(op)
        tensors = [x for x in (*op.operands, *op.results) if is_tensor(x.type) or x in self.buffers]
        if not isinstance(op, _HANDED_ON) and any(DYNAMIC_INDEX in _shape(x) for x in tensors):
            raise LocatedError(f"{name_of_op(op)} on dynamic extents has no form as loops", op)
        match op:
            case _ if op.dialect_name() == "linalg" and not op.results:
                self._refuse_tensors(op)  # on buffers of the program itself
                return
            case arith.ConstantOp() if is_tensor(op.result.type):
                made = self._constant(nest, op)
            case tensor.EmptyOp():
                made = self._alloc(nest, op.results[0].type)
                self.fresh.add(op.results[0])
            case tensor.ExpandShapeOp() | tensor.CollapseShapeOp():
                made = self._view(nest, op)
            case tensor.ExtractSliceOp():
                made = self._extract_slice(nest, op)
            case tensor.InsertSliceOp():
                made = self._target(nest, op.results[0], op.dest)
                self._place(nest, self.buffers[op.source], made, _offsets(op), _steps(op))
            case tensor.PadOp():
                made = self._pad(nest, op)
            case tensor.ConcatOp():
                made = self._concat(nest, op)
            case tensor.SplatOp():
                made = self._alloc(nest, op.result.type)
                scalar = op.input
                nest.loops(_shape(made), lambda inner, at: inner.store(scalar, made, at))
                self.fresh.add(op.result)
            case tensor.FromElementsOp():
                made = self._alloc(nest, op.result.type)
                for place, scalar in zip(product(*map(range, _shape(made))), op.elements, strict=True):
                    nest.store(scalar, made, [nest.index(number) for number in place])
                self.fresh.add(op.result)
            case BroadcastOp():
                made = self._target(nest, op.results[0], op.init, is_read=False)
                self._broadcast(nest, op, made)
            case TransposeOp():
                made = self._target(nest, op.results[0], op.outputs[0], is_read=False)
                self._transpose(nest, op, made)
            case FillOp():
                made = self._target(nest, op.results[0], op.outputs[0], is_read=False)
                number = op.inputs[0]
                nest.loops(_shape(made), lambda inner, at: inner.store(number, made, at))
            case LinalgStructuredOperation():
                self._generic(nest, op)
                return
            case _ if op.dialect_name() in ("arith", "math") and [is_tensor(r.type) for r in op.results] == [
                True
            ]:
                made = self._elementwise(nest, op)
            case _ if isinstance(op, _HANDED_ON):
                self._hand_on(op)
                return
            case tensor.ExtractOp():
                element = nest.load(self.buffers[op.tensor], op.indices)
                element.name_hint = element.name_hint or op.result.name_hint
                op.result.replace_all_uses_with(element)
                self.dead.append(op)
                return
            case _:
                self._refuse_tensors(op)
                return
        self._replace(op, [made])

    def _refuse_tensors(self, op: Operation) -> None:
        """Raises LocatedError where `op` or an op in it is on tensors, or was before they became buffers."""
        for each in op.walk():
            if any(_is_of_tensors(x.type) or x in self.buffers for x in _values(each)):
                place = "" if each is op else f" in {name_of_op(op)}"
                raise LocatedError(f"{name_of_op(each)} on tensors{place} has no form as loops", each)

    def _replace(self, op: Operation, made: Sequence[SSAValue]) -> None:
        for result, buffer in zip(op.results, made, strict=True):
            buffer.name_hint = buffer.name_hint or result.name_hint
            self.buffers[result] = buffer
        self.dead.append(op)

    # Buffers ----------------------------------------------------------------------------------------------------

    def _alloc(self, nest: _Nest, type: Attribute) -> SSAValue:
        kind = cast("MemRefType[Attribute]", _memref_of(type))
        made = nest.add(memref.AllocOp.get(kind.element_type, None, kind.get_shape()))
        assert made is not None
        self.made.append(made)
        return made

    def _target(self, nest: _Nest, result: SSAValue, init: SSAValue, *, is_read: bool = True) -> SSAValue:
        """The buffer that `result` is written to: that of `init` where nobody else has it and its elements are not
        needed again, else a new one, with the elements of `init` if they are read."""
        self.fresh.add(result)
        if (
            init in self.fresh
            and len(list(init.uses)) == 1
            and self.buffers[init] not in self.kept
            and not may_run_again(nest.op, _block_of(init))
        ):
            return self.buffers[init]
        made = self._alloc(nest, result.type)
        if is_read and not isinstance(init.owner, tensor.EmptyOp):
            source = self.buffers[init]
            nest.loops(_shape(made), lambda inner, at: inner.store(inner.load(source, at), made, at))
        return made

    def _constant(self, nest: _Nest, op: arith.ConstantOp) -> SSAValue:
        type = cast("MemRefType[Attribute]", _memref_of(op.result.type))
        value = op.value
        if not isinstance(value, DenseIntOrFPElementsAttr):
            raise LocatedError(f"{value} has no form as loops: write its values as dense<...>", op)
        scope = _symbol_table(op)
        if (scope, value) not in self.globals:
            self._declare(scope, type, value)
        made = nest.add(memref.GetGlobalOp(self.globals[scope, value], type))
        assert made is not None
        return made

    def _declare(self, scope: Block, type: MemRefType[Attribute], value: Attribute) -> None:
        """A constant in front of the functions of `scope`, by a name that it does not have yet."""
        taken = {
            name.data for op in scope.ops if isinstance(name := op.properties.get("sym_name"), StringAttr)
        }
        number = len(self.globals)
        while f"constant_{number}" in taken:
            number += 1
        name = StringAttr(f"constant_{number}")
        self.globals[scope, value] = name.data
        made = GlobalOp.create(
            properties={
                "sym_name": name,
                "sym_visibility": StringAttr("private"),
                "constant": UnitAttr(),
                "type": type,
                "initial_value": value,
            }
        )
        first = scope.first_op
        assert first is not None
        Rewriter.insert_op(made, InsertPoint.before(first))

    def _view(self, nest: _Nest, op: tensor.ExpandShapeOp | tensor.CollapseShapeOp) -> SSAValue:
        source, type = self.buffers[op.src], _memref_of(op.results[0].type)
        if isinstance(op, tensor.ExpandShapeOp):
            new: Operation = memref.ExpandShapeOp(
                operands=[source, []],
                result_types=[type],
                properties={
                    "reassociation": op.reassociation,
                    "static_output_shape": op.static_output_shape,
                },
            )
        else:
            new = memref.CollapseShapeOp(
                operands=[source], result_types=[type], properties={"reassociation": op.reassociation}
            )
        made = nest.add(new)
        assert made is not None
        self.roots[made] = self.roots.get(source, source)
        return made

    # Moves ------------------------------------------------------------------------------------------------------

    def _extract_slice(self, nest: _Nest, op: tensor.ExtractSliceOp) -> SSAValue:
        source, made = self.buffers[op.source], self._alloc(nest, op.result.type)
        offsets, steps = _offsets(op), _steps(op)
        if len(offsets) != len(_shape(made)):
            raise LocatedError("a slice that drops dims has no form as loops", op)
        nest.loops(
            _shape(made),
            lambda inner, at: inner.store(inner.load(source, _shifted(inner, at, offsets, steps)), made, at),
        )
        self.fresh.add(op.result)
        return made

    def _place(
        self, nest: _Nest, source: SSAValue, target: SSAValue, offsets: Sequence[SSAValue | int],
        steps: Sequence[SSAValue | int],
    ) -> None:  # fmt: skip
        if len(offsets) != len(_shape(source)):
            raise LocatedError("a slice that has fewer dims has no form as loops", nest.op)
        nest.loops(
            _shape(source),
            lambda inner, at: inner.store(
                inner.load(source, at), target, _shifted(inner, at, offsets, steps)
            ),
        )

    def _pad(self, nest: _Nest, op: tensor.PadOp) -> SSAValue:
        made = self._alloc(nest, op.result.type)
        end = op.region.block.last_op
        assert end is not None
        number = end.operands[0]
        if _block_of(number) is op.region.block:
            raise LocatedError("a pad of more than one number has no form as loops", op)
        low, high = op.static_low.get_values(), op.static_high.get_values()
        if any(amount < 0 for amount in (*low, *high)):  # DYNAMIC_INDEX, too
            raise LocatedError(
                "a pad by less than nothing, or by what only the run time knows, has no form as loops", op
            )
        nest.loops(_shape(made), lambda inner, at: inner.store(number, made, at))
        self._place(nest, self.buffers[op.source], made, [int(n) for n in low], [1] * len(low))
        self.fresh.add(op.result)
        return made

    def _transpose(self, nest: _Nest, op: TransposeOp, target: SSAValue) -> None:
        source, perm = self.buffers[op.inputs[0]], op.permutation.get_values()

        def body(inner: _Nest, at: list[SSAValue]) -> None:
            inner.store(inner.load(source, [at[perm.index(dim)] for dim in range(len(perm))]), target, at)

        nest.loops(_shape(target), body)

    def _broadcast(self, nest: _Nest, op: BroadcastOp, target: SSAValue) -> None:
        source, added = self.buffers[op.input], set(op.dimensions.get_values())

        def body(inner: _Nest, at: list[SSAValue]) -> None:
            there = [index for dim, index in enumerate(at) if dim not in added]
            inner.store(inner.load(source, there), target, at)

        nest.loops(_shape(target), body)

    def _concat(self, nest: _Nest, op: tensor.ConcatOp) -> SSAValue:
        made, start = self._alloc(nest, op.result.type), 0
        rank, dim = len(_shape(made)), op.dim.value.data
        for part in op.inputs:
            source = self.buffers[part]
            offsets = [start if k == dim else 0 for k in range(rank)]
            self._place(nest, source, made, offsets, [1] * rank)
            start += _shape(source)[dim]
        self.fresh.add(op.result)
        return made

    # Bodies -----------------------------------------------------------------------------------------------------

    def _generic(self, nest: _Nest, op: LinalgStructuredOperation) -> None:
        maps = [list(attr.data.results) for attr in op.get_indexing_maps()]
        block, count, extents = op.body.block, len(op.inputs), _extents(op, maps)
        targets = [
            self._target(nest, result, init, is_read=bool(argument.uses) or not _covers(exprs, extents, init))
            for result, init, argument, exprs in zip(
                op.results, op.operands[count:], block.args[count:], maps[count:], strict=True
            )
        ]
        sources = [
            (self.buffers[x] if is_tensor(x.type) else x, exprs)
            for x, exprs in zip(op.inputs, maps, strict=False)
        ]

        def body(inner: _Nest, at: list[SSAValue]) -> None:
            values: dict[SSAValue, SSAValue] = {}
            places = [[inner.value_of(e, at) for e in exprs] for exprs in maps[count:]]
            for argument, (source, exprs) in zip(block.args, sources, strict=False):
                if not argument.uses:
                    continue
                is_buffer = isinstance(source.type, MemRefType)
                values[argument] = (
                    inner.load(source, [inner.value_of(e, at) for e in exprs]) if is_buffer else source
                )
            for argument, target, place in zip(block.args[count:], targets, places, strict=True):
                if argument.uses:
                    values[argument] = inner.load(target, place)
            for each in block.ops:
                if isinstance(each, YieldOp):
                    for value, target, place in zip(each.operands, targets, places, strict=True):
                        inner.store(values.get(value, value), target, place)
                elif isinstance(each, IndexOp):
                    values[each.result] = at[each.dim.value.data]
                elif isinstance(each, tensor.ExtractOp):
                    indices = [values.get(i, i) for i in each.indices]
                    values[each.result] = inner.load(self.buffers[each.tensor], indices)
                else:
                    self._refuse_tensors(each)
                    new = each.clone(value_mapper=dict(values))
                    inner.add(new)
                    values |= dict(zip(each.results, new.results, strict=True))

        nest.loops(extents, body)
        self._replace(op, targets)

    def _elementwise(self, nest: _Nest, op: Operation) -> SSAValue:
        """An op of arith or math on tensors: the same op on their elements."""
        made = self._alloc(nest, op.results[0].type)

        def body(inner: _Nest, at: list[SSAValue]) -> None:
            values = [inner.load(self.buffers[x], at) if x in self.buffers else x for x in op.operands]
            element = cast("MemRefType[Attribute]", made.type).element_type
            new = op.create(
                operands=values, result_types=[element], properties=op.properties, attributes=op.attributes
            )
            inner.add(new)
            inner.store(new.results[0], made, at)

        nest.loops(_shape(made), body)
        self.fresh.add(op.results[0])
        return made

    # Control flow and functions ---------------------------------------------------------------------------------

    def _hand_on(self, op: Operation) -> None:
        for number, operand in enumerate(op.operands):
            if operand in self.buffers:
                buffer = self.buffers[operand]
                self.kept.add(self.roots.get(buffer, buffer))
                op.operands[number] = buffer
        self._retype(list(op.results))

    def _free(self) -> None:
        """Frees the buffers that are not handed on, and drops those that nobody uses."""
        for buffer in self.made:
            if buffer in self.kept:
                continue
            if buffer.uses:
                free(buffer)
            else:
                owner = cast(Operation, buffer.owner)
                owner.detach()
                owner.erase()
        self.made.clear()


def _block_of(value: SSAValue) -> Block:
    """The block in which `value` is defined."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    assert block is not None
    return block


def _symbol_table(op: Operation) -> Block:
    """The block with the names that `op` may use: the one around its function."""
    function = op
    while not isinstance(function, FuncOp):
        around = function.parent_op()
        assert around is not None
        function = around
    block = function.parent
    assert block is not None
    return block


def _offsets(op: tensor.ExtractSliceOp | tensor.InsertSliceOp) -> Sequence[SSAValue | int]:
    static = [int(n) for n in op.static_offsets.get_values()]
    return get_dynamic_index_list(static, list(op.offsets), DYNAMIC_INDEX)


def _steps(op: tensor.ExtractSliceOp | tensor.InsertSliceOp) -> Sequence[SSAValue | int]:
    static = [int(n) for n in op.static_strides.get_values()]
    return get_dynamic_index_list(static, list(op.strides), DYNAMIC_INDEX)


def _shifted(
    nest: _Nest, at: Sequence[SSAValue], offsets: Sequence[SSAValue | int], steps: Sequence[SSAValue | int]
) -> list[SSAValue]:
    """Per dim, `offset + index * step`."""
    result: list[SSAValue] = []
    for index, offset, step in zip(at, offsets, steps, strict=True):
        if step != 1:
            stride = nest.index(step) if isinstance(step, int) else step
            index = cast(SSAValue, nest.add(arith.MuliOp(index, stride)))
        if offset != 0:
            there = nest.index(offset) if isinstance(offset, int) else offset
            index = cast(SSAValue, nest.add(arith.AddiOp(index, there)))
        result.append(index)
    return result


def _extents(op: LinalgStructuredOperation, maps: Sequence[Sequence[AffineExpr]]) -> list[int]:
    """How far each loop runs."""
    found: dict[int, int] = {}
    for x, exprs in zip(op.operands, maps, strict=True):
        for expr, extent in zip(exprs, _shape(x) if exprs else (), strict=True):
            if isinstance(expr, AffineDimExpr):
                found[expr.position] = extent
    count = op.get_num_loops()
    if len(found) != count or math.inf in found.values():
        raise LocatedError(f"{name_of_op(op)} has a loop of no extent", op)
    return [found[k] for k in range(count)]


def _covers(exprs: Sequence[AffineExpr], extents: Sequence[int], init: SSAValue) -> bool:
    """Whether loops of these extents write every element of a tensor, at these indices."""
    dims = [expr.position for expr in exprs if isinstance(expr, AffineDimExpr)]
    return (
        len(set(dims)) == len(exprs)
        and tuple(extents[dim] for dim in dims) == _shape(init)
        and all(extent > 0 for dim, extent in enumerate(extents) if dim not in dims)
    )
