"""Objects that hold data: descriptors, buffers, and what is shared with other libraries."""
