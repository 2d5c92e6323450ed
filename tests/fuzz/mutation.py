"""Random changes of texts, numbers and JSON."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar, cast

T = TypeVar("T")

NUMBERS = (
    0, 1, -1, 2, -2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 255, 256, 1000, 4096,
    65535, 65536, 1 << 20, 1_000_003, (1 << 31) - 1, 1 << 31, -(1 << 31), 1 << 32, 1 << 40, 1 << 47, 1 << 48,
    (1 << 62), (1 << 63) - 1, 1 << 63, -(1 << 63), 1 << 64, 10**20, 10**30,
)  # fmt: skip
"""Bounds of types and of what this package accepts, and what lies beside them."""

SMALL = NUMBERS[:21]

TEXTS = (
    "", " ", "\n", "\t", "\0", "\x7f", "é", "₂", "١", "𝟘", "\ud7ff", "%", "#", "@x", "!", "?", "*", "/", "//", ",", ":",
    ";", "(", ")", "[", "]", "{", "}", "<", ">", "=", "->", "-", "+", "'", '"', "\\", "0x", "0x1F", "1e5", "-0", "00",
    "nan", "inf", "None", "true", "1.5", "a" * 300, "(" * 100, "[" * 100, "9" * 30, "%s", "{}", "$(x)", "../x",
    "\x1b[31m",
)  # fmt: skip

_TOKEN = re.compile(
    r"\s+|[A-Za-z_][\w.]*|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|[%#@!^]\w+|\"[^\"\n]*\"|->|.", re.DOTALL
)
_NUMBER = re.compile(r"\d+")


def tokens_of(text: str) -> list[str]:
    """The words, numbers, names and signs of a text; joined they are the text."""
    return _TOKEN.findall(text)


def class_of(token: str) -> str:
    """What a token is, so that another of its class may stand in its place."""
    if token[0] in '%#@!^"':
        return token[0]
    if token[0].isdigit():
        return "0"
    return "a" if token[0].isalpha() or token[0] == "_" else token


class TextMutator:
    """Changes texts, with the words of a collection of texts."""

    def __init__(self, texts: Sequence[str], numbers: Sequence[int] = NUMBERS):
        self.texts = texts
        self.numbers = numbers
        self._words: dict[str, list[str]] = {}
        for word in sorted({token for text in texts for token in tokens_of(text)}):
            self._words.setdefault(class_of(word), []).append(word)

    def number(self, rng: Random, token: str) -> str:
        """Another number in the place of one."""
        if rng.random() < 0.4 and token.isdecimal() and len(token) < 30:
            return str(max(int(token) + rng.choice((-1, 1, 2, 7)), -5))
        return str(rng.choice(self.numbers if rng.random() < 0.6 else SMALL))

    def mutate(self, rng: Random, text: str) -> str:
        """The text with one to a few changes."""
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
            text = self._change(rng, text)
        return text

    def _change(self, rng: Random, text: str) -> str:
        if rng.random() < 0.25 and "\n" in text:
            return self._change_lines(rng, text)
        tokens = tokens_of(text)
        places = [k for k, token in enumerate(tokens) if not token.isspace()]
        if not places:
            return text + rng.choice(TEXTS)
        k = rng.choice(places)
        token = tokens[k]
        how = rng.random()
        numbers = [p for p in places if tokens[p][0].isdigit()]
        if how < 0.3 and numbers:
            k = rng.choice(numbers)
            tokens[k] = self.number(rng, tokens[k])
        elif how < 0.5:
            tokens[k] = rng.choice(self._words.get(class_of(token), [token]))
        elif how < 0.6:
            del tokens[k]
        elif how < 0.68:
            tokens.insert(k, token)
        elif how < 0.76:
            j = rng.choice(places)
            tokens[k], tokens[j] = tokens[j], tokens[k]
        elif how < 0.82:
            # A run of tokens, doubled or left out.
            stop = rng.choice([p for p in places if p >= k]) + 1
            tokens[k:stop] = tokens[k:stop] * 2 if rng.random() < 0.5 and stop - k < 200 else []
        elif how < 0.9:
            tokens.insert(k, rng.choice(self._words[rng.choice(list(self._words))]))
        elif how < 0.95:
            tokens.insert(k, rng.choice(TEXTS))
        else:
            at = rng.randrange(len(text))
            return text[:at] + rng.choice(TEXTS) + text[at + rng.choice((0, 1, 1, 3)) :]
        return "".join(tokens)

    def _change_lines(self, rng: Random, text: str) -> str:
        lines = text.split("\n")
        k, j = rng.randrange(len(lines)), rng.randrange(len(lines))
        how = rng.random()
        if how < 0.3:
            del lines[k]
        elif how < 0.5:
            lines.insert(j, lines[k])
        elif how < 0.7:
            lines[k], lines[j] = lines[j], lines[k]
        else:
            lines.insert(k, rng.choice(rng.choice(self.texts).split("\n")))
        return "\n".join(lines)


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e308, float("nan"), float("inf"), 1 << 31, 1 << 40, 1 << 47, 1 << 48,
    1 << 63, -(1 << 63), 10**30, "", "x", "nchw", "é", [], {}, [[]], [0], {"x": 1}, [None], "a" * 200,
)  # fmt: skip


def places_of(node: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    found: list[tuple[Any, Any]] = []
    pending: list[Any] = [node]
    while pending:
        item = pending.pop()
        keys: Any = [*item] if hasattr(item, "keys") else range(len(item))
        for key in keys:
            found.append((item, key))
            if isinstance(item[key], dict | list):
                pending.append(item[key])
    return found


def mutate_json(
    rng: Random,
    node: T,
    number: Callable[[int], int] | None = None,
    values: Sequence[Any] = VALUES,
    changes: int = 0,
) -> T:
    """A copy of a JSON object or list with one to a few changes; `number` gives another number for one."""
    result = copy.deepcopy(node)
    for _ in range(changes or rng.choice((1, 1, 1, 2, 3, 6))):
        places = places_of(result)
        if not places:
            return result
        if rng.random() < 0.5:
            numeric = [(c, k) for c, k in places if type(c[k]) is int]
            places = numeric or places
        container, key = rng.choice(places)
        value = container[key]
        how = rng.random()
        if type(value) is int and how < 0.7:
            container[key] = (
                number(value) if number is not None else value + rng.choice((-1, 1, 1, 7, -value))
            )
        elif how < 0.8:
            other, place = rng.choice(places)
            container[key] = copy.deepcopy(other[place])
        elif how < 0.9:
            container[key] = copy.deepcopy(rng.choice(values))
        elif isinstance(container, list):
            items = cast("list[Any]", container)
            if rng.random() < 0.5:
                del items[key]
            else:
                items.insert(key, copy.deepcopy(value))
        else:
            del container[key]
            if rng.random() < 0.3:
                container[rng.choice(("x", "cost", "name", "shape"))] = value
        if len(places) > 100_000:
            return result
    return result
