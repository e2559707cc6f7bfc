import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.discovery.nvidia_topo import read_matrix
from llmgw_reconcile.discovery.topology import Matrix
from llmgw_reconcile.model.gpu import PcieLink

PIX, PXB, NODE, SYS = PcieLink.PIX, PcieLink.PXB, PcieLink.NODE, PcieLink.SYS

TABS = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tSYS\tPIX\tSYS\t0-31\t0\t\tN/A
GPU1\tNV12\t X \tSYS\tPXB\tSYS\t0-31\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tSYS\tNODE\t32-63\t1\t\tN/A
NIC0\tPIX\tPXB\tSYS\t X \tSYS\t\t\t\t
NIC1\tSYS\tSYS\tNODE\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_10
  NIC1: mlx5_bond_0
"""
READ = Matrix(
    nvlinks={(0, 1): 12, (1, 0): 12, (0, 2): 0, (2, 0): 0, (1, 2): 0, (2, 1): 0},
    pcie={(0, 2): SYS, (2, 0): SYS, (1, 2): SYS, (2, 1): SYS},
    adapters={
        (0, "mlx5_10"): PIX,
        (0, "mlx5_bond_0"): SYS,
        (1, "mlx5_10"): PXB,
        (1, "mlx5_bond_0"): SYS,
        (2, "mlx5_10"): SYS,
        (2, "mlx5_bond_0"): NODE,
    },
    numa={0: 0, 1: 0, 2: 1},
)


def test_a_matrix_tells_links_adapters_by_the_legend_and_numa_nodes():
    assert read_matrix(TABS) == READ


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: text.replace("\x1b[4m", "").replace("\x1b[0m", ""), id="without-escapes"),
        pytest.param(lambda text: text.expandtabs(8), id="blanks-instead-of-tabs"),
        pytest.param(lambda text: text.lstrip("\t"), id="without-the-blank-first-column"),
        pytest.param(lambda text: "9 NICs found in the topology.\n" + text, id="a-sentence-before-it"),
        pytest.param(lambda text: text.replace("\n", "\r\n"), id="line-ends-of-windows"),
        pytest.param(lambda text: text.replace(" X ", "X "), id="cells-without-padding"),
        pytest.param(lambda text: text.partition("Legend")[0] + text[text.index("NIC Legend") :], id="short-legend"),
    ],
)
def test_its_layout_makes_no_difference(change):
    assert read_matrix(change(TABS)) == READ


def test_an_adapter_that_the_legend_does_not_name_is_left_out():
    assert set(read_matrix(TABS.replace("  NIC1: mlx5_bond_0\n", "")).adapters) == {(n, "mlx5_10") for n in range(3)}


def test_the_layout_of_old_releases_names_adapters_in_the_header():
    matrix = read_matrix(
        "        GPU0    GPU1    mlx5_0  CPU Affinity\n"
        "GPU0     X      NV2     PIX     0-11\n"
        "GPU1    NV2      X      SOC     12-23\n"
    )
    assert matrix == Matrix({(0, 1): 2, (1, 0): 2}, {}, {(0, "mlx5_0"): PIX, (1, "mlx5_0"): SYS}, {})


@pytest.mark.parametrize(
    ("behind", "numa"),
    [
        ("0-31\t0\t\tN/A", 0),
        ("0-31 0N/A", None),
        ("32-631\t\tN/A", None),
        ("0-71\t0,3-9,11-17\t\t2", 0),
        ("0-71\t1,19-25\t\t18", 1),
        ("0-71\t0-1\t\tN/A", None),
        ("", None),
    ],
    ids=[
        "plain",
        "run-together",
        "run-together-before",
        "own-memory",
        "own-memory-of-socket-1",
        "both-nodes",
        "cut-off",
    ],
)
def test_cells_behind_the_matrix_are_understood_or_left_alone(behind, numa):
    text = f"\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t{behind}\n"
    assert read_matrix(text).numa.get(0) == numa


def test_without_a_header_only_the_columns_that_have_rows_are_known():
    matrix = read_matrix(
        "GPU0     X      NV18    NV18    PIX     0-55 0N/A\nGPU1    NV18     X      NV18    SYS     0-55\n"
    )
    assert matrix == Matrix({(0, 1): 18, (1, 0): 18}, {}, {}, {})


def test_a_row_that_is_cut_off_is_told_by_the_other_rows():
    matrix = read_matrix(TABS.replace("GPU2\tSYS\tSYS\t X \tSYS\tNODE\t32-63\t1\t\tN/A", "GPU2\tSYS"))
    assert matrix.nvlinks == READ.nvlinks
    assert (2, "mlx5_10") not in matrix.adapters


def test_a_row_that_lacks_a_cell_is_not_shifted_into_place():
    matrix = read_matrix(TABS.replace("GPU1\tNV12\t X \tSYS\tPXB\tSYS", "GPU1\t X \tSYS\tPXB\tSYS"))
    assert matrix.nvlinks == READ.nvlinks  # by the rows of the others
    assert (1, "mlx5_10") not in matrix.adapters


def test_cells_that_contradict_each_other_are_not_believed():
    matrix = read_matrix(TABS.replace("GPU1\tNV12", "GPU1\tSYS"))
    assert (0, 1) not in matrix.nvlinks
    assert (1, 2) in matrix.nvlinks


@pytest.mark.parametrize(
    "text", ["", "Failed to initialize NVML\n", "GPU0", "GPU0\nGPU0 X\n", "\tGPU0\tGPU1\n", "X X X\n"]
)
def test_what_is_no_matrix_tells_nothing(text):
    matrix = read_matrix(text)
    assert (matrix.nvlinks, matrix.pcie, matrix.adapters) == ({}, {}, {})


@given(st.text("GPUNICX0123SYPV \t\n\x1b[4m/A", max_size=300))
def test_any_text_is_a_matrix(text):
    matrix = read_matrix(text)
    assert all((b, a) in matrix.nvlinks for a, b in matrix.nvlinks)
    assert matrix.pcie.keys() <= matrix.nvlinks.keys()


@given(cut=st.integers(0, len(TABS)), at=st.integers(0, len(TABS)), junk=st.text(max_size=5))
def test_a_damaged_matrix_tells_nothing_wrong_of_nvlinks(cut, at, junk):
    damaged = read_matrix(TABS[:cut]).nvlinks
    assert damaged.items() <= READ.nvlinks.items()
    read_matrix(TABS[:at] + junk + TABS[at:])
