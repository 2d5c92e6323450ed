"""Compiled kernels are kept for the next who asks: the one list of where, so that `forget` can drop them all.

A module registers what it keeps, so that nobody who drops kernels has to know, or to import, everyone who keeps some.
"""

from __future__ import annotations

from typing import Protocol, TypeVar


class Cache(Protocol):
    """Anything that `functools.lru_cache` makes."""

    def cache_clear(self) -> None: ...


AnyCache = TypeVar("AnyCache", bound=Cache)

_caches: list[Cache] = []


def keeps_kernels(cache: AnyCache) -> AnyCache:
    """Decorates a cached function whose results are kernels, or hold some: `forget` empties it."""
    _caches.append(cache)
    return cache


def forget() -> None:
    """Drops the kernels that are kept for the next who asks; those in use stay until their users drop them."""
    for cache in _caches:
        cache.cache_clear()
