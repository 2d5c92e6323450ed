"""Python in a process of its own, which imports the tree that is tested, wherever the tests were started.

Without the tree on its path, such a process finds the modules of the folder that it starts in, or what is installed: it
passes or fails for another tree. And `tests` are found nowhere else.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of this process, with those given, and the tree in front of the path of modules."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), **(variables or {})}


def run_python(
    *arguments: str | Path,
    variables: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout: float | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """What this Python did with these arguments, started in the root of the tree.

    With `check`, a process that ends with another status than 0 fails the test, with what it wrote.
    """
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment(variables),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert not check or done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done
