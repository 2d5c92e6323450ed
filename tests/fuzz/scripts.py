"""Programs that embed the package and once broke it: small scripts, each run as a process of its own.

A script ends with status 0 where all is right. None is made at random; the corpus has them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.kinds import ROOT, Kind, Wrong


class Scripts(Kind):
    name = "scripts"
    suffix = ".py"

    def make(self, seed: int, number: int) -> bytes:
        return b"import layout_ir as li\nassert li.Format.from_tag('nchw').rank == 4\n"

    def run(self, data: bytes) -> None:
        Path("script.py").write_bytes(data)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "script.py"]
        done = subprocess.run(command, capture_output=True, check=False, env=environment)
        if done.returncode:
            died = (
                signal.Signals(-done.returncode).name if done.returncode < 0 else f"status {done.returncode}"
            )
            raise Wrong(f"{died}\n{done.stderr.decode('utf-8', 'replace')[-2000:]}", died)

    def smaller(self, data: bytes) -> Iterator[bytes]:
        return iter(())
