"""The decision: from what is wanted and what is, to ordered actions."""
