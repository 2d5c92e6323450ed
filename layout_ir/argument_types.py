"""Which argument of a call is not of the type that its function states: asked for after the call has failed.

A call that succeeds pays nothing for it, and an argument is taken as generously as Python takes it: what counts as a
number of some kind is one, what can be iterated is a row. What an annotation does not say plainly is not judged.
"""

from __future__ import annotations

import types
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import fields, is_dataclass
from inspect import Parameter, signature
from typing import Any, Literal, Union, cast, get_args, get_origin

_PROTOCOLS: dict[type, str] = {int: "__index__", float: "__float__"}
"""What an object has that can stand for a number of the type."""


def wrong_argument(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[str, str, object] | None:
    """The name of an argument whose type is not the one that `function` states, that type as text, and the value, which
    is an element of the argument where the name ends in an index; None where there is none."""
    for name, annotation, value in _stated(function, args, kwargs):
        expected = _evaluated(annotation, function)
        if expected is None:
            continue
        if not _fits(value, expected):
            return name, str(annotation), value
        for place, (element, of) in enumerate(_elements(value, expected)):
            if not _fits(element, of):
                return f"{name}[{place}]", str(annotation), element
    return None


def _stated(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, object, object]]:
    """Arguments by name, with their annotations and values; of the constructor of a dataclass its fields."""
    if function.__name__ == "__post_init__" and args and is_dataclass(args[0]):
        for each in fields(args[0]):
            if hasattr(args[0], each.name):
                yield each.name, each.type, getattr(args[0], each.name)
        return
    try:
        bound = signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        if parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            yield name, parameter.annotation, value


def _evaluated(annotation: object, function: Callable[..., Any]) -> Any:
    """The type that an annotation names; None where it cannot be told, as of a class imported for checkers alone."""
    if not isinstance(annotation, str):
        return None if annotation is Parameter.empty else annotation
    try:
        return eval(annotation, getattr(function, "__globals__", {}))
    except Exception:
        return None


def _members(expected: Any) -> tuple[Any, ...]:
    """The types of a union, else the type alone."""
    return get_args(expected) if get_origin(expected) in (Union, types.UnionType) else (expected,)


def _fits(value: object, expected: Any) -> bool:
    """Whether `value` may be of the type; True where that is not known."""
    return any(_is_one(value, member) for member in _members(expected))


def _is_one(value: object, member: Any) -> bool:
    if member is None or member is type(None):
        return value is None
    origin = get_origin(member)
    if origin is Literal:
        return any(type(value) is type(each) for each in get_args(member))
    kind = origin or member
    if type(kind) not in (type, ABCMeta) or kind is object:
        return True  # Any, a protocol, a name for checkers alone
    if issubclass(kind, Iterable) and not issubclass(kind, str | bytes):
        return _is_row(value, cast("type", kind))
    if isinstance(value, kind):
        return True
    if kind is bool:
        return isinstance(value, int) or type(value).__name__ in ("bool", "bool_")
    # An array has the methods of numbers, whatever its shape.
    return kind in _PROTOCOLS and hasattr(value, _PROTOCOLS[kind]) and not getattr(value, "shape", ())


def _is_row(value: object, kind: type) -> bool:
    """Whether `value` is iterated as one of `kind` is: text is no row of letters, and a mapping none of its keys."""
    if isinstance(value, str | bytes) or isinstance(value, Mapping) != issubclass(kind, Mapping):
        return False
    return _is_iterated(value) and (isinstance(value, Sized) or not issubclass(kind, Sized))


def _is_iterated(value: object) -> bool:
    """Whether `value` has elements one after the other; an array of no dims says that it has, and raises."""
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0  # pyright: ignore[reportUnknownArgumentType]


def _elements(value: object, expected: Any) -> Iterable[tuple[object, Any]]:
    """The elements of a row with the type that each has to have; nothing where another type of the union fits."""
    if not _is_iterated(value) or not isinstance(value, Sized) or isinstance(value, str | bytes | Mapping):
        return
    for member in _members(expected):
        origin, of = get_origin(member), [each for each in get_args(member) if each is not ...]
        if isinstance(origin, type) and issubclass(origin, Iterable) and len(of) == 1:
            yield from ((element, of[0]) for element in cast("Iterable[object]", value))
            return
