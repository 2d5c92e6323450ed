"""Print pip constraints that pin each direct dependency to the lowest release that pyproject.toml admits.

    python .ci/lowest.py > lowest.txt && pip install -c lowest.txt '.[test]'

A bound must name a release that exists: `lit>=18.1.1`, not `lit>=18`. What has no lower bound is an error here, so
that every bound is tested. Dependencies of dependencies are as new as they come.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

EXTRAS = ("onnx", "draw", "oracles", "bench", "openvino", "optimizers", "peers", "testing", "test", "docs")
"""What takes part in the tests, or in the site; the tools of development do not."""

LOWEST = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[a-z,]+\])?(?:>=|~=|==)(?P<version>[0-9][0-9.]*)")


def constraints(project: dict[str, Any]) -> list[str]:
    """One constraint per requirement of the package and of `EXTRAS`. Raises ValueError if one has no lower bound."""
    requirements: list[str] = list(project["dependencies"])
    for extra in EXTRAS:
        requirements += project["optional-dependencies"][extra]
    result: list[str] = []
    for requirement in requirements:
        if requirement.startswith(f"{project['name']}["):
            continue
        found = LOWEST.match(requirement)
        if found is None:
            raise ValueError(f"requirement '{requirement}' has no lower bound")
        result.append(f"{found['name']}=={found['version']}")
    return result


if __name__ == "__main__":
    pyproject = Path(__file__).parent.parent / "pyproject.toml"
    print("\n".join(constraints(tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"])))
