import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.discovery.nvidia_csv import parse_table

FIELDS = ("index", "gpu_uuid", "memory.used")
HEADER = "index, uuid, memory.used [MiB]\n"
ROW = {"index": "0", "uuid": "GPU-12345678", "memory.used": "7"}


def test_cells_are_found_by_the_header_whatever_the_order_of_columns():
    text = "memory.used [MiB], index, uuid, extra\n7, 0, GPU-12345678, x\n"
    assert parse_table(text, FIELDS).rows == (ROW | {"extra": "x"},)


def test_sentences_before_between_and_behind_rows_are_kept_apart():
    text = f"Warning: persistence mode, in short, is off\n{HEADER}0, GPU-12345678, 7\n\nUnable to reach it\nBye, bye\n"
    table = parse_table(text, FIELDS)
    assert table.rows == (ROW,)
    assert table.sentences == ("Warning: persistence mode, in short, is off", "Unable to reach it", "Bye, bye")
    assert table.broken == ()


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("1, GPU-12345678\n", id="too-few-cells"),
        pytest.param("1, GPU-12345678, 81,559\n", id="a-localised-number"),
        pytest.param("1, GPU-12345678, 7, 8\n", id="an-extra-cell"),
        pytest.param("[N/A], GPU-12345678\n", id="no-index"),
        pytest.param("x, GPU-12345678\n", id="a-uuid-in-it"),
        pytest.param("1, GPU-12345678, 7", id="the-last-line-has-no-end"),
        pytest.param("1", id="cut-off-in-the-first-cell"),
    ],
)
def test_a_row_that_does_not_fit_the_header_is_broken_and_never_shifted(line):
    table = parse_table(f"{HEADER}0, GPU-12345678, 7\n{line}", FIELDS)
    assert table.rows == (ROW,)
    assert table.broken == (line.rstrip("\n"),)


def test_without_a_header_for_all_fields_there_are_no_rows():
    table = parse_table("index, uuid\n0, GPU-12345678\n", FIELDS)
    assert table == ((), (), ("index, uuid", "0, GPU-12345678"), ())


def test_a_header_that_is_repeated_is_no_row():
    assert parse_table(f"{HEADER}{HEADER}0, GPU-12345678, 7\n", FIELDS).rows == (ROW,)


def test_only_a_last_column_of_free_text_may_hold_commas():
    row = "GPU-12345678, 7, tool, with, commas\n"
    last = parse_table(f"uuid, memory.used, name\n{row}", ("uuid", "name"), free_text="name")
    assert last.rows == ({"uuid": "GPU-12345678", "memory.used": "7", "name": "tool, with, commas"},)
    first = parse_table(f"name, uuid, memory.used\n{row}", ("uuid", "name"), free_text="name")
    assert (first.rows, first.broken) == ((), (row.rstrip(),))


def test_carriage_returns_do_not_become_part_of_a_cell():
    assert parse_table(HEADER + "0, GPU-12345678, 7\r\n", FIELDS).rows == (ROW,)


@given(
    st.text() | st.lists(st.sampled_from([HEADER, "0, GPU-12345678, 7\n", "1, 2", "[x],\n", "a,b,c,d\n"])).map("".join)
)
def test_any_text_is_a_table_whose_rows_have_all_the_fields(text):
    for row in parse_table(text, FIELDS).rows:
        assert {"index", "uuid", "memory.used"} <= row.keys()
