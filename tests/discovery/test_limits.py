import os
import pwd
import resource

import pytest

from llmgw_reconcile.discovery.limits import iommu_mode, read_ephemeral_ports, read_limits
from llmgw_reconcile.host.tree import Tree


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


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The home directory of the account that runs the test."""
    account = pwd.getpwuid(os.geteuid())
    monkeypatch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd((*account[:5], str(tmp_path), account[6])))
    return tmp_path


def test_the_model_cache_is_the_accounts_own_whatever_the_caller_has_set(home, monkeypatch):
    monkeypatch.setenv("HF_HOME", "/elsewhere")  # no engine gets it
    limits = read_limits()
    space = os.statvfs(home)
    assert limits.model_cache == f"{home}/.cache/huggingface/hub"
    assert 0 <= limits.model_cache_free_mb <= space.f_blocks * space.f_frsize >> 20
    assert limits.model_cache_writable is True


def test_a_cache_that_nobody_may_write_to_is_told(home, monkeypatch):
    (home / ".cache/huggingface").mkdir(parents=True)
    monkeypatch.setattr(os, "access", lambda path, mode: path != f"{home}/.cache/huggingface")
    assert read_limits().model_cache_writable is False


def test_an_account_without_an_entry_has_the_root_for_its_home(monkeypatch):
    def unknown(uid):
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert read_limits().model_cache == "/.cache/huggingface/hub"


@pytest.mark.parametrize(
    ("types", "mode"),
    [
        (["identity", "identity"], "passthrough"),
        (["DMA-FQ", "identity"], "translated"),
        (["DMA", "DMA"], "translated"),
        ([None, None], None),
    ],
)
def test_the_iommu_mode_is_that_of_the_cards(tmp_path, types, mode):
    (tmp_path / "kernel/iommu_groups/0").mkdir(parents=True)
    for bus, kind in enumerate(types):
        folder = tmp_path / f"bus/pci/devices/0000:0{bus}:00.0/iommu_group"
        folder.mkdir(parents=True)
        if kind:
            (folder / "type").write_text(f"{kind}\n")
    assert iommu_mode(Tree(str(tmp_path)), [f"00000000:0{bus}:00.0" for bus in range(2)]) == mode


def test_a_kernel_without_groups_has_no_iommu(tmp_path):
    assert iommu_mode(Tree(str(tmp_path)), ["0000:00:00.0"]) is None
    (tmp_path / "kernel").mkdir()
    assert iommu_mode(Tree(str(tmp_path)), ["0000:00:00.0"]) == "off"
    (tmp_path / "kernel/iommu_groups").mkdir()
    assert iommu_mode(Tree(str(tmp_path)), ["0000:00:00.0"]) == "off"
