"""Reorders compiled ahead of time: object files that a C program is linked with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from layout_ir.algebra.layout import Layout
from layout_ir.api.reorder_compilation import dtype_of_side, quantization_of_sides
from layout_ir.arrays.descriptor import TensorDesc
from layout_ir.backends.llvm.aot.dynamic_object_file import compile_dynamic_ahead
from layout_ir.backends.llvm.aot.object_file import Unit, compile_ahead
from layout_ir.backends.llvm.aot.reorder_library import ReorderLibrary
from layout_ir.backends.llvm.machine.known_cpus import features_needed, machine_named, with_features
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.elements.quantization import conversion_between
from layout_ir.errors import LayoutError, public

Sides = tuple[TensorDesc | Layout, TensorDesc | Layout]


@public
def compile_object(
    reorders: ModuleOp | Mapping[str, Sides],
    *,
    target: str = "host",
    features: str | None = None,
    name: str = "reorders",
    prefix: str = "reorder",
) -> ReorderLibrary:
    """Reorders as one object file with a C interface: those of a program, or pairs of descriptors by name.

        library = li.compile_object({"to_blocks": (source, destination)}, target="x86-64-v3")
        library.write("reorders.o", "reorders.h")

    Of a program every distinct `layout.reorder` becomes one function, whose name begins with `prefix` and says what is
    moved. Of a mapping each pair becomes a function of that name; bare layouts have elements of f32. `target` is
    the machine: this one, or a name such as "x86-64-v3" or "aarch64"; `features` adds or takes CPU features
    ("+avx512vbmi,-fma"). `name` is that of the header. The result has `object`, `header`, `assembly`, `ir`, `symbols`
    and `write`.

    Scales and zero points that descriptors and ops have are compiled in. Where extents are None, the functions take
    them as an argument.

    Raises LayoutError where a name is none in C, where there is no such machine, and where a reorder cannot be
    compiled.
    """
    machine = machine_named(target)
    if features is not None:
        machine = with_features(machine, features)
    needs = features_needed(target, features)
    if isinstance(reorders, ModuleOp):
        return ReorderLibrary.of_program(reorders, machine, name=name, prefix=prefix, needs=needs)
    if not isinstance(reorders, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LayoutError(
            f"reorders are a program or a dict of (source, destination) by name, not of type {type(reorders).__name__}"
        )
    units: list[Unit] = []
    for symbol, sides in reorders.items():
        if not isinstance(symbol, str) or not _are_sides(sides):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LayoutError(
                f"{symbol!r}: a reorder is a pair (source, destination) of TensorDescs or Layouts under its name"
            )
        try:
            units.append(_unit(symbol, *sides, machine))
        except LayoutError as error:
            raise LayoutError(f"reorder '{symbol}': {error}") from error
    return ReorderLibrary(name, tuple(units), needs)


def _are_sides(sides: object) -> bool:
    return (
        isinstance(sides, tuple)
        and len(sides) == 2  # pyright: ignore[reportUnknownArgumentType]
        and all(isinstance(side, TensorDesc | Layout) for side in sides)  # pyright: ignore[reportUnknownVariableType]
    )


def _unit(name: str, source: TensorDesc | Layout, destination: TensorDesc | Layout, machine: Machine) -> Unit:
    src_name = dtype_of_side(source, None) or "f32"
    dst_name = dtype_of_side(destination, None) or src_name
    scale, zero_point = quantization_of_sides(source, destination, None, None)
    conversion, _ = conversion_between(src_name, dst_name, scale=scale, zero_point=zero_point)
    if source.shape != destination.shape:
        raise LayoutError(
            f"a reorder keeps the shape: source has {source.shape}, destination has {destination.shape}"
        )
    pad = destination.zero_point if isinstance(destination, TensorDesc) else None
    if None in source.shape:
        src, dst = source.format, destination.format
        if src is None or dst is None:
            raise LayoutError(
                "dynamic extents need a format on both sides, dynamic strides cannot be compiled"
            )
        dst = dst.with_pad(pad) if dst.pad == "zp" and pad is not None else dst
        return compile_dynamic_ahead(src, dst, source.shape, conversion, machine, name)
    from_, to = (side.layout if isinstance(side, TensorDesc) else side for side in (source, destination))
    if to.pad == "zp" and pad is not None:
        to = replace(to, pad=pad)
    return compile_ahead(from_, to, src_name, machine, name, conversion)
