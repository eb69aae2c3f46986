"""What is to be fitted where the rows live elsewhere, in chunks: on disk, or on a cluster.

It gives training the same answers as a problem in memory (``problem.py``). Landmarks come from the
same rows, since which rows are looked at depends on the seed and on the sizes of groups alone. What
is brought here is a pool of rows to start from; nothing here has an entry for every row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from lasn.blocks import ChosenRows
from lasn.chunked_blocks import ChunkArray, ChunkedBlocks
from lasn.chunks import Chunk, Chunks
from lasn.devices import Place
from lasn.gamma import gamma_of_moments
from lasn.landmarks import (
    MAX_KMEANS_ROWS,
    bin_edges,
    bin_of,
    check_landmarks,
    distinct_rows,
    landmarks_among,
    ordinals_by_group,
    rows_looked_at,
    scattered,
    some_of,
    target_step,
)
from lasn.losses import Loss
from lasn.model import Model
from lasn.objective import RegularizedLoss
from lasn.problem import Memory, Problem
from lasn.survey import Survey, chunk_weight, weighted_moments

# Rows that are brought here to start from: as many as this, or as take up so many bytes.
_POOL_ROWS = 1 << 17
_POOL_BYTES = 64 << 20


@dataclass
class ChunkedProblem:
    """Rows in chunks, and what to fit to them.

    ``targets`` (n, c), ``sample_weight`` (n,) and ``groups`` (n,) are states: each chunk has its
    part of them. ``rows`` are the positions in each chunk that take part, None for all.
    """

    chunks: Chunks
    survey: Survey
    targets: list[Any]
    sample_weight: list[Any]
    groups: list[Any]
    rows: list[Any] | None
    group_counts: np.ndarray  # (n_chunks, n_groups)
    group_weights: np.ndarray  # (n_groups,)
    n_problems: int
    C: float
    loss: Loss
    tell: Callable[[str], None] = lambda text: None

    device = None

    @property
    def n_rows(self) -> int:
        return int(self.group_counts.sum())

    @property
    def bytes_moved(self) -> int:
        """Between here and the chunks, so far."""
        return self.chunks.bytes_moved

    @property
    def n_features(self) -> int:
        return self.survey.n_features

    @property
    def X(self) -> Any:
        """A few rows, which show what rows are like."""
        return self.survey.examples

    def on(self, place: Place, memory_limit: Any) -> ChunkedProblem:
        if place.device is not None:
            raise ValueError(
                "Rows on disk or on a cluster are fitted by the CPU; "
                f'device={str(place.device)!r} was given. Set device="cpu", or give a '
                "memory-mapped array."
            )
        return self

    def place(self, rows: Any) -> Any:
        return rows

    def gamma(self, gamma: Any) -> float:
        if not isinstance(gamma, str):
            return float(gamma)
        moments = self.survey.moments
        return gamma_of_moments(gamma, moments.mean, moments.variance, sp.issparse(self.X))

    def without_zero_weights(self) -> ChunkedProblem:
        if not self.survey.has_zero_weights or self.rows is not None:
            return self
        return self._only(self.chunks.run(_present, self.sample_weight)[0])

    def landmarks(self, method: str, k: int, rng, active_rows) -> Any:
        n_rows = self.n_rows
        if k >= n_rows:
            return distinct_rows(self._take(np.arange(n_rows)).X)
        if method == "uniform":
            return self._uniform(k, rng)
        if method == "kmeans":
            sample = self._take(np.arange(min(n_rows, MAX_KMEANS_ROWS)))
        else:
            counts = self.group_counts.sum(axis=0)
            size = rows_looked_at(k, len(counts))
            sample = self._take_members(ordinals_by_group(counts, size, rng))

        def find_active(first):
            return active_rows(first, sample.weighing(self.group_weights))

        return landmarks_among(
            method, sample.X, k, sample.groups, sample.sample_weight, rng, find_active
        )

    def own_landmarks(self, landmarks: Any) -> Any:
        return check_landmarks(landmarks, self.X)

    def pool(self, rng, most: int = _POOL_ROWS) -> Problem:
        """Rows to start from, brought here and weighted so that each group counts as in all."""
        row_bytes = self.X.dtype.itemsize * self.n_features
        if sp.issparse(self.X):
            row_bytes = 1 + (self.X.dtype.itemsize + 8) * self.X.nnz // self.X.shape[0]
        size = min(most, max(MAX_KMEANS_ROWS, _POOL_BYTES // row_bytes))
        return self._take(some_of(self.n_rows, size, rng)).weighing(self.group_weights)

    def drawn(self, size: int, rng) -> ChunkedProblem:
        """The problem on about so many random rows, which stay where they are, weighted alike."""
        seeds = [rng.randint(2**31) for _ in range(self.chunks.n_chunks)]
        share = size / self.n_rows
        part = self._only(self.chunks.run(_draw_share, self.groups, seeds, shared=(share,))[0])
        totals = weigh_groups(self.chunks, part.groups, part.sample_weight, len(self.group_weights))
        scale = np.divide(self.group_weights, totals, out=np.zeros_like(totals), where=totals > 0.0)
        weight, _ = self.chunks.run(_scale, part.sample_weight, part.groups, shared=(scale,))
        return replace(part, sample_weight=weight)

    def near(self, model: Model, margin: float) -> ChunkedProblem:
        shared = (self.chunks.share(model), margin, self.loss)
        return self._only(self.chunks.run(_near, self._rows, self.targets, shared=shared)[0])

    def is_cheap(self, model: Model, memory: Memory) -> bool:
        if model.landmarks is None:
            return False
        return model.columns.is_cheap(self.X, kept=memory.keeps(self.n_rows, model))

    def free_memory(self, limit: Any, reserved: int) -> int:
        return self.chunks.memory_for_features(limit, reserved)

    def objective(self, model: Model, memory: Memory, once: bool) -> RegularizedLoss:
        memory.workspace.clear()  # chunks have room of their own
        columns = model.columns
        judge = None
        if columns is not None and not once:
            row_bytes = columns.n_columns * model.dtype.itemsize
            judge = self.chunks.judge(self.n_rows * row_bytes, self.tell)
        blocks = ChunkedBlocks(
            self.chunks,
            self.rows,
            (self.n_rows, self.n_features),
            columns,
            model.dtype,
            memory.budget,
            once,
            judge,
        )
        costs, _ = self.chunks.run(_costs, self.sample_weight, shared=(self.C,))
        return RegularizedLoss(
            blocks,
            model.mapping,
            self.loss,
            ChunkArray(self.targets, (self.n_rows, self.n_problems)),
            ChunkArray(costs, (self.n_rows, 1)),
        )

    @property
    def _rows(self) -> list[Any]:
        return [None] * self.chunks.n_chunks if self.rows is None else self.rows

    def _only(self, positions: list[Any]) -> ChunkedProblem:
        """The problem on the rows at these positions of each chunk's rows that take part."""
        run = self.chunks.run
        groups, _ = run(_choose, self.groups, positions)
        counts = count_groups(self.chunks, groups, self.group_counts.shape[1])
        return replace(
            self,
            targets=run(_choose, self.targets, positions)[0],
            sample_weight=run(_choose, self.sample_weight, positions)[0],
            groups=groups,
            rows=run(_choose_again, self._rows, positions)[0],
            group_counts=counts,
        )

    def _take(self, positions: np.ndarray) -> Problem:
        """Rows at these positions of all, in order, brought here."""
        starts = np.concatenate([[0], np.cumsum(self.group_counts.sum(axis=1))])
        ends = np.searchsorted(positions, starts)
        wanted = [
            positions[ends[index] : ends[index + 1]] - starts[index]
            for index in range(self.chunks.n_chunks)
        ]
        return self._bring(wanted)

    def _take_members(self, ordinals: list[np.ndarray]) -> Problem:
        """Members of each group by their number among its members, brought here."""
        n_chunks = self.chunks.n_chunks
        wanted: list[list[np.ndarray]] = [[] for _ in range(n_chunks)]
        for group, numbers in enumerate(ordinals):
            starts = np.concatenate([[0], np.cumsum(self.group_counts[:, group])])
            ends = np.searchsorted(numbers, starts)
            for index in range(n_chunks):
                wanted[index].append(numbers[ends[index] : ends[index + 1]] - starts[index])
        positions, _ = self.chunks.run(_positions_of_members, self.groups, wanted)
        return self._bring(positions)

    def _bring(self, positions: list[Any]) -> Problem:
        parts, _ = self.chunks.run(
            _take, self._rows, self.targets, self.sample_weight, self.groups, positions
        )
        found = [part for part in self.chunks.collect(parts) if part is not None]
        X, targets, weight, groups = zip(*found, strict=True)
        stack = (lambda rows: sp.vstack(rows, format="csr")) if sp.issparse(X[0]) else np.vstack
        return Problem(
            stack(X),
            np.vstack(targets),
            np.concatenate(weight),
            np.concatenate(groups),
            self.C,
            self.loss,
        )

    def _uniform(self, k: int, rng) -> Any:
        """k rows drawn without replacement, with their weights as probabilities.

        The rows with the least -log(u) / weight are such a sample, and those of a chunk are known
        there.
        """
        seeds = [rng.randint(2**31) for _ in range(self.chunks.n_chunks)]
        states, _ = self.chunks.run(_draw, self.sample_weight, seeds, shared=(k,))
        drawn = self.chunks.collect(states)
        bound = np.sort(np.concatenate([keys for _, keys in drawn]))[k - 1]
        return self._bring([positions[keys <= bound] for positions, keys in drawn]).X


