"""The values that the floors hand to each other: frozen, comparable, without any input or output.

They are named tuples and not dataclasses: importing a frozen dataclass costs five times as much, and a plan that
finds nothing to do is mostly start-up.
"""
