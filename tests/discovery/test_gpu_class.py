import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.discovery.gpu_class import gpu_class


@pytest.mark.parametrize(
    ("name", "mib", "expected"),
    [
        # data-centre cards: sockets, memory kinds and the size in the name are no model
        ("NVIDIA H100 80GB HBM3", 81559, "h100-80g"),
        ("H100-SXM5-80GB", 81559, "h100-80g"),
        ("NVIDIA H100 NVL", 95830, "h100-94g"),
        ("NVIDIA H100 NVL", 97871, "h100-96g"),
        ("NVIDIA A100-SXM-64GB", 65536, "a100-64g"),
        ("NVIDIA A800 40GB Active", 40960, "a800-40g"),
        ("NVIDIA L40S", 46068, "l40s-45g"),
        ("NVIDIA B300 SXM6 AC", 275040, "b300-269g"),
        ("NVIDIA GH200 480GB", 97871, "gh200-96g"),
        ("NVIDIA A2", 15356, "a2-15g"),
        ("Tesla K80", 11441, "k80-11g"),
        ("Tesla V100-DGXS-32GB", 32508, "v100-32g"),
        # consumer cards: the series belongs to the model, variants are kept apart
        ("NVIDIA GeForce RTX 4090", 24564, "rtx4090-24g"),
        ("NVIDIA GeForce RTX 4090 D", 24564, "rtx4090d-24g"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", 16376, "rtx4070tisuper-16g"),
        ("NVIDIA GeForce RTX 4070 Laptop GPU", 8188, "rtx4070laptop-8g"),
        ("GeForce RTX 2080 Super with Max-Q Design", 8192, "rtx2080supermaxq-8g"),
        ("GeForce GTX 1080 Ti", 11178, "gtx1080ti-11g"),
        ("GeForce GTX 1060 3GB", 3019, "gtx1060-3g"),
        ("GeForce MX150", 2002, "mx150-2g"),
        # workstation cards: four generations share the number 6000
        ("NVIDIA RTX A2000 12GB", 12282, "a2000-12g"),
        ("NVIDIA RTX A5000 Laptop GPU", 16384, "a5000laptop-16g"),
        ("NVIDIA RTX 6000 Ada Generation", 49140, "rtx6000ada-48g"),
        ("Quadro RTX 6000", 23040, "quadro-rtx6000-23g"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 97887, "rtxpro6000-96g"),
        ("NVIDIA RTX PRO 4000 Blackwell SFF Edition", 24467, "rtxpro4000sff-24g"),
        ("Quadro GV100", 32508, "gv100-32g"),
        ("NVIDIA T1000 8GB", 8192, "t1000-8g"),
        # names without a digit
        ("NVIDIA TITAN RTX", 24576, "titanrtx-24g"),
        ("GeForce GTX TITAN X", 12212, "titanx-12g"),
        ("NVIDIA TITAN X (Pascal)", 12194, "titanx-pascal-12g"),
        ("NVIDIA TITAN Xp", 12288, "titanxp-12g"),
        ("NVIDIA DGX Display", 3911, "dgxdisplay-4g"),
        # memory that the driver does not give is not invented
        ("NVIDIA Thor", None, "thor-?"),
        ("Orin (nvgpu)", None, "orin-?"),
        ("NVIDIA GB10", None, "gb10-?"),
        ("NVIDIA H100 80GB HBM3", None, "h100-?"),
        # parts of cards
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864, "a100-mig-1g.5gb"),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", 40448, "h100-mig-3g.40gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", 40448, "h100-mig-1c.3g.40gb"),  # shares its memory
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", 9984, "h100-mig-1g.10gb+me"),
        ("unknown MIG 1g.10gb", None, "unknown-mig-1g.10gb"),
        ("GRID V100D-8Q", 8192, "vgpu-v100-8g"),
        ("NVIDIA A100-3-20C", 20475, "vgpu-a100-20g"),
        ("NVIDIA A100-1-5CME", 4864, "vgpu-a100-5g"),
        ("NVIDIA L40S-24C", 24576, "vgpu-l40s-24g"),
        ("NVIDIA RTXA6000-48Q", 49152, "vgpu-a6000-48g"),
        ("NVIDIA RTX6000-Ada-24Q", 24576, "vgpu-rtx6000ada-24g"),
        ("NVIDIA H200X-141C", 144384, "vgpu-h200-141g"),
        # half up, where round() would go to the even neighbour
        ("NVIDIA A30", 24064, "a30-24g"),
        ("NVIDIA A30", 24063, "a30-23g"),
        ("NVIDIA A30", 23040 + 512, "a30-23g"),
        # no name at all
        ("Graphics Device", 24576, "unknown"),
        ("NVIDIA Graphics Device", 24576, "unknown"),
        ("", 24576, "unknown"),
        (None, None, "unknown"),
    ],
)
def test_the_class_is_the_short_model_and_the_drivers_gib(name, mib, expected):
    assert gpu_class(name, mib) == expected


@given(name=st.text(max_size=60) | st.none(), mib=st.integers(min_value=0) | st.none())
def test_any_name_has_a_class_without_blanks(name, mib):
    assert gpu_class(name, mib).split() == [gpu_class(name, mib)]