def classification_problem(
    chunks: Chunks, survey: Survey, weight_of_class: np.ndarray, loss: Loss
) -> ChunkedProblem:
    """One problem for two classes, one for each class against the rest for more; C = 1."""
    n_classes = len(survey.classes)
    groups, _ = chunks.run(_class_of_rows, shared=(survey.classes,))
    targets, _ = chunks.run(_class_targets, groups, shared=(n_classes,))
    weight, _ = chunks.run(_class_weights, groups, shared=(weight_of_class,))
    if np.any(weight_of_class != 1.0):
        survey = replace(survey, moments=weighted_moments(chunks, weight))
    n_problems = 1 if n_classes == 2 else n_classes
    survey = replace(
        survey, has_zero_weights=survey.has_zero_weights or bool((weight_of_class == 0.0).any())
    )
    return _problem(chunks, survey, targets, weight, groups, n_classes, n_problems, loss)


def regression_problem(chunks: Chunks, survey: Survey, loss: Loss) -> ChunkedProblem:
    """One problem for each target; bins of the first one are the groups; C = 1."""
    targets, _ = chunks.run(_real_targets)
    weight, _ = chunks.run(_plain_weights)
    starts = np.concatenate([[0], np.cumsum(survey.n_rows_of_chunk)])
    step = target_step(int(starts[-1]))
    some, _ = chunks.run(_every, targets, (-starts[:-1] % step).tolist(), shared=(step,))
    edges = bin_edges(np.concatenate(chunks.collect(some)))
    groups, _ = chunks.run(_bins, targets, shared=(edges,))
    n_problems = int(np.prod(survey.target_shape, dtype=int))
    return _problem(chunks, survey, targets, weight, groups, len(edges) + 1, n_problems, loss)


