"""Attacks: random inputs of every kind, each run where a crash, a hang or too much memory is seen and attributed.

    python -m tests.fuzz --seconds 600 --seed 1
    python -m tests.fuzz --only reorders --cases 20000 --seed 97
    python -m tests.fuzz tests/fuzz/corpus/ir/*.mlir

`kinds` says what a kind of input is and what counts as a failure, `driver` shares the inputs among worker processes
and watches them, `worker` is such a process. Every input that ever failed is kept in `corpus/` and run by the tests.
"""
