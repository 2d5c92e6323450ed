"""Operators of ONNX Runtime as functions of standard ones: what those compute of which ONNX itself says nothing.

ONNX has functions for its own operators; these are the same for operators that ONNX Runtime's optimizer, its quantizer
and the builders of language models write, and for those of ai.onnx.ml around estimators. Types follow from the nodes,
the reference evaluates them, and the executor compiles them. All are of operators that have been the same since opset
13.

The functions are those of the kernels for CPUs: where ONNX Runtime has none for an attribute or an input, there is no
function, and where its kernel leaves results undefined (rows of a GroupQueryAttention behind the end of a sequence)
they are what the nodes make of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.attention_functions import (
    attention,
    group_query_attention,
    multi_head_attention,
    quantized_attention,
    rotary_embedding,
)
from layout_ir.frontends.onnx.classical_functions import (
    binarized,
    chosen_features,
    labels_of_integers,
    linear_classification,
    linear_regression,
    normalized,
    scaled,
)
from layout_ir.frontends.onnx.expert_functions import mixture_of_experts
from layout_ir.frontends.onnx.function_body import (
    INT64,
    Body,
    Function,
    NoFunctionError,
    TensorType,
    Types,
    constant_type,
    type_of,
)
from layout_ir.frontends.onnx.quantized_functions import (
    WINDOW,
    dynamic_lstm,
    dynamic_product,
    pool_of_channels_last,
    product_to_float,
    product_with_bits,
    product_with_codes,
    quantized_alone,
    quantized_choice,
    quantized_concat,
    quantized_convolution,
    quantized_embedding,
    quantized_gemm,
    quantized_pair,
    quantized_pool,
    quantized_softmax,
    rows_of_blocks,
)
from layout_ir.frontends.onnx.small_functions import (
    boxes_of_images,
    convolution_with_given_pads,
    distances,
    product_of_small_integers,
    windows_of_a_dim,
    without_repetitions,
)

if TYPE_CHECKING:
    import onnx

OPSET = 21
"""The version of the standard operators in which functions are evaluated and compiled."""


def function_nodes(node: onnx.NodeProto, types: Types) -> list[onnx.NodeProto] | None:
    """Standard nodes that compute what `node` does, in the order of their use, with the outputs of the node, the first
    of them by the last node; names in between begin with "value". None where no function is known for it, or none for
    its attributes and inputs.

    Raises KeyError where the function depends on a type that is not known.
    """
    import onnx.helper

    function = FUNCTIONS.get(f"{node.domain}.{node.op_type}")
    if function is None or not node.output or not node.output[0]:
        return None
    body = Body(node, types)
    try:
        results = function(body)
    except NoFunctionError:
        return None
    if len(results) < len(node.output):
        return None
    wanted = [(name, found) for name, found in zip(node.output, results, strict=False) if name]
    return [
        *body.nodes,
        *(onnx.helper.make_node("Identity", [found], [name]) for name, found in reversed(wanted)),
    ]


def written_out(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The function of the one node of `model` as a model with the same inputs and outputs; None where there is none."""
    import onnx
    import onnx.helper

    (node,) = model.graph.node
    graph = model.graph
    known = {value.name: value.type for value in (*graph.input, *graph.value_info)}
    constants = {tensor.name: constant_type(tensor) for tensor in graph.initializer}

    def type_by_name(name: str) -> TensorType:
        return constants[name] if name in constants else type_of(known[name])

    nodes = function_nodes(node, type_by_name)
    if nodes is None:
        return None
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    del result.opset_import[:]
    result.opset_import.append(onnx.helper.make_opsetid("", OPSET))
    return result


# --- older names of what ONNX has since -----------------------------------------------------------------------------


def _renamed(op_type: str, inputs: int, *attributes: str) -> Function:
    """A standard operator of the same inputs and attributes."""

    def function(body: Body) -> Sequence[str]:
        return [body.add(op_type, *body.given(inputs), **body.stated(attributes))]

    return function


def _one_dim_more(body: Body) -> Sequence[str]:
    """ExpandDims; where the axis is not known, neither is the shape."""
    axis = body.number(1)
    given = body.cast(body.reshaped(body.input(1), 1), INT64) if axis is None else body.integers([axis])
    return [body.add("Unsqueeze", body.input(0), given)]


_MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
"""The modes of GridSample, and what the standard calls them."""


def _sampled_grid(body: Body) -> Sequence[str]:
    """GridSample."""
    mode = _MODES.get(body.attribute("mode", "bilinear"))
    if mode is None:
        raise NoFunctionError
    return [
        body.add("GridSample", *body.given(2), mode=mode, **body.stated(("align_corners", "padding_mode")))
    ]


def _unique_elements(body: Body) -> Sequence[str]:
    """Unique: the elements in the order in which they come, where each is among them, and how often they come."""
    elements, _, places, counts = body.add_several("Unique", 4, body.input(0), sorted=0)
    return [elements, places, counts]


FUNCTIONS: dict[str, Function] = {
    "ai.onnx.ml.ArrayFeatureExtractor": chosen_features,
    "ai.onnx.ml.Binarizer": binarized,
    "ai.onnx.ml.LabelEncoder": labels_of_integers,
    "ai.onnx.ml.LinearClassifier": linear_classification,
    "ai.onnx.ml.LinearRegressor": linear_regression,
    "ai.onnx.ml.Normalizer": normalized,
    "ai.onnx.ml.Scaler": scaled,
    "com.microsoft.Attention": attention,
    "com.microsoft.CDist": distances,
    "com.microsoft.ConvTransposeWithDynamicPads": convolution_with_given_pads,
    "com.microsoft.CropAndResize": boxes_of_images,
    "com.microsoft.DynamicQuantizeLSTM": dynamic_lstm,
    "com.microsoft.DynamicQuantizeMatMul": dynamic_product,
    "com.microsoft.ExpandDims": _one_dim_more,
    "com.microsoft.GatherBlockQuantized": rows_of_blocks,
    "com.microsoft.GatherND": _renamed("GatherND", 2),
    "com.microsoft.GridSample": _sampled_grid,
    "com.microsoft.GroupQueryAttention": group_query_attention,
    "com.microsoft.MatMulBnb4": product_with_codes,
    "com.microsoft.MatMulInteger16": product_of_small_integers,
    "com.microsoft.MatMulIntegerToFloat": product_to_float,
    "com.microsoft.MatMulNBits": product_with_bits,
    "com.microsoft.MoE": mixture_of_experts,
    "com.microsoft.MultiHeadAttention": multi_head_attention,
    "com.microsoft.NGramRepeatBlock": without_repetitions,
    "com.microsoft.NhwcMaxPool": pool_of_channels_last,
    "com.microsoft.Pad": _renamed("Pad", 3, "mode"),
    "com.microsoft.QAttention": quantized_attention,
    "com.microsoft.QEmbedLayerNormalization": quantized_embedding,
    "com.microsoft.QGemm": quantized_gemm,
    "com.microsoft.QLinearAdd": quantized_pair("Add"),
    "com.microsoft.QLinearAveragePool": quantized_pool("AveragePool", "count_include_pad", *WINDOW),
    "com.microsoft.QLinearConcat": quantized_concat,
    "com.microsoft.QLinearConv": quantized_convolution,
    "com.microsoft.QLinearGlobalAveragePool": quantized_pool("GlobalAveragePool"),
    "com.microsoft.QLinearLeakyRelu": quantized_alone("LeakyRelu", alpha=0.01),
    "com.microsoft.QLinearMul": quantized_pair("Mul"),
    "com.microsoft.QLinearSigmoid": quantized_alone("Sigmoid"),
    "com.microsoft.QLinearSoftmax": quantized_softmax,
    "com.microsoft.QLinearWhere": quantized_choice,
    "com.microsoft.Range": _renamed("Range", 3),
    "com.microsoft.RotaryEmbedding": rotary_embedding,
    "com.microsoft.Trilu": _renamed("Trilu", 2, "upper"),
    "com.microsoft.UnfoldTensor": windows_of_a_dim,
    "com.microsoft.Unique": _unique_elements,
}
"""The functions of ONNX Runtime's operators, by domain and operator."""
