"""What a kind of input is: how one is made from a seed, what runs it, what counts as a failure.

A failure is an exception that is no `LayoutError`, an `UnforeseenError` (the net below all checks: a check is
missing), a crash, more than 30 seconds, more than 2 GiB, wrong data, or a proof of what is not so. An input that is
refused with an error that somebody wrote is no failure.
"""

from __future__ import annotations

import re
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from layout_ir.errors import LayoutError, UnforeseenError

ROOT = Path(__file__).parents[2]
"""The checkout."""

CORPUS = Path(__file__).parent / "corpus"
"""Every input that ever failed, in a folder per kind."""

KNOWN = (
    (
        r"error: '(?!nn\.|layout\.|kernel\.)[\w.]+' op its verifier failed",
        "verifiers of xDSL's own dialects index attributes before they look at their sizes; layout-opt says which op",
    ),
)
"""What tools say of exceptions that are not ours, as a pattern and why it is let pass."""

_UNFORESEEN = re.compile(r"did not foresee|defect of layout-ir|Traceback \(most recent call last\)")


class Wrong(Exception):
    """What an input showed to be wrong: data, a proof, an exit status.

    `key` is the same where one defect shows twice.
    """

    def __init__(self, message: str, key: str | None = None):
        super().__init__(message)
        self.key = key or _text_key(message)


class Unforeseen(Wrong):
    """What a tool says of an exception that was not foreseen."""


@dataclass(frozen=True)
class Failure:
    """What is wrong with an input."""

    what: str
    """`raised`, `unforeseen`, `wrong`, `crash`, `hang` or `memory`."""
    message: str
    key: str
    """The same for failures that are probably one defect."""

    def to_json(self) -> dict[str, str]:
        return asdict(self)


class Kind(ABC):
    """A kind of input. Inputs are bytes, so that a file of the corpus and an input made from a seed are the same."""

    name: ClassVar[str]
    suffix: ClassVar[str] = ".txt"
    """Of files that hold an input."""
    chunk: ClassVar[int] = 20
    """Inputs that a worker is given at a time, about a second's worth."""
    size: ClassVar[int] = 1
    """Cases in an input, where the kind counts in cases."""
    memory: ClassVar[int] = 2 << 30
    """Bytes that an input may use."""

    @abstractmethod
    def make(self, seed: int, number: int) -> bytes:
        """Input `number` of the sequence that `seed` begins."""

    @abstractmethod
    def run(self, data: bytes) -> None:
        """Runs an input. Raises LayoutError where it is refused, Wrong where it shows something wrong."""

    def smaller(self, data: bytes) -> Iterator[bytes]:
        """Smaller inputs that may fail alike, the smallest first: halves, quarters ... of the lines left out."""
        lines = data.splitlines(keepends=True)
        step = len(lines) // 2
        while step:
            for start in range(0, len(lines), step):
                yield b"".join(lines[:start] + lines[start + step :])
            step //= 2

    def rng(self, seed: int, number: int) -> Random:
        """Where input `number` draws from."""
        return Random(f"{self.name} {seed} {number}")


_WHERE = {
    "formats": ("formats", "Formats"),
    "ir": ("programs", "Programs"),
    "onnx": ("models", "Models"),
    "transposes": ("transposed_models", "TransposedModels"),
    "plans": ("plans", "Plans"),
    "certificates": ("certificates", "Certificates"),
    "commands": ("commands", "Commands"),
    "costs": ("costs", "Costs"),
    "reorders": ("reorders", "Reorders"),
    "dynamic-reorders": ("dynamic_reorders", "DynamicReorders"),
    "onednn": ("onednn", "OneDNN"),
    "scripts": ("scripts", "Scripts"),
    "drill": ("drill", "Drill"),
}

KINDS = tuple(name for name in _WHERE if name not in ("scripts", "drill"))
"""The kinds that are made at random; scripts are in the corpus alone, `drill` is for the test of the driver."""

_made: dict[str, Kind] = {}


def kind(name: str) -> Kind:
    """The kind of that name, imported when it is asked for."""
    if name not in _made:
        module, cls = _WHERE[name]
        _made[name] = getattr(import_module(f"tests.fuzz.{module}"), cls)()
    return _made[name]


def failure_of(run: Callable[[bytes], None], data: bytes) -> Failure | None:
    """Runs an input; what is wrong with it, None where nothing is."""
    try:
        run(data)
    except UnforeseenError as error:
        return Failure("unforeseen", str(error)[:2000], _key(error.__cause__ or error))
    except LayoutError as error:
        if _UNFORESEEN.search(str(error)):
            return Failure("unforeseen", str(error)[:2000], _text_key(str(error)))
        return None
    except Wrong as error:
        what = "unforeseen" if isinstance(error, Unforeseen) else "wrong"
        return Failure(what, str(error)[:4000], error.key)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        lines = traceback.format_exception(error)
        return Failure("raised", "".join(lines[-8:])[-3000:], _key(error))
    return None


def _key(error: BaseException) -> str:
    """The class of an exception, and the last place of this package that it came through."""
    ours = [f for f in traceback.extract_tb(error.__traceback__) if "/layout_ir/" in f.filename]
    place = f" at {Path(ours[-1].filename).stem}.{ours[-1].name}:{ours[-1].lineno}" if ours else ""
    return f"{type(error).__name__}{place}" if ours else f"{type(error).__name__}: {_text_key(str(error))}"


def _text_key(text: str) -> str:
    """A message without what differs from input to input: numbers, names and texts between quotes."""
    found = re.search(r"\w*(Error|Exception|Interrupt)\b[^\n]*", text)
    return re.sub(r"'[^']*'|\"[^\"]*\"|[-+]?\d[\w.]*", "_", found.group() if found else text)[:160]


def said_unforeseen(text: str) -> bool:
    """Whether a tool says of any line that it was not foreseen; lines that are KNOWN do not count."""
    lines = (line for line in text.splitlines() if not any(re.search(pattern, line) for pattern, _ in KNOWN))
    return any(_UNFORESEEN.search(line) for line in lines)


def describe(data: Any) -> str:
    """An input in a message."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data)
    return text if len(text) < 500 else f"{text[:500]} ..."
