"""A folder of compiled models: the same model is not compiled twice for the same machine, library and release.

    executable = li.compile("model.onnx", cache_dir="compiled")     # compiled, and written to the folder
    executable = li.compile("model.onnx", cache_dir="compiled")     # read from it, in another process too

A file is named by the hash of all that a plan depends on: the bytes of the model and of its external data, the shapes
of its inputs, what `layout_ir.compile` was asked for, the CPU, oneDNN and our release. It is what `Executable.save`
writes, and checked as `layout_ir.load_executable` does; one that is damaged is written anew. Of a model that is
compiled in parts, each part is a file, named by the program that it is compiled from: to find it, the model is
imported. What cannot be saved (ops by the reference, subgraphs) is compiled each time.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.saved_plan import environment, file_of, read_plan
from layout_ir.errors import LayoutError
from layout_ir.files import read_whole, write_result
from layout_ir.forking import loading

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from layout_ir.backends.onednn.plan_steps import RunnablePlan
    from layout_ir.frontends.onnx.model import Source

    Shapes = Mapping[str, Sequence[int]]
    """Of the inputs of a model."""


class _Plans:
    """The plans in `folder`, which is made at the first, of what was compiled as the `settings` say."""

    def __init__(self, folder: Path, settings: Sequence[str | float]) -> None:
        self._folder = folder
        self._digest = hashlib.sha256(json.dumps([environment(library()), *settings], default=str).encode())

    def path(self, kind: str, *parts: bytes) -> Path:
        """Where the plan of a model or a program is that these bytes tell from others."""
        digest = self._digest.copy()
        for part in parts:
            digest.update(part)
        return self._folder / f"{kind}-{digest.hexdigest()}.exe"

    def read(self, path: Path) -> RunnablePlan | None:
        """A plan; None where there is none, one that is damaged, or one that was kept under another name."""
        if not path.is_file():  # to open a pipe would wait for who writes to it
            return None
        try:
            return read_plan(str(path), library(), kept_as=path.name)
        except (FileNotFoundError, LayoutError):
            return None

    def write(self, plan: RunnablePlan, path: Path) -> None:
        """Keeps a plan, if it can be kept. Raises OSError where the folder cannot be written to, and where what has
        the name of the plan is no file."""
        try:
            parts = file_of(plan, kept_as=path.name)
        except LayoutError:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise FileExistsError(
                errno.EEXIST, "a compiled model would be kept here, but this is no file", str(path)
            )
        write_result(parts, str(path))


class ModelCache:
    """What `folder`, which is made at the first, has of a model compiled as the `settings` say."""

    def __init__(self, folder: Path, model: Source, settings: Sequence[str | float]) -> None:
        """Reads the model. Nothing is kept of one that cannot be read: what compiles it says what is wrong."""
        self._plans = _Plans(folder, settings)
        self._source = model
        self._model = _digest(model)

    def check_unchanged(self) -> None:
        """Raises LayoutError where the model is another than it was."""
        if self._model is None or _digest(self._source) != self._model:
            raise LayoutError(
                "the model has changed, or is gone; it is read again for calls of other inputs: compile it anew"
            )

    def _path(self, shapes: Shapes | None) -> Path | None:
        if self._model is None:
            return None
        named = None if shapes is None else {str(name): list(shapes[name]) for name in shapes}
        return self._plans.path("model", self._model, json.dumps(named, sort_keys=True, default=str).encode())

    def read(self, shapes: Shapes | None) -> RunnablePlan | None:
        """The plan for inputs of these shapes; None where there is none, or one that is damaged."""
        path = self._path(shapes)
        return None if path is None else self._plans.read(path)

    def write(self, plan: RunnablePlan, shapes: Shapes | None) -> None:
        """Keeps a plan, if it can be kept. Raises OSError where the folder cannot be written to."""
        path = self._path(shapes)
        if path is not None:
            self._plans.write(plan, path)

    def part(self, module: ModuleOp, compile: Callable[[ModuleOp], RunnablePlan]) -> RunnablePlan:
        """The plan of a part of the model, read, or made by `compile`, which may change the module, and kept."""
        from layout_ir.printing import fingerprint

        path = self._plans.path("part", fingerprint(module))
        plan = self._plans.read(path)
        if plan is None:
            plan = compile(module)
            self._plans.write(plan, path)
        return plan


def _digest(model: Source) -> bytes | None:
    """What tells a model from others; None of one that cannot be read, or whose data have no name of a file."""
    try:
        return b"".join(_digests(model))
    except (OSError, ValueError):
        return None


def _digests(model: Source) -> Iterator[bytes]:
    """The hashes of the bytes of a model, and of the files with its external data, in order."""
    if isinstance(model, bytes):
        yield hashlib.sha256(model).digest()
    elif isinstance(model, str | os.PathLike):
        data = read_whole(model)
        yield hashlib.sha256(data).digest()
        # The key of an entry that names a file stands in the model as it is; most models have none.
        if b"location" in data:
            yield from _external_digests(data, Path(model).parent)
    else:
        yield hashlib.sha256(model.SerializeToString(deterministic=True)).digest()


def _external_digests(data: bytes, folder: Path) -> Iterator[bytes]:
    with loading:
        import onnx
        from google.protobuf.message import DecodeError

        from layout_ir.passes.onnx.model_file import tensors_within

    model = onnx.ModelProto()
    with suppress(DecodeError):
        model.ParseFromString(data)
    entries = (entry for tensor in tensors_within(model) for entry in tensor.external_data)
    for name in sorted({entry.value for entry in entries if entry.key == "location"}):
        file = (folder / name).resolve()
        # A file outside of the folder is refused by what compiles the model, and not looked at.
        if file.is_relative_to(folder.resolve()) and file.is_file():
            with file.open("rb") as stream:
                yield hashlib.file_digest(stream, "sha256").digest()
