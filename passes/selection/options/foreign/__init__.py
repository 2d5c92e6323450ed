"""Ops of other dialects: their options and what they do with pads, derived from what the ops say of themselves.

    padding.py              what such an op needs in pads and leaves there, by running its body on them
    transfer.py             a Format of one tensor seen through the loops as a Format of another
    structured_options.py   the options of structured ops
    pointwise_options.py    the options of ops that compute element by element in words of their own
    relayout_options.py     linalg.pack and linalg.unpack as reorders to and from blocks
    data_movement.py        reshapes, slices, concat and the like of the tensor and tosa dialects
    conform.py              ops that need operands and results of exactly one type
    derived_extension.py    which of these holds for which class of ops

Nothing here is a list of what single ops do to zeros: whether relu keeps them or exp makes ones of them comes from
evaluating the body.
"""
