"""Readers of files: the same rows from every format, in memory that does not grow with them."""

import bz2
import gzip
import lzma
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from lasn.tables import DataError, Selection, open_table, read_rows
from lasn.tables import delimited as delimited_module
from lasn.tables.svmlight import parse, parse_lines


def read(path, selection, **options):
    table = open_table(str(path), **options)
    try:
        return read_rows(table, selection)
    finally:
        table.close()


@pytest.fixture
def numbers(rng):
    """Rows that survive text exactly, and a target of whole numbers."""
    return rng.normal(size=(500, 4)), rng.randint(3, size=500).astype(float)


def write(path, X, y):
    """Write a table with columns a, b, c, d and y."""
    columns = {**dict(zip("abcd", X.T, strict=True)), "y": y}
    if path.suffix in (".csv", ".tsv"):
        separator = {".csv": ",", ".tsv": "\t"}[path.suffix]
        lines = [separator.join(columns)]
        lines += [separator.join(map(repr, row)) for row in np.column_stack([X, y]).tolist()]
        path.write_text("\n".join(lines) + "\n")
    elif path.suffix == ".parquet":
        pa.parquet.write_table(pa.table(columns), path, row_group_size=64)
    elif path.suffix == ".feather":
        pa.feather.write_feather(pa.table(columns), str(path), chunksize=64)
    elif path.suffix == ".arrow":
        with pa.ipc.new_stream(path, pa.table(columns).schema) as stream:
            stream.write_table(pa.table(columns))
    elif path.suffix == ".npz":
        np.savez_compressed(path, X=X, y=y)
    elif path.suffix == ".npy":
        np.save(path, np.column_stack([X, y]))
    else:
        dump_svmlight_file(X, y, str(path), zero_based=False)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "feather", "arrow", "npy", "npz"])
def test_every_format_gives_the_same_rows(tmp_path, numbers, suffix, monkeypatch):
    monkeypatch.setattr("lasn.tables.columnar.PIECE_ROWS", 100)
    monkeypatch.setattr("lasn.tables.arrays.PIECE_ROWS", 100)
    monkeypatch.setattr("lasn.tables.opening.PIECE_BYTES", 5000)
    X, y = numbers
    path = tmp_path / f"rows.{suffix}"
    write(path, X, y)
    names, target = tuple("abcd"), "y"
    if suffix in ("npy", "npz"):
        names, target = tuple("1234"), {"npy": "5", "npz": "y"}[suffix]
    rows = read(path, Selection(names, target=target))
    assert_array_equal(rows.X, X)
    assert_array_equal(rows.y, y)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "bool"])
def test_arrays_of_either_order_and_any_type(tmp_path, rng, order, dtype):
    X = np.array(rng.normal(size=(50, 3)) * 10, dtype=dtype, order=order)
    np.save(tmp_path / "rows.npy", X)
    assert_array_equal(read(tmp_path / "rows.npy", Selection(("3", "1"))).X, X[:, [2, 0]])


def test_sparse_matrix_from_scipy(tmp_path, sparse_rows):
    sp.save_npz(tmp_path / "rows.npz", sparse_rows[0])
    assert (sparse_rows[0] != read(tmp_path / "rows.npz", Selection()).X).nnz == 0


