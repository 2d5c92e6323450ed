"""What LLVM says of this processor, kept on disk: a process whose kernels have all been compiled before needs nothing
else of LLVM, which is 40 MB of it.

What is kept is named by what the processor is, as the system and NumPy say it, and by the file of LLVM that was asked.
"""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from layout_ir.backends.llvm.runtime import code_cache
from layout_ir.forking import loading_late


@cache
def bindings() -> Any:
    """The bindings of LLVM (`llvmlite.binding`)."""
    with loading_late:
        return import_module("llvmlite.binding")


class _Bindings:
    def __getattr__(self, name: str) -> Any:
        return getattr(bindings(), name)


llvm: Any = _Bindings()
"""The bindings, which have no type information, imported with the first use of a name of theirs."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """This processor as LLVM names it, and the releases of LLVM and its bindings."""

    triple: str
    cpu: str
    features: str
    """Each with + or - in front, separated by commas."""
    compiler: str


@cache
def host_facts() -> HostFacts:
    """What LLVM says, now or in a process before this one."""
    asked = _file_of_llvm()
    name = code_cache.name("host", processor_facts(), *asked) if asked and processor_facts() else ""
    kept = _read(name) if name else None
    if kept is not None:
        return kept
    facts = HostFacts(
        llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(),
        f"llvmlite {import_module('llvmlite').__version__} LLVM {llvm.llvm_version_info}",
    )  # fmt: skip
    if name:
        code_cache.write(name, json.dumps(asdict(facts)).encode())
    return facts


def _read(name: str) -> HostFacts | None:
    content = code_cache.read(name)
    try:
        return None if content is None else HostFacts(**json.loads(content))
    except (ValueError, TypeError):  # whole, but not what its name says
        return None


def _file_of_llvm() -> tuple[object, ...]:
    """What tells the file of LLVM from others; nothing where it is not found."""
    with loading_late:
        spec = find_spec("llvmlite")
    folders = (spec.submodule_search_locations or ()) if spec is not None else ()
    files = [file for folder in folders for file in Path(folder).glob("binding/*llvmlite*.*")]
    try:
        return tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(files))
    except OSError:
        return ()


_FACTS = ("vendor_id", "cpu family", "model", "stepping", "flags")


@cache
def processor_facts() -> str:
    """What the processor is and which instructions it has, found out without LLVM, which says the same of two machines
    that answer alike. Empty where the system does not tell.

    An emulator leaves the files of the system as they are. NumPy asks the processor itself, as LLVM does.
    """
    if platform.machine() != "x86_64":
        return ""
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return ""
    said = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    numpy = getattr(import_module("numpy._core._multiarray_umath"), "__cpu_features__", None)
    if numpy is None or not {*_FACTS} <= said.keys():
        return ""
    return " ".join([*(said[name] for name in _FACTS), *(name for name, there in numpy.items() if there)])
