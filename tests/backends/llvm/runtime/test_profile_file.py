"""A measured profile is found again by this machine alone; whatever else lies there is left, with a warning."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from layout_ir.backends.llvm.machine.machine import detected, host
from layout_ir.backends.llvm.machine.profile import MachineProfile, built_in_profile
from layout_ir.backends.llvm.runtime import code_cache, machine_profiling, profile_file
from layout_ir.backends.llvm.runtime.call import compile_reorder
from layout_ir.backends.llvm.runtime.profile_file import (
    calibration_mode,
    keep_profile,
    kept_profile,
    measured_once,
    profile_name,
)
from layout_ir.errors import LayoutError
from layout_ir.tools.layout_ir import main

MEASURED = replace(
    built_in_profile(detected().l2, detected().l3), source="measured in a test", prefetch_distance=512
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own, a process that has decided nothing yet, and a measurement that takes no time."""
    monkeypatch.setenv("LAYOUT_IR_CACHE", str(tmp_path))
    monkeypatch.setenv("LAYOUT_IR_CALIBRATE", "on")
    monkeypatch.setattr(profile_file, "_state", {})
    monkeypatch.setattr(machine_profiling, "measure_profile", lambda seconds=0.0: MEASURED)
    host.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    host.cache_clear()


def _next_process() -> None:
    vars(profile_file)["_state"].clear()
    host.cache_clear()


def test_what_is_kept_holds_for_this_process_and_the_next():
    assert host().measured is None
    keep_profile(MEASURED)
    assert host().profile == MEASURED
    _next_process()
    assert host().profile == MEASURED and kept_profile(detected()) == MEASURED


def test_the_first_large_reorder_measures_once_and_says_so(capsys: pytest.CaptureFixture[str]):
    measured_once(host().l2)
    assert capsys.readouterr().err == "" and host().measured is None
    measured_once(host().l2 + 1)
    assert "measuring this machine once" in capsys.readouterr().err
    assert host().profile == MEASURED
    measured_once(host().l2 + 1)
    _next_process()
    measured_once(host().l2 + 1)
    assert capsys.readouterr().err == "" and host().profile == MEASURED


