"""`layout-ir explain-reorder`: how the bytes of a reorder are moved."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from layout_ir.argument_checks import check_threads
from layout_ir.elements.element_types import canonical_name

if TYPE_CHECKING:
    from layout_ir.backends.llvm.machine.machine import Machine
    from layout_ir.elements.quantization import Conversion

_EPILOG = """\
The plan depends on the machine: the width of its registers and the sizes of its caches. `layout-opt -p
convert-layout-to-kernel` shows the same plan as IR.

{quantization}
With dynamic extents (--shape '?x64x?x?') counts and strides are formulas of the extents, which a call brings along.

examples:
  layout-ir explain-reorder nchw nChw8c --shape 1x64x56x56
  layout-ir explain-reorder nchw nhwc --shape 32x3x224x224 --dtype i8 --cpu haswell
  layout-ir explain-reorder nchw nhwc --shape 1x64x56x56 --to-dtype i8 --scale 0.05 --zero-point 3
  layout-ir explain-reorder nchw '(n, c, h, w) : [n, c, h, w, c:16], pad = zero' --shape 1x17x5x4 --json
"""


def add_parser(subparsers: Any) -> None:
    """Adds the command `explain-reorder` and its arguments."""
    from layout_ir.tools.commands.arguments import (
        FORMAT_HELP,
        QUANTIZATION_HELP,
        add_layout_arguments,
        add_quantization_arguments,
    )

    parser = subparsers.add_parser(
        "explain-reorder",
        help="the plan of a compiled reorder: loops, micro-kernels, streaming, threads",
        description="Say how a reorder between two layouts is compiled.",
        epilog=_EPILOG.format(quantization=QUANTIZATION_HELP),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="SRC", help=FORMAT_HELP)
    parser.add_argument("destination", metavar="DST", help="the layout to move to, in the same notations")
    add_layout_arguments(parser)
    parser.add_argument(
        "--cpu",
        default="host",
        metavar="NAME",
        help="the machine to plan for, such as haswell (default: host)",
    )
    add_quantization_arguments(parser)
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        metavar="N",
        help="how many threads share a call at most (default: 1)",
    )
    parser.add_argument(
        "--tune", action="store_true", help="the fastest of a handful of plans: remembered, or measured now"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the plan. Raises LayoutError or TextError where there is none."""
    from layout_ir.backends.llvm.describe import describe_choice, describe_plan, describe_step
    from layout_ir.backends.llvm.machine.known_cpus import machine_named
    from layout_ir.backends.llvm.runtime.call import choose_plan, plan_reorder
    from layout_ir.dialects.kernel.ops import PlanOp
    from layout_ir.tools.commands.formats import common_element_type, noted_layout, read_dynamic_shape
    from layout_ir.tools.commands.quantization_options import conversion_of

    dtype = canonical_name(common_element_type(args, args.source, args.destination) or "f32")
    machine = machine_named(args.cpu)
    check_threads(args.threads)
    if args.shape is not None and "?" in args.shape:
        return _run_dynamic(args, conversion_of(args, dtype, read_dynamic_shape(args.shape) or ()), machine)
    src, dst = noted_layout(args, args.source), noted_layout(args, args.destination)
    conversion = conversion_of(args, dtype, src.shape)
    choice = None
    if args.tune and conversion.is_identity:
        choice = choose_plan(
            src, dst, dtype, threads=args.threads, target=machine, measure=args.cpu == "host"
        )
    plan = (
        plan_reorder(src, dst, conversion=conversion, threads=args.threads, target=machine)
        if choice is None
        else choice.plan
    )
    if not args.json:
        shape = "x".join(map(str, src.shape)) or "scalar"
        becomes = "" if conversion.src == conversion.dst else f" to {conversion.dst}"
        print(f"{src.format} -> {dst.format}, {shape} {dtype}{becomes}")
        if choice is not None:
            print("\n".join(describe_choice(choice)))
        print("\n".join(describe_plan(plan, machine, args.threads)))
        return 0
    result = {
        "from": str(src.format),
        "to": str(dst.format),
        "shape": list(src.shape),
        "dtype": dtype,
        "to_dtype": conversion.dst,
        "cpu": machine.cpu,
        "source_bytes": plan.src_bytes,
        "destination_bytes": plan.dst_bytes,
        **({} if choice is None else {"choice": choice.number, "choices": choice.of}),
        "in_place": plan.in_place_safe,
        "streaming": any(step.kernel.streaming for step in plan.steps),
        "steps": [
            {"kernel": str(step.kernel).split()[0], "words": describe_step(step, plan.conversion)}
            for step in plan.steps
        ],
        "ir": str(PlanOp("reorder", plan, None if args.cpu == "host" else args.cpu)),
    }
    print(json.dumps(result, indent=2))
    return 0


def _run_dynamic(args: argparse.Namespace, conversion: Conversion, machine: Machine) -> int:
    """Prints the plans of a kernel for dynamic extents: those that an object file would hold."""
    from layout_ir.backends.llvm.aot.dynamic_object_file import compile_dynamic_ahead
    from layout_ir.backends.llvm.describe import describe_conversion, describe_dynamic_plan
    from layout_ir.tools.commands.formats import dynamic_format, read_dynamic_shape, same_order

    src, dst = dynamic_format(args, args.source), dynamic_format(args, args.destination)
    shape = same_order(args, (args.source, args.destination), read_dynamic_shape(args.shape) or ())
    unit = compile_dynamic_ahead(src, dst, shape, conversion, machine)
    if args.json:
        plans = [
            {"where": choice.shape_env.guards_text(), "plan": str(choice.plan).splitlines()}
            for choice in unit.choices
        ]
        result = {
            "from": str(src), "to": str(dst), "shape": list(shape), "dtype": conversion.src,
            "to_dtype": conversion.dst, "cpu": machine.cpu, "plans": plans,
        }  # fmt: skip
        print(json.dumps(result, indent=2))
        return 0
    becomes = "" if conversion.src == conversion.dst else f" to {conversion.dst}"
    print(f"{src} -> {dst}, {args.shape} {conversion.src}{becomes}")
    print(
        "\n".join(
            describe_conversion(unit.plans[-1].conversion) or [f"elements of {unit.plans[-1].width} bytes"]
        )
    )
    print(f"{len(unit.choices)} plans, of which a call takes the first whose conditions its extents meet:")
    print("\n".join(line for choice in unit.choices for line in describe_dynamic_plan(choice)))
    return 0
