"""Objects that hold data: descriptors, memory, and what is shared with other libraries."""
