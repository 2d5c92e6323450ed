"""An entry of the code cache under another entry's name is not used."""

import os
import subprocess
import sys
from pathlib import Path

folder = Path("cache").absolute()
folder.mkdir(mode=0o700, exist_ok=True)
environment = {**os.environ, "LAYOUT_IR_CACHE": str(folder)}
USE = """
import sys, numpy as np, layout_ir as li
x = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
for tag in sys.argv[1:]:
    wanted = x.transpose(["nchw".index(letter) for letter in tag])
    assert np.array_equal(li.reorder(x, "nchw", tag), wanted), tag
"""


def use(*tags: str) -> None:
    subprocess.run([sys.executable, "-c", USE, *tags], env=environment, check=True, timeout=60)


use("nhwc")
known = sorted(folder.iterdir())
use("chwn")
[other] = set(folder.iterdir()) - set(known)
for entry in known:
    kept = entry.read_bytes()
    entry.write_bytes(other.read_bytes())
    use("nhwc", "chwn")
    entry.unlink(missing_ok=True)
    os.mkfifo(entry)
    use("nhwc")
    entry.unlink(missing_ok=True)
    with open(entry, "wb") as file:
        file.truncate(1 << 38)
    use("nhwc")
    entry.unlink(missing_ok=True)
    entry.write_bytes(kept)
