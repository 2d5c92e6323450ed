"""How long a page with two graphs takes: placing nodes, writing the page, opening it in a browser, moving through it.

    python benchmarks/page.py [--nodes 2000] [--json]

The bound, on one core without a graphics card: a page of two graphs of 2,000 nodes is written within 2 seconds and
ready within 3 after it was opened; while moving, half of the frames take at most 50 ms and none more than 500, be it at
the size at which texts can be read or where the whole graph is seen.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

FRAMES = """async (mode) => {
  const pane = document.querySelector(".pane[data-graph=after] svg"), times = [];
  for (let k = 0; k < 40; k++) {
    const start = performance.now();
    pane.dispatchEvent(new WheelEvent("wheel", mode === "pan" ? {deltaY: 300, cancelable: true}
      : {deltaY: k % 2 ? 2 : -2, ctrlKey: true, clientX: 300, clientY: 300, cancelable: true}));
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    times.push((performance.now() - start) / 2);
  }
  return times.sort((a, b) => a - b);
}"""
"""Milliseconds of frames, sorted: two per event, of which the first draws."""


def measure(count: int) -> dict[str, Any]:
    """Seconds of each step for two graphs of `count` nodes, milliseconds of frames, bytes of the page."""
    from layout_ir.drawing.graph_page import graph_page
    from layout_ir.drawing.graph_placement import place
    from tests.drawing.browser import opened
    from tests.drawing.graphs import network

    before, after = network(count), network(count, copies=False)
    start = perf_counter()
    place(before)
    placed = perf_counter() - start
    start = perf_counter()
    page = graph_page("benchmark", after, before=before)
    found: dict[str, Any] = {
        "nodes": count,
        "place_s": placed,
        "write_s": perf_counter() - start,
        "bytes": len(page),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(page, encoding="utf-8")
        with opened(path) as (tab, _):
            found["ready_s"] = tab.evaluate("performance.getEntriesByType('navigation')[0].domComplete") / 1e3
            near = tab.evaluate(FRAMES, "pan")
            tab.click(".pane[data-graph=after] button[value=fit]")
            whole = tab.evaluate(FRAMES, "zoom")
            found |= {
                "frame_ms": near[len(near) // 2], "slowest_frame_ms": near[-1],
                "whole_frame_ms": whole[len(whole) // 2], "slowest_whole_frame_ms": whole[-1],
            }  # fmt: skip
    return found


def main() -> None:
    """Prints the measurements."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 2000, 5000])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for count in arguments.nodes:
        found = measure(count)
        if arguments.json:
            print(json.dumps(found))
        else:
            print(
                ", ".join(
                    f"{name} {value:.2f}" if isinstance(value, float) else f"{name} {value}"
                    for name, value in found.items()
                )
            )


if __name__ == "__main__":
    main()