def _problem(
    chunks, survey, targets, weight, groups, n_groups: int, n_problems: int, loss
) -> ChunkedProblem:
    return ChunkedProblem(
        chunks=chunks,
        survey=survey,
        targets=targets,
        sample_weight=weight,
        groups=groups,
        rows=None,
        group_counts=count_groups(chunks, groups, n_groups),
        group_weights=weigh_groups(chunks, groups, weight, n_groups),
        n_problems=n_problems,
        C=1.0,
        loss=loss,
    )


def count_groups(chunks: Chunks, groups: list[Any], n_groups: int) -> np.ndarray:
    """How many rows of each group each chunk has, shape (n_chunks, n_groups)."""
    counts, _ = chunks.run(_count_groups, groups, shared=(n_groups,))
    return np.array(chunks.collect(counts))


def weigh_groups(chunks: Chunks, groups: list[Any], weight: list[Any], n_groups: int) -> np.ndarray:
    """The weight of each group's rows, shape (n_groups,)."""
    totals, _ = chunks.run(_weigh_groups, groups, weight, shared=(n_groups,))
    return np.sum(chunks.collect(totals), axis=0)


# What runs where a chunk is.


def _class_of_rows(chunk: Chunk, classes):
    y = np.asarray(chunk.y[:])
    return np.searchsorted(classes, y.reshape(len(y))), ()


