"""The meaning of ops of other dialects (arith, math, linalg, tosa), derived from their loops and scalar bodies.

scalar.py               the result of a scalar op, on numbers and on arrays: one table for passes and the reference
structured.py           an op as loops: one indexing map per tensor, parallel and reduction loops, a scalar body
movement.py             what ops of tensor and tosa cut, widen, repeat or reverse, as numbers per dim
rescale.py              the scalar body of tosa.rescale with a multiplier per channel
partial_evaluation.py   the result of a body where some arguments are known, some unknown, some the accumulator
"""
