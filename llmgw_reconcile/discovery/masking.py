"""Replace what names a machine or its people in text by made-up values of the same form, the same one each time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

GROUP = r"[0-9a-f]{4}"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
GID = re.compile(rf"(?<![0-9a-f:])({GROUP}(?::{GROUP}){{3}}):({GROUP}(?::{GROUP}){{3}})(?![0-9a-f:])", re.IGNORECASE)
GUID = re.compile(rf"(?<![0-9a-f:]){GROUP}(?::{GROUP}){{3}}(?![0-9a-f:])", re.IGNORECASE)
HOME = re.compile(r"(?<=/home/)[^/\s,]+")
VPD = "/vpd"  # part and serial numbers, and the one word that is read of it
VPD_WORD = "SW_MNG"
NOTHING = "0000:0000:0000:0000"
OWN_PREFIXES = ("fe80:", "fec0:")  # of InfiniBand subnets and link-local addresses: they name nobody
IPV4_PREFIX, IPV4_MARK = "0000:0000:0000:0000", "0000:ffff:"


class Masks:
    """The replacements of one recording. Networks stay apart, and what is equal stays equal."""

    def __init__(self, host_names: Iterable[str] = ()) -> None:
        names = sorted({name for name in host_names if len(name) > 1}, key=len, reverse=True)
        self._hosts = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, names))})(?![\w-])") if names else None
        self._known: dict[str, dict[str, str]] = {}

    def text(self, text: str) -> str:
        """The text without UUIDs, GUIDs, addresses, host names and names of home directories."""
        text = UUID.sub(lambda m: self._same("uuid", m[0].lower(), lambda n: f"{n:08x}-0000-4000-8000-{n:012x}"), text)
        text = GID.sub(self._gid, text)
        text = GUID.sub(lambda m: self._guid(m[0]), text)
        text = HOME.sub(lambda m: self._same("user", m[0], lambda n: f"user{n}"), text)
        return self._hosts.sub("node1", text) if self._hosts else text

    def document(self, value: Any, name: str = "") -> Any:
        """A JSON value with every text in it masked; keys name kernel files and stay."""
        if isinstance(value, str):
            if name.endswith(VPD):
                return VPD_WORD if VPD_WORD in value else ""
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.document(inner, key) for key, inner in value.items()}
        return [self.document(inner) for inner in value] if isinstance(value, list | tuple) else value

    @property
    def counts(self) -> dict[str, int]:
        """How many different values of each kind were replaced."""
        return {kind: len(known) for kind, known in sorted(self._known.items())}

    def _same(self, kind: str, original: str, make: Callable[[int], str]) -> str:
        known = self._known.setdefault(kind, {})
        return known.setdefault(original, make(len(known) + 1))

    def _guid(self, guid: str) -> str:
        if guid == NOTHING:
            return guid
        return self._same("guid", guid.lower(), lambda n: f"0200:0000:0000:{n & 0xFFFF:04x}")

    def _gid(self, match: re.Match[str]) -> str:
        prefix, interface = match[1].lower(), match[2].lower()
        if interface == NOTHING:
            return match[0]
        if prefix == IPV4_PREFIX and interface.startswith(IPV4_MARK):
            network, host = interface[10:17], interface[17:]  # the first three octets, and the last
            number = self._same("network", network, lambda n: f"0a{n >> 8 & 0xFF:02x}:{n & 0xFF:02x}")
            return f"{prefix}:{IPV4_MARK}{number}{host}"
        if not prefix.startswith(OWN_PREFIXES):
            prefix = self._same("network6", prefix, lambda n: f"fd00:0000:0000:{n:04x}")
        return f"{prefix}:{self._guid(interface)}"
