"""Foreign notations of layouts, one file each, both ways.

`NOTATIONS` maps names to objects with `parse(text, shape, dtype)` and `print(subject, dtype)`; see `notation.Notation`
for what they promise. Conversions never go through names: a text is read into a Format or Layout, and printed from
its digits, so that `nhwc` at one channel is the same as `nchw` and strides written out still have a tag.

    convert("nChw8c", "xla")                            {3,2,1,0:T(8,1,1)}
    convert("nChw8c", "cute", shape=(2, 16, 5, 4))      (2,(8,2),5,4):(320,(1,160),32,8)
    convert("nChw8c", "torch", shape=(2, 16, 5, 4))     LayoutError: torch cannot say ...: it has one stride per dim ..
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module

from layout_ir.algebra.format import Format
from layout_ir.errors import LayoutError
from layout_ir.notations.notation import Notation, Subject

__all__ = ["NOTATIONS", "Notation", "Subject", "convert", "read"]

_WHERE = {
    "tag": ("onednn", "TagNotation"),
    "onednn": ("onednn", "DescNotation"),
    "htp": ("htp", "HtpNotation"),
    "megengine": ("megengine", "MegEngineNotation"),
    "torch": ("pytorch", "TorchNotation"),
    "numpy": ("numpy_strides", "NumpyNotation"),
    "memref": ("memref", "MemrefNotation"),
    "affine": ("memref", "AffineNotation"),
    "pack": ("pack", "PackNotation"),
    "xla": ("xla", "XlaNotation"),
    "jax": ("xla", "JaxNotation"),
    "tvm": ("tvm", "TvmNotation"),
    "indexmap": ("tvm", "IndexMapNotation"),
    "cute": ("cute", "CuteNotation"),
    "tensorrt": ("tensorrt", "TensorRtNotation"),
    "cudnn": ("cudnn", "CudnnNotation"),
    "acl": ("acl", "AclNotation"),
    "onnxruntime": ("onnxruntime", "OnnxRuntimeNotation"),
    "openvino": ("openvino", "OpenVinoNotation"),
    "triton": ("triton", "TritonNotation"),
}


class _Notations(Mapping[str, Notation]):
    """The notations by name, each imported when it is asked for."""

    def __init__(self):
        self._made: dict[str, Notation] = {}

    def __getitem__(self, name: str) -> Notation:
        if name not in self._made:
            module, kind = _WHERE[name]
            self._made[name] = getattr(import_module(f"layout_ir.notations.{module}"), kind)()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_WHERE)

    def __len__(self) -> int:
        return len(_WHERE)


NOTATIONS: Mapping[str, Notation] = _Notations()


def _notation(name: str) -> Notation:
    if name not in _WHERE:
        raise LayoutError(f"unknown notation '{name}': known are {', '.join(_WHERE)}")
    return NOTATIONS[name]


def read(
    text: str, source: str | None = None, *, shape: Sequence[int] | None = None, dtype: str | None = None
) -> Subject:
    """What `text` means in notation `source` (None: our own text, or a tag), bound to `shape` if given."""
    if source is not None:
        return _notation(source).parse(text, shape, dtype)
    format = Format.of(text)
    return format if shape is None else format.bind(shape)


def convert(
    text: str,
    to: str,
    *,
    source: str | None = None,
    shape: Sequence[int] | None = None,
    dtype: str | None = None,
) -> str:
    """`text` of notation `source` in notation `to`. Raises LayoutError where `to` cannot say it, with the reason."""
    target = _notation(to)
    return target.print(read(text, source, shape=shape, dtype=dtype), dtype)
