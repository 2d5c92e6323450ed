"""A function of one block as steps over buffers (`plan_steps`): what computes its ops; `value_memory` says where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import UnknownLoc
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from layout_ir.algebra.layout import Layout
from layout_ir.algebra.parts import part_offset
from layout_ir.backends.llvm import Reorder, compile_reorder
from layout_ir.backends.onednn.byte_copy import byte_copy
from layout_ir.backends.onednn.library import Library
from layout_ir.backends.onednn.loop_fusion import join_loops
from layout_ir.backends.onednn.op_group import VIEWS, Group, Liveness
from layout_ir.backends.onednn.op_loops import OpLoop, loop_of
from layout_ir.backends.onednn.op_primitives.primitive_operands import Operand, Values, lie_alike
from layout_ir.backends.onednn.placement import Part, part_of_slice, parts_of_concats, sharing
from layout_ir.backends.onednn.plan_steps import (
    ByteCopy,
    ControlFlow,
    ControlStep,
    ExecutionPlan,
    KernelStep,
    Location,
    LoopStep,
    MemoryArgument,
    Owner,
    Place,
    PrimitiveStep,
    ReferenceStep,
    StepText,
)
from layout_ir.backends.onednn.post_op_fusion import group_ops
from layout_ir.backends.onednn.primitives import Argument, PrimitiveDescriptor
from layout_ir.backends.onednn.value_memory import ValueMemory, with_layout
from layout_ir.backends.reference.registered_ops import semantics_of
from layout_ir.backends.reference.semantics import SEMANTICS, layout_at_run_time
from layout_ir.diagnostics import LocatedError, name_of_op, remark
from layout_ir.dialects import nn
from layout_ir.dialects.layout import (
    FillPadsOp,
    ReorderOp,
    ViewOp,
    dtype_of,
    has_layout,
    is_any,
    is_tensor,
)
from layout_ir.dialects.nn.model_names import names_at
from layout_ir.elements.numpy_types import storage
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError, printable
from layout_ir.forking import loading


def plan_execution(
    function: FuncOp,
    library: Library,
    *,
    threads: int,
    fuse: bool = True,
    flow_of: Callable[[nn.OpaqueOp], ControlFlow | None] = lambda _: None,
) -> ExecutionPlan:
    """The plan of `function`, every layout of which is chosen. Raises LocatedError where it cannot be executed.

    `flow_of` gives what runs a node by plans of its subgraphs, where something does; a node of which it raises
    LayoutError runs by the reference, and a remark says why.

    The plan keeps nothing of the function, whose constants lose their elements while these are stored as they are
    needed: weights are in memory twice one by one only.
    """
    blocks = list(function.body.blocks)
    if len(blocks) != 1:
        raise LocatedError(
            f"@{function.sym_name.data} has {len(blocks)} blocks, and the executor runs functions of one: "
            "use layout_ir.run",
            function,
        )
    ops = list(blocks[0].ops)
    _check(ops)
    library.use_threads(threads)  # which primitives are made for
    return _Planner(library, threads, flow_of).plan(function, ops, fuse)


def _check(ops: Sequence[Operation]) -> None:
    for op in ops:
        known = (
            type(op) in SEMANTICS or isinstance(op, nn.OpaqueOp | ReturnOp) or semantics_of(op) is not None
        )
        if not known or (op.regions and not isinstance(op, nn.OpaqueOp)):
            raise LocatedError(
                f"the executor runs ops of nn and layout, and registered ones, not {name_of_op(op)}: "
                "use layout_ir.run",
                op,
            )
        for value in (*op.operands, *op.results):
            if not is_tensor(value.type) or not (has_layout(value.type) or is_any(value.type)):
                raise LocatedError(
                    f"{name_of_op(op)} has a value of type {value.type}, and the executor runs on tensors with "
                    "layouts: use layout_ir.run",
                    op,
                )
            if is_any(value.type):
                raise LocatedError(
                    f"{name_of_op(op)} has a tensor whose layout is still to be chosen: optimize first", op
                )


def _is_update(op: Operation) -> bool:
    """Whether an op writes to indices, none of which may be there: an error also where it writes to nothing."""
    return isinstance(op, nn.OpaqueOp) and ("Scatter" in op.title or op.title == "MaxUnpool")


class _Planner:
    def __init__(
        self, library: Library, threads: int, flow_of: Callable[[nn.OpaqueOp], ControlFlow | None]
    ) -> None:
        self.threads = threads
        self.flow_of = flow_of
        self.values = Values(library)
        self.out = ExecutionPlan(library)
        self._last: dict[SSAValue, int] = {}
        """The number of the last group that reads a value, by values that are no views of others."""

    def plan(self, function: FuncOp, ops: list[Operation], fuse: bool) -> ExecutionPlan:
        self._memory = ValueMemory(self.out, parts_of_concats(ops, self.values))
        for number, argument in enumerate(function.body.blocks[0].args):
            self.out.inputs.append(self._memory.new(argument, Owner.INPUT, number))
        self._liveness = Liveness(ops)
        kept = {self._liveness.root(value) for value in sharing(ops, self._memory.parts)}
        groups = group_ops(
            ops,
            self.values,
            fuse=fuse,
            kept=kept,
            join=lambda groups, liveness: join_loops(groups, self.values, liveness, self.threads),
        )
        for number, group in enumerate(groups):
            for value in group.read():
                self._last[self._liveness.root(value)] = number
        self._function = function
        self._numbers = dict(_numbered(ops))
        dying = _dying_constants(ops, groups)
        for number in range(len(groups)):
            self._number = number
            self._group(groups.pop(0))  # which has constants
            for constant in dying.get(number, ()):
                constant.leave_out()
        self._memory.finish(next(op for op in reversed(ops) if isinstance(op, ReturnOp)))
        return self.out

    # Over operands ----------------------------------------------------------------------------------------------

    def _alike_over(self, group: Group) -> SSAValue | None:
        """An operand over whose memory an elementwise group may write its result."""
        op = group.ops[0]
        if (
            not isinstance(op, nn.ElementwiseOp)
            or group.primitive is None
            or group.result in self._memory.parts
        ):
            return None
        result = self.values.layout(group.result)
        used = [operand.value for operand in group.operands.values() if operand.value is not None]
        first = group.operands[Argument.SRC].value
        if first is None or sum(self._liveness.root(v) is self._liveness.root(first) for v in used) != 1:
            return None
        alike = dtype_of(first.type) == dtype_of(group.result.type)
        return first if alike and self._may_write_over(first, result) else None

    def _may_write_over(self, value: SSAValue, layout: Layout) -> bool:
        root = self._liveness.root(value)
        return (
            self._memory.is_own(self._memory.place(value))
            and root is value
            and self._last.get(root, -1) <= self._number
            and lie_alike(self.values.layout(value), layout)
        )

    # Steps ------------------------------------------------------------------------------------------------------

    def _group(self, group: Group) -> None:
        op = group.ops[-1]
        if isinstance(op, nn.ConstantOp | ReturnOp):
            return
        if isinstance(op, ReorderOp) and self.values.constant(op.result) is not None:
            return  # stored when it is first asked for
        if not any(self.values.layout(value).nelems for value in op.results) and not _is_update(op):
            # Of no elements there is nothing to compute: boxes that a detector has not found.
            for value in op.results:
                self._memory.new(value)
            return
        alone = group.loop is None and len(group.ops) == 1
        if alone and isinstance(op, nn.ConcatOp) and self._joined(op):
            return
        part = part_of_slice(op, self.values) if alone else None
        if part is not None:
            self._memory.place(part.whole)
            self._memory.new_part(op.results[0], part)
        elif alone and isinstance(op, nn.ConcatOp) and self._moves(op):
            return  # reorders take half the time of the library's concats, or less
        elif group.primitive is not None:
            self._primitive(group)
        elif isinstance(op, VIEWS):
            self._view(op)
        elif group.loop is None and self._moves(op):
            return
        elif (loop := group.loop or loop_of(group.ops, self.threads)) is not None:
            self._loop(group, loop)
        else:
            operands = tuple(self._memory.place(value) for value in op.operands)
            results = tuple(self._memory.new(value) for value in op.results)
            flow = self._flow(op)
            if flow is not None:
                text = self._text([op], "subgraphs", (*operands, *results))
                self.out.steps.append(ControlStep(text, flow, operands, results))
                return
            copy = self._alone(op)
            text = self._text([op], self._implementation(copy), (*operands, *results))
            self.out.steps.append(ReferenceStep(text, copy, operands, results))

    def _implementation(self, op: Operation) -> str:
        """What computes an op that has no kernel."""
        if isinstance(op, nn.OpaqueOp) and op.domain.data:
            with loading:
                from layout_ir.backends.onednn.node_kernels import node_kernels
                from layout_ir.backends.reference.opaque_nodes import computed_by
            return computed_by(op, node_kernels(self.threads)) or "reference"
        return "reference"

    def _flow(self, op: Operation) -> ControlFlow | None:
        """What runs a node by plans of its subgraphs; None where nothing does."""
        if not isinstance(op, nn.OpaqueOp):
            return None
        try:
            return self.flow_of(op)
        except LayoutError as error:
            remark(op, f"{op.title} runs by the reference: {error}")
            return None

    def _joined(self, op: nn.ConcatOp) -> bool:
        """Moves what does not yet lie in the result of a concat, where something does; whether it does."""
        whole = self._memory.known(op.result)
        if whole is None:
            return False
        layout, pairs, at = self.values.layout(op.result), list[tuple[Place, Place]](), 0
        for value in op.operands:
            place = self._memory.place(value)
            starts = tuple(at if d == op.axis else 0 for d in range(layout.rank))
            at += place.layout.shape[op.axis]
            offset = part_offset(layout, place.layout, starts)
            if offset is not None and self._memory.parts.get(value) == Part(op.result, offset):
                there = whole.start + offset * storage(place.dtype).itemsize
                if (place.buffer, place.start) == (whole.buffer, there):
                    continue
            pairs.append((place, with_layout(whole, layout.slice(starts, place.layout.shape))))
        if pairs:
            self._move(op, pairs)
        return True

    def _loop(self, group: Group, loop: OpLoop) -> None:
        target = self._over_operand(group, loop)
        if target is None:
            target = self._memory.new(group.result)
            if loop.updated is not None:
                self._move(group.ops[-1], [(self._memory.place(loop.updated), target)])
        self._memory.put(group.result, target)
        for value in loop.more_results:
            self._memory.new(value)
        operands = tuple(self._memory.place(value) for value in loop.operands)
        self.out.bytes_not_moved += group.bytes_not_moved
        text = self._text(group.ops, "loop", (*operands, target))
        node = _node_title(group.ops[-1]) if loop.kernel.has_indices else ""
        self.out.steps.append(LoopStep(text, loop.kernel, operands, target, node))

    def _over_operand(self, group: Group, loop: OpLoop) -> Place | None:
        """The result of a loop in the memory of an operand that lies like it and that nobody needs later."""
        layout, dtype = self.values.layout(group.result), dtype_of(group.result.type)
        roots = [self._liveness.root(value) for value in set(loop.operands)]
        if group.result in self._memory.parts:
            return None
        if loop.updated is not None:
            return self._updated_place(loop.updated, layout, roots)
        for value in loop.operands if loop.is_in_place_safe else ():
            alone = roots.count(self._liveness.root(value)) == 1 and dtype_of(value.type) == dtype
            if alone and self._may_write_over(value, layout):
                return replace(self._memory.place(value), layout=layout)
        return None

    def _updated_place(self, value: SSAValue, layout: Layout, read: Sequence[SSAValue]) -> Place | None:
        """The memory of what a loop updates, or of what that is a view of, where nobody needs it later."""
        place, root = self._memory.place(value), self._liveness.root(value)
        is_own = self._memory.is_own(place) and root not in read
        is_last = self._last.get(root, -1) <= self._number
        return place if is_own and is_last and place.layout.same_map(layout) else None

    def _view(self, op: Operation) -> None:
        source = self._memory.place(op.operands[0])
        result = layout_at_run_time(op.results[0].type)
        if isinstance(op, ViewOp) and op.is_bare:
            seen = op.view(source.layout)
            if not seen.same_map(result):
                target = self._memory.new(op.results[0])
                self._move(op, [(with_layout(source, seen), target)])
                return
            result = seen
        self._memory.put(op.results[0], with_layout(source, result))

    def _moves(self, op: Operation) -> bool:
        """Plans an op that only moves elements as compiled reorders, where there are such; whether it has."""
        try:
            moves = self._moves_of(op)
        except LayoutError:
            return False
        if moves is None:
            return False
        target = self._memory.new(op.results[0])
        conversion = op.conversion if isinstance(op, ReorderOp) else None
        pairs = [(source, with_layout(target, layout)) for source, layout in moves]
        try:
            self._move(op, pairs, conversion)
        except LayoutError:
            self._memory.take_back(op.results[0])
            return False
        return True

    def _moves_of(self, op: Operation) -> list[tuple[Place, Layout]] | None:
        """What is moved where: places, and layouts in the result; None for an op that is no move."""
        result = self.values.layout(op.results[0])
        if isinstance(op, ReorderOp | FillPadsOp):
            return [(self._memory.place(op.input), result)]
        values = [v for v in op.operands if self.values.layout(v).nelems]
        if result.is_padded or not result.nelems or not values:
            return None
        if isinstance(op, nn.SliceOp) and all(step > 0 for step in op.steps):
            source = self._memory.place(op.operands[0])
            return [(with_layout(source, source.layout.slice(op.starts, op.sizes, op.steps)), result)]
        if isinstance(op, nn.ConcatOp):
            pairs: list[tuple[Place, Layout]] = []
            at = 0
            for value in values:
                source = self._memory.place(value)
                starts = tuple(at if d == op.axis else 0 for d in range(result.rank))
                pairs.append((source, result.slice(starts, source.layout.shape)))
                at += source.layout.shape[op.axis]
            return pairs
        if isinstance(op, nn.ExpandOp):
            source = self._memory.place(op.operands[0])
            wide = source.layout
            if wide.rank < result.rank:
                wide = wide.reshape((1,) * (result.rank - wide.rank) + wide.shape)
            return [(with_layout(source, wide.broadcast(result.shape)), result)]
        return None

    def _move(
        self, op: Operation, pairs: Sequence[tuple[Place, Place]], conversion: Conversion | None = None
    ) -> None:
        moves: list[tuple[Reorder | ByteCopy, Place, Place]] = []
        for source, target in pairs:
            if source.layout.swizzle is not None or target.layout.swizzle is not None:
                raise LayoutError("no kernel reads or writes a swizzle")
            what = conversion or Conversion(source.dtype, target.dtype)
            copy = None
            if what == Conversion(source.dtype, source.dtype):
                copy = byte_copy(source.layout, target.layout, source.dtype, self.threads)
            if copy is not None:
                moves.append((copy, _from_first(source), _from_first(target)))
                continue
            kernel = compile_reorder(source.layout, target.layout, conversion=what, threads=self.threads)
            moves.append((kernel, source, target))
        text = self._text([op], "reorder", [place for pair in pairs for place in pair], shown=2)
        self.out.steps.append(KernelStep(text, tuple(moves)))

    def _primitive(self, group: Group) -> None:
        assert group.primitive is not None and group.descriptor is not None
        over = group.over or self._alike_over(group)
        if over is None:
            target = self._memory.new(group.result)
        else:
            result = group.result
            layout = self.values.layout(result)
            target = replace(self._memory.place(over), layout=layout, dtype=dtype_of(result.type))
        arguments = [
            self._argument(group.ops[0], number, operand, group.descriptor)
            for number, operand in group.operands.items()
        ]
        arguments.append(MemoryArgument(Argument.DST, group.primitive.result, target.buffer, target.offset))
        for number, value, descriptor in group.primitive.more_results:
            place = self._memory.new(value)
            arguments.append(MemoryArgument(number, descriptor, place.buffer, place.offset))
        size = group.descriptor.scratchpad_size
        if size:
            scratchpad = self._memory.buffer(size)
            scratchpad.first = scratchpad.last = len(self.out.steps)
            arguments.append(MemoryArgument(Argument.SCRATCHPAD, group.descriptor.scratchpad(), scratchpad))
        _check_reach(arguments)
        self._memory.put(group.result, target)
        self.out.bytes_not_moved += group.bytes_not_moved
        descriptor = group.descriptor
        text = self._text_of_primitive(group, descriptor.implementation, arguments)
        step = PrimitiveStep(text, descriptor, descriptor.primitive(), tuple(arguments), text.implementation)
        self.out.steps.append(step)

    def _argument(
        self, op: Operation, number: int, operand: Operand, descriptor: PrimitiveDescriptor
    ) -> MemoryArgument:
        if operand.value is not None:
            assert operand.descriptor is not None
            place = self._memory.place(operand.value)
            if operand.moved is not None:
                size = max(operand.moved.extent, 1) * storage(place.dtype).itemsize
                moved = Place(self._memory.buffer(size), operand.moved, place.dtype)
                self._move(op, [(place, moved)])
                place = moved
            return MemoryArgument(number, operand.descriptor, place.buffer, place.offset)
        assert operand.constant is not None
        wanted = operand.descriptor or descriptor.descriptor(number)
        buffer = self._memory.packed(operand.constant, wanted, operand.order)
        return MemoryArgument(number, wanted, buffer)

    # What steps are, for people ---------------------------------------------------------------------------------

    def _text(
        self,
        ops: Sequence[Operation],
        implementation: str,
        places: Iterable[Location],
        *,
        shown: int | None = None,
    ) -> StepText:
        """The text of a step on places, the layouts of the first `shown` of which are said."""
        known = [place for place in places if isinstance(place, Place)]
        nbytes = sum(place.layout.nbytes(place.dtype) for place in known)
        return self._said(ops, implementation, [place.layout for place in known[:shown]], nbytes)

    def _text_of_primitive(
        self, group: Group, implementation: str, arguments: Sequence[MemoryArgument]
    ) -> StepText:
        inside = set(group.ops)
        values = [
            value
            for op in group.ops
            for value in op.operands
            if not isinstance(value.owner, nn.ConstantOp) and value.owner not in inside
        ]
        layouts = [self.values.layout(value) for value in (*values, group.result)]
        nbytes = sum(argument.descriptor.nbytes for argument in arguments)
        return self._said(group.ops, implementation, layouts, nbytes)

    def _said(
        self, ops: Sequence[Operation], implementation: str, layouts: Iterable[Layout], nbytes: int
    ) -> StepText:
        formats = tuple(str(layout.format) for layout in layouts)
        names = tuple(_title(op) for op in ops)
        return StepText(names, self._numbers[ops[0]], implementation, formats, nbytes)

    def _alone(self, op: Operation) -> Operation:
        """A copy of an op on arguments of a block of its own, which keeps nothing of the program."""
        block = Block(arg_types=[operand.type for operand in op.operands])
        copy = op.clone(dict(zip(op.operands, block.args, strict=True)))
        if isinstance(copy.location, UnknownLoc):
            copy.location = self._function.location
        block.add_op(copy)
        return copy


def _check_reach(arguments: Iterable[MemoryArgument]) -> None:
    """Raises LayoutError where a primitive was told that a tensor is larger than its memory: the library looks at no
    bounds, and would read and write what lies behind."""
    for each in arguments:
        needed, there = each.descriptor.reach, each.buffer.size - each.offset
        if needed > there:
            raise LayoutError(
                f"argument {each.number} of a primitive has {needed} bytes in a buffer of {there}"
            )


def _from_first(place: Place) -> Place:
    """The same elements, in bytes that begin with the first of them."""
    first = place.layout.first_address
    start = place.start + first * storage(place.dtype).itemsize
    return replace(place, start=start, layout=replace(place.layout, offset=place.layout.offset - first))


def _node_title(op: Operation) -> str:
    """The name of the node of a model that an op stands for; empty where it is known of none."""
    names = names_at(op)
    return printable(names[0]) if names else ""


def _title(op: Operation) -> str:
    """What an op is called for people: an ONNX node by its operator."""
    return op.title if isinstance(op, nn.OpaqueOp) else name_of_op(op)


def _numbered(ops: Iterable[Operation]) -> Iterator[tuple[Operation, int]]:
    """Each op with its number among those of its name."""
    seen = Counter[str]()
    for op in ops:
        name = _title(op)
        yield op, seen[name]
        seen[name] += 1


def _dying_constants(ops: Iterable[Operation], groups: Sequence[Group]) -> dict[int, list[nn.ConstantOp]]:
    """The constants that no group behind one reads, as they are or through reorders and views, by number of the
    group."""
    number_of = {op: number for number, group in enumerate(groups) for op in group.ops}
    behind: dict[SSAValue, set[nn.ConstantOp]] = {}
    last: dict[nn.ConstantOp, int] = {}
    for op in ops:
        if isinstance(op, nn.ConstantOp):
            behind[op.result] = {op}
            continue
        read = {constant for value in op.operands for constant in behind.get(value, ())}
        if read and isinstance(op, (ReorderOp, *VIEWS)):
            behind[op.results[0]] = read
        if isinstance(op, ReturnOp):  # results are stored last
            for constant in read:
                last.pop(constant, None)
        elif op in number_of:
            last.update((constant, max(number_of[op], last.get(constant, 0))) for constant in read)
    dying: dict[int, list[nn.ConstantOp]] = {}
    for constant, number in last.items():
        dying.setdefault(number, []).append(constant)
    return dying
