"""Properties, and hashes of values, that are computed once.

`functools.cached_property` without its lock: up to Python 3.11 there is one for all objects of a class, held while a
value is computed. A child that is forked meanwhile, by another thread, waits for it for ever. Here two threads may
compute the same value, and either is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Object = TypeVar("Object")
Value = TypeVar("Value")


class cached_property(Generic[Object, Value]):  # spelled like the decorators it stands beside
    """The method as a property whose value is kept in the object's `__dict__`."""

    def __init__(self, function: Callable[[Object], Value]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> cached_property[Object, Value]: ...

    @overload
    def __get__(self, instance: Object, owner: type[Any]) -> Value: ...

    def __get__(self, instance: Object | None, owner: type[Any]) -> cached_property[Object, Value] | Value:
        if instance is None:
            return self
        value = self.function(instance)
        vars(instance)[self.function.__name__] = value
        return value


Class = TypeVar("Class", bound=type[Any])

_HASH = "_hash"


def hashed_once(cls: Class) -> Class:
    """A frozen dataclass whose objects keep their hash in their `__dict__`.

    Formats and layouts are keys of most tables, and to hash one takes a call per factor. What is pickled or copied goes
    without the hash: that of a string is another in each process.
    """
    computed: Any = cls.__hash__

    def __hash__(self: Any) -> int:
        values: dict[str, Any] = self.__dict__
        kept = values.get(_HASH)
        if kept is None:
            kept = values[_HASH] = computed(self)
        return kept

    def __getstate__(self: Any) -> dict[str, Any]:
        values: dict[str, Any] = self.__dict__
        return {name: value for name, value in values.items() if name != _HASH}

    for method in (__hash__, __getstate__):
        setattr(cls, method.__name__, method)
    return cls
