"""The weights that oneDNN's convolutions and matmuls ask for: their descriptors, and what stands behind their data.

Integer weights may be followed by compensation sums. The C API does not say so of a descriptor, but its bytes are
larger than its padded elements by those sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_int, c_void_p

from tests.oracles import onednn
from tests.oracles.onednn import Desc

_INFERENCE, _CONVOLUTION_AUTO, _SRC, _WEIGHTS_QUERY, _ANY = 96, 3, 1, 131, 1


def _any(dims: Sequence[int], dtype: str) -> c_void_p:
    handle = c_void_p()
    call = onednn.library().dnnl_memory_desc_create_with_tag
    onednn.check(call(byref(handle), len(dims), onednn.array(dims), onednn.DTYPES[dtype], _ANY), "any")
    return handle


def _attributes(src_zero: bool) -> c_void_p:
    made = c_void_p()
    onednn.check(onednn.library().dnnl_primitive_attr_create(byref(made)), "attributes")
    if src_zero:
        call = onednn.library().dnnl_primitive_attr_set_zero_points_mask
        onednn.check(call(made, _SRC, 0), "zero points")
    return made


def _weights_of(pd: c_void_p) -> Desc:
    library, handle = onednn.library(), c_void_p()
    library.dnnl_primitive_desc_query_md.restype = c_void_p
    library.dnnl_primitive_desc_query_md.argtypes = [c_void_p, c_int, c_int]
    found = c_void_p(library.dnnl_primitive_desc_query_md(pd, _WEIGHTS_QUERY, 0))
    onednn.check(library.dnnl_memory_desc_clone(byref(handle), found), "clone")
    library.dnnl_primitive_desc_destroy(pd)
    return Desc(handle)


def convolution_weights(
    weights: Sequence[int],
    *,
    src: str = "i8",
    wei: str = "i8",
    dst: str = "i8",
    image: int = 14,
    stride: int = 1,
    src_zero: bool = False,
) -> Desc:
    """What a convolution asks for whose weights are (o, i, h, w), or (g, o, i, h, w) with groups."""
    groups = weights[0] if len(weights) == 5 else 1
    o, i, *kernel = weights[-4:]
    pad = [k // 2 for k in kernel]
    out = [(image + 2 * p - k) // stride + 1 for p, k in zip(pad, kernel, strict=True)]
    library, (engine, _), pd = onednn.library(), onednn.engine(), c_void_p()
    made = _attributes(src_zero)
    descs = [_any((1, groups * i, image, image), src), _any(weights, wei), _any((1, groups * o, *out), dst)]
    status = library.dnnl_convolution_forward_primitive_desc_create(
        byref(pd), engine, _INFERENCE, _CONVOLUTION_AUTO, descs[0], descs[1], None, descs[2],
        onednn.array([stride] * 2), onednn.array([0] * 2), onednn.array(pad), onednn.array(pad), made,
    )  # fmt: skip
    library.dnnl_primitive_attr_destroy(made)
    for desc in descs:
        library.dnnl_memory_desc_destroy(desc)
    onednn.check(status, f"convolution with weights {tuple(weights)}")
    return _weights_of(pd)


def matmul_weights(
    weights: Sequence[int],
    *,
    src: str = "i8",
    wei: str = "i8",
    dst: str = "f32",
    rows: int = 128,
    src_zero: bool = False,
) -> Desc:
    """What a matmul asks for whose weights are (k, n)."""
    library, (engine, _), pd = onednn.library(), onednn.engine(), c_void_p()
    k, n = weights
    made = _attributes(src_zero)
    descs = [_any((rows, k), src), _any(weights, wei), _any((rows, n), dst)]
    status = library.dnnl_matmul_primitive_desc_create(
        byref(pd), engine, descs[0], descs[1], None, descs[2], made
    )
    library.dnnl_primitive_attr_destroy(made)
    for desc in descs:
        library.dnnl_memory_desc_destroy(desc)
    onednn.check(status, f"matmul with weights {tuple(weights)}")
    return _weights_of(pd)