@pytest.mark.parametrize("pack", [None, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("suffix", ["csv", "svm"])
def test_compressed_text(tmp_path, numbers, pack, suffix):
    plain = tmp_path / f"rows.{suffix}"
    write(plain, *numbers)
    selection = Selection(tuple("abcd"), target="y")
    if suffix == "svm":
        selection = Selection(target="label")
    expected = read(plain, selection)
    if pack is not None:
        suffixes = {gzip.compress: "gz", bz2.compress: "bz2", lzma.compress: "xz"}
        packed = tmp_path / f"packed.{suffix}.{suffixes[pack]}"
        packed.write_bytes(pack(plain.read_bytes()))
        rows = read(packed, selection)
        assert_array_equal(rows.y, expected.y)
        assert abs(rows.X - expected.X).max() == 0.0
    assert_array_equal(expected.y, numbers[1])


def test_a_damaged_compressed_file_is_an_error(tmp_path, numbers):
    write(tmp_path / "rows.csv", *numbers)
    packed = gzip.compress((tmp_path / "rows.csv").read_bytes())
    (tmp_path / "rows.csv.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match=r"rows\.csv\.gz.*fetch it again"):
        read(tmp_path / "rows.csv.gz", Selection(tuple("abcd")))


AWKWARD = 'name,x\n"a, ""quoted""",1\n\n"two\nlines",2\n plain ,3\r\nélan,4.5e-3\n,5\nNA,\n'


@pytest.mark.parametrize("arrow", [True, False])
def test_awkward_csv(tmp_path, monkeypatch, arrow):
    if not arrow:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "rows.csv").write_text(AWKWARD, newline="")
    selection = Selection(("name", "x"), frozenset({"name"}), missing_allowed=True)
    X = read(tmp_path / "rows.csv", selection).X
    assert X[:, 0].tolist() == ['a, "quoted"', "two\nlines", " plain ", "élan", "", ""]
    assert_array_equal(X[:, 1].astype(float), [1, 2, 3, 4.5e-3, 5, np.nan])


def test_line_breaks_in_quotes_at_every_cut(tmp_path, monkeypatch):
    text = "name,x\n" + "".join(f'"line\nand {i}",{i}\n' for i in range(40))
    (tmp_path / "rows.csv").write_text(text)
    selection = Selection(("name", "x"), frozenset({"name"}))
    for size in range(20, 60):
        monkeypatch.setattr("lasn.tables.opening.PIECE_BYTES", size)
        X = read(tmp_path / "rows.csv", selection).X
        assert X.tolist() == [[f"line\nand {i}", float(i)] for i in range(40)]


def test_parsing_with_and_without_arrow_agrees(tmp_path, numbers, monkeypatch):
    write(tmp_path / "rows.csv", *numbers)
    fast = read(tmp_path / "rows.csv", Selection(tuple("abcdy")))
    monkeypatch.setattr(delimited_module, "_parse_with_arrow", _missing)
    assert_array_equal(read(tmp_path / "rows.csv", Selection(tuple("abcdy"))).X, fast.X)


def _missing(*arguments):
    raise ImportError


VALUES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(10**6), 10**6).map(float),
    st.decimals(-1000, 1000, places=6).map(float),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(VALUES, st.dictionaries(st.integers(0, 10**6), VALUES)), min_size=1))
def test_svmlight_numbers_are_those_of_python(rows):
    lines = []
    for label, row in rows:
        pairs = "".join(f" {index}:{row[index]!r}" for index in sorted(row))
        lines.append(f"{label!r}{pairs}\n")
    text = "".join(lines).encode()
    fast, slow = parse(text), parse_lines(text, 1, "rows")
    for name in ("labels", "indices", "values", "indptr"):
        assert_array_equal(getattr(fast, name), getattr(slow, name))
    assert fast.labels.tolist() == [label for label, _ in rows]
    assert fast.values.tolist() == [row[index] for _, row in rows for index in sorted(row)]


SPELLINGS = "0 -0 +1 1. .5 -.5 00012 1e3 1E-3 123456789 0.1234567890123456789 1e-320 99999999.5"


@pytest.mark.parametrize("spelling", SPELLINGS.split())
def test_svmlight_spellings_of_numbers(spelling):
    lines = parse(f"{spelling} 3:{spelling}\n".encode())
    assert lines.labels[0] == lines.values[0] == float(spelling)


