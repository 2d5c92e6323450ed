"""The reference semantics on xDSL's interpreter, with functions that free a tensor after its last use.

xDSL keeps every value of a region until the region ends, which for VGG-19 is a gigabyte. A function of one block and
without nested regions, which is what a network is, is therefore run here; everything else is left to xDSL.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from itertools import product
from time import perf_counter
from typing import Any, cast

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    OpImplResult,
    ReturnedValues,
    impl,
    impl_callable,
    impl_terminator,
    register_impls,
)
from xdsl.interpreters.func import FuncFunctions
from xdsl.interpreters.scf import ScfFunctions
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError

from layout_ir.backends.reference.foreign_ops import ForeignFunctions, write_slice
from layout_ir.backends.reference.opaque_nodes import run_opaque
from layout_ir.backends.reference.operator_kernels import IN_NUMPY, NodeKernels
from layout_ir.backends.reference.registered_ops import run_registered, semantics_of
from layout_ir.backends.reference.semantics import SEMANTICS, Semantics
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.diagnostics import LocatedError, UnforeseenOpError, name_of_op
from layout_ir.dialects.layout import dtype_of, has_layout, is_tensor
from layout_ir.dialects.nn import ConstantOp, OpaqueOp
from layout_ir.dialects.upstream import func_ops, loop_ops
from layout_ir.dialects.upstream.loop_ops import ForallOp, InParallelOp
from layout_ir.dialects.upstream.tensor_ops import ParallelInsertSliceOp
from layout_ir.elements.numpy_types import stored_number
from layout_ir.errors import LayoutError
from layout_ir.foreign.scalar import Trap

Trace = Callable[[Operation, Sequence[Tensor], float], None]
"""Called after an op with the op, its operands and results, and the seconds it took."""

_FOREIGN = ("arith", "builtin", "func", "linalg", "math", "scf", "tensor", "tosa")


class ReferenceFunctions(FuncFunctions):
    """Implementations of `nn`, `layout` and `func` for an xDSL interpreter.

    `replaced` has semantics in place of those of the table, such as compiled reorders. `constants` keeps the tensors of
    constants from one run to the next; without it each is made at its first use and freed after its last.
    """

    def __init__(
        self,
        *,
        replaced: Mapping[type[Operation], Semantics] | None = None,
        constants: MutableMapping[Operation, Tensor] | None = None,
        trace: Trace | None = None,
    ):
        self.table: dict[type[Operation], Semantics] = {**SEMANTICS, **(replaced or {})}
        self.constants = constants
        self.trace = trace

    def run(self, op: Operation, operands: Sequence[Any]) -> Any:
        """The result of an op of the table. Raises LayoutError, naming the op, where it has none."""
        if isinstance(op, ConstantOp) and self.constants is not None:
            if op not in self.constants:
                self.constants[op] = self._apply(op, ())
            return self.constants[op]
        if self.trace is None or isinstance(op, ConstantOp):
            return self._apply(op, operands)
        start = perf_counter()
        result = self._apply(op, operands)
        self.trace(op, (*operands, result), perf_counter() - start)
        return result

    @impl(OpaqueOp)
    def run_opaque(self, interpreter: Interpreter, op: OpaqueOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The results of an ONNX node without translation."""
        start = perf_counter()
        results = run_opaque(op, args)
        if self.trace is not None:
            self.trace(op, (*args, *results), perf_counter() - start)
        return results

    def _apply(self, op: Operation, operands: Sequence[Any]) -> Any:
        with _errors_of(op), np.errstate(all="ignore"):
            return self.table[type(op)](op, *operands)

    @impl(func_ops.CallOp)
    def run_added_call(
        self, interpreter: Interpreter, op: func_ops.CallOp, args: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        return interpreter.call_op(op.callee, args)

    @impl_callable(func_ops.FuncOp)
    def call_added_func(
        self, interpreter: Interpreter, op: func_ops.FuncOp, args: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        return self.call_func(interpreter, op, args)

    @impl_callable(FuncOp)
    def call_func(self, interpreter: Interpreter, op: FuncOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
        blocks = list(op.body.blocks)
        if not blocks:
            raise LayoutError(f"function @{op.sym_name.data} has no body to run")
        if len(blocks) > 1 or any(inner.regions for inner in blocks[0].ops):
            return interpreter.run_ssacfg_region(op.body, args, op.sym_name.data)
        return self._run_block(interpreter, blocks[0], args)

    def _run_block(self, interpreter: Interpreter, block: Block, args: tuple[Any, ...]) -> tuple[Any, ...]:
        values: dict[SSAValue, Any] = dict(zip(block.args, args, strict=True))
        dying = _last_uses(block)
        for op in block.ops:
            if isinstance(op, ConstantOp):
                continue  # made at its first use, so that all weights never exist at once
            for operand in op.operands:
                if operand not in values and isinstance(operand.owner, ConstantOp):
                    values[operand] = self.run(operand.owner, ())
            operands = tuple(values[operand] for operand in op.operands)
            if isinstance(op, ReturnOp):
                return operands
            if type(op) in self.table:
                values[op.results[0]] = self.run(op, operands)
            else:
                results = interpreter.run_op(op, operands)
                values.update(zip(op.results, results, strict=True))
            for value in dying.get(op, ()):
                values.pop(value, None)
        return ()


def _last_uses(block: Block) -> dict[Operation, list[SSAValue]]:
    """Per op, the values that no later op uses."""
    result: dict[Operation, list[SSAValue]] = {}
    seen: set[SSAValue] = set()
    for op in reversed(list(block.ops)):
        dying = {value for value in (*op.operands, *op.results) if value not in seen}
        seen |= dying
        result[op] = list(dying)
    return result


def _method(op_type: type[Operation]) -> Any:
    def run(
        self: ReferenceFunctions, interpreter: Interpreter, op: Operation, args: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        return (self.run(op, args),)

    return impl(op_type)(run)


for _op_type in SEMANTICS:
    setattr(ReferenceFunctions, f"run_{_op_type.name.replace('.', '_')}", _method(_op_type))
register_impls(ReferenceFunctions)


@contextmanager
def _errors_of(op: Operation) -> Generator[None]:
    """Raises every exception of the body as a LocatedError that names `op` and its place."""
    try:
        yield
    except LocatedError:
        raise  # an op inside op, or of a function that it calls
    except RecursionError:
        raise LocatedError(f"{name_of_op(op)}: functions call each other too deeply", op) from None
    except (LayoutError, Trap) as error:
        raise LocatedError(f"{name_of_op(op)}: {error}", op) from error
    except InterpretationError as error:
        raise LocatedError(f"{name_of_op(op)} has no reference semantics here: {error}", op) from error
    except Exception as error:
        raise UnforeseenOpError(f"'{name_of_op(op)}' op", error, op) from error


class _ControlFlow(ScfFunctions):
    """xDSL's `scf`, but for ops that look at a number: numbers are Python's and NumPy's here, whatever xDSL has."""

    @impl(ForallOp)
    def run_forall(self, interpreter: Interpreter, op: ForallOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Each iteration sees the shared tensors as they came, and its slices are written into copies of them."""
        given = dict(zip(op.operands, args, strict=True))
        bounds: list[list[int]] = [
            [value if isinstance(value, int) else int(given[value]) for value in values]
            for values in (op.lower_bounds, op.upper_bounds, op.steps)
        ]
        if any(step <= 0 for step in bounds[2]):
            raise LayoutError(f"loops count up, the steps are {bounds[2]}")
        shared: list[Tensor] = list(args[len(args) - len(op.outputs) :])
        elements = [np.array(x.logical()) for x in shared]
        body = op.region.block
        for indices in product(*map(range, *bounds)):
            writes = interpreter.run_ssacfg_region(op.region, (*indices, *shared), "forall")
            for insertion, operands in zip(_insertions(body), writes, strict=True):
                number = body.args.index(cast("BlockArgument", insertion.dest)) - op.rank
                write_slice(insertion, operands, elements[number])
        return tuple(
            Tensor.store(written, x.layout, x.dtype, stored_number(0, x.dtype))
            for written, x in zip(elements, shared, strict=True)
        )

    @impl_terminator(InParallelOp)
    def run_in_parallel(
        self, interpreter: Interpreter, op: InParallelOp, args: tuple[Any, ...]
    ) -> tuple[ReturnedValues, tuple[Any, ...]]:
        """The operands of each insertion, which `run_forall` makes."""
        block = op.parent
        assert block is not None
        return ReturnedValues(tuple(interpreter.get_values(each.operands) for each in _insertions(block))), ()


def _run_for(
    self: _ControlFlow, interpreter: Interpreter, op: scf.ForOp, args: tuple[Any, ...]
) -> tuple[Any, ...]:
    low, high, step, *carried = args
    type = op.lb.type
    if isinstance(op, loop_ops.ForOp) and op.unsignedCmp is not None and isinstance(type, IntegerType):
        low, high, step = (int(value) % (1 << type.bitwidth) for value in (low, high, step))
    if step <= 0:
        raise LayoutError(f"a loop counts up, its step is {step}")
    for index in range(low, high, step):
        carried = interpreter.run_ssacfg_region(op.body, (index, *carried), "for_loop")
    return tuple(carried)


def _run_while(
    self: _ControlFlow, interpreter: Interpreter, op: scf.WhileOp, args: tuple[Any, ...]
) -> tuple[Any, ...]:
    while True:
        goes_on, *forwarded = interpreter.run_ssacfg_region(op.before_region, args, "while_condition")
        if not goes_on:
            return tuple(forwarded)
        args = interpreter.run_ssacfg_region(op.after_region, tuple(forwarded), "while_body")


def _run_index_switch(
    self: _ControlFlow, interpreter: Interpreter, op: scf.IndexSwitchOp, args: tuple[Any, ...]
) -> tuple[Any, ...]:
    cases = dict(zip(op.cases.get_values(), op.case_regions, strict=True))
    return interpreter.run_ssacfg_region(cases.get(args[0], op.default_region), (), "index_switch")


def _run_execute_region(
    self: _ControlFlow, interpreter: Interpreter, op: scf.ExecuteRegionOp, args: tuple[Any, ...]
) -> tuple[Any, ...]:
    return interpreter.run_ssacfg_region(op.region, (), "execute_region")


_LOOPS: dict[type[Operation], Any] = {
    scf.ForOp: _run_for,
    loop_ops.ForOp: _run_for,
    scf.WhileOp: _run_while,
    loop_ops.WhileOp: _run_while,
    scf.IndexSwitchOp: _run_index_switch,
    loop_ops.IndexSwitchOp: _run_index_switch,
    scf.ExecuteRegionOp: _run_execute_region,
    loop_ops.ExecuteRegionOp: _run_execute_region,
}
"""What runs each op: those of xDSL, and those that are added in their place."""

for _number, (_op_type, _run) in enumerate(_LOOPS.items()):
    setattr(_ControlFlow, f"run_{_number}", impl(_op_type)(_run))
register_impls(_ControlFlow)


def _insertions(body: Block) -> list[ParallelInsertSliceOp]:
    """The slices that an iteration of `scf.forall` writes."""
    end = body.last_op
    assert isinstance(end, InParallelOp)
    return [op for op in end.body.block.ops if isinstance(op, ParallelInsertSliceOp)]


class _Interpreter(Interpreter):
    """xDSL's interpreter, whose errors name the op, and which knows the ops whose semantics are registered."""

    trace: Trace | None = None

    def _run_op(self, op: Operation, inputs: tuple[Any, ...]) -> OpImplResult:
        with _errors_of(op):
            semantics = semantics_of(op)
            if semantics is None:
                return super()._run_op(op, inputs)
            start = perf_counter()
            results = run_registered(op, semantics, inputs)
            if self.trace is not None:
                self.trace(op, (*inputs, *results), perf_counter() - start)
            return OpImplResult(results, None)


def interpreter_of(module: ModuleOp, functions: InterpreterFunctions) -> Interpreter:
    """An interpreter of `module` with these functions, those of other dialects, and xDSL's own for scf."""
    interpreter = _Interpreter(module)
    if isinstance(functions, ReferenceFunctions):
        interpreter.trace = functions.trace
    for implementations in (functions, _ControlFlow(), ForeignFunctions()):
        interpreter.register_implementations(implementations, override=True)
    return interpreter


def run_op(op: Operation, operands: Sequence[Tensor], kernels: NodeKernels = IN_NUMPY) -> Sequence[Tensor]:
    """The results of one op on tensors, of an opaque one with `kernels`. Raises LocatedError, naming the op, where it
    fails."""
    if isinstance(op, OpaqueOp):
        return run_opaque(op, operands, kernels)
    semantics = semantics_of(op)
    if type(op) not in SEMANTICS and semantics is not None:
        return run_registered(op, semantics, operands)
    return (ReferenceFunctions().run(op, operands),)


def _check_type(type: Attribute, what: str, op: Operation) -> None:
    """Raises LocatedError where `type` is a tensor without a static shape, a known element type or a layout."""
    if not is_tensor(type) or has_layout(type):
        return
    unknown = [dim for dim, extent in enumerate(type.get_shape()) if extent < 0]
    if unknown:
        dims = f"dim {unknown[0]}" if len(unknown) == 1 else f"dims {', '.join(map(str, unknown))}"
        raise LocatedError(
            f"{what} is {type}: running needs the extent of {dims}; write a static shape into the types", op
        )
    dtype_of(type)
    raise LocatedError(f"{what} is {type}: running needs a layout, which {type.encoding} is not", op)


def has_semantics(op: Operation) -> bool:
    """Whether the reference runs `op`: one of ours, of a dialect that it knows, or with registered semantics."""
    known = type(op) in SEMANTICS or type(op) is OpaqueOp or name_of_op(op).partition(".")[0] in _FOREIGN
    return known or semantics_of(op) is not None


def check_supported(module: ModuleOp, function: FuncOp) -> None:
    """Raises LocatedError, naming the op, if `function` or one that it calls has an op without reference semantics, or
    calls one that the module does not define."""
    defined = {op.sym_name.data for op in module.walk() if isinstance(op, FuncOp)}
    for op, title in _reached(module, function):
        if isinstance(op, CallOp) and op.callee.string_value() not in defined:
            raise LocatedError(
                f"{title} calls @{op.callee.string_value()}, which the module does not define", op
            )
        name = name_of_op(op)
        if not has_semantics(op):
            raise LocatedError(
                f"{name} has no reference semantics: supported are the ops of nn, layout, func, scf, "
                "arith, linalg, math, tensor and tosa, and those that layout_ir.extend.register_op gives semantics",
                op,
            )


def check_types(module: ModuleOp, function: FuncOp) -> None:
    """Raises LocatedError where `function` or one that it calls has a tensor without a static shape, a known element
    type and a layout."""
    for op, title in _reached(module, function):
        is_function = isinstance(op, FuncOp)
        for block in (block for region in op.regions for block in region.blocks):
            for number, argument in enumerate(block.args):
                of = title if is_function else f"a block of {name_of_op(op)} in {title}"
                _check_type(argument.type, f"argument {number} of {of}", op)
        for result in op.results:
            _check_type(result.type, f"the result of {name_of_op(op)} in {title}", op)


def _reached(module: ModuleOp, function: FuncOp) -> Iterator[tuple[Operation, str]]:
    """The ops of `function` and of all functions that it calls, each with the name of the one it is in."""
    symbols = {op.sym_name.data: op for op in module.walk() if isinstance(op, FuncOp)}
    pending, seen = [function], {function}
    while pending:
        here = pending.pop()
        for op in here.walk():
            yield op, f"@{here.sym_name.data}"
            callee = symbols.get(op.callee.string_value()) if isinstance(op, CallOp) else None
            if callee is not None and callee not in seen:
                seen.add(callee)
                pending.append(callee)