def _disturbed(monkeypatch: pytest.MonkeyPatch, part: float) -> None:
    """Others have the CPU for that part of the next measurements, each of ten seconds."""
    clock = [0.0]

    def measure(seconds: float = 0.0) -> MachineProfile:
        clock[0] += 10.0
        return MEASURED

    monkeypatch.setattr(machine_profiling, "measure_profile", measure)
    monkeypatch.setattr(profile_file, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(profile_file, "thread_time", lambda: (1 - part) * clock[0])


def test_what_was_measured_while_others_had_the_cpu_is_measured_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    _disturbed(monkeypatch, 0.3)
    for number in range(1, 4):
        measured_once(host().l2 + 1)
        is_last = number == 3
        assert (kept_profile(detected()) == MEASURED) == (host().measured == MEASURED) == is_last
        assert ("30%" in capsys.readouterr().err) != is_last
        _next_process()


def test_negative_who_had_nearly_all_of_the_cpu_or_insists_keeps_what_was_found(
    monkeypatch: pytest.MonkeyPatch, cache: Path
):
    _disturbed(monkeypatch, 0.05)
    measured_once(host().l2 + 1)
    assert kept_profile(detected()) == MEASURED
    _next_process()
    _disturbed(monkeypatch, 0.9)
    monkeypatch.setenv("LAYOUT_IR_CALIBRATE", "force")
    measured_once(host().l2 + 1)
    assert host().measured == MEASURED


def test_force_measures_again_in_every_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    keep_profile(MEASURED)
    _next_process()
    monkeypatch.setenv("LAYOUT_IR_CALIBRATE", "force")
    assert host().measured is None
    measured_once(host().l2 + 1)
    assert "measuring" in capsys.readouterr().err and host().profile == MEASURED


def test_negative_off_neither_reads_nor_measures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    keep_profile(MEASURED)
    _next_process()
    monkeypatch.setenv("LAYOUT_IR_CALIBRATE", "off")
    measured_once(host().l2 + 1)
    assert capsys.readouterr().err == "" and host().measured is None


@pytest.mark.parametrize("folder", ["off", os.devnull])
def test_negative_where_nothing_can_be_kept_nothing_is_measured(
    folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("LAYOUT_IR_CACHE", folder)
    measured_once(host().l2 + 1)
    assert capsys.readouterr().err == "" and host().measured is None


def test_negative_where_others_may_write_nothing_is_measured(cache: Path, capsys: pytest.CaptureFixture[str]):
    cache.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others may write to it"):
        measured_once(host().l2 + 1)
    assert capsys.readouterr().err == "" and host().measured is None


@pytest.mark.parametrize("ci, mode", [("true", "off"), ("", "on"), ("false", "on")])
def test_continuous_integration_plans_by_what_is_built_in(
    ci: str, mode: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("LAYOUT_IR_CALIBRATE")
    monkeypatch.setenv("CI", ci)
    assert calibration_mode() == mode


@pytest.mark.parametrize("text", ["ON", "Force", " off "])
def test_the_mode_may_be_written_in_letters_of_either_case(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAYOUT_IR_CALIBRATE", text)
    assert calibration_mode() == text.strip().lower()


def test_negative_with_another_word_reorders_are_compiled_and_nothing_is_measured(
    cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LAYOUT_IR_CALIBRATE", "often")
    host.cache_clear()
    with pytest.warns(
        RuntimeWarning, match="LAYOUT_IR_CALIBRATE is 'often': one of off, on, force is needed"
    ):
        assert host().measured is None
        measured_once(host().l2 + 1)
    assert not cache.exists() or not list(cache.iterdir())


def test_negative_another_word_in_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAYOUT_IR_CALIBRATE", "often")
    with pytest.raises(LayoutError, match="LAYOUT_IR_CALIBRATE is 'often': one of off, on, force is needed"):
        calibration_mode()


@pytest.mark.parametrize("damage", [b"", b"\xff" * 300, b"layout-ir 3\n", None])
def test_negative_a_damaged_or_renamed_file_is_left_alone(damage: bytes | None, cache: Path):
    keep_profile(MEASURED)
    [file] = cache.iterdir()
    if damage is None:  # one of another machine, renamed
        other = code_cache.name("profile", "another machine")
        code_cache.write(other, file.read_bytes())
        (cache / other).replace(file)
    else:
        file.write_bytes(damage)
    _next_process()
    with pytest.warns(RuntimeWarning, match="is not used: it is damaged"):
        assert host().measured is None
    assert file.exists()


@pytest.mark.parametrize(
    "content",
    [b"{", b"[" * 100_000, b"null", b'{"cached_ns": 1e999}', b"\xff", json.dumps({"source": "x"}).encode()],
)
def test_negative_a_sound_file_that_says_what_no_profile_says(content: bytes):
    code_cache.write(profile_name(detected()), content)
    with pytest.warns(RuntimeWarning, match="is not used"):
        assert host().measured is None


def test_a_profile_of_another_machine_is_not_found():
    keep_profile(MEASURED)
    _next_process()
    assert kept_profile(replace(detected(), l3=detected().l3 * 2)) is None
    assert profile_name(detected()) == profile_name(replace(detected(), measured=MEASURED))


def test_a_large_reorder_is_planned_by_what_was_measured(capsys: pytest.CaptureFixture[str]):
    from layout_ir.algebra.format import Format

    side = 1024
    while 8 * side * side <= detected().l2:
        side *= 2
    src, dst = (Format.of(tag).bind((side, side)) for tag in ("ab", "ba"))
    compile_reorder(src, dst, "f32", threads=1)
    assert "measuring this machine once" in capsys.readouterr().err
    assert host().profile == MEASURED


def test_the_command_measures_and_keeps(capsys: pytest.CaptureFixture[str]):
    assert main(["calibrate", "--profile"]) == 0
    out = capsys.readouterr().out
    assert "measured in a test" in out and "kept in" in out
    _next_process()
    assert host().profile == MEASURED
    assert main(["calibrate", "--profile", "--json"]) == 0
    assert MachineProfile.from_json(json.loads(capsys.readouterr().out)) == MEASURED


def test_the_command_measures_for_as_long_as_it_is_told(monkeypatch: pytest.MonkeyPatch):
    given: list[float] = []

    def measured(seconds: float) -> MachineProfile:
        given.append(seconds)
        return MEASURED

    monkeypatch.setattr(machine_profiling, "measure_profile", measured)
    assert main(["calibrate", "--profile"]) == 0
    assert main(["calibrate", "--profile", "--measure-seconds", "12"]) == 0
    assert given == [machine_profiling.WHOLE_SECONDS, 12.0]


def test_negative_the_command_keeps_profiles_in_the_cache_alone(capsys: pytest.CaptureFixture[str]):
    assert main(["calibrate", "--profile", "-o", "x.json"]) == 1
    assert "--profile is kept in the cache" in capsys.readouterr().err


def test_explain_says_which_facts_decided(capsys: pytest.CaptureFixture[str]):
    keep_profile(MEASURED)
    assert main(["explain-reorder", "ab", "ba", "--shape", "4096x4096"]) == 0
    assert "profile measured in a test" in capsys.readouterr().out
    assert main(["explain-reorder", "ab", "ba", "--shape", "8x8"]) == 0
    assert "profile" not in capsys.readouterr().out
