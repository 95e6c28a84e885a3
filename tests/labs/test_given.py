"""Matrices from readers: what is read, and everything that is refused by name, whatever size it claims to have."""

import os
from pathlib import Path

import numpy as np
import pytest

from tracer.errors import InputError
from tracer.labs import given


def refused(text: str, *, row: bool = False) -> InputError:
    with pytest.raises(InputError) as caught:
        given.matrix("--q", text, row=row)
    return caught.value


def test_rows_of_numbers_are_read() -> None:
    assert given.matrix("--q", " [[1, 2.5], [-3e2, 0]] ").tolist() == [[1, 2.5], [-300, 0]]
    assert given.matrix("--q", "[1, 2]", row=True).tolist() == [[1, 2]]
    assert given.vector("--scores", "[1, 2]").tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("", "labs.given_kind"),
        ("word", "labs.given_kind"),
        ("3", "labs.given_not_rows"),
        ("{}", "labs.given_not_rows"),
        ('"text"', "labs.given_not_rows"),
        ("[]", "labs.given_not_rows"),
        ("[[]]", "labs.given_not_rows"),
        ("[1, 2]", "labs.given_flat"),
        ("[[1], 2]", "labs.given_mixed"),
        ("[[1, 2], [3]]", "labs.given_ragged"),
        ("[[1, [2]]]", "labs.given_entry"),
        ("[[true]]", "labs.given_entry"),
        ('[["1"]]', "labs.given_entry"),
        ("[[null]]", "labs.given_entry"),
        ("[[NaN]]", "labs.given_constant"),
        ("[[-Infinity]]", "labs.given_constant"),
        ("[[1e999]]", "labs.given_value"),
        ("[[1e31]]", "labs.given_value"),
        (f"[[{'9' * 400}]]", "labs.given_value"),
        (f"[[{'9' * 5000}]]", "labs.given_digits"),
        ("[[1,]", "labs.given_not_json"),
        ("[" * 100_000, "labs.given_deep"),
        (f"[{'[1],' * 64}[1]]", "labs.given_size"),
        (f"[[{'1,' * 256}1]]", "labs.given_size"),
        (f"[[{'1,' * 600_000}1]]", "labs.given_too_long"),
        ("nothing.npy", "labs.given_no_file"),
        ("/dev/null.npy", "labs.given_no_file"),
        ("\0.npy", "labs.given_no_file"),
    ],
    ids=lambda text: text[:20].replace("\0", "NUL"),
)
def test_what_is_no_matrix_is_refused(text: str, id: str) -> None:
    assert refused(text).id == id


def test_refusals_name_the_place_and_what_to_do() -> None:
    assert str(refused("[[1, 2], [3]]")) == (
        "--q: all rows need the same number of entries. Row 0 has 2, row 1 has 1. (Rows are counted from 0.)"
    )
    assert 'write "[[1, 0]]" for one key' in str(refused("[1, 0]"))


def npy(path: Path, header: str, content: bytes = b"") -> str:
    """A file of version 1.0 with any header."""
    text = header.encode("latin1") + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content)
    return str(path)


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert refused(str(tmp_path / "objects.npy")).id == "labs.given_not_npy"


@pytest.mark.parametrize("shape", ["(1000000000, 1000000000)", "(1000000000,)", "(-1, 4)", "(2, 2, 2)", "()", "(0, 0)"])
def test_a_shape_is_believed_only_after_it_was_looked_at(tmp_path: Path, shape: str) -> None:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    error = refused(npy(tmp_path / "huge.npy", header, bytes(64)))
    assert error.id in ("labs.given_not_npy", "labs.given_size", "labs.given_not_rows")


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"not numpy at all", b"PK\x03\x04"])
def test_other_files_with_that_ending_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    assert refused(str(tmp_path / "x.npy")).id == "labs.given_not_npy"


def test_arrays_of_anything_but_numbers_are_refused(tmp_path: Path) -> None:
    for dtype in ("U3", "c16", "M8[s]"):
        np.save(tmp_path / "x.npy", np.zeros((2, 2), dtype=dtype))
        assert refused(str(tmp_path / "x.npy")).id == "labs.given_npy_kind"
    np.savez(tmp_path / "y.npz", a=np.zeros(3))
    (tmp_path / "y.npz").rename(tmp_path / "y.npy")
    assert refused(str(tmp_path / "y.npy")).id == "labs.given_not_npy"


def test_a_file_with_nan_names_the_place(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[1.0, np.nan]]))
    assert "row 0, column 1 is NaN" in str(refused(str(tmp_path / "x.npy")))


def test_a_csv_with_a_heading_names_the_place(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    assert 'row 0, column 0 must be a number; found "a"' in str(refused(str(tmp_path / "x.csv")))
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe\x00")
    assert refused(str(tmp_path / "x.csv")).id == "labs.given_not_utf8"
    (tmp_path / "x.csv").write_text("")
    assert refused(str(tmp_path / "x.csv")).id == "labs.given_not_rows"


def test_folders_and_pipes_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    assert refused(str(tmp_path / "folder.csv")).id == "labs.given_not_a_file"
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.json")
        assert refused(str(tmp_path / "pipe.json")).id == "labs.given_not_a_file"


def test_a_large_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (tmp_path / "x.json").open("wb") as file:
        file.truncate(1 << 33)
    assert refused(str(tmp_path / "x.json")).id == "labs.given_too_long"


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("[[1, 0, 1]]", "labs.given_mask_shape"),
        ("[0, 0.5]", "labs.given_mask_entry"),
        ("[0, -1e9]", "labs.given_mask_entry"),
        ('["1", 0]', "labs.given_mask_entry"),
    ],
)
def test_a_mask_is_permissions_of_the_right_shape(text: str, id: str) -> None:
    with pytest.raises(InputError) as caught:
        given.mask("--mask", text, 1, 2)
    assert caught.value.id == id
