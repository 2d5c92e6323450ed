"""A model in the installed ONNX Runtime, on its CPU kernels; what goes wrong there becomes one error about the model.

ONNX Runtime is an optional dependency: it is imported when the first session is made, or its version asked for.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layout_ir.errors import LayoutError, printable
from layout_ir.frontends.onnx.shape_inference import node_of_negative_extent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEVELS = {
    "all": "ORT_ENABLE_ALL",
    "extended": "ORT_ENABLE_EXTENDED",
    "basic": "ORT_ENABLE_BASIC",
    "disable": "ORT_DISABLE_ALL",
}
"""How much ONNX Runtime optimizes a graph before it runs it, and its own name for that."""

LONGEST_MESSAGE = 1000
"""Characters of a message of ONNX Runtime that are told: some of them list all nodes of a graph."""

_TYPES = {
    "bfloat16": "BFLOAT16",
    "float8e4m3fn": "FLOAT8E4M3FN",
    "float8e4m3fnuz": "FLOAT8E4M3FNUZ",
    "float8e5m2": "FLOAT8E5M2",
    "float8e5m2fnuz": "FLOAT8E5M2FNUZ",
}
"""Element types that NumPy does not have, as ONNX Runtime and ONNX call them: such tensors go in and out as bits."""


def onnxruntime() -> Any:
    """The module of ONNX Runtime. Raises LayoutError where it is not installed."""
    try:
        return import_module("onnxruntime")
    except ImportError as error:
        raise LayoutError(
            f"models are run by ONNX Runtime, which cannot be imported: pip install onnxruntime ({error})"
        ) from error


def created_session(
    model: str | bytes, *, threads: int = 1, level: str = "all", settings: Mapping[str, str] | None = None
) -> Any:
    """What ONNX Runtime makes of a model, the bytes of one or a file, which nobody has looked at before.

    Threads do not spin while they wait: those of one session would run against another that is timed. `settings` are
    entries of its configuration; "optimized_model" is the file to which it writes the optimized graph.
    Raises what ONNX Runtime does.
    """
    runtime = onnxruntime()
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # what is wrong comes as an exception, too
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, LEVELS[level])
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    for key, value in (settings or {}).items():
        if key == "optimized_model":
            options.optimized_model_filepath = value
        else:
            options.add_session_config_entry(key, value)
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class RuntimeSession:
    """A session of ONNX Runtime; `title` names the model in errors."""

    def __init__(
        self, path: str, title: str, *, threads: int = 1, level: str = "all", settings: Mapping[str, str] | None = None
    ):  # fmt: skip
        """Loads and optimizes the model in the file `path`; raises LayoutError where ONNX Runtime does not take it.

        The arguments are those of `created_session`.
        """
        self._runtime = onnxruntime()
        self.title = title
        _check_extents(path, title)
        try:
            self._session = created_session(path, threads=threads, level=level, settings=settings)
        except Exception as error:
            raise self._failure("does not take", error) from error
        self.inputs: list[str] = [value.name for value in self._session.get_inputs()]
        """The names of its inputs that have no default."""
        self.outputs: list[str] = [value.name for value in self._session.get_outputs()]
        """The names of its outputs."""
        values = [*self._session.get_inputs(), *self._session.get_outputs()]
        self._has_bits = any(f"({name})" in value.type for name in _TYPES for value in values)

    def outputs_of(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """The outputs by name; raises LayoutError where the run fails.

        A tensor is an array, with a type of ml_dtypes where NumPy has none; a sequence is a list, a map a dict.
        """
        results = self.call(feeds)()
        if self._has_bits:
            results = [self._array(value) for value in results]
        return dict(zip(self.outputs, results, strict=True))

    def call(self, feeds: Mapping[str, NDArray[Any]]) -> Callable[[], list[Any]]:
        """A function that runs the model on these inputs, those it has of them, and raises LayoutError where it fails.

        Nothing but the run is left to do in it.
        """
        known = {name: feeds[name] for name in self.inputs if name in feeds}
        if self._has_bits:
            run, values = self._session.run_with_ort_values, {n: self._value(a, n) for n, a in known.items()}
        else:
            run, values = self._session.run, known

        def call() -> list[Any]:
            try:
                return run(None, values)
            except Exception as error:
                raise self._failure("fails on", error) from error

        return call

    def _value(self, array: NDArray[Any], name: str) -> Any:
        """An OrtValue of an array; arrays of ml_dtypes are given as their bits."""
        import numpy as np
        import onnx

        make = self._runtime.OrtValue
        word = array.dtype.name.replace("_", "")
        try:
            if word not in _TYPES:
                return make.ortvalue_from_numpy(array)
            bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
            return make.ortvalue_from_numpy_with_onnx_type(
                bits, onnx.TensorProto.DataType.Value(_TYPES[word])
            )
        except Exception as error:
            raise self._failure(
                f"does not take input '{printable(name)}' ({array.dtype}) of", error
            ) from error

    def _array(self, value: Any) -> Any:
        """The array of an OrtValue, or what else it holds."""
        import numpy as np

        word = re.sub(r"tensor\((.*)\)", r"\1", value.data_type()) if value.is_tensor() else ""
        if word not in _TYPES:
            return (
                value.numpy()
                if value.is_tensor()
                else value.to_python()
                if hasattr(value, "to_python")
                else value
            )
        dtype, shape = _extended_type(word), tuple(value.shape())
        size = prod(shape) * dtype.itemsize
        if not size:
            return np.zeros(shape, dtype)
        return np.frombuffer(ctypes.string_at(value.data_ptr(), size), dtype).reshape(shape)

    def _failure(self, what: str, error: Exception) -> LayoutError:
        text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", " ".join(str(error).split()))
        if len(text) > LONGEST_MESSAGE:
            text = f"{text[:LONGEST_MESSAGE]}..."
        return LayoutError(f"ONNX Runtime {self._runtime.__version__} {what} {self.title}: {printable(text)}")


def _check_extents(path: str, title: str) -> None:
    """Raises LayoutError for the model in a file of which ONNX Runtime would not tell what is wrong, but end the
    process."""
    import google.protobuf.message
    import onnx

    try:
        node = node_of_negative_extent(onnx.ModelProto.FromString(Path(path).read_bytes()))
    except (OSError, google.protobuf.message.DecodeError):
        return  # ONNX Runtime says so, or has a format of its own
    if node is not None:
        name = next(iter(node.output), "")
        raise LayoutError(
            f"{title}: {printable(node.op_type)} '{printable(name)}' has an extent below 0: its windows, "
            "pads or parts do not fit what they are taken of; ONNX Runtime would abort"
        )


def _extended_type(word: str) -> np.dtype[Any]:
    import numpy as np
    import onnx
    import onnx.helper

    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(_TYPES[word])))
