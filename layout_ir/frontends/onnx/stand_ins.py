"""What stands in for operators of ONNX Runtime where types are inferred.

ONNX's inference knows standard operators only. An operator that ONNX Runtime writes into the models it saves, or its
tools into those that they fuse or quantize, has the type that standard ones in its place would have: the few nodes
here, where these alone decide the type, else those of its function (`runtime_functions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from layout_ir.frontends.onnx.function_body import Types
from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.frontends.onnx.runtime_functions import function_nodes

if TYPE_CHECKING:
    import onnx

StandIn = Callable[["onnx.NodeProto", Types], "list[onnx.NodeProto]"]
"""A function from a node to standard nodes, the last of which gives the type of output 0; those of other outputs are of
nodes that write these. Names in between are the same for every node."""


def standard_nodes(node: onnx.NodeProto, types: Types) -> list[onnx.NodeProto] | None:
    """Standard nodes whose results have the types of those of `node`, under their names: the node itself where nothing
    needs to stand in for it, none where its attributes or inputs leave no way, None where a type is not known that they
    depend on."""
    domain = domain_of(node.domain)
    stand_in = STAND_INS.get(f"{domain}.{node.op_type}" if domain else node.op_type)
    try:
        found = stand_in(node, types) if stand_in else None
        found = found or function_nodes(node, types)
        if found is None:
            return [node] if stand_in is None else []
    except KeyError:
        return None
    except (IndexError, StopIteration):
        return []
    own = set(node.output)
    inner = {n: f"{n} within {node.output[0]}" for made in found for n in made.output if n not in own}
    inner[found[-1].output[0]] = node.output[0]
    for made in found:
        made.input[:] = [inner.get(name, name) for name in made.input]
        made.output[:] = [inner.get(name, name) for name in made.output]
    if node.op_type in _WITH_SUM:
        found += [_copy(node.output[0], total) for total in node.output[3:] if total]
    return found


def _copy(source: str, target: str) -> onnx.NodeProto:
    import onnx.helper

    return onnx.helper.make_node("Identity", [source], [target])


def _as(op_type: str, *inputs: int, attributes: Sequence[str] = ()) -> StandIn:
    """A standard operator on some of the inputs, by number, those left out of the node excepted."""

    def nodes(node: onnx.NodeProto, types: Types) -> list[onnx.NodeProto]:
        import onnx.helper

        names = [node.input[number] for number in inputs if number < len(node.input)]
        result = onnx.helper.make_node(op_type, names, ["result"])
        result.attribute.extend(attribute for attribute in node.attribute if attribute.name in attributes)
        return [result]

    return nodes


def _pool(op_type: str, *attributes: str) -> StandIn:
    """A pool whose channels may be the last dim."""
    plain = _as(op_type, 0, attributes=attributes)

    def nodes(node: onnx.NodeProto, types: Types) -> list[onnx.NodeProto]:
        import onnx.helper

        made = plain(node, types)
        if not any(a.name == "channels_last" and a.i for a in node.attribute):
            return made
        dims = range(len(types(node.input[0]).extents))
        second, last = [0, dims[-1], *dims[1:-1]], [0, *dims[2:], 1]
        made[0].input[:], made[0].output[:] = ["channels_second"], ["pooled"]
        return [
            onnx.helper.make_node("Transpose", [node.input[0]], ["channels_second"], perm=second),
            *made,
            onnx.helper.make_node("Transpose", ["pooled"], ["result"], perm=last),
        ]

    return nodes


def _concatenated(node: onnx.NodeProto, types: Types) -> list[onnx.NodeProto]:
    """QLinearConcat: scale and zero point of the result, then each tensor with its own."""
    import onnx.helper

    axis = next(attribute.i for attribute in node.attribute if attribute.name == "axis")
    return [onnx.helper.make_node("Concat", list(node.input[2::3]), ["result"], axis=axis)]


def fused_operand_order(rank: int, transposed: bool, batch: bool) -> tuple[int, ...]:
    """The order in which a FusedMatMul reads the dims of an operand, by its flags transA and transBatchA, or B's.

    The second moves the first dim behind those of the stack, the first exchanges the last two.
    """
    order = [*range(1, rank - 1), 0, rank - 1] if batch and rank > 2 else [*range(rank)]
    if transposed and rank > 1:
        order[-2:] = order[:-3:-1]
    return tuple(order)


def _fused_matmul(node: onnx.NodeProto, types: Types) -> list[onnx.NodeProto]:
    import onnx.helper

    flags: dict[str, Any] = {a.name: a.i for a in node.attribute}
    names, nodes = list(node.input[:2]), list[onnx.NodeProto]()
    for number, side in enumerate("AB"):
        if flags.get(f"trans{side}") or flags.get(f"transBatch{side}"):
            perm = fused_operand_order(
                len(types(names[number]).extents),
                bool(flags.get(f"trans{side}")),
                bool(flags.get(f"transBatch{side}")),
            )
            nodes.append(onnx.helper.make_node("Transpose", [names[number]], [side], perm=perm))
            names[number] = side
    return [*nodes, onnx.helper.make_node("MatMul", names, ["result"])]


def _quantized_gemm(node: onnx.NodeProto, types: Types) -> list[onnx.NodeProto]:
    """QGemm: a and b have a scale and a zero point each; without a scale for the result it is in single precision."""
    import onnx
    import onnx.helper

    (product,) = _as("Gemm", 0, 3, attributes=("transA", "transB"))(node, types)
    if len(node.input) > 7 and node.input[7]:
        return [product]
    return [product, onnx.helper.make_node("Cast", ["result"], ["real"], to=onnx.TensorProto.FLOAT)]


def _product_with_bits(node: onnx.NodeProto, types: Types) -> list[onnx.NodeProto]:
    """MatMulNBits: as many columns as an attribute says."""
    return _of_columns(node, next(a.i for a in node.attribute if a.name == "N"))


def _of_columns(node: onnx.NodeProto, count: int) -> list[onnx.NodeProto]:
    """The rows of input 0, of so many columns."""
    return _of_extent(node.input[0], "result", -1, count)


def _of_extent(source: str, target: str, axis: int, extent: int) -> list[onnx.NodeProto]:
    """A tensor with another extent along an axis."""
    import onnx
    import onnx.helper

    zero = onnx.helper.make_tensor("zero", onnx.TensorProto.INT64, [1], [0])
    return [
        _integers("shape", [extent]),
        onnx.helper.make_node("ConstantOfShape", ["shape"], ["places"], value=zero),
        onnx.helper.make_node("Gather", [source, "places"], [target], axis=axis),
    ]


def _integers(name: str, numbers: Sequence[int]) -> onnx.NodeProto:
    import onnx
    import onnx.helper

    tensor = onnx.helper.make_tensor(name, onnx.TensorProto.INT64, [len(numbers)], numbers)
    return onnx.helper.make_node("Constant", [], [name], value=tensor)


def _into_blocks(node: onnx.NodeProto, types: Types) -> list[onnx.NodeProto]:
    """ReorderInput: NCHW, or NHWC by a flag, to a tensor of blocks whose dims are n, c, h, w.

    Channels of blocks that are not whole are made more, by how many depends on the processor.
    """
    import onnx.helper

    last = any(a.name == "channels_last" and a.i for a in node.attribute)
    channels = types(node.input[0]).extents[3 if last else 1]
    if not isinstance(channels, int) or channels % _LARGEST_BLOCK:
        return []
    perm = (0, 3, 1, 2) if last else range(4)
    return [onnx.helper.make_node("Transpose", [node.input[0]], ["result"], perm=perm)]


def _out_of_blocks(node: onnx.NodeProto, types: Types) -> list[onnx.NodeProto]:
    """ReorderOutput: as many channels as an attribute says."""
    import onnx.helper

    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    source, nodes = node.input[0], list[onnx.NodeProto]()
    if "channels" in attributes:
        nodes, source = _of_extent(source, "channels", 1, attributes["channels"]), "channels"
    perm = (0, 2, 3, 1) if attributes.get("channels_last") else range(4)
    return [*nodes, onnx.helper.make_node("Transpose", [source], ["result"], perm=perm)]


def _enlarged(node: onnx.NodeProto, types: Types) -> list[onnx.NodeProto]:
    """Upsample of blocks: by whole factors."""
    import onnx
    import onnx.helper

    factors = next((list(a.ints) for a in node.attribute if a.name == "scales"), [1] * 4)
    scales = onnx.helper.make_tensor("scales", onnx.TensorProto.FLOAT, [len(factors)], factors)
    return [
        onnx.helper.make_node("Constant", [], ["scales"], value=scales),
        onnx.helper.make_node("Resize", [node.input[0], "", "scales"], ["result"]),
    ]


def _attention(node: onnx.NodeProto, types: Types) -> list[onnx.NodeProto]:
    """Attention without a cache: as many columns as there are of the values, a third of those of the weights."""
    import onnx.helper

    if len(node.output) > 1:
        return []
    sizes = next((list(a.ints) for a in node.attribute if a.name == "qkv_hidden_sizes"), None)
    if sizes:
        return _of_columns(node, sizes[-1])
    return [
        _integers("thirds", [0, 3, -1]),
        onnx.helper.make_node("Reshape", [node.input[1], "thirds"], ["split"]),
        _integers("first", [0]),
        onnx.helper.make_node("Gather", ["split", "first"], ["third"], axis=1),
        _integers("rows", [0, -1]),
        onnx.helper.make_node("Reshape", ["third", "rows"], ["part"]),
        onnx.helper.make_node("MatMul", [node.input[0], "part"], ["result"]),
    ]


def _like(number: int) -> StandIn:
    """The shape of input 0, the element type of another input; bytes where that is left out.

    By a Cast, since CastLike is new in opset 15, and ONNX Runtime quantizes models of earlier ones with its operators.
    """

    def nodes(node: onnx.NodeProto, types: Types) -> list[onnx.NodeProto]:
        import onnx
        import onnx.helper

        is_given = len(node.input) > number and node.input[number]
        element = types(node.input[number]).element if is_given else onnx.TensorProto.UINT8
        return [onnx.helper.make_node("Cast", [node.input[0]], ["result"], to=element)]

    return nodes


def _embedded(node: onnx.NodeProto, types: Types) -> list[onnx.NodeProto]:
    """EmbedLayerNormalization: a row per token, a count per sequence, and a row per token."""
    import onnx
    import onnx.helper

    nodes: list[onnx.NodeProto] = []
    tokens, table, outputs = node.input[0], node.input[2], [*node.output, "", ""]
    if outputs[1]:
        nodes += [
            onnx.helper.make_node("ArgMax", [tokens], ["place"], axis=1, keepdims=0),
            onnx.helper.make_node("Cast", ["place"], [outputs[1]], to=onnx.TensorProto.INT32),
        ]
    if outputs[2]:
        nodes.append(onnx.helper.make_node("Gather", [table, tokens], [outputs[2]]))
    return [*nodes, onnx.helper.make_node("Gather", [table, tokens], ["result"])]


_WITH_SUM = ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
"""The operators whose output 3 is the sum of input and skip, of the type of output 0."""
NCHWC_DOMAIN = "com.microsoft.nchwc"
"""The domain of those on blocked channels, whose values lie in blocks and have the types of plain ones."""
_LARGEST_BLOCK = 16
"""The channels of a block on processors with vectors of 512 bits; others have 8."""
_WINDOW = ("auto_pad", "ceil_mode", "dilations", "group", "kernel_shape", "pads", "strides")

STAND_INS: dict[str, StandIn] = {
    "GlobalLpPool": _as("GlobalAveragePool", 0),  # whose inference ONNX lacks
    "SimplifiedLayerNormalization": _as("Identity", 0),
    "com.microsoft.Attention": _attention,
    "com.microsoft.DequantizeLinear": _like(1),
    "com.microsoft.EmbedLayerNormalization": _embedded,
    "com.microsoft.MatMulNBits": _product_with_bits,
    "com.microsoft.FusedConv": _as("Conv", 0, 1, attributes=_WINDOW),
    "com.microsoft.FusedGemm": _as("Gemm", 0, 1, attributes=("transA", "transB")),
    "com.microsoft.FusedMatMul": _fused_matmul,
    "com.microsoft.QGemm": _quantized_gemm,
    "com.microsoft.QuantizeLinear": _like(2),
    "com.microsoft.TransposeMatMul": _fused_matmul,
    "com.microsoft.QLinearAveragePool": _pool("AveragePool", *_WINDOW),
    "com.microsoft.QLinearConcat": _concatenated,
    "com.microsoft.QLinearGlobalAveragePool": _pool("GlobalAveragePool"),
    "com.microsoft.QLinearWhere": _as("Where", 0, 1, 4),
    f"{NCHWC_DOMAIN}.Conv": _as("Conv", 0, 1, attributes=_WINDOW),
    f"{NCHWC_DOMAIN}.ReorderInput": _into_blocks,
    f"{NCHWC_DOMAIN}.ReorderOutput": _out_of_blocks,
    f"{NCHWC_DOMAIN}.Upsample": _enlarged,
    **{f"{NCHWC_DOMAIN}.{n}": _as(n, 0, attributes=_WINDOW) for n in ("AveragePool", "MaxPool")},
    **{f"{NCHWC_DOMAIN}.{n}": _as(n, 0) for n in ("GlobalAveragePool", "GlobalMaxPool")},
    **dict.fromkeys(("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul"), _as("Add", 0, 3)),
    **{
        f"com.microsoft.{name}": _as("Identity", 0)
        for name in (
            "BiasGelu", "FastGelu", "Gelu", "QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax", "QuickGelu",
            "RotaryEmbedding", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "Trilu",
        )
    },
}  # fmt: skip
"""The stand-ins by domain and operator, for what ONNX Runtime writes in its optimizations, and its quantizer."""
DOMAINS = frozenset(name.rpartition(".")[0] for name in STAND_INS if "." in name)
"""The domains of these but the default one."""

UNTYPED = frozenset(name for name in STAND_INS if "." not in name)
"""Those of the default domain: of some ONNX lacks the inference, others are ONNX Runtime's own."""
