"""Checks of a node against the schema of its op in the ONNX standard.

NumPy accepts more than ONNX: integers in place of floats, mixed element types, missing attributes. So a node is checked
before it is evaluated; nodes that become ops are checked by the verifiers of these.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.frontends.onnx.import_error import OnnxImportError
from layout_ir.frontends.onnx.node import Node

if TYPE_CHECKING:
    import onnx.defs


FLAGS = frozenset(
    """
    align_corners allowzero antialias ceil_mode center_point_box count_include_pad detect_negative detect_positive
    exclude_outside exclusive fmod input_forget interleaved inverse is_causal is_case_sensitive keepdims largest
    linear_before_reset new_axis noop_with_empty_axes onesided periodic reverse saturate select_last_index sorted
    training_mode transA transB upper
    """.split()  # noqa: SIM905
)
"""Attributes that are 0 or 1; implementations read other numbers differently."""

FINITE = frozenset(("alpha", "beta", "bias", "gamma", "lambd"))
"""Attributes that are finite numbers; a fill value or a bound may be infinite."""


def check_flags(node: Node) -> None:
    """Raises OnnxImportError where a flag of a node of the ONNX standard is neither 0 nor 1."""
    for attribute in () if node.domain else node.proto.attribute:
        if attribute.name in FLAGS:
            node.flag(attribute.name)


def check_signature(node: Node, dtypes: Sequence[np.dtype[Any] | None]) -> None:
    """Raises OnnxImportError where the schema of the op does not allow the node's inputs, attributes or outputs.

    `dtypes` are the element types of its inputs, None for one that is left out. An op without a schema passes.
    """
    schema = schema_of(node.op_type, node.opset, node.domain)
    if schema is None:
        return
    _check_attributes(node, schema)
    _check_inputs(schema, dtypes)
    outputs = len(node.proto.output)
    if not outputs <= schema.max_output:
        raise OnnxImportError(f"the node has {outputs} outputs, the op at most {schema.max_output}")


@functools.cache
def schema_of(op_type: str, opset: int, domain: str) -> onnx.defs.OpSchema | None:
    """The schema of an op; None if the onnx package has none."""
    import onnx.defs

    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


def _check_attributes(node: Node, schema: onnx.defs.OpSchema) -> None:
    for attribute in node.proto.attribute:
        known = schema.attributes.get(attribute.name)
        if known is None:
            raise OnnxImportError(
                f"attribute {attribute.name} is not supported: the op has none of that name"
            )
        kind: Any = known.type
        wanted = kind.name
        if attribute.type != kind.value:
            import onnx

            given = onnx.AttributeProto.AttributeType.Name(attribute.type)
            raise OnnxImportError(f"attribute {attribute.name} is of type {given}, expected {wanted}")
        if attribute.name in FINITE:
            node.number(attribute.name, 0.0)
    check_flags(node)
    for name, known in schema.attributes.items():
        if known.required and not node.has(name):
            raise OnnxImportError(f"attribute {name} is missing")


def _check_inputs(schema: onnx.defs.OpSchema, dtypes: Sequence[np.dtype[Any] | None]) -> None:
    import onnx.defs

    if not schema.min_input <= len(dtypes) <= schema.max_input:
        raise OnnxImportError(
            f"the node has {len(dtypes)} inputs, the op {schema.min_input} to {schema.max_input}"
        )
    option = onnx.defs.OpSchema.FormalParameterOption
    bound: dict[str, tuple[int, str]] = {}
    for number, dtype in enumerate(dtypes):
        formal = schema.inputs[min(number, len(schema.inputs) - 1)]
        if dtype is None:
            if formal.option != option.Optional:
                raise OnnxImportError(f"input {number} is missing")
            continue
        word = _onnx_word(dtype)
        if f"tensor({word})" not in formal.types:
            known = sorted(text[7:-1] for text in formal.types if text.startswith("tensor("))
            raise OnnxImportError(
                f"input {number} has element type {word}, the op takes {', '.join(known) or 'no tensor'}"
            )
        if formal.option == option.Variadic and not formal.is_homogeneous:
            continue
        first, other = bound.setdefault(formal.type_str, (number, word))
        if other != word:
            raise OnnxImportError(
                f"element type mismatch between input {first} and input {number}: {other} != {word}"
            )


@functools.cache
def _onnx_word(dtype: np.dtype[Any]) -> str:
    """The name of an element type in schemas: float, int64, bool."""
    import onnx
    import onnx.helper

    number = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    return onnx.TensorProto.DataType.Name(number).lower()
