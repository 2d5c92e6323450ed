"""Cost tables: mutated JSON, with which layouts are chosen for a small program."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from layout_ir.tools.commands.optimize import TARGETS
from tests.fuzz.kinds import Kind
from tests.fuzz.mutation import NUMBERS, VALUES, TextMutator, mutate_json
from tests.fuzz.tools import call

PROGRAM = """\
#nchw = #layout.tag<nchw>
func.func @main(%x : T<#nchw>, %w : tensor<64x64x3x3xf32, #layout.any>) -> T<#nchw> {
  %0 = nn.conv %x, %w strides = [1, 1] pads = [1, 1, 1, 1]
       : (T<#nchw>, tensor<64x64x3x3xf32, #layout.any>) -> T<#layout.any>
  %1 = nn.relu %0 : T<#layout.any>
  %2 = layout.reorder %1 : T<#layout.any> -> T<#nchw>
  func.return %2 : T<#nchw>
}
""".replace("T<", "tensor<1x64x8x8xf32, ")

TABLE: dict[str, Any] = {
    "unit": "ns",
    "reorder": [
        {"from": "nchw", "to": "nChw8c", "shape": [1, 64, 8, 8], "cost": 5600},
        {"from": "nChw8c", "to": "(n, c, h, w) : [n, c, h, w]", "cost": 40},
        {"from": "oihw", "to": "OIhw8i8o", "shape": [64, 64, 3, 3], "cost": 56},
    ],
    "op": [
        {"name": "nn.conv", "ins": ["nChw8c", "OIhw8i8o"], "outs": ["nChw8c"], "cost": 90000},
        {"name": "nn.conv", "ins": ["nchw", "oihw"], "outs": ["nchw"], "cost": 190000},
        {"name": "nn.relu", "ins": ["nchw"], "outs": ["nchw"], "cost": 3},
    ],
    "missing": "model",
}

_NAMES = (
    "nchw",
    "nhwc",
    "nChw8c",
    "nChw16c",
    "OIhw8i8o",
    "any",
    "forbid",
    "model",
    "bytes",
    "us",
    "nn.add",
    "nn.conv",
)


class Costs(Kind):
    name = "costs"
    suffix = ".json"
    chunk = 15

    def make(self, seed: int, number: int) -> bytes:
        rng = self.rng(seed, number)
        how = rng.random()
        target = rng.choice(TARGETS)
        if how < 0.1:
            text = json.dumps(TABLE)
            table = TextMutator([text]).mutate(rng, text)
        else:
            table = mutate_json(rng, TABLE, lambda n: _number(rng, n), (*VALUES, *_NAMES))
        return json.dumps({"target": target, "table": table}).encode()

    def run(self, data: bytes) -> None:
        given = json.loads(data)
        table = given["table"]
        Path("costs.json").write_text(
            table if isinstance(table, str) else json.dumps(table), "utf-8", "surrogatepass"
        )
        Path("program.mlir").write_text(PROGRAM, encoding="utf-8")
        call("layout-ir", ["optimize", "program.mlir", "--costs", "costs.json", "--target", given["target"]])


def _number(rng: Random, number: int) -> int:
    return number + rng.choice((-1, 1)) if rng.random() < 0.3 else rng.choice(NUMBERS)
