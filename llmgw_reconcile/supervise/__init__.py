"""The plan to reality: start, stop, adopt and wait, through supervisors."""