def _class_targets(chunk: Chunk, groups, n_classes):
    chosen = np.arange(1, 2) if n_classes == 2 else np.arange(n_classes)
    return np.where(groups[:, None] == chosen, 1.0, -1.0), ()


def _class_weights(chunk: Chunk, groups, weight_of_class):
    return chunk_weight(chunk) * weight_of_class[groups], ()


def _real_targets(chunk: Chunk):
    y = np.asarray(chunk.y[:], dtype=np.float64)
    return y.reshape(len(y), -1), ()


def _plain_weights(chunk: Chunk):
    return chunk_weight(chunk), ()


def _every(chunk: Chunk, targets, start, step):
    return targets[start::step, 0], ()


def _bins(chunk: Chunk, targets, edges):
    return bin_of(np.ascontiguousarray(targets[:, 0]), edges), ()


def _weigh_groups(chunk: Chunk, groups, weight, n_groups):
    return np.bincount(groups, weight, n_groups), ()


def _count_groups(chunk: Chunk, groups, n_groups):
    return np.bincount(groups, minlength=n_groups), ()


def _present(chunk: Chunk, weight):
    return np.flatnonzero(weight > 0.0), ()


def _choose(chunk: Chunk, state, positions):
    return state[positions], ()


def _choose_again(chunk: Chunk, rows, positions):
    return (positions if rows is None else rows[positions]), ()


def _costs(chunk: Chunk, weight, C):
    return (C * weight)[:, None], ()


def _rows_of(chunk: Chunk, rows, positions):
    """Rows at positions among those that take part."""
    return chunk.X[positions if rows is None else rows[positions]]


def _take(chunk: Chunk, rows, targets, weight, groups, positions):
    if len(positions) == 0:
        return None, ()
    X = _rows_of(chunk, rows, positions)
    return (X, targets[positions], weight[positions], groups[positions]), ()


def _positions_of_members(chunk: Chunk, groups, ordinals):
    parts = [np.flatnonzero(groups == name)[numbers] for name, numbers in enumerate(ordinals)]
    return np.sort(np.concatenate(parts)), ()


def _draw(chunk: Chunk, weight, seed, k):
    """The k rows with the least -log(u) / weight, and those keys."""
    with np.errstate(divide="ignore"):
        keys = -np.log(np.random.RandomState(seed).uniform(size=len(weight))) / weight
    least = np.sort(np.argsort(keys, kind="stable")[:k])
    return (least, keys[least]), ()


def _draw_share(chunk: Chunk, groups, seed, share):
    n_rows = len(groups)
    return scattered(n_rows, round(share * n_rows), np.random.RandomState(seed)), ()


def _scale(chunk: Chunk, weight, groups, scale):
    return weight * scale[groups], ()


def _near(chunk: Chunk, rows, targets, model: Model, margin, loss):
    X = chunk.X if rows is None else ChosenRows(chunk.X, rows)
    rests = loss.rests(targets, model.scores(X), margin)
    return np.flatnonzero(~rests.all(axis=1)), ()
