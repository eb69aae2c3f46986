"""What memory_limit means."""

import numpy as np
import pytest

from lasn.memory import parse_memory_limit, physical_memory, resident_memory, working_memory


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


def test_process_counts_towards_the_limit():
    limit = resident_memory() + (1 << 30)
    assert working_memory(limit) == pytest.approx(1 << 30, rel=0.1)


def test_a_small_block_is_always_allowed():
    assert 1 << 20 <= working_memory("1KB") <= 64 << 20
