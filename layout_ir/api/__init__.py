"""The public calls that need a backend."""
