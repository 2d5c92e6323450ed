"""Scripts that measure, each with its own --help."""
