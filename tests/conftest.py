"""What holds for all tests: a machine that is loaded or slow is no reason to fail. And packages that are made up."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import layout_ir.entry_points

# The profile that Hypothesis chooses itself (with CI=true the same examples on every run), without limits of time.
settings.register_profile(
    "any-machine", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any-machine")


def _settle_variables() -> None:
    """Lets none of our variables that the user has set decide, here and in every process that a test starts.

    Plans are those of the built-in profiles. Machine code is kept from run to run, without which tests that compile
    take three times as long, but not among the user's, where profiles may lie.
    """
    for name in [name for name in os.environ if name.startswith("LAYOUT_IR_")]:
        del os.environ[name]
    os.environ["LAYOUT_IR_CALIBRATE"] = "off"
    user = os.getuid() if hasattr(os, "getuid") else "user"
    os.environ["LAYOUT_IR_CACHE"] = os.path.join(tempfile.gettempdir(), f"layout-ir-tests-{user}")


_settle_variables()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps what collecting makes from being searched for garbage: some million objects, none of which ever is."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests come first, as nothing may wait for one at the end; deep ones are left out where no `-m` asks for any.

    All deep tests take hours.
    """
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    if config.getoption("markexpr"):
        return
    deep = [item for item in items if item.get_closest_marker("deep")]
    if deep:
        config.hook.pytest_deselected(items=deep)
        items[:] = [item for item in items if not item.get_closest_marker("deep")]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Adds a package to the path: metadata with entry points, and the text of its module `theirs`."""
    found = vars(layout_ir.entry_points)["_found"]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(layout_ir.entry_points, "_loaded", set[str]())

    def package(module: str, **groups: str) -> None:
        metadata = tmp_path / "theirs-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
        lines = [f"[layout_ir.{group}]\n{entry}\n" for group, entry in groups.items()]
        (metadata / "entry_points.txt").write_text("\n".join(lines))
        (tmp_path / "theirs.py").write_text(module)
        found.cache_clear()

    yield package
    found.cache_clear()
    sys.modules.pop("theirs", None)
