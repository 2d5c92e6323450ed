"""What compiled code is remembered by."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from layout_ir.backends.llvm.emission.emit import version
from layout_ir.backends.llvm.planning import planner
from layout_ir.dialects.kernel import plan


def test_code_is_remembered_for_the_sources_of_plans_and_of_what_emits_them(monkeypatch: pytest.MonkeyPatch):
    read: list[Path] = []
    bytes_of = Path.read_bytes

    def remembered(path: Path) -> bytes:
        read.append(path.resolve())
        return bytes_of(path)

    monkeypatch.setattr(Path, "read_bytes", remembered)
    inspect.unwrap(version)()
    for module in (plan, planner):
        assert Path(str(module.__file__)).resolve() in read
