"""convert-layout-to-physical: every value becomes the tensor of its memory, and no encoding is left.

Other compilers and runtimes know dense, row-major tensors only. After this pass a value in nChw8c is a tensor of five
dims, one in nhwc has its dims in that order, and a reorder is what such a compiler has for it: slice, pad, reshape,
transpose (`layout_ir.algebra.physical`). Ops work on the physical dims, with their axes, lists and constants rewritten
(`layout_ir.passes.physical`); views that only renamed dims of the same memory are gone.

    layout.reorder         nn.slice, nn.pad, layout.reshape, layout.permute of tensors without encoding, where the last
                           two are NumPy's reshape and transpose; with reorders=call, a call of a function that the
                           pass declares, whose attribute `layout.reorder` says from which type to which
    layout.reorder that converts elements    the same, behind a layout.reorder that only converts
    constants              constants of the physical shape
    functions, regions     the same, of physical types. A signature in row-major order stays as it is.

Pads are filled where an op reads them, or who gets the value by its type: a value that nobody reads the pads of keeps
what is in them.

A value that lies as in row-major order but for dims of extent 1 has its logical shape, and reshapes that only
elementwise ops see are gone (`reshape_removal`).

An op that cannot be written on the physical dims chosen for it is an error that names it, as is a value that has no
physical tensor. Ops of other dialects are left as they are where all their tensors are row-major.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from xdsl.dialects import cf, scf
from xdsl.dialects.builtin import (
    DenseResourceAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    TensorType,
    UnrealizedConversionCastOp,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Attribute, Operation, SSAValue

from layout_ir.algebra.pads import PadPolicy, pad_after
from layout_ir.algebra.physical import (
    PhysicalTensor,
    physical_tensor,
    reorder_steps,
    row_major,
)
from layout_ir.certificate.checking import ATTRIBUTE as CERTIFICATE
from layout_ir.diagnostics import PassError, name_of_op
from layout_ir.dialects import nn
from layout_ir.dialects.layout import (
    CastOp,
    FillPadsOp,
    ReorderOp,
    has_layout,
    is_any,
    is_tensor,
    layout_of,
    strip_type,
)
from layout_ir.dialects.layout.attributes import FormatAttr, OpaqueAttr
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.dialects.layout.view_ops import ReshapeOp, SliceOp, ViewOp
from layout_ir.errors import LayoutError
from layout_ir.interfaces import CHOSEN, OPTIONS
from layout_ir.passes.layout_pass import LayoutPass
from layout_ir.passes.pad_queries import needed_pad
from layout_ir.passes.physical.op_rewrites import REWRITES
from layout_ir.passes.physical.physical_builder import (
    PhysicalBuilder,
    PhysicalValue,
    moves_nothing,
    promises,
    unknown_pads,
)
from layout_ir.passes.physical.reshape_removal import remove_reshapes
from layout_ir.passes.physical.structured_rewrites import rewrite_structured
from layout_ir.passes.rewriting import erase_dead, insert_after, retype, update_signatures
from layout_ir.passes.selection.options.in_place import ATTRIBUTE as IN_PLACE
from layout_ir.printing import is_elided

Reorders = Literal["ops", "call"]

_STRUCTURE = (
    ModuleOp, FuncOp, ReturnOp, CallOp, cf.BranchOp, cf.ConditionalBranchOp,
    scf.ForOp, scf.IfOp, scf.WhileOp, scf.ConditionOp, scf.YieldOp,
)  # fmt: skip
"""Ops that hand values on, whatever their types."""


def convert_to_physical(
    module: ModuleOp, reorders: Reorders = "ops", names: Mapping[Operation, str] | None = None, *,
    inserts: bool = False,
) -> None:  # fmt: skip
    """Converts in place. With reorders="call", those among the keys of `names` are calls of functions of these names.

    `inserts` says that pads may be filled by tensor.insert_slice, for what knows that op of MLIR.
    Raises PassError, naming the op, where an op or a value has no physical form.
    """
    module.attributes.pop(CERTIFICATE, None)
    conversion = _Conversion(module, reorders, names, inserts=inserts)
    for op in list(module.walk()):
        try:
            conversion.convert(op)
        except PassError:
            raise
        except LayoutError as error:
            raise PassError(f"{name_of_op(op)} has no physical form: {error}", op) from error
    conversion.finish()
    remove_reshapes(module)
    update_signatures(module)
    for op in module.walk():
        if isinstance(op, FuncOp) and not op.body.blocks:
            inputs, outputs = op.function_type.inputs, op.function_type.outputs
            op.function_type = FunctionType.from_lists(
                [_physical_type(t) for t in inputs], [_physical_type(t) for t in outputs]
            )


def _tensor_of(type: Attribute) -> PhysicalTensor | None:
    """The physical tensor of a value of this type; None where it is no tensor, or one that has no layout of ours.

    Raises LayoutError where its layout is still to be chosen, opaque, or has no physical tensor.
    """
    if not is_tensor(type):
        return None
    if is_any(type):
        raise LayoutError(f"the layout of {type} is still to be chosen: run layout-propagate first")
    if isinstance(type.encoding, OpaqueAttr):
        raise LayoutError(f"{type} is in an opaque layout")
    if not isinstance(type.encoding, FormatAttr) and not has_layout(type):
        return None
    tensor = physical_tensor(layout_of(type))
    plain = row_major(tensor.extents)
    # Dims of extent 1 lie anywhere in memory. Where that is all that differs, they are in their own places: else ops
    # whose Formats say the same in other words would have reshapes between them.
    padded = any(tensor.is_padded(dim) for dim in range(len(tensor.extents)))
    return plain if not padded and moves_nothing(tensor, plain) else tensor


def _is_plain(tensor: PhysicalTensor) -> bool:
    """Whether it is the tensor itself."""
    plain = row_major(tensor.extents)
    return tensor.dims == plain.dims and not any(tensor.is_padded(dim) for dim in range(len(tensor.extents)))


def _physical_type(type: Attribute) -> Attribute:
    tensor = _tensor_of(type)
    return type if tensor is None else TensorType(tensor_type(type).element_type, tensor.shape)


class _Conversion:
    """One run over a module.

    What pads hold is known of each value by its physical tensor, which may be less than its type promises: kernels
    write them, and other compilers' ops do not. They are filled where somebody reads them: an op that needs a number
    there, or who gets the value by a promise (results of functions, calls, what loops carry).

    The ops that are replaced stay until the end, on their own operands, so that each can be asked for its shapes and
    attributes. A value that an op of `_STRUCTURE` defines gets its physical type at once, and a cast back to the type
    it had for those who still read that.
    """

    def __init__(
        self, module: ModuleOp, reorders: Reorders, names: Mapping[Operation, str] | None, *, inserts: bool
    ):
        self.module = module
        self.reorders: Reorders = reorders
        self.names = names
        self.values: dict[SSAValue, PhysicalValue] = {}
        self.replaced: list[Operation] = []
        self.callees: dict[tuple[Any, ...], str] = {}
        self.declared: set[str] = set()
        self.inserts = inserts
        self.fills: dict[tuple[SSAValue, PhysicalTensor], PhysicalValue] = {}

    def finish(self) -> None:
        """Erases what was replaced, and constants and reshapes that served to make others."""
        for op in reversed(self.replaced):
            op.detach()
            op.erase()
        erase_dead([op for op in self.module.walk() if isinstance(op, nn.ConstantOp | ReshapeOp)])

    def convert(self, op: Operation) -> None:
        """Makes what stands for `op`, or gives its results and the arguments of its blocks physical types."""
        for name in (OPTIONS, CHOSEN, IN_PLACE):
            op.attributes.pop(name, None)
        tensors = [_tensor_of(result.type) for result in op.results]
        if isinstance(op, nn.NNOp | ReorderOp | CastOp | FillPadsOp | ViewOp) and tensors[0] is not None:
            made = self._replacement(op, tensors[0])
            made.value.name_hint = made.value.name_hint or op.results[0].name_hint
            self.values[op.results[0]] = made
            self.replaced.append(op)
            return
        defined = [
            *op.results,
            *(arg for region in op.regions for block in region.blocks for arg in block.args),
        ]
        tensors += [_tensor_of(value.type) for value in defined[len(tensors) :]]
        known = [*tensors, *(self.values[x].tensor for x in op.operands if x in self.values)]
        in_order = not isinstance(op, _STRUCTURE)
        if in_order and self._rewrite(op, tensors):
            return
        if in_order and not all(t is None or moves_nothing(t, row_major(t.extents)) for t in known):
            raise LayoutError("it is known on its own dims only, and one of its tensors is not row-major")
        op.operands = [
            self._operand(op, number, in_order) if x in self.values else x
            for number, x in enumerate(op.operands)
        ]
        for value, tensor in zip(defined, tensors, strict=True):
            if tensor is not None:
                self._retype(value, tensor, in_order)

    def _rewrite(self, op: Operation, tensors: Sequence[PhysicalTensor | None]) -> bool:
        """Whether `op`, of another dialect, has tensors that are not row-major, and is replaced."""
        results = [tensor for tensor in tensors[: len(op.results)] if tensor is not None]
        known = [*results, *(self.values[x].tensor for x in op.operands if x in self.values)]
        if not results or len(results) != len(op.results) or all(_is_plain(tensor) for tensor in known):
            return False
        values = {x: self._read(op, number) for number, x in enumerate(op.operands) if x in self.values}
        inner = [x for each in op.walk() if each is not op for x in each.operands if x in self.values]
        values = {x: self.values[x] for x in inner} | values
        made = rewrite_structured(self._builder(op), op, values, results)
        if made is None:
            return False
        for result, value in zip(op.results, made, strict=True):
            value.value.name_hint = value.value.name_hint or result.name_hint
            kept = self._keeps_promises(values)
            self.values[result] = value if kept else replace(value, tensor=unknown_pads(value.tensor))
        self.replaced.append(op)
        return True

    def _operand(self, op: Operation, number: int, in_order: bool) -> SSAValue:
        """What operand `number` of an op that stays is now, in its logical dims if `in_order`, else as it promises."""
        value = op.operands[number]
        if in_order:
            return self._builder(op).row_major(self.values[value], number).value
        return self._promised(value).value

    def _builder(self, op: Operation) -> PhysicalBuilder:
        return PhysicalBuilder(op, inserts=self.inserts)

    # Pads ---------------------------------------------------------------------------------------------------

    def _read(self, op: Operation, number: int) -> PhysicalValue:
        """Operand `number` of `op`, with what the op needs in its pads."""
        x = self._physical(op.operands[number])
        needed = needed_pad(op, number)
        return x if needed is None else self._filled(x, needed)

    def _promised(self, value: SSAValue) -> PhysicalValue:
        """What stands for `value`, with what its type promises of its pads."""
        return self._filled(self.values[value], layout_of(value.type).pad)

    def _filled(self, x: PhysicalValue, pad: PadPolicy) -> PhysicalValue:
        """`x` with `pad` in its pads: `x` itself, or one for all who need that, made where `x` is."""
        wanted = replace(x.tensor, pad=pad)
        if promises(x.tensor, wanted):
            return x
        key = (x.value, wanted)
        if key not in self.fills:
            first = x.value.owner.next_op if isinstance(x.value.owner, Operation) else x.value.owner.first_op
            assert first is not None
            self.fills[key] = self._builder(first).reorder(x, wanted)
        return self.fills[key]

    def _keeps_promises(self, operands: Mapping[SSAValue, PhysicalValue]) -> bool:
        """Whether the pads of all operands hold what their types promise, from which follows what an op on them leaves
        in its own. What a tensor.empty holds does not matter."""
        return all(
            promises(x.tensor, replace(x.tensor, pad=layout_of(value.type).pad))
            for value, x in operands.items()
            if not isinstance(value.owner, EmptyOp)
        )

    def _retype(self, value: SSAValue, tensor: PhysicalTensor, in_order: bool) -> None:
        """Gives a value that an op which stays defines its physical type, or its logical one if `in_order`."""
        own = row_major(tensor.extents) if in_order else tensor
        old, new_type = value.type, TensorType(tensor_type(value.type).element_type, own.shape)
        if new_type == old and own.dims == tensor.dims:
            self.values[value] = PhysicalValue(value, tensor)
            return
        new = retype(value, new_type)
        back = UnrealizedConversionCastOp(operands=[[new]], result_types=[[old]])
        new.replace_uses_with_if(back.results[0], lambda use: use.operation is not back)
        insert_after(new, back)
        made = PhysicalValue(new, own)
        self.values[back.results[0]] = self._builder(back).reorder(made, tensor) if in_order else made
        self.replaced.append(back)

    def _replacement(
        self, op: nn.NNOp | ReorderOp | CastOp | FillPadsOp | ViewOp, result: PhysicalTensor
    ) -> PhysicalValue:
        """The value that stands for the result of `op`."""
        build = self._builder(op)
        if isinstance(op, nn.ConstantOp):
            return _constant(build, op, result)
        operands = [self._read(op, number) for number in range(len(op.operands))]
        if isinstance(op, nn.NNOp):
            if type(op) not in REWRITES:
                raise LayoutError("the pass does not know it")
            made = REWRITES[type(op)](build, op, operands, result)
            if not self._keeps_promises(dict(zip(op.operands, operands, strict=True))):
                made = replace(made, tensor=unknown_pads(made.tensor))
            return build.kept(made, result)
        if isinstance(op, ViewOp):
            return _view(build, op, operands[0], result)
        if isinstance(op, CastOp):
            return build.kept(operands[0], result)
        return self._reorder(build, op, operands[0], result)

    def _physical(self, value: SSAValue) -> PhysicalValue:
        if value not in self.values:
            raise LayoutError(f"{value.type} has no layout")
        return self.values[value]

    # Reorders -------------------------------------------------------------------------------------------------

    def _reorder(
        self, build: PhysicalBuilder, op: ReorderOp | FillPadsOp, x: PhysicalValue, result: PhysicalTensor
    ) -> PhysicalValue:
        converts = isinstance(op, ReorderOp) and not op.keeps_elements
        is_called = self.reorders == "call" and (self.names is None or op in self.names)
        if is_called and (converts or reorder_steps(x.tensor, result)):
            # The function may rely on what the type of its operand says.
            x = self._promised(op.input)
            to = _physical_type(op.result.type)
            call = CallOp(self._callee(op, x.value.type, to), [x.value], [to])
            return PhysicalValue(build.insert(call), result)
        if not isinstance(op, ReorderOp) or not converts:
            return build.kept(x, result)
        properties = dict(op.properties)
        if op.dim is not None:
            dim = op.dim.value.data
            x = build.trimmed(x, dim)
            properties["dim"] = IntegerAttr(build.place(x.tensor, dim), i64)
        types = [TensorType(tensor_type(op.result.type).element_type, x.tensor.shape)]
        value = build.insert(ReorderOp.create(operands=[x.value], result_types=types, properties=properties))
        written = replace(result, pad=pad_after(result.pad, op.conversion))
        made = build.reorder(PhysicalValue(value, unknown_pads(x.tensor)), written)
        return PhysicalValue(made.value, result)

    def _callee(self, op: ReorderOp | FillPadsOp, source: Attribute, result: Attribute) -> str:
        """The name of the function that does this reorder, declared once per pair of types and parameters."""
        signature = FunctionType.from_lists([op.input.type], [op.result.type])
        key = (signature, tuple(sorted(op.properties.items(), key=lambda item: item[0])))
        if key not in self.callees and self.names is not None:
            self.callees[key] = self.names[op]
        elif key not in self.callees:
            taken = {f.sym_name.data for f in self.module.walk() if isinstance(f, FuncOp)}
            number = len(self.callees)
            while f"reorder_{number}" in taken:
                number += 1
            self.callees[key] = f"reorder_{number}"
        name = self.callees[key]
        if name not in self.declared:
            self.declared.add(name)
            declared = FuncOp.external(name, [source], [result])
            declared.attributes |= {"layout.reorder": signature, **op.properties}
            self.module.body.block.add_op(declared)
        return name


def _view(build: PhysicalBuilder, op: ViewOp, x: PhysicalValue, result: PhysicalTensor) -> PhysicalValue:
    if op.is_bare and isinstance(op, SliceOp):
        # Without layouts, it says what is computed.
        starts, sizes = op.ints("starts"), op.ints("sizes")
        kind = TensorType(x.element, sizes)
        new: Operation = nn.SliceOp(x.value, starts=starts, sizes=sizes, result_type=kind)
        return PhysicalValue(build.insert(new), result)
    if op.is_bare:
        new = op.create(operands=[x.value], result_types=[op.result.type], properties=op.properties)
        return PhysicalValue(build.insert(new), result)
    seen = op.view(layout_of(op.input.type))
    # The same memory, unless it is a part of it.
    if isinstance(op, SliceOp):
        raise LayoutError("a part of a buffer is no tensor of its own: use nn.slice")
    same = replace(physical_tensor(seen), pad=x.tensor.pad)
    return build.kept(build.reshaped(x, same), result)


def _constant(build: PhysicalBuilder, op: nn.ConstantOp, result: PhysicalTensor) -> PhysicalValue:
    """The constant in physical dims. Values that were left out in print are left out again."""
    if isinstance(op.value, DenseResourceAttr):
        if not is_elided(op.value.resource_handle.data):
            raise LayoutError(f"{op.value} is not read, and may have to move: write its values as dense<...>")
        type = cast("TensorType[Attribute]", _physical_type(op.result.type))
        left_out = {"value": DenseResourceAttr(op.value.resource_handle, type)}
        return PhysicalValue(
            build.insert(nn.ConstantOp.create(result_types=[type], properties=left_out)), result
        )
    plain = nn.ConstantOp.create(
        result_types=[strip_type(op.result.type)], properties=op.properties, attributes=op.attributes
    )
    if plain.is_splat:
        return build.splat(plain, result)
    return build.reorder(PhysicalValue(build.insert(plain), row_major(result.extents)), result)


@dataclass(frozen=True)
class ConvertLayoutToPhysicalPass(LayoutPass):
    """Every value the tensor of its memory."""

    name = "convert-layout-to-physical"

    reorders: str = "ops"

    def check_options(self) -> None:
        """Raises LayoutError for an unknown value of `reorders`."""
        if self.reorders not in ("ops", "call"):
            raise LayoutError(f"reorders = {self.reorders} is unknown, expected one of ops, call")

    def rewrite(self, module: ModuleOp) -> None:
        """Converts. Raises LayoutError for an unknown value of `reorders`, and where `convert_to_physical` does."""
        self.check_options()
        convert_to_physical(module, "call" if self.reorders == "call" else "ops")
