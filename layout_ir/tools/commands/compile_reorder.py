"""`layout-ir compile-reorder`: a reorder as an object file with a C interface."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from layout_ir.errors import LayoutError, shape_text
from layout_ir.tools.commands.code_options import (
    add_file_arguments,
    add_target_arguments,
    kind_of_output,
    machine_of,
)

if TYPE_CHECKING:
    from layout_ir.backends.llvm.aot.object_file import Unit
    from layout_ir.backends.llvm.machine.machine import Machine

_EPILOG = """\
The object calls nothing and can be linked into any program or shared library. The header declares
  void NAME(const void *src, void *dst);
  void NAME_part(const void *src, void *dst, int64_t part, int64_t parts);
and says how large the buffers are. `layout-ir explain-reorder --cpu TARGET` says what the code does.

{quantization}
What calls bring along are further arguments of both functions, `const float *` or `const double *`, in this order:
src_zero, src_scale, dst_scale, beta, dst_zero. The header describes those that there are.

Extents may be dynamic, as in --shape ?x64x?x?. Then each function takes the extents of the tensor as a last argument,
`const int64_t *extents`, and NAME_src_bytes(extents) and NAME_dst_bytes(extents) say how large the buffers are.

examples:
  layout-ir compile-reorder nchw nhwc --shape 1x64x56x56 --target x86-64-v3 -o kernel.o --header kernel.h
  layout-ir compile-reorder nchw nChw8c --shape 8x17x14x14 --target aarch64 --name to_blocks -o to_blocks.o
  layout-ir compile-reorder ab ba --shape 512x512 --dtype i8 --target riscv64-v --emit asm
  layout-ir compile-reorder nchw nChw8c --shape '?x?x?x?' --like 8x64x56x56 -o any.o --header any.h
  layout-ir compile-reorder nchw nhwc --shape '?x3x?x?' --to-dtype i8 --scale 0.05 --zero-point 3 -o quantize.o
  layout-ir compile-reorder oihw Oihw4o --shape 64x3x3x3 --to-dtype i8 --scale channel --dim 0 -o weights.o --header w.h
  layout-ir compile-reorder --list-targets
"""


def add_parser(subparsers: Any) -> None:
    """Adds the command `compile-reorder` and its arguments."""
    from layout_ir.tools.commands.arguments import (
        FORMAT_HELP,
        QUANTIZATION_HELP,
        add_layout_arguments,
        add_quantization_arguments,
    )

    parser = subparsers.add_parser(
        "compile-reorder",
        help="a reorder as an object file with a C interface, for this machine or another",
        description="Compile a reorder between two layouts ahead of time.",
        epilog=_EPILOG.format(quantization=QUANTIZATION_HELP),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="SRC", nargs="?", help=FORMAT_HELP)
    parser.add_argument(
        "destination", metavar="DST", nargs="?", help="the layout to move to, in the same notations"
    )
    add_layout_arguments(parser)
    add_quantization_arguments(parser)
    add_target_arguments(parser, "--list-targets")
    parser.add_argument(
        "--like",
        metavar="SHAPE",
        action="append",
        help="with dynamic extents: a shape to be fast for, besides the usual ones; may be given again",
    )
    parser.add_argument("--name", default="reorder", metavar="NAME", help="the C function (default: reorder)")
    add_file_arguments(parser)
    parser.add_argument("--list-targets", action="store_true", help="list the machines that have a name")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Writes the files. Raises LayoutError or TextError, before anything is written, and OSError."""
    from layout_ir.backends.llvm.aot.header import header
    from layout_ir.backends.llvm.machine.known_cpus import features_needed
    from layout_ir.files import all_or_none, write_result

    if args.list_targets:
        print(_targets())
        return 0
    kind = _kind(args)
    with all_or_none(args.output, args.header):
        machine = machine_of(args)
        unit = _unit(args, machine)
        result = unit.object_file() if kind == "obj" else unit.assembly() if kind == "asm" else unit.ir()
        needs = features_needed(args.target, args.features)
        write_result(result, args.output)
        if args.header is not None:
            write_result(header(unit, needs), args.header)
        if args.json:
            summary = _summary(args, unit, kind, needs, len(result))
            write_result(json.dumps(summary, indent=2) + "\n", None)
    return 0


