"""The version of a Python engine by the name of its package's folder: no interpreter is started for it."""

from __future__ import annotations

import os
import re

LINE_LIMIT = 4096


def package_version(executable: str, package: str) -> str | None:
    """The version of `package` in the environment of a console script or interpreter; None when that is not clear.

    Importing an engine takes many seconds; its metadata stands in a folder named NAME-VERSION.dist-info (PyPA,
    "Recording installed projects").
    """
    for prefix in _prefixes(executable):
        for folder in _site_packages(prefix):
            names = (re.fullmatch(rf"{re.escape(package)}-(.+)\.dist-info", name) for name in _listed(folder))
            versions = sorted(found[1] for found in names if found)
            if versions:
                return versions[-1]
    return None


def _prefixes(executable: str) -> tuple[str, ...]:
    """The environments that it may belong to: that of its interpreter, then its own."""
    own = os.path.dirname(os.path.dirname(os.path.abspath(executable)))
    interpreter = _interpreter(executable)
    return (os.path.dirname(os.path.dirname(interpreter)), own) if interpreter else (own,)


def _interpreter(executable: str) -> str:
    try:
        with open(executable, "rb") as file:
            line = file.readline(LINE_LIMIT)
    except OSError:
        return ""
    words = line[2:].decode("utf-8", "replace").split() if line.startswith(b"#!") else []
    return words[0] if words and words[0].startswith("/") else ""


def _site_packages(prefix: str) -> tuple[str, ...]:
    lib = os.path.join(prefix, "lib")
    names = sorted((name for name in _listed(lib) if name.startswith("python3")), reverse=True)
    return tuple(os.path.join(lib, name, "site-packages") for name in names)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
