"""The state file as values: YAML with positions, checked against the schema."""
