import os
import resource

import pytest

from llmgw_reconcile.discovery.limits import read_ephemeral_ports, read_limits


@pytest.mark.parametrize(
    ("text", "expected"),
    [("32768\t60999\n", (32768, 60999)), ("1024 65535", (1024, 65535)), ("", None), ("1\n", None), ("a b\n", None)],
)
def test_the_range_of_outgoing_ports_is_read_or_unknown(tmp_path, text, expected):
    folder = tmp_path / "sys/net/ipv4"
    folder.mkdir(parents=True)
    (folder / "ip_local_port_range").write_text(text)
    assert read_ephemeral_ports(str(tmp_path)) == expected


def test_what_the_node_does_not_tell_is_unknown(tmp_path):
    limits = read_limits(proc_root=str(tmp_path), shm=str(tmp_path / "none"))
    assert (limits.ephemeral_ports, limits.shm_total_mb, limits.shm_used_mb) == (None, None, None)


def test_limits_are_the_hard_ones_in_kib_and_files(monkeypatch):
    values = {resource.RLIMIT_MEMLOCK: (65536, 8 << 20), resource.RLIMIT_NOFILE: (1024, resource.RLIM_INFINITY)}
    monkeypatch.setattr(resource, "getrlimit", values.get)
    limits = read_limits()
    assert (limits.memlock_kb, limits.nofile, limits.kernel) == (8192, -1, os.uname().release)


def test_locked_memory_without_a_limit_stays_unlimited(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (0, resource.RLIM_INFINITY))
    assert read_limits().memlock_kb == -1


def test_shared_memory_is_counted_in_mib(tmp_path):
    space = os.statvfs(tmp_path)
    limits = read_limits(shm=str(tmp_path))
    assert limits.shm_total_mb == space.f_blocks * space.f_frsize // (1 << 20)
    assert 0 <= limits.shm_used_mb <= limits.shm_total_mb
