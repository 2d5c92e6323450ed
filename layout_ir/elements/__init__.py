"""Element types: their names and widths, quantization, and how NumPy keeps them."""
