"""The example of a test suite of somebody else passes, and fails where it should."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("lit")
pytest.importorskip("filecheck")

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "third_party_text_tests"


def started(folder: Path, *args: str) -> tuple[int, str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    command = [sys.executable, *args]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    return run.returncode, run.stdout + run.stderr


def lit(folder: Path) -> dict[str, str]:
    _, printed = started(folder, "-c", "from lit.main import main; main()", "-v", "-j1", "filecheck")
    return {name: verdict for verdict, name in re.findall(r"^(PASS|FAIL): stereo :: (\S+)", printed, re.M)}


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A copy: the suite knows nothing of the checkout that it lies in."""
    return Path(
        shutil.copytree(EXAMPLE, tmp_path / "suite", ignore=shutil.ignore_patterns("build", "__pycache__"))
    )


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_the_text_tests_pass_and_the_configuration_is_short(example: Path):
    assert lit(example) == {"ops.mlir": "PASS", "invalid.mlir": "PASS", "lowering.mlir": "PASS"}
    code = (example / "filecheck" / "lit.cfg.py").read_text(encoding="utf-8").splitlines()
    assert len([line for line in code if line.strip() and not line.startswith("#")]) <= 10


def test_what_the_programs_mean_is_checked(example: Path):
    status, printed = started(example, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_meaning.py")
    assert status == 0, printed


def test_negative_a_missing_remark_and_a_wrong_error_fail(example: Path):
    replace(example / "stereo" / "lowering.py", "remark(op,", "str((op,")
    replace(example / "stereo" / "lowering.py", 'is none")', 'is none"))')
    replace(example / "stereo" / "dialect.py", "one of tracks", "one of songs")
    assert lit(example) == {"ops.mlir": "PASS", "invalid.mlir": "FAIL", "lowering.mlir": "FAIL"}


def test_negative_a_wrong_lowering_fails(example: Path):
    replace(example / "stereo" / "lowering.py", "[0.5]", "[0.25]")
    status, printed = started(example, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_meaning.py")
    assert status == 1
    assert "test_the_mean_is_numpys" in printed
