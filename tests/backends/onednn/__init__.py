"""oneDNN as executor: every op beside the reference, with NaN in the memory before each call."""
