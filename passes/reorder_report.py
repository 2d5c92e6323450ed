"""The reorders of a program before and after optimization: what they cost, and the ops on both sides of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects import tensor, tosa
from xdsl.dialects.builtin import ModuleOp, NameLoc, UnregisteredOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import ConstantLike, IsTerminator

from layout_ir.algebra.tag import name_of
from layout_ir.diagnostics import name_of_op
from layout_ir.dialects import nn
from layout_ir.dialects.layout import (
    CastOp,
    FillPadsOp,
    ReorderOp,
    ViewOp,
    dtype_of,
    format_of,
    has_layout,
    is_tensor,
    layout_of,
)
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.propagate import propagate
from layout_ir.passes.selection.costs.cost_model import (
    CostModel,
    fill_bytes,
    fill_ns,
    proven_for,
    reorder_bytes,
    reorder_ns,
)
from layout_ir.passes.selection.costs.measured_costs import MeasuredCosts
from layout_ir.passes.selection.options.conv_kernels import Target
from layout_ir.passes.selection.options.targets import target_named
from layout_ir.passes.selection.translation.from_ir import build
from layout_ir.passes.selection.translation.price_statement import PriceStatement, price_statement
from layout_ir.selection.solver.selection_problem import Solution


@dataclass(frozen=True, slots=True)
class Remaining:
    """A reorder (or fill of pads) that is left: what it moves, and the ops on both sides that ask for it."""

    value: str
    source: str
    destination: str
    nbytes: int
    producer: str
    consumer: str
    of_constant: bool


@dataclass(frozen=True, slots=True)
class Traffic:
    """The reorders of one program, and their sums: bytes read and written, estimated nanoseconds."""

    remaining: tuple[Remaining, ...]
    nbytes: int
    time_ns: int

    @property
    def count(self) -> int:
        """How many reorders and fills there are."""
        return len(self.remaining)


@dataclass(frozen=True, slots=True)
class Report:
    """Both programs for one target. `solution` is None where nothing was open."""

    target: str
    ops: int
    naive: Traffic
    optimized: Traffic
    solution: Solution | None
    unit: str = "ns"
    """What cost and bound are counted in."""
    cost_model: str = ""
    """The costs and target that the solution is proven optimal for, in words."""
    prices: PriceStatement | None = None
    """Whose prices these are, and whether the optimum depends on the noise in them; None for costs of another kind."""

    def to_json(self, model: str) -> dict[str, Any]:
        """The object that `layout-ir optimize --json` prints; times in microseconds."""
        left = self.optimized.remaining
        constants = sum(entry.of_constant for entry in left)
        return {
            "model": model,
            "target": self.target,
            "ops": self.ops,
            "naive": {
                "reorders": self.naive.count,
                "bytes": self.naive.nbytes,
                "time_us": self.naive.time_ns / 1000,
            },
            "optimized": {
                "reorders": len(left),
                "activation_reorders": len(left) - constants,
                "constant_reorders": constants,
                "bytes": self.optimized.nbytes,
                "time_us": self.optimized.time_ns / 1000,
            },
            "cost": None if self.solution is None else self.solution.cost,
            "bound": None if self.solution is None else self.solution.bound,
            "proven": self.solution is None or self.solution.is_optimal,
            "cost_model": self.cost_model,
            "omitted": [] if self.solution is None else list(self.solution.omitted),
            "unit": self.unit,
            **({} if self.prices is None else {"prices": self.prices.to_json()}),
            "remaining": [
                {
                    "value": entry.value,
                    "from": entry.source,
                    "to": entry.destination,
                    "bytes": entry.nbytes,
                    "because": [entry.producer, entry.consumer],
                }
                for entry in left
            ],
        }


def compare(
    module: ModuleOp,
    target: str | Target = "host",
    solver: str = "exact",
    costs: CostModel | None = None,
    *,
    certificate: str | None = None,
) -> tuple[Report, ModuleOp, ModuleOp]:
    """The report, the naive program and the optimized one; `module` itself is left as it is.

    The naive program is what op-by-op choice gives: every op takes its preferred Format and every edge its reorder.
    `certificate` names a file for the proof of the choice.
    """
    machine = target_named(target)
    naive, optimized = module.clone(), module.clone()
    propagate(naive, machine, "naive", costs)
    solution = optimize(optimized, machine, solver, costs, report=certificate)
    ops = sum(map(_is_counted, module.walk()))
    used = costs or machine.own_costs()
    unit = "ns" if used is None else used.unit
    cost_model = proven_for(costs, machine.name)
    prices = (
        price_statement(build(module, machine, costs), costs, solution.choices)
        if isinstance(costs, MeasuredCosts) and solution is not None
        else None
    )
    report = Report(machine.name, ops, traffic(naive), traffic(optimized), solution, unit, cost_model, prices)
    return report, naive, optimized


_MEMORY_ONLY = (ReorderOp, CastOp, FillPadsOp, nn.ConstantOp, tosa.ConstOp, tensor.EmptyOp)
_CONTROL = ("builtin", "cf", "func", "scf")


def _is_counted(op: Operation) -> bool:
    """Whether `op`, of any dialect, computes something of tensors: constants, control flow and reorders do not."""
    if not isinstance(op, UnregisteredOp):
        if isinstance(op, _MEMORY_ONLY) or op.dialect_name() in _CONTROL:
            return False
        if op.has_trait(ConstantLike) or op.has_trait(IsTerminator):
            return False
    return any(is_tensor(value.type) for value in (*op.operands, *op.results))


def traffic(module: ModuleOp) -> Traffic:
    """The reorders and fills of `module` that touch memory."""
    entries: list[Remaining] = []
    nbytes = time = 0
    for op in module.walk():
        if isinstance(op, ReorderOp | FillPadsOp) and (cost := memory_cost(op)) is not None and cost[1]:
            nbytes += cost[0]
            time += cost[1]
            entries.append(_remaining(op, cost[0]))
    return Traffic(tuple(entries), nbytes, time)


def memory_cost(op: ReorderOp | FillPadsOp) -> tuple[int, int] | None:
    """Bytes that a reorder or fill reads and writes, and estimated nanoseconds: 0 where it leaves memory as it is.

    None while its layouts are open, and where only the run time knows the shape.
    """
    if op.is_open or not (has_layout(op.source_type) and has_layout(op.result_type)):
        return None
    source, destination = layout_of(op.source_type), layout_of(op.result_type)
    dtype = dtype_of(op.result_type)
    if isinstance(op, FillPadsOp):
        return fill_bytes(destination, dtype), fill_ns(destination, dtype)
    return reorder_bytes(source, destination, dtype), reorder_ns(source, destination, dtype)


def _remaining(op: ReorderOp | FillPadsOp, nbytes: int) -> Remaining:
    source = producer_of(op.input)
    consumers = [describe(use.operation) for use in op.result.uses]
    consumer = consumers[0] if consumers else "nothing"
    if len(consumers) > 1:
        consumer += f" and {len(consumers) - 1} more"
    producer = "the caller" if isinstance(source, Block) else describe(source)
    return Remaining(
        op.input.name_hint or (describe(source) if isinstance(source, Operation) else "argument"),
        format_name(op.input),
        format_name(op.result),
        nbytes,
        producer,
        consumer,
        isinstance(source, nn.ConstantOp),
    )


def producer_of(value: SSAValue) -> Operation | Block:
    """The op or block that makes a value, in front of all views, reorders, casts and fills of it."""
    owner = value.owner
    while isinstance(owner, ReorderOp | CastOp | FillPadsOp | ViewOp):
        owner = owner.input.owner
    return owner


def format_name(value: SSAValue) -> str:
    """The tag of the Format of a value, or its text."""
    fmt = format_of(value.type)
    return "?" if fmt is None else name_of(fmt) or str(fmt)


def describe(op: Operation) -> str:
    """An op in words: its kind and the name its source gave it."""
    if isinstance(op, ReturnOp):
        func = op.parent_op()
        return f"the result of @{func.sym_name.data}" if isinstance(func, FuncOp) else "the result"
    name = op.location.desc.data if isinstance(op.location, NameLoc) else ""
    return f"{name_of_op(op)} {name}".strip()
