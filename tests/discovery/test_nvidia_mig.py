import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.discovery.nvidia_mig import MigDevice, read_slices

CARD, OTHER = "GPU-11111111-2222-4333-8444-555555555555", "GPU-66666666-2222-4333-8444-555555555555"
LIST = f"""\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: {CARD})
  MIG 1c.3g.40gb  Device  0: (UUID: MIG-aaaaaaaa-0000-5000-8000-000000000000)
  MIG 2c.3g.40gb  Device  1: (UUID: MIG-bbbbbbbb-0000-5000-8000-000000000000)
  MIG 1g.10gb+me  Device  2: (UUID: MIG-cccccccc-0000-5000-8000-000000000000)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: {OTHER})
"""
TABLE = """\
+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |
|==================+==================================+===========+=======================|
|  0    2   0   0  |            9112MiB / 40448MiB    | 16      0 |  3   0    3    0    3 |
|                  |               0MiB / 65535MiB    |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
|  0    2   1   1  |            9112MiB / 40448MiB    | 32      0 |  3   0    3    0    3 |
|                  |               0MiB / 65535MiB    |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
|  0   11   0   2  |    14MiB /  9984MiB | 16      0 |  1   0    1    0    1 |
+------------------+----------------------------------+-----------+-----------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|=========================================================================================|
|    0    2    1             4711      C   /opt/serve it                          9000MiB |
|    0    2    1             4712    C+G   python3                                    N/A |
|    1  N/A  N/A             4713      C   python3                                5000MiB |
+-----------------------------------------------------------------------------------------+
"""
FIRST, SECOND, THIRD = (f"MIG-{letter * 8}-0000-5000-8000-000000000000" for letter in "abc")


def test_each_device_has_its_memory_and_its_processes():
    assert read_slices(LIST, TABLE) == (
        MigDevice(CARD, FIRST, "1c.3g.40gb", 40448, 9112, (), "2"),
        MigDevice(CARD, SECOND, "2c.3g.40gb", 40448, 9112, ((4711, 9000), (4712, None)), "2"),
        MigDevice(CARD, THIRD, "1g.10gb+me", 9984, 14, (), "11"),
    )


def test_without_the_table_the_memory_is_not_known():
    assert read_slices(LIST, "") == tuple(
        MigDevice(CARD, uuid, profile)
        for uuid, profile in ((FIRST, "1c.3g.40gb"), (SECOND, "2c.3g.40gb"), (THIRD, "1g.10gb+me"))
    )


def test_names_of_old_drivers_are_taken_as_they_are():
    listing = f"GPU 0: A100-SXM4-40GB (UUID: {CARD})\n  MIG 1g.5gb Device 0: (UUID: MIG-{CARD}/7/0)\n"
    assert read_slices(listing, "") == (MigDevice(CARD, f"MIG-{CARD}/7/0", "1g.5gb"),)


def test_a_lost_card_between_others_takes_nothing_from_them():
    lost = "Unable to determine the device handle for gpu 0000:08:00.0: Unknown Error\n"
    assert [device.uuid for device in read_slices(lost + LIST, TABLE)] == [FIRST, SECOND, THIRD]


@pytest.mark.parametrize("listing", ["", "No devices were found\n", f"  MIG 1g.5gb Device 0: (UUID: {FIRST})\n"])
def test_what_is_no_list_has_no_devices(listing):
    assert read_slices(listing, TABLE) == ()


@given(cut=st.integers(0, len(LIST)), junk=st.text(max_size=20), table=st.text("|0123 MiB/NACG+\n", max_size=200))
def test_any_text_gives_devices_or_none(cut, junk, table):
    for device in read_slices(LIST[:cut] + junk + LIST[cut:], table):
        assert device.card.startswith("GPU-")
    read_slices(junk, TABLE)


def test_a_line_without_an_end_takes_no_time():
    assert read_slices(LIST, "|" + " " * 100_000) != ()
