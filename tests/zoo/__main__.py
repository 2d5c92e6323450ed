"""Writes networks as files: `python -m tests.zoo OUT_DIR [NAME...]`, names as in `tests.zoo.NETWORKS` or patterns."""

from __future__ import annotations

import argparse
import time
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

from tests.zoo import NETWORKS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description="Write networks as ONNX files.")
    parser.add_argument("folder", type=Path, help="where to; made if it is not there")
    parser.add_argument("names", nargs="*", default=["*"], help="names or patterns (default: all)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if not any(fnmatch(known, name) for known in NETWORKS)]
    if unknown:
        parser.error(f"no network is called {', '.join(unknown)}")
    chosen = [n for n in NETWORKS.values() if any(fnmatch(n.name, pattern) for pattern in arguments.names)]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for index, network in enumerate(chosen, 1):
        start = f"[{index}/{len(chosen)}] {network.name}"
        missing = [package for package in network.requires if find_spec(package) is None]
        if missing:
            print(f"{start}: left out, needs {', '.join(missing)}", flush=True)
            continue
        begin = time.perf_counter()
        path = network.save(arguments.folder)
        size = path.stat().st_size / 1e6
        print(f"{start}: {size:.1f} MB, {time.perf_counter() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
