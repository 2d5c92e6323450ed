"""The activations of RNN, GRU and LSTM as ONNX defines them: functions of NumPy, as definitions of ops are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from layout_ir.dialects.nn import elementwise
from layout_ir.errors import LayoutError

DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
"""The activations of one direction of each operator."""

DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
"""The number of directions, by its name in ONNX."""


def _affine(np: Any, x: Any, alpha: float, beta: float) -> Any:
    return alpha * x + beta


def _scaled_tanh(np: Any, x: Any, alpha: float, beta: float) -> Any:
    return alpha * np.tanh(beta * x)


_FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "affine": (_affine, (1.0, 0.0)),
    "elu": (elementwise.EluOp.COMPUTE, (1.0,)),
    "hardsigmoid": (elementwise.HardSigmoidOp.COMPUTE, (0.2, 0.5)),
    "leakyrelu": (elementwise.LeakyReluOp.COMPUTE, (0.01,)),
    "relu": (elementwise.ReluOp.COMPUTE, ()),
    "scaledtanh": (_scaled_tanh, (1.0, 1.0)),
    "sigmoid": (elementwise.SigmoidOp.COMPUTE, ()),
    "softplus": (elementwise.SoftplusOp.COMPUTE, ()),
    "softsign": (elementwise.SoftsignOp.COMPUTE, ()),
    "tanh": (elementwise.TanhOp.COMPUTE, ()),
    "thresholdedrelu": (elementwise.ThresholdedReluOp.COMPUTE, (1.0,)),
}
"""The activations by name, in any case: the function of NumPy, an array, alpha and beta, and what these are where none
is given."""


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation with its alpha and beta, as far as it has them: a function of NumPy and an array."""

    name: str
    numbers: tuple[float, ...] = ()

    def __call__(self, np: Any, x: Any) -> Any:
        """The numbers that it makes of `x`."""
        function, _ = _FUNCTIONS[self.name]
        return function(np, x, *self.numbers)


def activations_of(
    operator: str, names: Sequence[str], alpha: Sequence[float], beta: Sequence[float], directions: int
) -> tuple[tuple[Activation, ...], ...]:
    """Per direction, the activations of a node with these attributes; alphas and betas are given to those that have
    some, in order. Raises LayoutError where they are unknown, or too few."""
    names = names or DEFAULTS[operator] * directions
    per_direction = len(DEFAULTS[operator])
    needed = per_direction * directions
    # What the standard has for RNN where nothing is given are two names, whatever the directions.
    if len(names) != needed and not (operator == "RNN" and len(names) == 2):
        raise LayoutError(f"{operator} has {len(names)} activations, but {needed} are needed")
    unused = iter(alpha), iter(beta)
    made: list[Activation] = []
    for name in names[:needed]:
        if name.lower() not in _FUNCTIONS:
            raise LayoutError(
                f"activation {name!r} of {operator} is unknown: {', '.join(sorted(_FUNCTIONS))}"
            )
        _, defaults = _FUNCTIONS[name.lower()]
        numbers = tuple(next(*each) for each in zip(unused, defaults, strict=False))
        made.append(Activation(name.lower(), numbers))
    return tuple(tuple(made[d * per_direction : (d + 1) * per_direction]) for d in range(directions))
