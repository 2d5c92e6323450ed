"""Costs of a program: of moves between formats, of fills, of ops."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tests.passes.selection.ir_programs.formats import FUNCTIONS, MAPS, SAME, State, format_body


@dataclass(frozen=True)
class Costs:
    """Costs of a program: of moves between maps (None: not possible), of fills, of `nn` ops by name and map."""

    moves: tuple[tuple[int | None, ...], ...]
    fills: tuple[int, ...]
    ops: dict[tuple[str, int], int]
    maps: tuple[int, ...]

    def reorder(self, source: State, target: State) -> int | None:
        """The cost of making `target` from `source`; None where no move does it."""
        (m, held), (n, wanted) = source, target
        if m == n:
            return 0 if wanted is None or wanted == held else self.fills[m]
        return self.moves[m][n]

    def to_json(self) -> dict[str, Any]:
        entries: list[Any] = []
        for i in self.maps:
            for j in self.maps:
                a, b = SAME.get(i, i), SAME.get(j, j)
                cost = self.fills[a] if a == b else self.moves[a][b]
                if cost is not None:
                    entries.append({"from": format_body(i), "to": format_body(j), "cost": cost})
        ops = [
            {"name": name, "ins": [format_body(k)] * count, "outs": [format_body(k)], "cost": cost}
            for k in self.maps
            for (name, known), cost in self.ops.items()
            for count in [2 if name in ("nn.add", "nn.sub", "nn.mul") else 1]
            if known == SAME.get(k, k)
        ]
        return {"unit": "points", "reorder": entries, "op": ops, "missing": "forbid"}


def random_costs(rng: random.Random, maps: tuple[int, ...], missing: float) -> Costs:
    """Costs without any order between them; the part `missing` of all moves is not possible."""
    moves = [tuple(None if rng.random() < missing else rng.randint(1, 20) for _ in MAPS) for _ in MAPS]
    fills = [rng.randint(1, 12) for _ in MAPS]
    ops = {(op.name, SAME.get(k, k)): rng.randint(0, 9) for op in FUNCTIONS for k in maps}
    return Costs(tuple(moves), tuple(fills), ops, maps)
