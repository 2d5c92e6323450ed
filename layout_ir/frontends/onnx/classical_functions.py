"""Operators of ai.onnx.ml as functions of standard ones: what pipelines of scikit-learn have around their estimators.

Scaling, norms, linear models, and labels of integers. They are those of ONNX Runtime, which computes in f32 whatever
the type of the input is. What is about texts, or maps, has no function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from layout_ir.frontends.onnx.function_body import FLOAT, INT64, Body, NoFunctionError

_INT32, _BOOL, _DOUBLE = 6, 9, 11

MOST_KEYS = 1 << 8
"""Keys of a LabelEncoder up to which there is a function: each element is compared with each key."""


def scaled(body: Body) -> Sequence[str]:
    """Scaler: (x - offset) * scale, one of each or one per feature."""
    x = _single(body)
    for op_type, name in ("Sub", "offset"), ("Mul", "scale"):
        factors = _numbers(body, name, float)
        if factors:
            x = body.add(op_type, x, body.constant(factors, FLOAT))
    return [x]


def normalized(body: Body) -> Sequence[str]:
    """Normalizer: rows by the sum of their magnitudes, or by the root of that of their squares; rows of zeros stay."""
    x, norm = _single(body), body.attribute("norm", "MAX")
    if norm not in ("L1", "L2"):
        raise NoFunctionError
    sizes = body.add("Abs", x) if norm == "L1" else body.add("Mul", x, x)
    total = body.add("ReduceSum", sizes, body.integers([-1]), keepdims=1)
    total = total if norm == "L1" else body.add("Sqrt", total)
    is_zero = body.add("Equal", total, body.constant(0.0, FLOAT))
    return [body.add("Div", x, body.add("Where", is_zero, body.constant(1.0, FLOAT), total))]


def binarized(body: Body) -> Sequence[str]:
    """Binarizer: 1 where x is above the threshold, else 0."""
    threshold = body.constant(body.attribute("threshold", 0.0), FLOAT)
    return [body.cast(body.add("Greater", _single(body, of_floats=True), threshold), FLOAT)]


def chosen_features(body: Body) -> Sequence[str]:
    """ArrayFeatureExtractor: columns of the last dim, of a vector as those of one row."""
    x, places = body.input(0), body.reshaped(body.input(1), -1)
    found = body.add("Gather", x, places, axis=-1)
    return [body.reshaped(found, 1, -1) if body.rank(0) == 1 else found]


def linear_regression(body: Body) -> Sequence[str]:
    """LinearRegressor: the products with the coefficients of each target."""
    if body.attribute("post_transform", "NONE") != "NONE":
        raise NoFunctionError
    return [_product(body, body.attribute("targets", 1))]


def linear_classification(body: Body) -> Sequence[str]:
    """LinearClassifier: the label of the class with the largest score, and the scores of all, of integer labels that
    have coefficients each."""
    labels = _numbers(body, "classlabels_ints", int)
    count = len(_numbers(body, "intercepts", float))
    if len(labels) < 2 or len(labels) != count:
        raise NoFunctionError
    scores = _product(body, count)
    largest = body.add("ArgMax", scores, axis=1, keepdims=0)
    label = body.add("Gather", body.integers(labels), largest)
    match body.attribute("post_transform", "NONE"):
        case "SOFTMAX":
            scores = body.add("Softmax", scores, axis=-1)
        case "LOGISTIC":
            scores = body.add("Sigmoid", scores)
        case "NONE":
            pass
        case _:
            raise NoFunctionError
    return [label, scores]


def labels_of_integers(body: Body) -> Sequence[str]:
    """LabelEncoder: the value of the key that x is, else the default, of keys that are integers."""
    keys = _numbers(body, "keys_int64s", int)
    element, default = INT64, body.attribute("default_int64", -1)
    values: list[Any] = _numbers(body, "values_int64s", int)
    if not values:
        element, default = FLOAT, body.attribute("default_float", -0.0)
        values = _numbers(body, "values_floats", float)
    is_map = 0 < len(keys) == len(values) == len(set(keys)) <= MOST_KEYS
    if not is_map or body.element(0) != INT64:
        raise NoFunctionError
    x = body.add("Unsqueeze", body.input(0), body.integers([-1]))
    is_key = body.cast(body.add("Equal", x, body.integers(keys)), INT64)
    place = body.add("ArgMax", is_key, axis=-1, keepdims=0)
    is_any = body.cast(body.add("ReduceSum", is_key, body.integers([-1]), keepdims=0), _BOOL)
    found = body.add("Gather", body.constant(values, element), place)
    return [body.add("Where", is_any, found, body.constant(default, element))]


def _product(body: Body, count: int) -> str:
    """The products of x with `count` rows of coefficients, and their intercepts."""
    x = _single(body)
    coefficients, intercepts = (_numbers(body, name, float) for name in ("coefficients", "intercepts"))
    if body.rank(0) != 2 or count < 1 or len(intercepts) not in (0, count):
        raise NoFunctionError
    features = body.extent(0, 1)
    if not coefficients or len(coefficients) != count * features:
        raise NoFunctionError
    weights = body.reshaped(body.constant(coefficients, FLOAT), count, features)
    more = [body.constant(intercepts, FLOAT)] if intercepts else []
    return body.add("Gemm", x, weights, *more, transB=1)


def _single(body: Body, *, of_floats: bool = False) -> str:
    """The input as f32. Raises NoFunctionError where it is to be of floats, and is not."""
    element = body.element(0)
    if element == FLOAT:
        return body.input(0)
    if of_floats or element not in (_INT32, INT64, _DOUBLE):
        raise NoFunctionError
    return body.cast(body.input(0), FLOAT)


def _numbers(body: Body, name: str, kind: type) -> list[Any]:
    """An attribute that is a list of numbers of a kind; empty where it is left out."""
    found: Any = body.attribute(name, None)
    if found is None:
        return []
    numbers = list(cast("list[Any]", found)) if isinstance(found, list) else [None]
    if any(type(each) is not kind for each in numbers):
        raise NoFunctionError
    return numbers
