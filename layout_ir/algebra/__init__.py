"""What a layout is: formats, their texts, bound layouts, and what can be computed of them. Pure Python values."""
