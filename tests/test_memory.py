"""What memory_limit means, here and on a device."""

import mmap

import numpy as np
import pytest

from lasn.memory import (
    _POPULATE_WRITE,
    _advise,
    parse_memory_limit,
    physical_memory,
    ready_pages,
    resident_memory,
)
from lasn.problem import free_memory


@pytest.mark.parametrize(
    ("limit", "size"),
    [
        (1000, 1000),
        (1e9, 10**9),
        (np.int64(1000), 1000),
        (np.float32(1024.0), 1024),
        ("1000", 1000),
        ("1000B", 1000),
        ("2GB", 2 * 10**9),
        ("2 gb", 2 * 10**9),
        ("500MB", 500 * 10**6),
        ("1.5G", 1_500_000_000),
        ("64k", 64_000),
        ("1TB", 10**12),
        ("1KiB", 1024),
        ("0.5 MiB", 2**19),
        ("2GiB", 2**31),
        ("1e9", 10**9),
        (" 1 GB ", 10**9),
    ],
)
def test_amounts(limit, size):
    assert parse_memory_limit(limit) == size


@pytest.mark.parametrize(
    "limit",
    ["much", "", "GB", "-1GB", "1XB", "1.2.3GB", "1 G B", 0, -5, True, np.nan, np.inf, [1], 1j],
)
def test_what_is_not_an_amount_is_told_what_is(limit):
    with pytest.raises(ValueError, match="memory_limit=") as caught:
        parse_memory_limit(limit)
    assert repr(limit) in str(caught.value)
    assert '"2GB"' in str(caught.value)


def test_no_limit_is_half_of_the_machine():
    assert parse_memory_limit(None) == physical_memory() // 2


def test_resident_memory_grows_with_what_is_held():
    before = resident_memory()
    held = np.ones(16 << 20)
    assert 0 < before < resident_memory() - held.nbytes // 2


def held_in(place):
    """Bytes that count towards the limit before a fit takes any: the process's, or a GPU's."""
    if place.name != "cuda":
        return resident_memory()
    import torch

    return torch.cuda.memory_allocated(place.device)


def test_what_is_held_and_what_is_reserved_count_towards_the_limit(place):
    limit = held_in(place) + (1 << 30)
    assert free_memory(place.device, limit, 0) == pytest.approx(1 << 30, rel=0.1)
    assert free_memory(place.device, limit, 1 << 29) == pytest.approx(1 << 29, rel=0.1)


def test_a_small_block_is_always_allowed(place):
    assert 1 << 20 <= free_memory(place.device, "1KB", 0) <= 64 << 20


def test_no_more_is_free_than_there_is(place):
    most = physical_memory()
    if place.name == "cuda":
        import torch

        most = torch.cuda.mem_get_info(place.device)[1]
    assert free_memory(place.device, None, 0) <= most


@pytest.mark.parametrize("advise", ["the system's", None])
@pytest.mark.parametrize("n_values", [0, 3, 5000, 300_000])
def test_pages_are_readied_and_hold_what_they_held(n_values, advise, monkeypatch):
    if advise is None:
        monkeypatch.setattr("lasn.memory._advise", lambda: None)
    array = np.arange(n_values + 2.0)
    ready_pages(array[1:-1])
    np.testing.assert_array_equal(array, np.arange(n_values + 2.0))


def test_readied_pages_are_not_faulted_in_one_by_one():
    advise = _advise()
    first = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), dtype=np.uint8)
    if advise is None or advise(first.ctypes.data, mmap.PAGESIZE, _POPULATE_WRITE) != 0:
        pytest.skip("this system readies no pages")
    resource = pytest.importorskip("resource")
    array = np.frombuffer(mmap.mmap(-1, 8 << 20), dtype=np.uint8)
    ready_pages(array)

    def faults():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    before = faults()
    array.fill(1)
    assert faults() - before < (8 << 20) // mmap.PAGESIZE // 2
