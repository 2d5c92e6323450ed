"""Layouts as texts: our own, tags and every foreign notation, mutated; bound to shapes, converted, explained.

Where a text means a layout of few elements, its addresses must be those that the factors say by definition, and
what a notation prints must mean the same layout when it is read back.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, cast

import numpy as np

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError, UnforeseenError
from layout_ir.notations import NOTATIONS, Notation, read
from tests.fuzz.kinds import Kind, Wrong
from tests.fuzz.mutation import NUMBERS, TextMutator
from tests.fuzz.tools import call
from tests.layouts import addresses_by_definition, random_format, random_shape, random_tag

_CASES = Path(__file__).parents[1] / "cases"
_FEW = 300
"""Elements of a layout that is compared with the definition."""

_UNREADABLE = 10**18
"""Extents from here on are printed by notations that read none so large."""

DTYPES = ("f32", "bf16", "i8", "ui4", "i1", "f64", "i64", "f16", "i4", "x", "")

EXTENTS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33, 64, 65)
_LARGE = tuple(n for n in NUMBERS if n > 1000)


@cache
def _texts() -> tuple[str, ...]:
    """Examples of every notation, tags and formats, the foreign ones behind their names."""
    rng = Random(0)
    found = [f"{name}:{notation.example}" for name, notation in NOTATIONS.items()]
    for _ in range(40):
        found.append(str(random_format(rng, rng.randint(0, 4), strided=True, halo=True, chunked=True)))
        found.append(random_tag(rng, rng.randint(1, 5))[0])
    for _ in range(30):
        rank = rng.randint(1, 4)
        layout = random_format(rng, rank, strided=rng.random() < 0.5).bind(random_shape(rng, rank, 300))
        for name, notation in NOTATIONS.items():
            try:
                found.append(f"{name}:{notation.print(layout, 'f32')}")
            except LayoutError:
                continue
    found += [*cast("dict[str, Any]", json.loads((_CASES / "onednn_tag_aliases.json").read_text()))][:60]
    return tuple(dict.fromkeys(found))


@cache
def _mutators() -> dict[str, TextMutator]:
    texts: dict[str, list[str]] = {"": []}
    for text in _texts():
        name, colon, rest = text.partition(":")
        known = bool(colon) and name in NOTATIONS
        texts.setdefault(name if known else "", []).append(rest if known else text)
    return {name: TextMutator(of) for name, of in texts.items()}


def random_text(rng: Random) -> tuple[str | None, str]:
    """A notation (None: ours) and a text that is nearly of it."""
    mutators = _mutators()
    name = rng.choice(list(mutators)) if rng.random() < 0.7 else ""
    mutator = mutators[name]
    text = rng.choice(mutator.texts)
    if rng.random() < 0.9:
        text = mutator.mutate(rng, text)
    return name or None, text


def random_extents(rng: Random, rank: int) -> list[int]:
    """A shape, now and then with extents beyond all memory."""
    if rng.random() < 0.25:
        return [rng.choice(EXTENTS + _LARGE) for _ in range(rank)]
    return [rng.choice(EXTENTS[: 15 if rank < 3 else 9]) for _ in range(rank)]


def padded_by_definition(layout: Layout) -> tuple[int, ...]:
    """The shape rounded up to blocks, `lo` included."""
    sized = [
        math.prod(f.size or 1 for f in layout.format.all_factors if f.dim == d) for d in range(layout.rank)
    ]
    lo = layout.format.lo or (0,) * layout.rank
    return tuple(
        -(-(n + low) // block) * block for n, low, block in zip(layout.shape, lo, sized, strict=True)
    )


def _again(notation: Notation, text: str, layout: Layout, dtype: str | None) -> Layout:
    """What a text means that was printed for `layout`. A text without pads says the padded shape."""
    try:
        again = notation.parse(text, layout.shape, dtype)
    except UnforeseenError:
        raise
    except LayoutError:
        again = notation.parse(text, None, dtype)
    return again.bind(layout.shape) if isinstance(again, Format) else again


class Formats(Kind):
    name = "formats"
    suffix = ".json"
    chunk = 60

    def make(self, seed: int, number: int) -> bytes:
        rng = self.rng(seed, number)
        source, text = random_text(rng)
        shape: list[int] | None = random_extents(rng, rng.choice((0, 1, 2, 2, 3, 4, 4, 5)))
        if rng.random() < 0.7:
            # The rank that the text has, where it has one.
            try:
                shape = random_extents(rng, read(text, source).rank)
            except Exception:  # what is wrong with it, `run` finds
                shape = None if rng.random() < 0.3 else shape
        command = rng.choice((None, None, None, "explain", "convert"))
        made = {
            "source": source,
            "text": text,
            "shape": shape,
            "dtype": rng.choice(DTYPES),
            "command": command,
        }
        return json.dumps(made).encode()

    def run(self, data: bytes) -> None:
        given = json.loads(data)
        source, text, shape, dtype = given["source"], given["text"], given["shape"], given["dtype"]
        if given["command"] is not None:
            name = text if source is None else f"{source}:{text}"
            extra = [] if shape is None else ["--shape", "x".join(map(str, shape)) or "()"]
            extra += ["--dtype", dtype] if dtype else []
            how = ["--to", "all"] if given["command"] == "convert" else ["--json"]
            # An option's place holds any text but one that begins with -.
            call("layout-ir", [given["command"], *extra, *how, "--", name])
            return
        subject = read(text, source, shape=shape, dtype=dtype or None)
        if isinstance(subject, Format):
            self._format(subject)
        else:
            self._layout(subject, dtype or None)

    def _format(self, format: Format) -> None:
        if Format.parse(str(format)) != format:
            raise Wrong(f"{format!r} is printed as {format} and read as {Format.parse(str(format))!r}")
        for notation in NOTATIONS.values():
            try:
                again = notation.parse(notation.print(format))
            except UnforeseenError:
                raise
            except LayoutError:
                continue
            if isinstance(again, Format):
                shape = tuple(5 + k for k in range(format.rank))
                try:
                    ours, theirs = format.bind(shape), again.bind(shape)
                except LayoutError:
                    continue
                if not ours.same_map(theirs):
                    raise Wrong(
                        f"{notation.name} prints {format} as {notation.print(format)}, which means {again}"
                    )

    def _layout(self, layout: Layout, dtype: str | None) -> None:
        wanted = None
        if math.prod(max(n, 1) for n in layout.shape) <= _FEW:
            wanted = addresses_by_definition(layout.format, layout.shape)
            found = layout.addresses()
            if not np.array_equal(found, wanted):
                raise Wrong(f"addresses of {layout}: {found.tolist()}, by definition {wanted.tolist()}")
            if layout.padded_shape != (padded := padded_by_definition(layout)):
                raise Wrong(f"{layout} is padded to {layout.padded_shape}, by definition to {padded}")
            _ = layout.is_dense(), layout.span, layout.extent
        if max(layout.shape, default=0) >= _UNREADABLE:
            return
        for notation in NOTATIONS.values():
            try:
                text = notation.print(layout, dtype)
            except UnforeseenError:
                raise
            except LayoutError:
                continue
            key = f"{notation.name} prints and reads"
            try:
                again = _again(notation, text, layout, dtype)
            except UnforeseenError:
                raise
            except LayoutError as error:
                raise Wrong(
                    f"{notation.name} prints {layout} as {text} and does not read that: {error}", key
                ) from error
            if again.shape not in (layout.shape, layout.padded_shape):
                raise Wrong(f"{notation.name} prints {layout} as {text}, which has shape {again.shape}", key)
            if wanted is not None and math.prod(again.shape) <= 100 * _FEW:
                found = again.addresses()[tuple(map(slice, layout.shape))]
                if not np.array_equal(found, wanted):
                    raise Wrong(f"{notation.name} prints {layout} as {text}, which means {again}", key)
