"""Element types: their names and widths, what their numbers are, and how NumPy keeps them."""
