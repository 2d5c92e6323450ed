"""Ways out: physical programs in the formats of other systems."""
