"""Rows in the host's memory, or in a file that is mapped into it, on their way to a device.

::

    rows  --a thread-->  pinned buffers, in turn  --a stream of copies-->  tensor on the device

Rows are read in order, slice by slice. While the device works on one slice, the next one is copied:
a thread of the host fills one small pinned buffer (from memory, or from the disk where the rows are
a mapped file) while another is on its way, and the device's copies run beside its computations. An
event tells the thread when a buffer may be filled again, another tells the computations that their
slice is there. Pinned memory and streams are CUDA's; other devices go the same way without them.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import torch

# Buffers between host and device: one is filled while another is emptied.
_BUFFERS = 3
_BUFFER_BYTES = 32 << 20
_SLICES_AHEAD = 2


class HostRows:
    """Rows, shape (n, p), of which slices, or those at some positions, are copied when wanted.

    Parameters
    ----------
    rows : tensor on the host, shape (m, p)
    device : where they are wanted
    positions : integer tensor on the host, shape (n,), optional
        Which of the rows these are; all of them by default.
    """

    def __init__(self, rows: torch.Tensor, device: torch.device, positions: Any = None, way=None):
        self.rows, self.device, self.positions = rows, device, positions
        self.way: _Way = way or _Way(device)
        n_rows = rows.shape[0] if positions is None else len(positions)
        self.shape, self.dtype = (n_rows, rows.shape[1]), rows.dtype
        self.ahead: tuple[tuple[int, int], Future] | None = None

    def chosen(self, positions: Any) -> HostRows:
        """Those at some positions, still on the host."""
        positions = torch.as_tensor(positions).cpu()
        if self.positions is not None:
            positions = self.positions[positions]
        return HostRows(self.rows, self.device, positions, self.way)

    def on_host(self, rows: slice) -> torch.Tensor:
        """Some of them where they are."""
        return self.rows[rows if self.positions is None else self.positions[rows]]

    def __getitem__(self, rows: Any) -> torch.Tensor:
        if not isinstance(rows, slice):
            chosen = self.chosen(rows)
            return chosen[: chosen.shape[0]]
        start, stop, _ = rows.indices(self.shape[0])
        ahead, self.ahead = self.ahead, None
        if ahead is None or ahead[0] != (start, stop):
            ahead = self._begin(start, stop)
        tensor = self.way.arrive(ahead[1])
        if stop < self.shape[0]:
            self.ahead = self._begin(stop, min(2 * stop - start, self.shape[0]))
        return tensor

    def _begin(self, start: int, stop: int) -> tuple[tuple[int, int], Future]:
        return (start, stop), self.way.send(self.rows, self.positions, start, stop)


class _Way:
    """One thread, its pinned buffers and its stream: copies to a device, one after the other."""

    def __init__(self, device: torch.device):
        self.device = device
        self.thread = ThreadPoolExecutor(1, "lasn-copy")
        self.on_cuda = device.type == "cuda"
        self.stream = torch.cuda.Stream(device) if self.on_cuda else None
        self.buffers: list[torch.Tensor] = []
        self.emptied: list[Any] = [None] * _BUFFERS
        self.worked_on: deque[Any] = deque()
        self.turn = 0
        self.bytes_copied = 0

    def send(self, source: torch.Tensor, positions: Any, start: int, stop: int) -> Future:
        """Begin to copy rows start, ..., stop - 1 of a tensor on the host, or of its positions."""
        return self.thread.submit(self._copy, source, positions, start, stop)

    def arrive(self, sent: Future) -> torch.Tensor:
        """The rows on the device; what is computed from now on waits for them there."""
        tensor, event = sent.result()
        if event is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_event(event)
            tensor.record_stream(current)
            self._keep_pace(current)
        return tensor

    def _keep_pace(self, current: Any) -> None:
        """Wait until the device has done with all slices but the last two before this one.

        Those that have arrived and are not yet worked on take memory.
        """
        event = torch.cuda.Event()
        event.record(current)
        self.worked_on.append(event)
        if len(self.worked_on) > _SLICES_AHEAD:
            self.worked_on.popleft().synchronize()

    def _copy(
        self, source: torch.Tensor, positions: Any, start: int, stop: int
    ) -> tuple[torch.Tensor, Any]:
        """The rows on the device, and the event that they have arrived."""
        shape = (stop - start, *source.shape[1:])
        row_bytes = max(1, source.element_size() * source.shape[1])
        size = max(1, _BUFFER_BYTES // row_bytes)
        pinned = self.on_cuda and positions is None and source.is_pinned()
        with torch.cuda.stream(self.stream) if self.on_cuda else nullcontext():
            out = torch.empty(shape, dtype=source.dtype, device=self.device)
            for first in range(start, stop, size):
                rows = slice(first, min(first + size, stop))
                ready = source[rows] if pinned else self._fill_buffer(source, positions, rows)
                out[first - start : rows.stop - start].copy_(ready, non_blocking=self.on_cuda)
                self.emptied[self.turn] = self._event()
            self.bytes_copied += out.nbytes
            return out, self._event()

    def _fill_buffer(self, source: torch.Tensor, positions: Any, rows: slice) -> torch.Tensor:
        """The rows in the next buffer, once what it held before has left."""
        self.turn = (self.turn + 1) % _BUFFERS
        if self.emptied[self.turn] is not None:
            self.emptied[self.turn].synchronize()
        buffer = self._buffer(source, rows.stop - rows.start)
        if positions is None:
            buffer.copy_(source[rows])
        else:
            torch.index_select(source, 0, positions[rows], out=buffer)
        return buffer

    def _buffer(self, source: torch.Tensor, n_rows: int) -> torch.Tensor:
        """The buffer whose turn it is, as rows like the source's."""
        if not self.buffers:
            n_bytes = max(_BUFFER_BYTES, source[:1].nbytes)
            self.buffers = [
                torch.empty(n_bytes, dtype=torch.uint8, pin_memory=self.on_cuda)
                for _ in range(_BUFFERS)
            ]
        numbers = self.buffers[self.turn].view(source.dtype)
        return numbers[: n_rows * source.shape[1]].view(n_rows, source.shape[1])

    def _event(self) -> Any:
        if not self.on_cuda:
            return None
        event = torch.cuda.Event()
        event.record(self.stream)
        return event
