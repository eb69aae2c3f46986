"""Products with the rbf kernel that never write it to memory, as one Triton kernel.

For prepared rows A of shape (a, d) and B of shape (b, d) (see ``torch_kernels.py``: their inner
products are the exponents, base 2) and V of shape (b, c)::

    out[i] = sum_j exp2(min(A_i . B_j, 0)) V[j]

Rows against landmarks this is K V; with the roles exchanged it is K^T U. Each program holds one
tile of A and goes through B, or through a part of it where A has few tiles. The parts are summed
in float64. A tile of kernel values lives in registers from product to sum: what is left to pay is
one matrix product of depth d and one exponential a value.

Inner products are made by the tensor cores in three TF32 products of split operands ("tf32x3"),
which is as exact as float32.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.runtime.errors import OutOfResources


class Tile(NamedTuple):
    """Rows of A and B in one tile, and how a program works on it."""

    a: int
    b: int
    warps: int
    stages: int


# The fastest first (measured on an H200, 28 features: ``benchmarks/gpu.py --sweep``). Those after
# it need less shared memory, for more features or columns and for smaller devices.
TILES = [Tile(128, 64, 4, 3), Tile(64, 64, 4, 2), Tile(32, 32, 4, 1)]
# Which of them is the first that fits, by device, width, columns and precision.
_first_tile: dict[tuple, int] = {}
# Rows that are added up in float32 before float64 takes over, and programs that fill a device.
_ROWS_A_SPLIT = 1 << 16
_PROGRAMS = 2048


@triton.jit(do_not_specialize=["n_a", "n_b", "rows_a_split"])
def _kernel_times(
    A,
    B,
    V,
    out,
    n_a,
    n_b,
    rows_a_split,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK_A: tl.constexpr,
    BLOCK_B: tl.constexpr,
    PRECISION: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_A + tl.arange(0, BLOCK_A)
    split = tl.program_id(1)
    features = tl.arange(0, WIDTH)
    a = tl.load(
        A + rows.to(tl.int64)[:, None] * WIDTH + features[None, :],
        mask=rows[:, None] < n_a,
        other=0.0,
    )
    begin = split * rows_a_split
    end = tl.minimum(begin + rows_a_split, n_b)
    columns = tl.arange(0, COLUMNS)
    if COLUMNS == 1:
        # Added along the rows of the tile once, at the end.
        total = tl.zeros((BLOCK_A, BLOCK_B), dtype=tl.float32)
    else:
        total = tl.zeros((BLOCK_A, COLUMNS), dtype=tl.float32)
    for start in range(begin, end, BLOCK_B):
        others = start + tl.arange(0, BLOCK_B)
        inside = others < end
        b = tl.load(
            B + others.to(tl.int64)[:, None] * WIDTH + features[None, :],
            mask=inside[:, None],
            other=0.0,
        )
        exponents = tl.dot(a, tl.trans(b), input_precision=PRECISION)
        values = tl.exp2(tl.minimum(exponents, 0.0))
        if COLUMNS == 1:
            v = tl.load(V + others, mask=inside, other=0.0)
            total += values * v[None, :]
        else:
            v = tl.load(
                V + others.to(tl.int64)[:, None] * COLUMNS + columns[None, :],
                mask=inside[:, None],
                other=0.0,
            )
            total = tl.dot(values, v, total, input_precision=PRECISION)
    place = split.to(tl.int64) * n_a + rows
    if COLUMNS == 1:
        tl.store(out + place, tl.sum(total, axis=1), mask=rows < n_a)
    else:
        tl.store(out + place[:, None] * COLUMNS + columns[None, :], total, mask=rows[:, None] < n_a)


def fused_product(
    A: torch.Tensor, B: torch.Tensor, V: torch.Tensor, precision: str = "tf32x3"
) -> torch.Tensor | None:
    """exp2(min(A B^T, 0)) V, shape (a, c): float64 where B was summed in parts, else float32.

    A and B are float32; V is made so. None where no tile fits into the device's shared memory.
    """
    n_a, width = A.shape
    n_b, n_columns = V.shape
    if n_a == 0 or n_b == 0:
        return A.new_zeros((n_a, n_columns))
    padded = 1 if n_columns == 1 else max(16, triton.next_power_of_2(n_columns))
    V = torch.nn.functional.pad(V.to(torch.float32), (0, padded - n_columns)).contiguous()
    kind = (A.device, width, padded, precision)
    while _first_tile.get(kind, 0) < len(TILES):
        tile = TILES[_first_tile.setdefault(kind, 0)]
        try:
            return _launch(A.contiguous(), B.contiguous(), V, precision, tile)[:, :n_columns]
        except OutOfResources:
            _first_tile[kind] += 1
    return None


def _launch(A, B, V, precision: str, tile: Tile) -> torch.Tensor:
    """The product by tiles of one shape, for V of 1 or of 16, 32, ... columns."""
    (n_a, width), (n_b, n_columns) = A.shape, V.shape
    tiles = triton.cdiv(n_a, tile.a)
    splits = max(triton.cdiv(n_b, _ROWS_A_SPLIT), min(_PROGRAMS // tiles, n_b // (8 * tile.b)), 1)
    rows_a_split = triton.cdiv(triton.cdiv(n_b, splits), tile.b) * tile.b
    splits = triton.cdiv(n_b, rows_a_split)
    out = torch.empty((splits, n_a, n_columns), dtype=torch.float32, device=A.device)
    with torch.cuda.device(A.device):
        _kernel_times[(tiles, splits)](
            A,
            B,
            V,
            out,
            n_a,
            n_b,
            rows_a_split,
            WIDTH=width,
            COLUMNS=n_columns,
            BLOCK_A=tile.a,
            BLOCK_B=tile.b,
            PRECISION=precision,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )
    return out[0] if splits == 1 else out.sum(0, dtype=torch.float64)