def _kind(args: argparse.Namespace) -> str:
    """What to write. Raises LayoutError where a side or the kind is not said."""
    if args.source is None or args.destination is None:
        raise LayoutError("say what to compile: SRC DST --shape EXTENTS (layout-ir compile-reorder --help)")
    return kind_of_output(args)


def _unit(args: argparse.Namespace, machine: Machine) -> Unit:
    from layout_ir.backends.llvm.aot.dynamic_object_file import compile_dynamic_ahead
    from layout_ir.backends.llvm.aot.object_file import check_name, compile_ahead
    from layout_ir.elements.element_types import canonical_name
    from layout_ir.tools.commands import TextError
    from layout_ir.tools.commands.formats import (
        common_element_type,
        dynamic_format,
        noted_layout,
        read_dynamic_shape,
        same_order,
    )
    from layout_ir.tools.commands.quantization_options import conversion_of

    try:
        check_name(args.name)
    except LayoutError as error:
        raise TextError(str(error), args.name, (0, len(args.name))) from error
    dtype = canonical_name(common_element_type(args, args.source, args.destination) or "f32")
    shape = read_dynamic_shape(args.shape)
    if shape is not None and None in shape:
        texts = (args.source, args.destination)
        like = [same_order(args, texts, _example(text, shape)) for text in args.like or ()]
        shape = same_order(args, texts, shape)
        conversion = conversion_of(args, dtype, shape)
        formats = dynamic_format(args, args.source), dynamic_format(args, args.destination)
        return compile_dynamic_ahead(*formats, shape, conversion, machine, args.name, like)
    if args.like:
        raise LayoutError("--like says which extents are likely where --shape has dynamic ones (?)")
    src, dst = noted_layout(args, args.source), noted_layout(args, args.destination)
    conversion = conversion_of(args, dtype, src.shape)
    return compile_ahead(src, dst, dtype, machine, args.name, conversion)


def _example(text: str, shape: tuple[int | None, ...]) -> tuple[int, ...]:
    """The extents that one --like gives. Raises TextError."""
    from layout_ir.tools.commands import TextError
    from layout_ir.tools.commands.formats import read_shape

    example = read_shape(text) or ()
    fits = len(example) == len(shape) and all(x in (None, y) for x, y in zip(shape, example, strict=True))
    if not fits or min(example, default=1) < 1:
        raise TextError(f"'{text}' is no example of shape {shape_text(shape)}", text, (0, len(text)))
    return example


def _summary(
    args: argparse.Namespace, unit: Unit, kind: str, needs: tuple[str, ...], size: int
) -> dict[str, object]:
    from layout_ir.backends.llvm.aot.dynamic_object_file import DynamicUnit
    from layout_ir.backends.llvm.aot.object_file import FixedUnit

    plan, to = unit.plans[-1], unit.dtype
    if plan.conversion is not None:
        to = plan.conversion.dst
    arguments = unit.arguments if isinstance(unit, FixedUnit) else ()
    known = None not in unit.shape
    result: dict[str, object] = {
        "name": unit.name,
        "symbols": list(unit.symbols),
        "from": str(unit.formats[0]),
        "to": str(unit.formats[1]),
        "shape": list(unit.shape),
        "dtype": unit.dtype,
        "to_dtype": to,
        "arguments": [{"name": x.name, "type": x.type, "count": x.count} for x in arguments],
        "target": args.target,
        "triple": unit.machine.triple,
        "cpu": unit.machine.cpu,
        "features": list(needs),
        "vector_bytes": unit.machine.vector,
        "source_bytes": plan.src_bytes if known else str(plan.src_bytes),
        "destination_bytes": plan.dst_bytes if known else str(plan.dst_bytes),
        "alignment": unit.alignment,
        "stack_bytes": unit.stack_bytes,
        "in_place": unit.in_place,
        "streaming": unit.streaming,
        "emit": kind,
        "output": args.output,
        "output_bytes": size,
        "header": args.header,
    }
    if isinstance(unit, DynamicUnit):
        result["choices"] = [
            {"where": choice.shape_env.guards_text(), "plan": str(choice.plan).splitlines()}
            for choice in unit.choices
        ]
    return result


def _targets() -> str:
    from layout_ir.backends.llvm.machine.known_cpus import known_cpus

    lines = ["host        this machine"]
    for name, target in known_cpus().items():
        lines.append(f"{name:<11} {target.about} ({target.machine.triple})")
    return "\n".join(lines)
