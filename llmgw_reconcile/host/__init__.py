"""The only floor that touches the machine. Lean on purpose: the resident supervisor stands on it.

No module here imports subprocess, asyncio, http, pathlib or dataclasses.
"""
