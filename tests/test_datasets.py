"""The registry, the folders, reading and splitting. Downloads are in test_downloads.py."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from svmlight_files import IRIS, LIVER, LIVER_TEST, PACKING, svmlight

from lasn import datasets
from lasn.datasets import DatasetError, cache_folder, check, dataset, find, load, read_rows
from lasn.datasets.loading import training_rows
from lasn.datasets.reading import contents
from lasn.datasets.registry import unpacked

REAL_FOLDER = os.environ.get("LASN_DATA")
ALL = datasets.datasets()
REAL = [
    each
    for each in ALL.values()
    if REAL_FOLDER is not None
    and any((Path(REAL_FOLDER) / (f.name + s)).exists() for f in each.files for s in PACKING)
]
PAPER = [each for each in ALL.values() if each.paper_name is not None]


@pytest.fixture
def data(cache, monkeypatch, tmp_path):
    """An empty folder that LASN_DATA names."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("LASN_DATA", str(folder))
    return folder


def test_the_registry_is_consistent():
    files = [file for each in ALL.values() for file in each.files]
    assert len({file.name for file in files}) == len(files)
    assert all(each.name == each.train.name for each in ALL.values())
    assert all(each.classes is None or each.classes >= 2 for each in ALL.values())
    for file in files:
        assert re.fullmatch(r"(binary|multiclass|multiclass/\w+|regression)/[\w.-]+", file.address)
        assert file.name == unpacked(file.packed_name)
        assert file.rows > 0
        for checksum in {*file.copies, *([file.sha256] if file.sha256 else [])}:
            assert re.fullmatch("[0-9a-f]{64}", checksum)
        assert file.sha256 not in file.copies
    regressions = {each.name for each in ALL.values() if each.train.address.startswith("regr")}
    assert regressions == {each.name for each in ALL.values() if each.classes is None}


def test_every_checksum_belongs_to_a_registered_file():
    table = Path(datasets.__file__).with_name("checksums.csv").read_text().splitlines()[1:]
    names = {file.name for each in ALL.values() for file in each.files}
    assert {line.split(",")[0] for line in table} <= names
    counted = sum(
        len(file.copies) + (file.sha256 is not None) for each in ALL.values() for file in each.files
    )
    assert counted == len(table)


def test_every_row_count_of_the_paper_is_explained_or_noted():
    assert len(PAPER) == 28
    for each in PAPER:
        all_rows = each.train.rows
        expected = all_rows if each.test is not None else training_rows(all_rows)
        noted = str(each.paper_rows) in each.note
        assert each.paper_rows == expected or noted, each.name
        assert (each.paper_rows == all_rows) != noted, each.name


def test_paper_names_lead_to_the_site_s():
    assert dataset("ijcnn") is dataset("ijcnn1")
    assert dataset("rcv1_binary").train.address == "binary/rcv1_train.binary.bz2"


def test_an_unknown_name_is_answered_with_close_ones():
    with pytest.raises(ValueError, match=r"no data set 'mushroom'; did you mean mushrooms\?"):
        dataset("mushroom")


def test_the_cache_is_where_the_platform_keeps_caches(cache, monkeypatch, tmp_path):
    assert cache_folder() == cache
    monkeypatch.delenv("LASN_CACHE")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder() == tmp_path / ".cache" / "lasn" / "datasets"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "lasn" / "datasets"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == tmp_path / "Library" / "Caches" / "lasn" / "datasets"
    monkeypatch.setattr(sys, "platform", "win32")
    assert cache_folder() == tmp_path / "AppData" / "Local" / "lasn" / "datasets"


def test_lasn_data_comes_before_the_cache(cache, data):
    assert find("iris.scale") is None
    cache.mkdir(parents=True)
    (cache / "iris.scale").write_bytes(IRIS)
    assert find("iris.scale") == cache / "iris.scale"
    (data / "iris.scale.xz").write_bytes(PACKING[".xz"](IRIS))
    assert find("iris.scale") == data / "iris.scale.xz"


