"""Texts as people have them on their screens, by notation: whole lines of dumps, reprs, types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "cases" / "pasted_texts.json").read_text(encoding="utf-8")
)

PASTED: dict[str, tuple[str, ...]] = {
    name: tuple(case["text"] for case in _CASES if case["notation"] == name)
    for name in dict.fromkeys(case["notation"] for case in _CASES)
}
SHAPES: dict[str, tuple[int, ...]] = {
    case["text"]: tuple(case["shape"]) for case in _CASES if "shape" in case
}
"""The shapes of those that need one."""
