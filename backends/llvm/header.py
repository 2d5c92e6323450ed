"""The C header of a reorder that was compiled ahead of time: everything its caller must know."""

from __future__ import annotations

from layout_ir.backends.llvm.ahead import Unit


def header(unit: Unit, needs: tuple[str, ...] = ()) -> str:
    """Declarations of `unit`, for C and C++. `needs`: the CPU features that the caller has to make sure of."""
    name, upper = unit.name, unit.name.upper()
    comment = "\n".join(f" * {line}".rstrip() for line in _facts(unit, needs))
    return f"""\
/* {name}: a reorder of tensor elements in memory, compiled ahead of time by layout-ir.
 *
{comment}
 */
#ifndef LAYOUT_IR_{upper}_H
#define LAYOUT_IR_{upper}_H

#include <stdint.h>

#define {upper}_SRC_BYTES INT64_C({unit.plan.src_bytes})
#define {upper}_DST_BYTES INT64_C({unit.plan.dst_bytes})

#ifdef __cplusplus
extern "C" {{
#endif

/* Moves the whole tensor. */
void {name}(const void *src, void *dst);

/* Moves share `part` (from 0) of `parts` (at least 1) about equal ones. The shares may run in any order or at once;
 * where two write the same byte they write the same value. After all of them the tensor is moved. */
void {name}_part(const void *src, void *dst, int64_t part, int64_t parts);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _facts(unit: Unit, needs: tuple[str, ...]) -> list[str]:
    plan, shape = unit.plan, "x".join(map(str, unit.src.shape)) or "() (a scalar)"
    lines = [
        f"source       {_safe(str(unit.src.format))}",
        f"destination  {_safe(str(unit.dst.format))}",
        f"shape        {shape}, elements {unit.dtype} of {plan.width} bytes",
        f"buffers      source {plan.src_bytes} bytes, destination {plan.dst_bytes} bytes, pads included",
        f"machine      {unit.machine.triple}, {unit.machine.cpu}",
    ]
    if needs:
        lines += _wrapped("needs        ", needs)
    lines += ["", _alignment(unit)]
    if plan.keeps_places:
        lines.append(
            "Aliasing: src and dst may be the same address; otherwise the two buffers do not overlap."
        )
    else:
        lines.append("Aliasing: the two buffers do not overlap.")
    if unit.dst.pad == "undef":
        lines.append("Pads: those of the source are not read, those of the destination not written.")
    else:
        lines.append(
            f"Pads: those of the source are not read, those of the destination become {unit.dst.pad}."
        )
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


def _wrapped(first: str, words: tuple[str, ...]) -> list[str]:
    lines = [first]
    for word in words:
        if len(lines[-1]) + len(word) > 100:
            lines.append(" " * len(first))
        lines[-1] += ("" if lines[-1].endswith(" ") else " ") + word
    return lines


def _safe(text: str) -> str:
    """`text` inside a comment."""
    return text.replace("*/", "* /").replace("/*", "/ *")
