"""Selection as a library."""
