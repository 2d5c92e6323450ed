from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.model_files import feeds_for, from_nhwc, model_files
from tests.benchmarks.small_models import picture, save
from tests.zoo import NETWORKS


@pytest.mark.parametrize("name", ["resnet18-nhwc", "resnet18-nhwc-qdq", "resnet-keras", "yolov8-onnx2tf"])
def test_a_network_from_nhwc_has_an_ending_that_says_so(name: str):
    assert from_nhwc(name)


@pytest.mark.parametrize("name", ["resnet18", "yolov8-dynamo", "nhwcnet", "bert-ort-all"])
def test_negative_other_networks_are_not_from_nhwc(name: str):
    assert not from_nhwc(name)


def test_files_folders_and_networks_are_found(tmp_path: Path):
    given, made = tmp_path / "given", tmp_path / "made"
    given.mkdir()
    made.mkdir()
    for name in "ba":
        save(picture(), given / f"{name}.onnx")
    found = list(model_files([str(given / "b.onnx"), str(given), "bran*"], made))
    assert found == [given / "b.onnx", given / "a.onnx", given / "b.onnx", made / "branch.onnx"]
    assert all(path.is_file() for path in found)


@pytest.mark.parametrize("argument", ["missing.onnx", "no-such-network"])
def test_negative_what_names_nothing_ends_the_program(argument: str, tmp_path: Path):
    with pytest.raises(SystemExit, match=argument):
        list(model_files([argument], tmp_path))


def test_a_network_of_the_zoo_gets_its_own_inputs(tmp_path: Path):
    network = NETWORKS["branch"]
    feeds = feeds_for(network.save(tmp_path))
    assert feeds.keys() == network.takes.keys()
    assert all(np.array_equal(feeds[name], array) for name, array in network.inputs().items())


def test_negative_a_model_that_only_has_the_name_of_a_network_gets_inputs_of_its_own(tmp_path: Path):
    save(picture(), tmp_path / "branch.onnx")
    assert {name: array.shape for name, array in feeds_for(tmp_path / "branch.onnx").items()} == {
        "x": (2, 5, 7, 3)
    }
