"""The rules: of the file, and of an engine on this node."""
