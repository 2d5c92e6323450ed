"""Reading of .npz files, from anybody: arrays by name, and one error where a file holds anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from layout_ir.errors import LayoutError

if TYPE_CHECKING:
    from zipfile import ZipFile


def read_arrays(path: str) -> dict[str, Any]:
    """The arrays in an .npz file. Raises LayoutError where it holds none, OSError where there is no such file."""
    import numpy as np

    with open(path, "rb") as file:
        start = file.read(6)
    if start[:4] != b"PK\x03\x04":
        found = {b"": "it is empty", b"\x93NUMPY": "it is a single array (.npy)"}.get(
            start, "it is no archive"
        )
        raise LayoutError(
            f"{path}: not an .npz file of arrays: {found}; numpy.savez(FILE, name=array, ...) writes one"
        )
    name = ""
    try:
        arrays: dict[str, Any] = {}
        with np.load(path, allow_pickle=False) as data:
            for name in data.files:
                if not _may_be_array(data.zip, name):
                    raise LayoutError(f"{path}: not an .npz file of arrays: '{name}' is no array")
                arrays[name] = data[name]
    except LayoutError:
        raise
    except MemoryError as error:
        raise LayoutError(f"{path}: '{name}' needs more memory than there is: {error}") from error
    except Exception as error:
        # Whatever the bytes in an archive make NumPy and zipfile raise: they say it in exceptions of many classes.
        raise LayoutError(f"{path}: not an .npz file of arrays: {_broken(name, error)}") from error
    wrong = [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]
    if wrong:
        raise LayoutError(f"{path}: not an .npz file of arrays: '{wrong[0]}' is no array")
    return arrays


def _may_be_array(archive: ZipFile, name: str) -> bool:
    """Whether member `name` has the suffix of arrays (.npy, which NumPy leaves out of the name) or their magic bytes.

    NumPy 2.3.0 fails on others with an error of its own; later versions give their bytes.
    """
    if name not in archive.namelist():
        return True
    with archive.open(name) as member:
        return member.read(6) == b"\x93NUMPY"


def _broken(name: str, error: Exception) -> str:
    """The reason why member `name` cannot be read, or the archive itself where `name` is empty."""
    if "allow_pickle" in str(error):
        return f"'{name}' holds Python objects, which are not read"
    where = f"'{name}' cannot be read" if name else "it is damaged"
    return f"{where} ({error})" if str(error) else where
