"""The dialects as definitions in IRDL, for tools that do not have them."""
