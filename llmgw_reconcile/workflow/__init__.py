"""The two sentences of the tool: make a plan, and carry it out."""
