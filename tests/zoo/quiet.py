"""Tools that export and quantize give advice on every call; it is not for who runs tests."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def quiet() -> Generator[None]:
    """Nothing below an error is logged, and no warning shown; afterwards all is as before."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
