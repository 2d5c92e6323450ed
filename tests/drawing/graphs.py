"""Graphs to draw: one whose parts are told apart easily, and networks of any size."""

from __future__ import annotations

from layout_ir.drawing.drawn_graph import DrawnEdge, DrawnGraph, DrawnNode

SMALL = DrawnGraph(
    (
        DrawnNode("in", "input", "input", "picture"),
        DrawnNode(
            "conv", "nn.conv", "op", "stem/conv", "strides = [2, 2]\nconstant %w 16x3x3x3 f32 OIhw16i16o"
        ),
        DrawnNode(
            "big", "nChw16c → nchw", "copy", "stem", "", 2_400_000, "the resize needs rows of channels"
        ),
        DrawnNode("resize", "Resize", "opaque", "neck/resize"),
        DrawnNode("flat", "layout.reshape", "view", "flatten"),
        DrawnNode("small", "nchw → nhwc", "copy", "tail", "", 1_500, "the caller asks for it"),
        DrawnNode("out", "the result", "output"),
    ),
    (
        DrawnEdge("in", "conv", "%x", "1x3x8x8", "f32", "nchw"),
        DrawnEdge("conv", "big", "%y", "1x16x8x8", "f32", "nChw16c"),
        DrawnEdge("big", "resize", "%z", "1x16x8x8", "f32", "nchw"),
        DrawnEdge("conv", "flat", "%y", "1x16x8x8", "f32", "nChw16c"),
        DrawnEdge("resize", "small", "%r", "1x16x16x16", "f32", "nchw"),
        DrawnEdge("small", "out", "%s", "1x16x16x16", "f32", "nhwc"),
        DrawnEdge("flat", "out", "%f", "1x1024", "f32", "nc"),
    ),
)


def network(count: int, *, copies: bool = True) -> DrawnGraph:
    """A network of `count` nodes: blocks of two branches and a skip, with values that reach far, as in a U-Net."""
    nodes = [DrawnNode("0", "input", "input", "x")]
    edges: list[DrawnEdge] = []

    def add(label: str, name: str, *sources: tuple[int, str], reason: str = "") -> int:
        number = len(nodes)
        kind = "copy" if reason else "op"
        nodes.append(DrawnNode(str(number), label, kind, name, "", 1000 * number if reason else None, reason))
        for source, layout in sources:
            edges.append(DrawnEdge(str(source), str(number), f"%{source}", "1x16x8x8", "f32", layout))
        return number

    last, far = 0, list[int]()
    while len(nodes) + 8 <= count:
        block = f"layer{len(nodes) // 8}"
        head = add("nn.conv", f"{block}/conv", (last, "nchw"))
        if copies:
            head = add("nChw16c → nchw", block, (head, "nChw16c"), reason=f"{block} pools rows of channels")
        left = add("nn.relu", f"{block}/relu", (head, "nchw"))
        left = add("nn.conv", f"{block}/left", (left, "nchw"))
        right = add("nn.max_pool", f"{block}/pool", (head, "nchw"))
        last = add("nn.concat", f"{block}/concat", (left, "nhwc"), (right, "nChw8c"))
        last = add("nn.add", f"{block}/add", (last, "nchw"), (head, "nchw"))
        if len(nodes) < count // 2 and len(nodes) % 5 == 0 and len(far) < 6:
            far.append(last)
        elif far and len(nodes) > count // 2 and len(nodes) % 7 == 0:
            last = add("nn.concat", f"{block}/skip", (last, "nchw"), (far.pop(), "nchw"))
    while len(nodes) < count:
        last = add("nn.sigmoid", f"tail{len(nodes)}", (last, "nchw"))
    return DrawnGraph(tuple(nodes), tuple(edges))
