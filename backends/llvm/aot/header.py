"""The C header of reorders that were compiled ahead of time: everything their caller must know."""

from __future__ import annotations

from collections.abc import Sequence

from layout_ir.algebra.pads import PadPolicy, pad_after
from layout_ir.backends.llvm.aot.dynamic_object_file import DynamicUnit
from layout_ir.backends.llvm.aot.object_file import Argument, FixedUnit, Unit
from layout_ir.backends.llvm.describe import describe_arithmetic
from layout_ir.elements.element_types import bits_of
from layout_ir.errors import shape_text

_MEANINGS = {
    "src_zero": "the zero point of the source",
    "src_scale": "the scale of the source",
    "dst_scale": "the scale of the destination",
    "beta": "the factor of what the destination held, which is added",
    "dst_zero": "the zero point of the destination",
}


def header(unit: Unit, needs: Sequence[str] = ()) -> str:
    """Declarations of `unit`, for C and C++. `needs`: the CPU features that the caller has to make sure of."""
    title = f"{unit.name}: a reorder of tensor elements in memory, compiled ahead of time by layout-ir."
    return _file(unit.name, title, _facts(unit, needs), _sizes(unit), _functions(unit))


def header_of_several(
    name: str, units: Sequence[Unit], notes: Sequence[str], needs: Sequence[str] = ()
) -> str:
    """Declarations of all `units`, which one object defines. `name` is what the file is included once by.

    `notes` are lines of the comment at the top; what is said of one unit stands above its functions.
    """
    title = f"{name}: reorders of tensor elements in memory, compiled ahead of time by layout-ir."
    machine = units[0].machine
    facts = [*notes, "", f"machine  {machine.triple}, {machine.cpu}"]
    if needs:
        facts += _wrapped("needs    ", needs)
    sections = [
        f"/* {unit.name}\n *\n{_comment(_facts(unit, machine=False))}\n */\n{_sizes(unit)}{_functions(unit)}"
        for unit in units
    ]
    return _file(name, title, facts, "", "\n".join(sections))


def _file(name: str, title: str, facts: Sequence[str], sizes: str, functions: str) -> str:
    guard = f"LAYOUT_IR_{name.upper()}_H"
    return f"""\
/* {title}
 *
{_comment(facts)}
 */
#ifndef {guard}
#define {guard}

#include <stdint.h>

{sizes}#ifdef __cplusplus
extern "C" {{
#endif

{functions}
#ifdef __cplusplus
}}
#endif

#endif
"""


def _comment(lines: Sequence[str]) -> str:
    return "\n".join(f" * {line}".rstrip() for line in lines)


_PARTS = """\
/* Moves part `part` (from 0) of `parts` (at least 1) about equal ones. The parts may run in any order or at once;
 * where two write the same byte they write the same value. After all of them the tensor is moved. */
"""


_PARTS_OF_HALVES = """\
/* Moves part `part` (from 0) of `parts` (at least 1) about equal ones. The parts may run in any order, but one after
 * the other: two may write halves of one byte. After all of them the tensor is moved. */
"""


def _sizes(unit: Unit) -> str:
    if isinstance(unit, DynamicUnit):
        return ""
    (plan,), upper = unit.plans, unit.name.upper()
    sizes = (("SRC", plan.src_bytes), ("DST", plan.dst_bytes))
    return "\n".join([*(f"#define {upper}_{side}_BYTES INT64_C({size})" for side, size in sizes), "\n"])


def _functions(unit: Unit) -> str:
    name = unit.name
    if not isinstance(unit, DynamicUnit):
        more = "".join(f", const {argument.type} *{argument.name}" for argument in _arguments(unit))
        parts = _PARTS_OF_HALVES if unit.plans[0].shares_bytes else _PARTS
        return (
            f"/* Moves the whole tensor. */\nvoid {name}(const void *src, void *dst{more});\n\n{parts}"
            f"void {name}_part(const void *src, void *dst, int64_t part, int64_t parts{more});\n"
        )
    return (
        "/* Bytes of the buffers, pads included, for a tensor of these extents. */\n"
        f"int64_t {name}_src_bytes(const int64_t *extents);\n"
        f"int64_t {name}_dst_bytes(const int64_t *extents);\n\n"
        "/* Moves the whole tensor. */\n"
        f"void {name}(const void *src, void *dst, const int64_t *extents);\n\n{_PARTS}"
        f"void {name}_part(const void *src, void *dst, int64_t part, int64_t parts, const int64_t *extents);\n"
    )


