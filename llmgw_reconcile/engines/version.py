"""Compare versions of engines, and match one against the pin of a state file."""

from __future__ import annotations

import re

Release = tuple[int, ...]

# A line that is a version, perhaps behind the engine's name or `version:`, and perhaps with a build behind it.
_VERSION = re.compile(r"(?:[\w-]+ )?(?:version:? )?[vb]?(\d+(?:\.\d+)+[0-9A-Za-z.+-]*|\d{3,})(?: \(.*)?")
_CLAUSE = re.compile(r"(===?|!=|>=|<=|~=|>|<)?\s*([0-9A-Za-z.*+!-]+)")


def version_in(text: str) -> str | None:
    """The version in what `--version` printed: the last line that is one, since libraries may talk before.

    >>> version_in("INFO 05-01 loading\\n0.33.0"), version_in("sglang version: 0.5.23.post1"), version_in("no")
    ('0.33.0', '0.5.23.post1', None)
    >>> version_in("version: 10434 (8a3b2c1d)\\nbuilt with GNU 11.4.0 for Linux x86_64")
    '10434'
    """
    found = (match[1] for line in reversed(text.splitlines()) if (match := _VERSION.fullmatch(line.strip())))
    return next(found, None)


def release(version: str) -> Release:
    """The numbers that order versions; what follows them (`.post1`, `rc2`, `+cu129`) counts nothing.

    >>> release("0.33.0rc1+cu129"), release("0.5.23.post1"), release("10434")
    ((0, 33, 0), (0, 5, 23), (10434,))
    """
    match = re.match(r"[vb]?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, match[1].split("."))) if match else ()


def at_least(version: str, floor: str) -> bool:
    """Whether a version is that one or a later one; an empty floor is below them all.

    >>> at_least("0.33.0", "0.33"), at_least("0.9.2", "0.10"), at_least("0.9", "")
    (True, False, True)
    """
    return _padded(release(version)) >= _padded(release(floor))


def is_same(one: str, other: str) -> bool:
    """Whether two names are of one version: a local part (`+cu129`) counts only where both have one.

    >>> is_same("0.33.0", "0.33.0+cu129"), is_same("0.33.0+cpu", "0.33.0+cu129"), is_same("0.33.0", "0.33.1")
    (True, False, False)
    """
    return one == other or (("+" in one) != ("+" in other) and one.partition("+")[0] == other.partition("+")[0])


def is_pin(text: str) -> bool:
    """Whether a pin can be understood.

    >>> is_pin("0.33.*"), is_pin(">=0.32, <0.34"), is_pin(">="), is_pin("=0.3")
    (True, True, False, False)
    """
    return all(_CLAUSE.fullmatch(clause.strip()) for clause in text.split(","))


def matches(pin: str, version: str) -> bool:
    """Whether a version is one of those that the pin names: a pattern, or clauses as pip has them, all of which hold.

    >>> matches("0.33.*", "0.33.1"), matches("0.33.*", "0.330.0"), matches("0.33.0", "0.33.0+cu129")
    (True, False, True)
    >>> matches(">=0.32,<0.34", "0.33.2"), matches("~=0.5.20", "0.6.0"), matches("!=0.33.1", "0.33.1")
    (True, False, False)
    """
    return all(_holds(clause.strip(), version) for clause in pin.split(","))


def _holds(clause: str, version: str) -> bool:
    match = _CLAUSE.fullmatch(clause)
    if match is None:
        return False
    operator, wanted = match[1] or "==", match[2]
    have, floor = _padded(release(version)), _padded(release(wanted))
    if operator in ("==", "==="):
        return _is_like(wanted, version)
    if operator == "!=":
        return not _is_like(wanted, version)
    if operator == "~=":
        return have >= floor and have[: len(release(wanted)) - 1] == floor[: len(release(wanted)) - 1]
    return {">=": have >= floor, "<=": have <= floor, ">": have > floor, "<": have < floor}[operator]


def _is_like(pattern: str, version: str) -> bool:
    """A local part (`+cu129`) counts only where the pattern names one; `0.33.*` is 0.33 too."""
    version = version if "+" in pattern else version.partition("+")[0]
    expression = re.escape(pattern).replace(r"\*", ".*")
    return any(re.fullmatch(expression, form) for form in (version, version + "."))


def _padded(numbers: Release, width: int = 6) -> Release:
    return numbers + (0,) * (width - len(numbers))
