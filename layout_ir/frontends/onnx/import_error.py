"""The one error of ONNX import, and names of the model in its message.

Names come from the model: they may hold terminal control sequences, and may be as long as the file. `quoted` shortens
a name; `OnnxImportError` escapes characters that do not print and bounds the length of the whole message.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from layout_ir.errors import LayoutError, UnforeseenError, printable, unforeseen_as_error

LONGEST_NAME = 80
LONGEST_MESSAGE = 2000


class OnnxImportError(LayoutError):
    """The model cannot be imported; the message says which node, value or file, why, and what to do."""

    def __init__(self, message: str, span: tuple[int, int] | None = None):
        super().__init__(printable(_shortened(message, LONGEST_MESSAGE)), span)


class UnknownTypeError(OnnxImportError):
    """A value of a valid model is no tensor of a static shape and of an element type that programs compute with.

    Where numbers say the shape, it is known once these are."""


def is_unknown_type(error: BaseException | None) -> bool:
    """Whether an error is about a value of such a type, and about nothing else."""
    while error is not None:
        if isinstance(error, UnknownTypeError):
            return True
        error = error.__cause__
    return False


class UnsupportedUse(OnnxImportError):
    """A node that is valid, of an op that has a translation, which does not know this use of it; it stays opaque."""


class UnforeseenImportError(UnforeseenError, OnnxImportError):
    """An exception of any other kind during import; the exception itself is `__cause__`."""


def quoted(name: str | bytes) -> str:
    """`name` in quotes for a message: one line, control characters escaped, at most `LONGEST_NAME` characters.

    protobuf returns bytes for a name that is not UTF-8.
    """
    text = name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name
    return f"'{printable(_shortened(text, LONGEST_NAME))}'"


@contextmanager
def unforeseen_as_import_error(subject: str) -> Generator[None]:
    """Raises an exception of the body that is no LayoutError or OSError as an `UnforeseenImportError`."""
    try:
        with unforeseen_as_error(subject):
            yield
    except UnforeseenImportError:
        raise
    except UnforeseenError as error:
        cause = error.__cause__ or error
        raise UnforeseenImportError(subject, cause) from cause


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"
