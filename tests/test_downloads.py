"""Downloads from a real server on this machine, good and bad."""

import hashlib
import os
import threading
from contextlib import redirect_stderr
from email.utils import formatdate
from io import StringIO

import pytest
from file_server import serving, until
from svmlight_files import IRIS, LIVER, PACKING, SITE

from lasn.datasets import DataFile, DatasetError, fetch, load
from lasn.datasets.download import download


@pytest.fixture
def server():
    with serving(SITE) as running:
        yield running


def file_of(address, body, rows=150):
    """A registered file whose checksum is known."""
    name = address.rpartition("/")[2]
    for suffix in (".bz2", ".gz", ".xz"):
        name = name.removesuffix(suffix)
    return DataFile(name, address, rows, hashlib.sha256(body).hexdigest(), frozenset())


FLOWERS = file_of("multiclass/iris.scale", IRIS)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("suffix", PACKING)
def test_a_file_is_downloaded_packed_and_checked_unpacked(server, cache, suffix):
    packed = PACKING[suffix](IRIS)
    server.files["multiclass/iris.scale" + suffix] = packed
    path = download(file_of("multiclass/iris.scale" + suffix, IRIS), cache, server.address)
    assert path == cache / ("iris.scale" + suffix)
    assert path.read_bytes() == packed
    assert names_in(cache) == [path.name]


def test_what_is_there_is_not_downloaded_again(server, cache):
    first = fetch("liver-disorders", server.address)
    assert [path.name for path in first] == ["liver-disorders", "liver-disorders.t"]
    assert fetch("liver-disorders", server.address) == first
    assert len(server.requests) == 2


def test_load_downloads_from_the_mirror(server, cache, monkeypatch):
    monkeypatch.setenv("LASN_MIRROR", server.address + "/")
    assert load("liver-disorders").X_test.shape == (200, 5)
    assert names_in(cache) == ["liver-disorders", "liver-disorders.t"]


@pytest.mark.parametrize("tells_change", [True, False])
def test_a_connection_that_breaks_is_resumed_where_it_broke(server, cache, tells_change):
    server.tells_change = tells_change
    server.cuts = [10_000, 5_000]
    path = download(FLOWERS, cache, server.address)
    assert path.read_bytes() == IRIS
    changed = server.changed if tells_change else None
    assert server.requests == [
        ("multiclass/iris.scale", None, None),
        ("multiclass/iris.scale", "bytes=10000-", changed),
        ("multiclass/iris.scale", "bytes=15000-", changed),
    ]


def test_one_that_keeps_breaking_leaves_what_arrived_for_the_next_attempt(server, cache):
    server.cuts = [10_000, 2_000, 1_000]
    with pytest.raises(DatasetError, match="after 13000 of 30000 bytes; what arrived is kept"):
        download(FLOWERS, cache, server.address)
    assert names_in(cache) == ["iris.scale.part"]
    assert (cache / "iris.scale.part").read_bytes() == IRIS[:13_000]
    assert download(FLOWERS, cache, server.address).read_bytes() == IRIS
    assert server.requests[-1][1] == "bytes=13000-"
    assert names_in(cache) == ["iris.scale"]


def test_two_that_want_the_same_file_at_once_load_it_once(server, cache):
    server.pause_after = 5_000
    found = []

    def get():
        found.append(download(FLOWERS, cache, server.address).read_bytes())

    both = [threading.Thread(target=get) for _ in range(2)]
    for thread in both:
        thread.start()
    until(lambda: (cache / "iris.scale.part").exists() and len(server.requests) == 1)
    server.go_on.set()
    for thread in both:
        thread.join(30)
    assert found == [IRIS, IRIS]
    assert len(server.requests) == 1
    assert names_in(cache) == ["iris.scale"]


def test_who_waits_in_vain_begins_anew(server, cache):
    server.pause_after = 5_000
    wrong = file_of("multiclass/iris.scale", IRIS[:-1])
    failures = []

    def get_what_is_never_sent():
        with pytest.raises(DatasetError, match="is not kept"):
            download(wrong, cache, server.address)
        failures.append(wrong)

    first = threading.Thread(target=get_what_is_never_sent)
    first.start()
    until(lambda: len(server.requests) == 1)
    server.go_on.set()
    assert download(FLOWERS, cache, server.address).read_bytes() == IRIS
    first.join(30)
    assert failures == [wrong]
    assert names_in(cache) == ["iris.scale"]


def test_a_server_that_falls_silent_is_asked_again(server, cache, monkeypatch):
    monkeypatch.setattr("lasn.datasets.download._SILENCE_SECONDS", 0.2)
    server.pause_after = 5_000
    with pytest.raises(DatasetError, match="after 15000 bytes: timed out; what arrived is kept"):
        download(FLOWERS, cache, server.address)
    assert [wanted for _, wanted, _ in server.requests] == [None, "bytes=5000-", "bytes=10000-"]
    assert (cache / "iris.scale.part").read_bytes() == IRIS[:15_000]


