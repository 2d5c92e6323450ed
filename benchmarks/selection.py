"""x"""

from __future__ import annotations
import random, sys, time, resource
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from layout_ir.passes.selection.problem import Choice, OpNode, Problem, ValueNode


class Graph:
    """Grows a problem op by op: costs are random, reorders of a value cost what its size says, give or take."""

    def __init__(self, formats: int, seed: int):
        self.formats = formats
        self.rng = random.Random(seed)
        self.ops: list[OpNode] = []
        self.values: list[ValueNode] = []
        draw = self.rng.randint
        self.matrices = []
        for _ in range(64):
            size = draw(10, 60)
            self.matrices.append(
                tuple(
                    tuple(0 if f == g else size + draw(0, 20) for g in range(formats)) for f in range(formats)
                )
            )

    def op(self, choices, operands: tuple[int, ...], results: int = 1) -> int:
        value = len(self.values)
        for _ in range(results):
            self.values.append(ValueNode(self.rng.choice(self.matrices)))
        self.ops.append(OpNode(operands, tuple(range(value, value + results)), choices))
        return value

    def source(self) -> int:
        return self.op((Choice((), (0,), 0),), ())

    def kernel(self, x: int) -> int:
        """A convolution: every format to itself, and half as many kernels that change it."""
        draw, n = self.rng.randint, self.formats
        pairs = {(f, f): draw(50, 150) for f in range(n)}
        for _ in range((n + 1) // 2):
            pairs[draw(0, n - 1), draw(0, n - 1)] = draw(50, 150)
        return self.op(tuple([Choice((f,), (g,), c) for (f, g), c in pairs.items()]), (x,))

    def same(self, *xs: int) -> int:
        """An op whose operands and result agree in their format."""
        draw, n = self.rng.randint, self.formats
        return self.op(tuple([Choice((f,) * len(xs), (f,), draw(5, 25)) for f in range(n)]), xs)

    def sink(self, x: int) -> Problem:
        self.op((Choice((0,), (), 0),), (x,), 0)
        return Problem(tuple(self.ops), tuple(self.values))


def chain(n, formats, seed=0):
    g = Graph(formats, seed)
    x = g.source()
    while len(g.ops) < n - 1:
        x = g.same(g.kernel(x))
    return g.sink(x)


def residual(n, formats, seed=0):
    g = Graph(formats, seed)
    x = g.source()
    while len(g.ops) < n - 1:
        x = g.same(g.kernel(g.same(g.kernel(x))), x)
    return g.sink(x)


def dense(n, formats, seed=0, block=6):
    g = Graph(formats, seed)
    x = g.source()
    while len(g.ops) < n - 1:
        parts = [x]
        for _ in range(block):
            parts.append(g.kernel(g.same(*parts)))
        x = g.kernel(g.same(*parts))
    return g.sink(x)


if __name__ == "__main__":
    from layout_ir.passes.selection.solver import solve_exact

    fam, n, f = sys.argv[1], int(float(sys.argv[2])), int(sys.argv[3])
    t = time.time()
    p = {"chain": chain, "residual": residual, "dense": dense}[fam](n, f)
    t1 = time.time()
    m1 = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    if len(sys.argv) > 4:
        import cProfile

        cProfile.run("s = solve_exact(p)", sort="tottime")
    else:
        s = solve_exact(p)
    dt = time.time() - t1
    print(
        fam,
        n,
        f,
        "build",
        round(t1 - t, 2),
        "solve",
        round(dt, 2),
        "us/op",
        round(dt / n * 1e6, 1),
        "MB",
        m1,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        s.cost,
    )
