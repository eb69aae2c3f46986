"""More rows than a device has room for: they come in pieces, from memory or from a file."""

import warnings

import numpy as np
import pytest
from devices import every_device, torch_device

from lasn import LASNClassifier
from lasn.gamma import resolve_gamma


@pytest.fixture
def rows(rng):
    return rng.normal(size=(5000, 6)).astype(np.float32)


@every_device
@pytest.mark.parametrize("buffer_bytes", [1, 1000, 1 << 20])
def test_rows_arrive_as_they_left(device, rows, buffer_bytes, monkeypatch):
    """Slices in order, out of order and again; positions; through buffers of any size."""
    torch, place = torch_device(device)
    from lasn import torch_stream

    monkeypatch.setattr(torch_stream, "_BUFFER_BYTES", buffer_bytes)
    host = torch_stream.HostRows(torch.from_numpy(rows), place)
    for start in (*range(0, 5000, 700), 1400, 0, 700, 4900):
        part = slice(start, start + 700)
        assert host[part].device.type == place.type
        np.testing.assert_array_equal(host[part].cpu().numpy(), rows[part])
    positions = np.array([3, 4999, 3, 17])
    np.testing.assert_array_equal(host[positions].cpu().numpy(), rows[positions])
    chosen = host.chosen(torch.arange(0, 5000, 3, device=place))
    twice = chosen.chosen(np.arange(0, 1600, 2))
    for some, expected in ((chosen, rows[::3]), (twice, rows[::3][:1600:2])):
        assert some.shape == expected.shape
        parts = [some[i : i + 100].cpu().numpy() for i in range(0, some.shape[0], 100)]
        np.testing.assert_array_equal(np.concatenate(parts), expected)


@every_device
def test_the_next_slice_is_copied_while_this_one_is_worked_on(device, rows):
    torch, place = torch_device(device)
    from lasn.torch_stream import HostRows

    host = HostRows(torch.from_numpy(rows), place)
    host[0:1000]
    key, sent = host.ahead
    assert key == (1000, 2000)
    waiting = sent.result()[0]
    assert host[1000:2000] is waiting
    host[4000:5000]
    assert host.ahead is None
    # Each row once, and 2000 : 3000, which was copied in vain.
    assert host.way.bytes_copied == 4 * 1000 * 6 * 4
    if device == "cuda":
        assert all(buffer.is_pinned() for buffer in host.way.buffers)
        assert host.way.stream != torch.cuda.current_stream()


@every_device
def test_an_error_of_a_copy_reaches_the_reader(device, rows):
    torch, place = torch_device(device)
    from lasn.torch_stream import HostRows

    host = HostRows(torch.from_numpy(rows), place)
    with pytest.raises(IndexError):
        host[np.array([0, 5000])]
    np.testing.assert_array_equal(host[:10].cpu().numpy(), rows[:10])


@pytest.fixture
def curved(rng):
    """20 000 rows of 6 features, labels with a curved boundary."""
    X = rng.normal(size=(20_000, 6)).astype(np.float32)
    return X, (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] > 0).astype(int)


@every_device
@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("states_stay", [False, True])
@pytest.mark.parametrize("source", ["memory", "file", "weights"])
def test_streaming_changes_no_model(
    curved, device, source, states_stay, implicit, monkeypatch, tmp_path
):
    torch_device(device)
    from lasn import torch_blocks, torch_kernels, torch_stream

    X, y = curved
    weight = None
    if source == "weights":  # rows of weight zero are left out: positions of rows are streamed
        weight = 1.0 * (np.arange(len(y)) % 5 > 0)
    monkeypatch.setattr(torch_kernels._RbfColumns, "is_implicit", implicit)
    settings = {"n_landmarks": 150, "random_state": 0, "dtype": "float32", "tol": 1e-5}
    inside = LASNClassifier(device=device, **settings).fit(X, y, weight)
    if source == "file":
        np.save(tmp_path / "rows.npy", X)
        X = np.load(tmp_path / "rows.npy", mmap_mode="r")
    monkeypatch.setattr("lasn.torch_rows.ROWS_SHARE", 1e-9)
    monkeypatch.setattr(torch_blocks, "_KEPT_OF_HOST", 0.01)
    monkeypatch.setattr(torch_blocks, "_STATES_SHARE", 1.0 if states_stay else 0.0)
    monkeypatch.setattr(torch_blocks, "_WORK_OF_HOST", 0.03)
    slices, send = [], torch_stream._Way.send
    monkeypatch.setattr(torch_stream._Way, "send", lambda *sent: slices.append(sent) or send(*sent))
    outside = LASNClassifier(device=device, memory_limit="1MB", **settings).fit(X, y, weight)
    assert len(slices) > 50
    assert any(positions is not None for _, _, positions, *_ in slices) or source != "weights"
    np.testing.assert_allclose(outside.decision_function(X), inside.decision_function(X), atol=5e-3)
    assert outside.history_[-1]["value"] == pytest.approx(inside.history_[-1]["value"], rel=1e-4)


def test_a_mapped_file_is_not_read_into_memory(tmp_path, rows):
    torch_device("torch")
    from lasn.torch_rows import shared_tensor

    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor = shared_tensor(mapped)
    assert tensor.data_ptr() == mapped.ctypes.data


@every_device
def test_values_far_above_the_memory_are_split(device):
    """Moments of wide rows are made of few rows at a time."""
    torch, place = torch_device(device)
    from lasn.torch_stream import HostRows

    X = np.random.RandomState(0).normal(size=(40_000, 500)).astype(np.float32)
    weight = torch.ones(len(X), device=place)
    found = resolve_gamma("variance", HostRows(torch.from_numpy(X), place), weight)
    assert found == pytest.approx(resolve_gamma("variance", X), rel=1e-5)
