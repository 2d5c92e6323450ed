"""Kernel plans: what the verifier accepts of mutated plans is compiled and run between guard pages.

A plan may do anything to its destination, but it stays inside its buffers and leaves its source alone. A kernel for
dynamic shapes is run at shapes drawn from its text, and must do what the reference does.
"""

from __future__ import annotations

import math
from functools import cache
from operator import index
from pathlib import Path
from random import Random
from zlib import crc32

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError, VerifyException

from layout_ir.backends.llvm import plan_reorder
from layout_ir.backends.llvm.machine.known_cpus import known_cpus, machine_named
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime.compiled_plan import load
from layout_ir.backends.llvm.runtime.dynamic_call import compile_dynamic
from layout_ir.dialects.kernel.ops import DynamicOp, KernelDialect, PlanOp
from layout_ir.dialects.kernel.plan_parser import parse_plan
from layout_ir.dialects.layout import LayoutDialect
from layout_ir.errors import LayoutError
from layout_ir.frontends.mlir.locations import LocatedParser
from layout_ir.frontends.mlir.verify_module import verify_module
from tests.backends.llvm.cases import random_case
from tests.fuzz.dynamic_reorders import At
from tests.fuzz.kinds import Kind, Wrong
from tests.fuzz.mutation import NUMBERS, SMALL, TextMutator
from tests.fuzz.reorders import Case, Guarded, cases, check

_FOLDER = Path(__file__).parents[2] / "filecheck" / "dialects" / "kernel"
_MOST_BYTES = 1 << 22
"""Of a buffer: what is larger is not run."""


@cache
def _texts() -> tuple[str, ...]:
    """Plans of random reorders, moving and converting, for several machines, and those of the text tests."""
    rng = Random(5)
    names = [name for name in ("host", *known_cpus()) if name != "host"]
    found: list[str] = []
    for number in range(60):
        case = random_case(rng)
        plan = plan_reorder(case.src, case.dst, case.dtype, target=machine_named(rng.choice(names)))
        found.append(str(PlanOp(f"moved{number}", plan)))
    for case in cases(11, 0, 50):
        plan = plan_reorder(
            case.src, case.dst, conversion=case.conversion, target=machine_named(rng.choice(names))
        )
        found.append(str(PlanOp(f"converted{case.number}", plan)))
    for name in ("ops.mlir", "convert.mlir", "dynamic.mlir"):
        lines = (_FOLDER / name).read_text(encoding="utf-8").splitlines()
        text = "\n".join(line for line in lines if not line.lstrip().startswith("//"))
        parts = [f"kernel.{part}" for part in text.split("kernel.") if part.startswith(("plan", "dynamic"))]
        whole = [f"kernel.plan{part}" for part in text.split("kernel.plan")[1:]]
        found += [part.partition("func.func")[0] for part in whole]
        found += [part for part in parts if part.startswith("kernel.dynamic")]
    for _ in range(20):
        formats = " ".join(f"{side} <{rng.choice(_FORMATS)}>" for side in ("from", "to"))
        extents = ", ".join(rng.choice(("?", "?", "3", "8", "17")) for _ in range(2))
        found.append(f"kernel.dynamic @dynamic shape <{extents}> {formats} elements <f32 to f32>\n")
    return tuple(text for text in found if len(text) < 8000)


_FORMATS = (
    "(a, b) : [a, b]", "(a, b) : [b, a]", "(a, b) : [a, b, b:8]", "(a, b) : [a, b, a:4], pad = zero",
    "(a, b) : [a*40, b*2]", "(a, b) : [a*3, b*-1]", "(a, b) : [b*-4, a], offset = 7", "(a, b) : [a, b], lo = [1, 0]",
)  # fmt: skip


@cache
def _mutators() -> tuple[TextMutator, TextMutator]:
    numbers = (*SMALL, *SMALL, 192, 384, 512, 1024, 2048, 8192, 65536)
    return TextMutator(_texts(), numbers), TextMutator(_texts(), NUMBERS)


def read(text: str) -> list[Operation]:
    """The plans of a text. Raises LayoutError where there are none, or the verifier refuses them."""
    context = Context()
    for dialect in (Builtin, KernelDialect, LayoutDialect):
        context.load_dialect(dialect)
    try:
        module = LocatedParser(context, text, "plan.mlir", 0).parse_program(True)
    except (ParseError, VerifyException) as error:
        raise LayoutError(str(error)) from error
    if errors := verify_module(module):
        raise LayoutError(errors[0].message)
    return [op for op in module.body.block.ops if isinstance(op, PlanOp | DynamicOp)]


