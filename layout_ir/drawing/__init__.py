"""Pictures of layouts: memory in address order, and the walk that memory takes through the index grid.

A picture is made in three steps, each of which can be tested without the next. `memory` and `grid` decide *what* is
shown: rows of addresses with what lies at each, and a plane of the index space with the order of its addresses.
`compose` decides *where*: it turns both into a `Picture`, a list of boxes, lines and texts in pixels. `svg` and `png`
write a Picture, `terminal` writes the rows directly, since a terminal has no pixels.

Nothing is drawn to the last element unless it is small: rows that say the same as their neighbours are left out, and
the picture says which.
"""
