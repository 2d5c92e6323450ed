"""The scripts that these tests import need ONNX and ONNX Runtime; without, there is nothing to collect here."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("onnx") and find_spec("onnxruntime") else ["test_*.py"]
