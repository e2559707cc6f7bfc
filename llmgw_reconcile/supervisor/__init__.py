"""The resident process that is the parent of one engine."""
