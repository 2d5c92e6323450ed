"""The version of this release, which compiled code in the cache is keyed by."""

__version__ = "0.1.0"