def test_a_folder_can_be_the_mirror(cache, tmp_path):
    (tmp_path / "multiclass").mkdir()
    (tmp_path / "multiclass" / "iris.scale").write_bytes(IRIS)
    assert download(FLOWERS, cache, tmp_path.as_uri()).read_bytes() == IRIS


def test_a_server_without_ranges_sends_all_again(server, cache):
    server.ranges = False
    server.cuts = [10_000]
    assert download(FLOWERS, cache, server.address).read_bytes() == IRIS
    assert server.requests[-1][1] == "bytes=10000-"


def test_a_file_that_changed_meanwhile_is_not_mixed_with_the_old_one(server, cache):
    server.cuts = [10_000, 0, 0]
    with pytest.raises(DatasetError, match="broke off"):
        download(FLOWERS, cache, server.address)
    new = IRIS.replace(b":1 ", b":2 ")
    server.files["multiclass/iris.scale"] = new
    server.changed = formatdate(1_100_000_000, usegmt=True)
    path = download(file_of("multiclass/iris.scale", new), cache, server.address)
    assert path.read_bytes() == new


def test_a_part_that_is_whole_is_taken_as_it_is(server, cache):
    server.tells_change = False
    cache.mkdir(parents=True)
    part = cache / "iris.scale.part"
    part.write_bytes(IRIS)
    os.utime(part, (0, 0))  # as a download from such a server leaves it
    assert download(FLOWERS, cache, server.address).read_bytes() == IRIS
    assert server.requests == [("multiclass/iris.scale", "bytes=30000-", None)]
    assert names_in(cache) == ["iris.scale"]


def test_a_part_longer_than_the_file_is_thrown_away(server, cache):
    server.cuts = [20_000, 0, 0]
    with pytest.raises(DatasetError, match="broke off"):
        download(FLOWERS, cache, server.address)
    short = IRIS[:2_000]
    server.files["multiclass/iris.scale"] = short
    file = file_of("multiclass/iris.scale", short, rows=10)
    assert download(file, cache, server.address).read_bytes() == short


def test_a_server_that_tells_no_length_is_checked_by_content(server, cache):
    server.tells_length = False
    server.cuts = [10_000]
    with pytest.raises(DatasetError, match=r"is not kept: .* has 50 rows"):
        download(FLOWERS, cache, server.address)
    assert names_in(cache) == []
    assert download(FLOWERS, cache, server.address).read_bytes() == IRIS


def test_a_wrong_checksum_is_not_kept(server, cache):
    with pytest.raises(DatasetError, match=r"binary/a9a sends is not kept: .*f5d5ffd8.*another"):
        fetch("a9a", server.address)
    assert names_in(cache) == []


def test_a_known_copy_is_as_good_as_the_site_s_file(server, cache):
    file = DataFile(
        "iris.scale", "multiclass/iris.scale", 150, "0" * 64, frozenset({FLOWERS.sha256})
    )
    assert download(file, cache, server.address).read_bytes() == IRIS


def test_without_a_checksum_the_rows_are_counted(server, cache):
    server.files["binary/liver-disorders"] = b"<html>\n<body>log in first</body>\n</html>\n"
    with pytest.raises(DatasetError, match="has 3 rows, but liver-disorders has 145"):
        fetch("liver-disorders", server.address)
    assert names_in(cache) == []


def test_a_file_that_the_server_lacks_is_named(server, cache):
    with pytest.raises(DatasetError) as failure:
        fetch("glass.scale", server.address)
    message = str(failure.value)
    assert f"{server.address}/multiclass/glass.scale answers 404" in message
    assert "Get glass.scale in another way" in message
    assert str(cache) in message
    assert names_in(cache) == []


def test_offline_says_which_file_to_place_where(cache):
    with pytest.raises(DatasetError) as failure:
        load("ijcnn1")
    message = str(failure.value)
    assert "http://127.0.0.1:9/nobody-listens-here/binary/ijcnn1.bz2 cannot be reached" in message
    assert "Get ijcnn1.bz2 in another way and place it, packed or not" in message
    assert "LASN_DATA" in message
    assert str(cache) in message


class Terminal(StringIO):
    """A stream that says that a person is watching, and what they have seen so far."""

    def isatty(self):
        return True


def test_a_slow_download_shows_how_far_it_is_and_wipes_the_line(server, cache):
    server.pause_after = 14_500
    with redirect_stderr(Terminal()) as terminal:
        fetching = threading.Thread(target=fetch, args=("liver-disorders", server.address))
        fetching.start()
        half = "[############............]"
        until(lambda: half in terminal.getvalue())
        assert names_in(cache) == ["liver-disorders.part"]
        server.go_on.set()
        fetching.join()
    drawn = terminal.getvalue()
    assert "liver-disorders  14 kB of 29 kB" in drawn
    assert "[########################]" in drawn
    lines = drawn.split("\r")
    assert lines[-1] == ""
    assert lines[-2].strip() == ""
    assert (cache / "liver-disorders").read_bytes() == LIVER


def test_nothing_is_drawn_where_nobody_watches(server, cache, capfd):
    fetch("liver-disorders", server.address)
    assert capfd.readouterr() == ("", "")
