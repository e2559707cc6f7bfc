import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.discovery.masking import Masks

UUID = "3f2a91c0-1b2c-4d5e-8f60-0123456789ab"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        pytest.param(
            f"GPU-{UUID}, MIG-{UUID}", "GPU-{0}, MIG-{0}".format("00000001-0000-4000-8000-000000000001"), id="uuid"
        ),
        pytest.param(f"MIG-GPU-{UUID.upper()}/7/0", "MIG-GPU-00000001-0000-4000-8000-000000000001/7/0", id="old-mig"),
        pytest.param("b83f:d203:0022:1133\n", "0200:0000:0000:0001\n", id="guid"),
        pytest.param(
            "fe80:0000:0000:0000:b83f:d203:0022:1133", "fe80:0000:0000:0000:0200:0000:0000:0001", id="link-local"
        ),
        pytest.param("2001:0db8:0000:0007:b83f:d2ff:fe22:1133", "fd00:0000:0000:0001:0200:0000:0000:0001", id="global"),
        pytest.param("0000:0000:0000:0000:0000:ffff:c633:6407", "0000:0000:0000:0000:0000:ffff:0a00:0107", id="ipv4"),
        pytest.param("/home/alice/run.py of node gpu-07", "/home/user1/run.py of node node1", id="people-and-hosts"),
        pytest.param("gpu-07.example.org", "node1", id="the-full-name-at-once"),
        # what says something of the machine stays
        pytest.param("00000000:3B:00.0 0000:3b:00.0", "00000000:3B:00.0 0000:3b:00.0", id="pci"),
        pytest.param("0000:0000:0000:0000", "0000:0000:0000:0000", id="no-guid"),
        pytest.param("0000:" * 7 + "0000", "0000:" * 7 + "0000", id="free-entry"),
        pytest.param("NVIDIA H100 80GB HBM3, 81559, gpu-070", "NVIDIA H100 80GB HBM3, 81559, gpu-070", id="facts"),
    ],
)
def test_what_names_a_machine_is_replaced_and_what_describes_it_stays(text, masked):
    assert Masks(["gpu-07.example.org", "gpu-07"]).text(text) == masked


def test_what_is_equal_stays_equal_and_what_differs_stays_apart():
    masks = Masks()
    first, again, other = (
        masks.text(text) for text in ("aaaa:0000:0000:0001", "AAAA:0000:0000:0001", "aaaa:0000:0000:0002")
    )
    assert first == again != other
    assert masks.text("fe80:0000:0000:0000:aaaa:0000:0000:0001").endswith(first)


def test_addresses_of_one_network_stay_in_one():
    masks = Masks()
    one, two, three = (masks.text("0000:" * 5 + f"ffff:{tail}") for tail in ("0a01:0205", "0a01:0206", "0a01:0305"))
    assert (one[-9:], two[-9:], three[-9:]) == ("0a00:0105", "0a00:0106", "0a00:0205")


def test_vital_product_data_keep_the_one_word_that_is_read_of_them():
    document = {"class/infiniband/a/device/vpd": "CX7 SN MT2300X SMDL=SW_MNG", "x/vpd": "SN 123", "y": ["/home/bob/x"]}
    assert Masks().document(document) == {
        "class/infiniband/a/device/vpd": "SW_MNG",
        "x/vpd": "",
        "y": ["/home/user1/x"],
    }


def test_the_number_of_replacements_is_told():
    masks = Masks()
    masks.text(f"{UUID} {UUID} b83f:d203:0022:1133 /home/a/ /home/b/")
    assert masks.counts == {"guid": 1, "user": 2, "uuid": 1}


@given(st.lists(st.uuids(), max_size=4), st.text(max_size=20))
def test_no_uuid_is_left_in_any_text(uuids, between):
    text = Masks().text(between.join(map(str, uuids)))
    assert not any(str(one) in text for one in uuids if not re.match(r"0000000.-0000-4000-8000", str(one)))