def _arguments(unit: Unit) -> tuple[Argument, ...]:
    return unit.arguments if isinstance(unit, FixedUnit) else ()


def _elements(unit: Unit) -> str:
    plan = unit.plans[-1]
    if plan.conversion is None or plan.conversion.is_identity:
        return f"elements {unit.dtype}" + ("" if plan.shares_bytes else f" of {plan.width} bytes")
    return f"elements {plan.conversion.src} become {plan.conversion.dst}"


def _halves(unit: Unit) -> list[str]:
    conversion = unit.plans[-1].conversion
    if conversion is None or min(bits_of(conversion.src), bits_of(conversion.dst)) >= 8:
        return []
    return ["Two elements of 4 bits share a byte, the even one in the low half."]


def _argument_lines(unit: Unit) -> list[str]:
    """The runtime parameters, as sentences of the header's comment."""
    lines: list[str] = []
    for argument in _arguments(unit):
        conversion = unit.plans[-1].conversion
        each = conversion is not None and conversion.parameters[argument.name] == "channel"
        where = f", one for each index of dim {conversion.dim}" if conversion is not None and each else ""
        number = f"{argument.count} {argument.type}{'' if argument.count == 1 else 's'}{where}"
        lines += [f"{argument.name:<13}{number}:", f"{'':<13}{_MEANINGS[argument.name]}"]
    return lines


def _pad(unit: Unit) -> PadPolicy:
    """The policy of the destination's pads, a zero point that is compiled in in place of `zp`."""
    pad, conversion = unit.formats[1].pad, unit.plans[-1].conversion
    return pad if conversion is None else pad_after(pad, conversion)


def _facts(unit: Unit, needs: Sequence[str] = (), *, machine: bool = True) -> list[str]:
    (source, destination), plan = unit.formats, unit.plans[-1]
    shape = shape_text(unit.shape)
    buffers = f"buffers      source {plan.src_bytes} bytes, destination {plan.dst_bytes} bytes, pads included"
    if isinstance(unit, DynamicUnit):
        count = len(unit.shape)
        buffers = f"extents      {count} numbers, one per dim; those that the shape gives are not read"
    lines = [
        f"source       {comment_safe(str(source))}",
        f"destination  {comment_safe(str(destination))}",
        f"shape        {shape}, {_elements(unit)}",
        buffers,
        *_argument_lines(unit),
    ]
    if machine:
        lines.append(f"machine      {unit.machine.triple}, {unit.machine.cpu}")
    if needs:
        lines += _wrapped("needs        ", needs)
    if plan.conversion is not None and (converting := describe_arithmetic(plan.conversion)):
        lines += ["", "Elements:", *(f"  {line}" for line in converting)]
    lines += ["", _alignment(unit)]
    if _arguments(unit):
        lines[-1] += " Numbers lie as C has them."
    lines += _halves(unit)
    if isinstance(unit, DynamicUnit):
        lines.append(
            "Extents below 1 make the tensor empty, and nothing is done, not even pads are written. "
            "Buffers are smaller than 2^59 bytes."
        )
    if unit.in_place:
        lines.append(
            "Aliasing: src and dst may be the same address; otherwise the two buffers do not overlap."
        )
    else:
        lines.append("Aliasing: the two buffers do not overlap.")
    if destination.pad == "undef":
        lines.append("Pads: those of the source are not read, those of the destination not written.")
    else:
        lines.append(f"Pads: those of the source are not read, those of the destination become {_pad(unit)}.")
    lines.append("Bytes that are neither elements nor pads of the destination keep what they hold.")
    lines.append(
        "The functions call nothing, keep no state and may run in any number of threads"
        + (f"; a call takes {unit.stack_bytes} bytes of stack." if unit.stack_bytes else ".")
    )
    return lines


def _alignment(unit: Unit) -> str:
    if unit.alignment == 1:
        return "Alignment: none is needed; multiples of 64 bytes are fastest."
    return (
        f"Alignment: both addresses are multiples of {unit.alignment} bytes, as C has it for such elements."
    )


def _wrapped(first: str, words: Sequence[str]) -> list[str]:
    lines = [first]
    for word in words:
        if len(lines[-1]) + len(word) > 100:
            lines.append(" " * len(first))
        lines[-1] += ("" if lines[-1].endswith(" ") else " ") + word
    return lines


def comment_safe(text: str) -> str:
    """`text` inside a comment."""
    return text.replace("*/", "* /").replace("/*", "/ *")
