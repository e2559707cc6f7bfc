"""The loop round an apply: it makes one node what its state file says, again and again."""