def test_svmlight_as_scikit_learn_reads_it(tmp_path, sparse_rows, monkeypatch):
    monkeypatch.setattr("lasn.tables.opening.PIECE_BYTES", 1000)
    X, y = sparse_rows
    path = tmp_path / "rows.svm"
    dump_svmlight_file(
        X, np.array(y), str(path), zero_based=True, comment="from a test", query_id=np.array(y)
    )
    expected, labels = load_svmlight_file(str(path), zero_based=True)
    rows = read(path, Selection(target="label"))
    assert (expected != rows.X).nnz == 0
    assert_array_equal(rows.y, labels)


def test_svmlight_comments_queries_and_empty_lines():
    text = b"# heading\n\n+1 qid:3 1:2 # tail 5:5\n  \n-1\t2:0.5\r\n0\n"
    lines = parse(text)
    assert lines.labels.tolist() == [1.0, -1.0, 0.0]
    assert lines.indices.tolist() == [1, 2]
    assert lines.indptr.tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1,2 3:4", "several labels"),
        ("x 3:4", "label 'x'"),
        ("1 3:x", "value 'x'"),
        ("1 3:nan", "value 'nan'"),
        ("1 3:1_0", "value '1_0'"),
        ("1 3", "'3' is not index:value"),
        ("1 a:3", "'a:3' is not index:value"),
        ("1 -1:3", "'-1:3' is not index:value"),
        ("1 1:2:3", "value '2:3'"),
        ("1 99999999999:3", "is not index:value"),
        ("1 3:1 3:2", "index 3 does not ascend"),
        ("1 3:1 2:2", "index 2 does not ascend"),
        ("1 9:1", "index 9 is beyond the model's last, 5"),
        ("1 0:1", "index 0 comes before the model's first, 1"),
    ],
)
def test_svmlight_errors_name_the_line(tmp_path, line, said):
    path = tmp_path / "rows.svm"
    path.write_text(f"1 1:1 5:2\n\n# comment\n-1 2:1\n{line}\n1 1:1\n")
    with pytest.raises(DataError) as caught:
        read(path, Selection(target="label"), n_features=5, index_base=1)
    assert str(caught.value).startswith(f"{path}, line 5: ")
    assert said in str(caught.value)


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_columnar_errors_name_row_and_column(tmp_path, suffix):
    path = tmp_path / f"rows.{suffix}"
    table = pa.table({"a": [1.0, None, 3.0], "t": pa.array([1, 2, 3], pa.timestamp("s"))})
    if suffix == "parquet":
        pa.parquet.write_table(table, path)
    else:
        pa.feather.write_feather(table, str(path))
    with pytest.raises(DataError, match="row 2, column 'a': the value is missing"):
        read(path, Selection(("a",)))
    with pytest.raises(DataError, match="column 't': type timestamp"):
        read(path, Selection(("t",), frozenset()))


def test_dictionaries_booleans_and_integers_in_parquet(tmp_path):
    table = pa.table(
        {
            "kind": pa.array(["u", "v", "u"]).dictionary_encode(),
            "flag": [True, False, True],
            "count": pa.array([1, 2, 3], pa.int8()),
        }
    )
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    opened = open_table(str(tmp_path / "rows.parquet"))
    assert [column.is_text for column in opened.columns] == [True, False, False]
    opened.close()
    selection = Selection(("count", "flag", "kind"), frozenset({"kind"}))
    X = read(tmp_path / "rows.parquet", selection).X
    assert X.tolist() == [[1.0, 1.0, "u"], [2.0, 0.0, "v"], [3.0, 1.0, "u"]]


@pytest.mark.parametrize(("name", "format"), [("a9a.t", "svmlight"), ("rows.dat", None)])
def test_files_without_a_known_suffix(tmp_path, name, format):
    text = "+1 3:1 9:0.5\n-1 1:1\n" if format else "some,text\n"
    (tmp_path / name).write_text(text)
    if format:
        assert read(tmp_path / name, Selection()).X.shape == (2, 10)
    else:
        with pytest.raises(DataError, match="Give --format"):
            open_table(str(tmp_path / name))
