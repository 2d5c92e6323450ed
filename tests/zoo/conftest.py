"""All networks take many minutes: without `-m`, only the sample is tested; `-m slow` tests the others."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("markexpr"):
        return
    folder = Path(__file__).parent
    left = [item for item in items if folder in item.path.parents and item.get_closest_marker("slow")]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]
