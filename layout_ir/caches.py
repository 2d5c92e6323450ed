"""The caches of compiled kernels, in one list, so that `forget` can empty them all.

A module registers its caches here, so that code that drops kernels need not import every module that caches some.
"""

from __future__ import annotations

from typing import Protocol, TypeVar


class Cache(Protocol):
    """What `functools.lru_cache` makes, as far as it is needed here."""

    def cache_clear(self) -> None:
        """Drops all results."""
        ...


AnyCache = TypeVar("AnyCache", bound=Cache)

_caches: list[Cache] = []


def keeps_kernels(cache: AnyCache) -> AnyCache:
    """Decorates a cached function whose results are kernels, or refer to some: `forget` empties its cache."""
    _caches.append(cache)
    return cache


def forget() -> None:
    """Drops all cached kernels; one in use lives on until its users drop it."""
    for cache in _caches:
        cache.cache_clear()
