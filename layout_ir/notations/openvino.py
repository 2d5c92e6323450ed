"""OpenVINO's GPU plugin: names of memory formats, as its dumps and execution graphs write them.

    bfyx    b_fs_yx_fsv16    bs_fs_zyx_bsv16_fsv16    os_is_yx_isa8_osv8_isv4    g_os_iyx_osv16

The letters in front are the dims, slowest first: batch b, features f and space (v, u, w, z, y, x, the fastest x) of
data; groups g, outputs o, inputs i and space of weights. A dim with an `s` behind it is cut into slices, and stands
alone between `_`. What is inside of a slice follows: `fsv16` are 16 features side by side; of two blocks of one dim the
outer one is written `sa`. A slice at the end is filled up.

What this reads and prints is the grammar. Not every name of it is one for which the plugin has kernels; names outside
of it (`swizzled_by_4`, `yxsv4`, `winograd`, images) are refused.
"""

from __future__ import annotations

import re
from typing import ClassVar

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.scan import shorten
from layout_ir.algebra.tag import ALPHABET, names_for, read_tag
from layout_ir.errors import LayoutError
from layout_ir.notations.notation import Notation, Subject, read_behind
from layout_ir.notations.onednn import tag_of

_SPACE = "vuwzyx"
_DATA = "bf" + _SPACE
_WEIGHTS = "goi" + _SPACE
_NAMESPACE = r"(?:(?:cldnn|ov::intel_gpu)::)?format::"
_LEAST_SPACE = 2
"""Tensors with fewer dims of space are stored as those with y and x, of extent 1."""
_INNER = re.compile(r"([a-z])s([av])([0-9]+)")
_LARGEST_BLOCK = 1 << 20


class OpenVinoNotation(Notation):
    """`b_fs_yx_fsv16`."""

    name: ClassVar[str] = "openvino"
    beginning: ClassVar[str] = rf"{_NAMESPACE}|(?:[a-z]+_)+[a-z]s[av]\d"
    about: ClassVar[str] = "OpenVINO GPU memory formats: bfyx, b_fs_yx_fsv16"
    order: ClassVar[str] = (
        "the dims of the tensor: b, f, z, y, x; g, o, i, z, y, x of weights; whatever the order in memory"
    )
    by_index: ClassVar[bool] = False
    example: ClassVar[str] = "b_fs_yx_fsv16"
    needs_shape: ClassVar[bool] = False

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        return read_behind(text, _NAMESPACE, self._format)

    def _format(self, text: str) -> Format:
        outer: list[tuple[str, bool]] = []
        inner: list[tuple[str, str, int]] = []
        at = 0
        for part in text.split("_"):
            span = (at, max(at + len(part), at + 1))
            at += len(part) + 1
            if (block := _INNER.fullmatch(part)) is not None:
                letter, kind, digits = block.groups()
                if len(digits) > 7 or not 1 <= int(digits) <= _LARGEST_BLOCK:
                    raise self._error(
                        text, f"has a block of {digits[:20]}, blocks have 1 to 2^20 elements", span
                    )
                inner.append((letter, kind, int(digits)))
            elif inner or not re.fullmatch(r"(?:[a-rt-z]s?)+", part):
                raise self._error(
                    text, f"has {shorten(part)} where a block such as fsv16 or letters of dims are", span
                )
            else:
                outer += [(letter, bool(cut)) for letter, cut in re.findall(r"([a-rt-z])(s?)", part)]
        letters = [letter for letter, _ in outer]
        if twice := next((letter for letter in letters if letters.count(letter) > 1), None):
            raise self._error(text, f"names dim '{twice}' twice")
        logical = self._logical(text, letters)
        for letter in dict.fromkeys([*(name for name, cut in outer if cut), *(name for name, _, _ in inner)]):
            kinds = "".join(kind for name, kind, _ in inner if name == letter)
            if (letter, True) not in outer:
                raise self._error(
                    text, f"has blocks of dim '{letter}', which is not cut into slices: it has no '{letter}s'"
                )
            if kinds[-1:] != "v" or "v" in kinds[:-1]:
                raise self._error(
                    text, f"cuts dim '{letter}' into slices, which end in one block {letter}sv and no other"
                )
        names = _names(logical)
        factors = [Factor(logical.index(letter)) for letter in letters]
        factors += [Factor(logical.index(letter), size) for letter, _, size in inner]
        return Format(names, tuple(factors))

    def _logical(self, text: str, letters: list[str]) -> str:
        """The letters in the order of the tensor's dims. Raises LayoutError where they are no tensor's."""
        for kind, needed in ((_DATA, "bf"), (_WEIGHTS, "oi")):
            if set(needed) <= set(letters) <= set(kind):
                space = [letter for letter in _SPACE if letter in letters]
                if space and space != list(_SPACE[-len(space) :]):
                    break
                return "".join(letter for letter in kind if letter in letters)
        raise self._error(
            text,
            f"has the dims {', '.join(letters)}: data have b, f and space (x, y x, z y x, ..), weights o, i and space",
        )

    def _error(self, text: str, reason: str, span: tuple[int, int] | None = None) -> LayoutError:
        return LayoutError(f"openvino text '{text[:60]}' {reason}", span or (0, len(text)))

    def _print(self, subject: Subject, dtype: str | None) -> str:
        try:
            factors = read_tag(tag_of(subject))[1]
        except LayoutError as error:
            reason = (
                str(error)
                .removeprefix(f"tag cannot say {subject}: ")
                .removeprefix(f"onednn cannot say {subject}: ")
            )
            raise self.refuse(subject, reason) from None
        letters = _letters(subject.names)
        if letters is None:
            raise self.refuse(
                subject,
                f"its formats are of data (n, c, h, w) and of weights (o, i, h, w) or (g, o, i, h, w), with two to "
                f"{len(_SPACE)} dims of space, and the dims are {', '.join(subject.names)}",
            )
        outer, inner = factors[: subject.rank], factors[subject.rank :]
        order, cut = [factor.dim for factor in outer], {factor.dim for factor in inner}
        text = ""
        for at, dim in enumerate(order):
            before = order[at - 1] if at else None
            alone = dim in cut or before in cut
            # b, f and o do not stand together with space where anything is cut; i does: fs_b_yx_fsv32, os_iyx_osv16.
            alone |= bool(cut) and before is not None and letters[before] in "bfo" and letters[dim] in _SPACE
            text += ("_" if text and alone else "") + letters[dim] + ("s" if dim in cut else "")
        for at, factor in enumerate(inner):
            last = all(other.dim != factor.dim for other in inner[at + 1 :])
            text += f"_{letters[factor.dim]}s{'v' if last else 'a'}{factor.size}"
        return text


def _names(logical: str) -> tuple[str, ...]:
    """Our names of the dims that OpenVINO calls so."""
    if "o" not in logical:
        return names_for(len(logical))
    space = [letter for letter in logical if letter in _SPACE]
    known = {1: "w", 2: "hw", 3: "dhw"}.get(len(space), space)
    return (*logical[: len(logical) - len(space)], *known)


def _letters(names: tuple[str, ...]) -> str | None:
    """OpenVINO's letters of dims that we call so; None where it has none."""
    for kind in ("bf", "oi", "goi"):
        space = len(names) - len(kind)
        if not _LEAST_SPACE <= space <= len(_SPACE):
            continue
        logical = kind + _SPACE[-space:]
        if names == _names(logical) or (kind == "bf" and names == tuple(ALPHABET[: len(names)])):
            return logical
    return None