def test_lasn_data_has_to_be_a_folder(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("LASN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DatasetError, match="nowhere', which is not a folder"):
        load("iris.scale")


@pytest.mark.parametrize("suffix", PACKING)
def test_every_packing_is_read(data, suffix):
    (data / ("iris.scale" + suffix)).write_bytes(PACKING[suffix](IRIS))
    X, y = load("iris.scale", split=False)
    assert X.shape == (150, 4)
    assert X.format == "csr"
    assert_array_equal(X[:, 3].toarray().ravel(), np.arange(150) + 1)
    assert_array_equal(y[:3], [1, -1, 1])


@pytest.mark.parametrize("suffix", [".bz2", ".gz", ".xz"])
@pytest.mark.parametrize("damage", ["cut", "not packed"])
def test_a_damaged_archive_is_an_error(data, suffix, damage):
    packed = PACKING[suffix](IRIS)
    path = data / ("iris.scale" + suffix)
    path.write_bytes(packed[: len(packed) // 2] if damage == "cut" else IRIS)
    with pytest.raises(DatasetError, match="cannot be unpacked"):
        load("iris.scale")
    with pytest.raises(DatasetError, match="cannot be unpacked"):
        check(dataset("iris.scale").train, path)


def test_the_last_row_counts_without_its_line_end(tmp_path):
    (tmp_path / "rows").write_bytes(b"1 1:1\n1 1:2")
    assert contents(tmp_path / "rows").rows == 2
    (tmp_path / "rows").write_bytes(b"1 1:1\n1 1:2\n")
    assert contents(tmp_path / "rows").rows == 2


def test_other_files_than_the_registry_s_can_be_read(data):
    (data / "mine.gz").write_bytes(PACKING[".gz"](b"3 2:0.5\n"))
    X, y = read_rows(find("mine"))
    assert_array_equal(X.toarray(), [[0.0, 0.5]])
    assert y == 3


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (svmlight(149, 4), "has 149 rows, but iris.scale has 150"),
        (svmlight(150, 5), "contains 5 features"),
        (b"<html>log in first</html>\n" * 150, "is not what it should be"),
    ],
    ids=["rows", "features", "html"],
)
def test_another_file_under_the_name_is_an_error(data, rows, complaint):
    (data / "iris.scale").write_bytes(rows)
    with pytest.raises(DatasetError, match=complaint) as failure:
        load("iris.scale")
    assert "`lasn data fetch iris.scale` downloads it anew" in str(failure.value)


def test_the_official_test_file_is_the_test(data):
    (data / "liver-disorders").write_bytes(LIVER)
    (data / "liver-disorders.t").write_bytes(LIVER_TEST)
    for random_state in (None, 0):
        rows = load("liver-disorders", random_state=random_state)
        assert rows.X_train.shape == (145, 5)
        assert rows.X_test.shape == (200, 5)  # though its largest feature is 4
        assert len(rows.y_train) == 145
        assert_array_equal(rows.X_test[:, 3].toarray().ravel(), np.arange(145, 345) + 1)


def test_without_a_test_file_the_first_60_percent_are_for_training(data):
    (data / "iris.scale").write_bytes(IRIS)
    X_train, X_test, y_train, y_test = load("iris.scale")
    assert_array_equal(X_train[:, 3].toarray().ravel(), np.arange(90) + 1)
    assert_array_equal(X_test[:, 3].toarray().ravel(), np.arange(90, 150) + 1)
    assert (len(y_train), len(y_test)) == (90, 60)


def test_random_state_draws_the_60_percent(data):
    (data / "iris.scale").write_bytes(IRIS)
    X_train, X_test, y_train, y_test = load("iris.scale", random_state=0)
    numbers = np.concatenate([part[:, 3].toarray().ravel() for part in (X_train, X_test)])
    assert_array_equal(np.sort(numbers), np.arange(150) + 1)
    assert not np.array_equal(numbers, np.arange(150) + 1)
    labels = np.concatenate([y_train, y_test])
    assert_array_equal(labels, np.where(numbers % 2, 1, -1))
    again = load("iris.scale", random_state=0)
    assert_array_equal(X_train.toarray(), again.X_train.toarray())
    assert X_train.shape == (90, 4)


@pytest.mark.parametrize("each", REAL, ids=lambda each: each.name)
def test_real_files_are_as_the_registry_says(each, cache, monkeypatch):
    monkeypatch.setenv("LASN_DATA", REAL_FOLDER)
    present = {file: find(file.name) for file in each.files if find(file.name) is not None}
    widths, labels = [], []
    for file, path in present.items():
        check(file, path)
        X, y = read_rows(path)
        assert X.shape[0] == file.rows
        widths.append(X.shape[1])
        labels.append(y)
    whole = len(present) == len(each.files)
    assert max(widths) <= each.features
    assert max(widths) == each.features or not whole or each.name == "svmguide3"
    if each.classes is not None:
        assert len(np.unique(np.concatenate(labels))) == each.classes
