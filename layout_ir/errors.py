"""The error type of this package, and how unforeseen exceptions become one.

Everything that can be wrong with a layout (its text, the shape it is bound to, the buffer behind it) is
reported as a `LayoutError` whose message states both sides of the conflict. Where the error is about a text,
`span` gives the offsets of the wrong part in it, so that a tool can put a caret under it.

Any other exception (an IndexError deep inside, a MemoryError) becomes an `UnforeseenError` at the outermost place that
knows its subject, the node of a model or the op of a program: `with unforeseen_as_error("node 3 'x'"):`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import wraps
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

from layout_ir.argument_types import wrong_argument

_P = ParamSpec("_P")
_R = TypeVar("_R")
_C = TypeVar("_C")


class LayoutError(ValueError):
    """Invalid layout, or an operation that has no answer for this layout.

    `span` is the half-open range of character offsets in the text that was read, or None.
    """

    span: tuple[int, int] | None

    def __init__(self, message: str, span: tuple[int, int] | None = None):
        super().__init__(message)
        self.span = span


class UnforeseenError(LayoutError):
    """An exception of any other class, which is a defect or a lack of memory; it is the `__cause__`.

    `subject` is what was processed: the node of a model, the op of a program, a call.
    """

    def __init__(self, subject: str, cause: BaseException):
        self._subject = subject
        super().__init__(f"{subject}: {_message_of(cause)}")
        self.__cause__ = cause

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception in a worker process is pickled for its parent; `BaseException` would pickle the message alone.
        return type(self), (self._subject, self.__cause__), vars(self)


def _message_of(cause: BaseException) -> str:
    """The message for an unforeseen exception."""
    text = " ".join(str(cause).split())
    hint = f"{TRACEBACK_VARIABLE}=1 shows where it happened"
    match cause:
        case MemoryError():
            return f"this needs more memory than there is{text and f' ({text})'}; {hint}"
        case RecursionError():
            return f"this is nested too deeply ({text}); {hint}"
        case _:
            what = f"{type(cause).__name__}: {text}" if text else type(cause).__name__
            return f"{what}; layout-ir did not foresee this, {hint}"


TRACEBACK_VARIABLE = "LAYOUT_IR_TRACEBACK"
"""The environment variable that makes the tools print the Python traceback of an UnforeseenError."""


def wants_traceback() -> bool:
    """Whether the user asked for the traceback of an UnforeseenError, by `TRACEBACK_VARIABLE`: any value but nothing,
    0, false, no and off, in letters of either case, asks for it."""
    return os.environ.get(TRACEBACK_VARIABLE, "").strip().lower() not in ("", "0", "false", "no", "off")


def show_traceback(error: BaseException) -> None:
    """Prints the traceback of an UnforeseenError to standard error, if the user asked for it (LAYOUT_IR_TRACEBACK)."""
    if isinstance(error, UnforeseenError) and wants_traceback():
        from traceback import print_exception

        print_exception(error)


@contextmanager
def unforeseen_as_error(subject: str, *foreseen: type[BaseException]) -> Generator[None]:
    """Raises an exception of the body as an `UnforeseenError` about `subject`.

    LayoutError, OSError and the classes `foreseen` pass through, as does a BaseException that is no Exception
    (KeyboardInterrupt).
    """
    try:
        yield
    except (LayoutError, OSError, *foreseen):
        raise
    except Exception as error:
        raise UnforeseenError(subject, error) from error


def public(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`function` for users: an unforeseen exception becomes an UnforeseenError that names the call and its arguments.

    LayoutError, OSError and ImportError pass through, as does the TypeError where arguments do not fit the signature.
    An argument that is not of the type that the signature states is a LayoutError that names it.
    """

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except (OSError, ImportError):
            raise
        except Exception as error:
            is_unforeseen = isinstance(error, UnforeseenError)
            if isinstance(error, LayoutError) and not is_unforeseen:
                raise
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise  # the call itself failed, before the body of the function
            wrong = wrong_argument(function, args, kwargs)
            if wrong is not None:
                name, expected, value = wrong
                raise LayoutError(
                    f"{_name_of(function)}: {name} = {_value_text(value)} is of type {type(value).__name__}, "
                    f"expected {expected}"
                ) from error
            if is_unforeseen:
                raise
            raise UnforeseenError(_call_text(function, args, kwargs), error) from error

    return call


def public_methods(cls: type[_C]) -> type[_C]:
    """`cls` with its public methods and its constructor made `public`, in place."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name not in ("__init__", "__post_init__"):
            continue
        if isinstance(member, staticmethod | classmethod):
            kind: Any = type(member)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            setattr(cls, name, kind(public(member.__func__)))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        elif isinstance(member, FunctionType):
            setattr(cls, name, public(member))
    return cls


def _call_text(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """A call as text: arguments by their values where those are short and simple, else by their types."""
    if (
        "." in function.__qualname__
        and args
        and type(args[0]).__name__ == function.__qualname__.split(".")[-2]
    ):
        args = args[1:]
    given = [*map(_value_text, args), *(f"{key}={_value_text(value)}" for key, value in kwargs.items())]
    return f"{_name_of(function)}({', '.join(given)})"


def _name_of(function: Callable[..., Any]) -> str:
    """What users call a function: a method with its class, a constructor by that alone."""
    *scope, name = function.__qualname__.split(".")
    if not scope:
        return name
    return scope[-1] if name in ("__init__", "__post_init__") else f"{scope[-1]}.{name}"


def _value_text(value: object) -> str:
    if not isinstance(value, str | bytes | int | float | tuple | list | None):
        return f"<{type(value).__name__}>"
    if isinstance(value, tuple | list):
        parts = ", ".join(_value_text(part) for part in value[:8]) + (", ..." if len(value) > 8 else "")  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return f"[{parts}]" if isinstance(value, list) else f"({parts})"
    if isinstance(value, str | bytes) and len(value) > 40:
        return f"{value[:40]!r}..."
    return repr(value) if not isinstance(value, int) or abs(value) < 1 << 64 else "<int>"


def shape_text(shape: Iterable[int | None]) -> str:
    """A shape in a message, such as 2x?x5, where None is a dynamic extent; `scalar` for no dims."""
    return "x".join("?" if extent is None else str(extent) for extent in shape) or "scalar"


_LONGEST = 4000
"""Characters of a message that are printed at most: names and arguments may be megabytes long."""


def printable(text: str) -> str:
    """`text` as one line, with control characters escaped; one of more than 4000 characters is cut in its middle."""
    left_out = len(text) - _LONGEST
    if left_out > 0:
        half = _LONGEST // 2
        text = f"{text[:half]} ... ({left_out} characters left out) ... {text[-half:]}"
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )
