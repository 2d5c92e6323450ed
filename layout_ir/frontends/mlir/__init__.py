"""Programs of MLIR text: every op with its place in the source, checked as a whole."""
