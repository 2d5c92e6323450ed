"""Tags: the short names of formats, as oneDNN writes them.

    tag := outer inner*        nchw    nChw8c    OIhw4i16o4i    aBcd8b    acdb

`outer` names each dim once, slowest first; a capital letter marks a dim that is also blocked; each `inner` is a
block size and the letter of its dim. Either the letters are a, b, c ... for logical dims 0, 1, 2 ..., or they come
from the vocabulary of one kind of tensor, whose logical order is fixed (`nhwc` is a memory order of the dims
(n, c, h, w)). A tag says nothing about pads but that blocked formats are padded with zeros.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from layout_ir.algebra.factors import MEMORY, Factor
from layout_ir.errors import LayoutError

if TYPE_CHECKING:
    from layout_ir.algebra.format import Format

# Logical dim order per kind of tensor (activations, weights, grouped weights, recurrent state and weights).
_VOCABULARIES = (
    "x", "nc", "tn", "ncw", "nchw", "ncdhw", "oi", "oiw", "oihw", "oidhw", "goiw", "goihw", "goidhw",
    "tnc", "ldnc", "ldigo", "ldio", "ldgo", "mk", "mn", "kn",
)  # fmt: skip
_BY_LETTERS = {frozenset(names): names for names in _VOCABULARIES}
ALPHABET = "abcdefghijkl"
"""The letters of dims 0, 1, 2, .. in tags without names."""

# Names of the oneDNN header whose letters contradict what the library does with them.
_MISNAMED = {
    "OhwI24o": "Acdb24a", "OhwI32o": "Acdb32a", "gOhwI24o": "aBdec24b", "gOhwI32o": "aBdec32b",
    "gIOhw2i8o16i2o": "aBCde2c8b16c2b", "gIOdhw2i8o16i2o": "aBCdef2c8b16c2b",
}  # fmt: skip


def names_for(rank: int) -> tuple[str, ...]:
    """Dim names of an activation of `rank` dims: n, c and space for ranks 2 to 5, letters otherwise."""
    return (
        tuple({2: "nc", 3: "ncw", 4: "nchw", 5: "ncdhw"}.get(rank, ALPHABET[:rank]))
        if rank <= 12
        else tuple(f"d{k}" for k in range(rank))
    )


def read_tag(tag: str) -> tuple[tuple[str, ...], tuple[Factor, ...], bool]:
    """The dim names and the factors of the Format that `tag` names, and whether any dim is blocked.

    Raises LayoutError with the span of the offending part.
    """
    if tag in _MISNAMED:
        letters = (
            "goidhw" if tag.startswith("gI") and "d" in tag else "goihw" if tag.startswith("g") else "oihw"
        )
        return (tuple(letters), *read_tag(_MISNAMED[tag])[1:])
    match = re.fullmatch(r"([A-Za-z]+)((?:[0-9]+[a-z])*)", tag)
    if match is None:
        bad = re.match(r"[A-Za-z]*(?:[0-9]+[a-z])*", tag)
        at = bad.end() if bad else 0
        found = f"unexpected '{tag[at]}'" if at < len(tag) else "it ends too early"
        raise LayoutError(
            f"tag '{tag}' is no list of letters followed by blocks such as 8c: {found}",
            (at, at + 1),
        )
    outer, inner = match.group(1), match.group(2)
    letters = outer.lower()
    for at, letter in enumerate(letters):
        if letter in letters[:at]:
            raise LayoutError(f"tag '{tag}' names dim '{letter}' twice", (at, at + 1))
    names = "".join(sorted(letters))
    if names != ALPHABET[: len(names)]:
        known = _BY_LETTERS.get(frozenset(letters))
        if known is None:
            raise LayoutError(
                f"tag '{tag}' uses dims {', '.join(sorted(letters))}: neither the first {len(letters)} letters of the "
                f"alphabet nor one of {', '.join(_VOCABULARIES)}",
                (0, len(outer)),
            )
        names = known
    factors = [Factor(names.index(letter)) for letter in letters]
    blocked: set[str] = set()
    for block in re.finditer(r"([0-9]+)([a-z])", inner):
        size, letter = block.group(1), block.group(2)
        span = (len(outer) + block.start(), len(outer) + block.end())
        if letter not in letters:
            raise LayoutError(f"tag '{tag}' blocks dim '{letter}', which '{outer}' does not name", span)
        if len(size) > 19 or not 1 <= int(size) < 1 << 63:
            raise LayoutError(
                f"tag '{tag}' has a block of {size[:20]}: block sizes lie between 1 and 2^63 - 1", span
            )
        blocked.add(letter)
        factors.append(Factor(names.index(letter), int(size)))
    for at, letter in enumerate(outer):
        if letter.isupper() != (letter.lower() in blocked):
            state = "is blocked" if letter.islower() else "is not blocked"
            raise LayoutError(
                f"tag '{tag}' writes '{letter}' but dim '{letter.lower()}' {state}", (at, at + 1)
            )
    return tuple(names), tuple(factors), bool(blocked)


def name_of(format: Format) -> str | None:
    """The tag of `format` in the letters of its own dim names, or None where no tag says it (pads aside)."""
    if any(len(name) != 1 or not name.islower() for name in format.names) or not format.names:
        return None
    if (
        format.chunk_factors
        or format.offset
        or format.lo
        or format.size is not None
        or format.swizzle is not None
    ):
        return None
    rank = format.rank
    outer, inner = format.factors[:rank], format.factors[rank:]
    if any(f.stride is not None or f.axis != MEMORY for f in format.factors):
        return None
    if any(f.size is not None for f in outer) or any(f.size is None for f in inner):
        return None
    blocked = {f.dim for f in inner}
    name = "".join(
        format.names[f.dim].upper() if f.dim in blocked else format.names[f.dim] for f in outer
    ) + "".join(f"{f.size}{format.names[f.dim]}" for f in inner)
    # The letters must read back as this format: (n, h, w, c) : [n, h, w, c] is not what the tag nhwc means.
    try:
        return name if read_tag(name)[1] == format.factors else None
    except LayoutError:
        return None
