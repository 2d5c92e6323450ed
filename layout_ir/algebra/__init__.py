"""What a layout is: formats, their texts, bound layouts, and what can be computed of them. Pure Python values.

Two classes are the face of it, `format.Format` and `layout.Layout`: whoever holds a layout finds its questions and its
views as methods. What a method computes is a function of a module of its own, one idea each, which takes the layout as
a value. The modules build on each other in this order:

    factors, pads, steps, scan       what layouts are made of, what pads hold, functions by their steps, reading texts
    tag, text                        the two spellings of a Format; they give the fields, Format makes the value
    format                           the recipe
    canonical, inverse               when two layouts are the same; what lies at an address
    address_formula                  the address as a formula in other languages
    layout_builder, views, reshape   the same buffer under another index
    layout                           the recipe bound to a shape
    binding                          how it is bound
    concat, parts, refinement        layouts made of several; what lies within another; the loops that copy between two
    physical                         the dense, row-major tensor of a layout; a reorder as tensor operations

So a module below `layout` names Layout in its types and never makes one: it changes one by `dataclasses.replace`. One
circle is left, because either class makes the other: `Layout.format` makes a Format, and `Format.bind`, the only import
inside a function, a Layout. Both are loaded with the package, so that the import finds what is there.
"""

from layout_ir.algebra import binding as binding