class Plans(Kind):
    name = "plans"
    suffix = ".mlir"
    chunk = 40

    def make(self, seed: int, number: int) -> bytes:
        rng = self.rng(seed, number)
        mutator = _mutators()[rng.random() < 0.2]
        text = rng.choice(mutator.texts)
        if rng.random() < 0.5:
            # Numbers alone: such mutants are more often accepted.
            for _ in range(rng.choice((1, 1, 2, 3))):
                text = _other_number(rng, text, mutator)
        elif rng.random() < 0.98:
            text = mutator.mutate(rng, text)
        return text.encode("utf-8", "surrogatepass")

    def run(self, data: bytes) -> None:
        rng = Random(crc32(data))
        for op in read(data.decode("utf-8", "replace")):
            if isinstance(op, PlanOp):
                _run_plan(op, rng)
            elif isinstance(op, DynamicOp):
                _run_dynamic(op, rng)


def _other_number(rng: Random, text: str, mutator: TextMutator) -> str:
    from tests.fuzz.mutation import tokens_of

    tokens = tokens_of(text)
    places = [k for k, token in enumerate(tokens) if token.isdecimal()]
    if not places:
        return text
    k = rng.choice(places)
    number = int(tokens[k])
    multiples = (
        2 * number,
        number // 2,
        number + 4,
        number - 4,
        number + 64,
        number - 64,
        4 * number,
        number * 3,
    )
    tokens[k] = str(max(rng.choice(multiples), 0)) if rng.random() < 0.5 else mutator.number(rng, tokens[k])
    return "".join(tokens)


def _run_plan(op: PlanOp, rng: Random) -> None:
    plan = op.plan.data
    if parse_plan(str(plan)) != plan:
        raise Wrong(f"the text says something else: {plan}", "the text says something else")
    if max(plan.src_bytes, plan.dst_bytes) > _MOST_BYTES:
        return
    kernel = load(plan, host())
    source = Guarded(index(plan.src_bytes), at_end=rng.random() < 0.5)
    target = Guarded(index(plan.dst_bytes), at_end=rng.random() < 0.5)
    source.page[:] = np.frombuffer(rng.randbytes(source.page.size), np.uint8)
    target.page[:] = np.frombuffer(rng.randbytes(target.page.size), np.uint8)
    before, outside = source.page.copy(), target.page.copy()
    values: dict[str, np.ndarray] = {}
    if plan.conversion is not None:
        if plan.conversion.channels > _MOST_BYTES:
            return
        for name in plan.conversion.at_run_time:
            count = plan.conversion.channels if plan.conversion.parameters[name] == "channel" else 1
            values[name] = np.ones(count, np.float32 if plan.conversion.computes == "f32" else np.float64)
    parts = rng.choice((1, 1, 2, 3))
    for part in range(parts):
        kernel.run_part(source.address, target.address, part, parts, values)
    if not np.array_equal(source.page, before):
        raise Wrong(f"the source changed: {plan}", "the source changed")
    outside[target.start : target.start + plan.dst_bytes] = target.bytes
    if not np.array_equal(target.page, outside):
        raise Wrong(f"bytes outside of the destination changed: {plan}", "bytes outside changed")


def _run_dynamic(op: DynamicOp, rng: Random) -> None:
    extents, conversion = op.shape.data, op.elements.data
    made = compile_dynamic(op.source.data, op.target.data, extents, conversion=conversion, threads=1)
    for _ in range(3):
        shape = tuple(rng.choice((0, 1, 2, 3, 4, 7, 8, 9, 17, 33)) if x is None else x for x in extents)
        if math.prod(max(x, 1) for x in shape) > 20_000:
            continue
        src, dst = (format.bind(shape) for format in (op.source.data, op.target.data))
        try:
            sizes = made.buffer_bytes(shape)
        except LayoutError:
            continue
        if max(sizes) > _MOST_BYTES:
            continue
        wrong = check(Case(0, src, dst, conversion, {}), At(made, shape), rng)
        if wrong is not None:
            raise Wrong(wrong, "an open kernel")
