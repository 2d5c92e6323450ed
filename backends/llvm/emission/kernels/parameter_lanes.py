"""Quantization parameters as vectors: one number for every lane, or, with channels, that of the lane's channel.

Parameters with a number per channel are arrays in memory, constant ones or those that a call brings along; lanes are
loaded from them however the channels run over the lanes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from layout_ir.backends.llvm.emission.kernels.lanes import literal
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, shuffle
from layout_ir.elements.quantization import Conversion
from layout_ir.symbolic.symint import Size


class ParameterLanes:
    """The parameters of a conversion, as vectors of the type it computes in."""

    def __init__(self, b: Builder, conversion: Conversion, pointers: Mapping[str, str]) -> None:
        self.b = b
        self.conversion = conversion
        self.element = "float" if conversion.computes == "f32" else "double"
        self.width = 4 if conversion.computes == "f32" else 8
        self.pointers = {**pointers, **self._constants()}
        """Addresses of the parameters that are in memory."""

    def _constants(self) -> dict[str, str]:
        return {
            name: self.b.parameters(value, self.element)
            for name, value in self.conversion.parameters.items()
            if isinstance(value, tuple)
        }

    def lanes(self, channel: Value, channels: Sequence[Size]) -> dict[str, str]:
        """Every parameter by its name; lane k belongs to channel `channel` + `channels[k]`."""
        found: dict[str, str] = {}
        for name, value in self.conversion.parameters.items():
            if isinstance(value, float):
                found[name] = f"splat ({self.element} {literal(value, self.conversion.computes)})"
            elif value == "tensor":
                found[name] = self._vector(self.pointers[name], [0] * len(channels))
            else:
                base = self.b.at(self.pointers[name], self.b.mul(channel, self.width))
                found[name] = self._vector(base, channels)
        return found

    def _vector(self, base: str, offsets: Sequence[Size]) -> str:
        """Entries at `offsets`: a group of equal lanes is one load, a group of neighbours another."""
        b, size = self.b, len(offsets)
        made: dict[tuple[Size, ...], str] = {}
        step = next((n for n in (size, 16, 8, 4, 2) if size % n == 0 and self._simple(offsets, n)), 1)
        vectors: list[str] = []
        for at in range(0, size, step):
            group = tuple(offsets[at : at + step])
            if group not in made:
                made[group] = self._group(base, group)
            vectors.append(made[group])
        while len(vectors) > 1:
            if len(vectors) % 2:
                return self._inserted(base, offsets)
            mask = list(range(2 * step))
            vectors = [
                shuffle(b, self.element, low, high, step, mask)
                for low, high in zip(vectors[::2], vectors[1::2], strict=True)
            ]
            step *= 2
        return vectors[0]

    def _simple(self, offsets: Sequence[Size], size: int) -> bool:
        groups = [offsets[at : at + size] for at in range(0, len(offsets), size)]
        return all(len(set(g)) == 1 or list(g) == list(range(g[0], g[0] + size)) for g in groups)

    def _group(self, base: str, offsets: Sequence[Size]) -> str:
        b, size = self.b, len(offsets)
        pointer = b.at(base, offsets[0] * self.width)
        if len(set(offsets)) > 1:
            return b.load(f"<{size} x {self.element}>", pointer)
        one = b.put(
            f"insertelement <{size} x {self.element}> poison, {self.element} {b.load(self.element, pointer)}, i64 0"
        )
        return one if size == 1 else shuffle(b, self.element, one, "poison", size, [0] * size)

    def _inserted(self, base: str, offsets: Sequence[Size]) -> str:
        vector = "poison"
        for k, offset in enumerate(offsets):
            value = self.b.load(self.element, self.b.at(base, offset * self.width))
            vector = self.b.put(
                f"insertelement <{len(offsets)} x {self.element}> {vector}, {self.element} {value}, i64 {k}"
            )
        return vector
