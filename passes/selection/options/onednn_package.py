"""Where the installed packages of oneDNN have put their libraries, and how they are loaded.

Two packages bring it: `onednn-cpu-gomp` (OpenMP), whose calls cost a microsecond and whose threads are those that the
caller asks for, and `onednn` (SYCL), whose calls cost some thirteen and which runs on all CPUs of the process. Both
install a `libdnnl.so.3`, one over the other; the file with the version in its name is each package's own. The one that
networks are run by is the one that is asked for formats.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from layout_ir.forking import loading

PACKAGES = ("onednn-cpu-gomp", "onednn")
"""The packages, the one that is taken first where both are installed in front."""

# What the SYCL build needs and, having no RPATH, does not find; in the order in which they need each other.
_DEPENDENCIES = (
    "libimf.so", "libintlc.so.5", "libsvml.so", "libirng.so", "libhwloc.so.15", "libtbb.so.12",
    "libumf.so.1", "libur_loader.so.0", "libsycl.so.9",
)  # fmt: skip


@lru_cache(maxsize=4)
def locate(package: str) -> Path | None:
    """The library that a package has installed; None where it is not installed, or has left none."""
    try:
        distribution = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return None
    with loading:  # the list of files takes modules of Python's own
        names = {Path(str(file)).name for file in distribution.files or ()}
    versioned = sorted(name for name in names if re.fullmatch(r"libdnnl\.so\.\d+\.\d+", name))
    # Data files lie in the environment, which is some folders above the packages.
    packages = Path(str(distribution.locate_file(""))).resolve()
    for folder in (packages, *packages.parents):
        for name in versioned:
            if (folder / "lib" / name).exists():
                return folder / "lib" / name
    return None


def installed() -> Iterator[Path]:
    """The libraries of the packages that are installed, the one to take first in front."""
    for package in PACKAGES:
        path = locate(package)
        if path is not None:
            yield path


def is_sycl(path: Path) -> bool:
    """Whether the library is that of the package `onednn`, which is built for SYCL."""
    return path == locate("onednn")


_INSTRUCTION_SETS = {
    0x1: "sse41", 0x3: "avx", 0x7: "avx2", 0xF: "avx2_vnni", 0x1F: "avx2_vnni_2", 0x27: "avx512_core",
    0x67: "avx512_core_vnni", 0xE7: "avx512_core_bf16", 0x1EF: "avx512_core_fp16", 0xFEF: "avx512_core_amx",
    0x1FEF: "avx512_core_amx_fp16",
}  # fmt: skip


def instruction_set(library: ctypes.CDLL) -> str:
    """The instructions that the kernels of a loaded library may use, as it names them: those of the processor, or fewer
    where ONEDNN_MAX_CPU_ISA says so."""
    found = int(library.dnnl_get_effective_cpu_isa())
    return _INSTRUCTION_SETS.get(found, f"isa {found:#x}")


_VNNI = 0x08 | 0x40
"""Of 256 bits and of 512, in the numbers of instruction sets."""


def sums_bytes_exactly(library: ctypes.CDLL) -> bool:
    """Whether the kernels of a loaded library add products of bytes in 32 bits, as the instructions of VNNI do.

    Others add two products in 16 bits first, and what is beyond these is lost: 255 * 127 + 255 * 127 becomes 32767.
    """
    return bool(int(library.dnnl_get_effective_cpu_isa()) & _VNNI)


@lru_cache(maxsize=4)
def load(path: Path) -> ctypes.CDLL:
    """The library, with its symbols to itself: torch carries a oneDNN along as well. Raises OSError.

    Where the environment does not say which driver of OpenCL the SYCL build is to take, it does from here on, for the
    whole process: OpenCL looks for its drivers when an engine is made, which is after this.
    """
    if is_sycl(path):
        # Without the name of the driver there, this build has no CPU engine.
        driver = path.parent / "libintelocl.so"
        if driver.exists():
            os.environ.setdefault("OCL_ICD_FILENAMES", str(driver))
        for name in _DEPENDENCIES:
            if (path.parent / name).exists():
                ctypes.CDLL(str(path.parent / name), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(path), mode=getattr(os, "RTLD_DEEPBIND", 0) | ctypes.RTLD_LOCAL)
