"""Following a fit: scikit-learn's callbacks (its version 1.9 and later), and observers.

An observer is the package's own way, for whoever starts a fit and does not write the estimator: it
needs no support from scikit-learn, and leaves no trace in the estimator or its copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from lasn.cross_validation import Evaluation

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    HAVE_CALLBACKS = True
except ImportError:
    HAVE_CALLBACKS = False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's mixin."""

    def with_callbacks(method):
        """Stand in for scikit-learn's decorator."""
        return method


class Observer(Protocol):
    """Hears of the stages of a fit, of each Newton iteration and of each candidate of a search."""

    def stage(self, name: str) -> None:
        """A stage begins: landmarks, map or solve; before them, search."""

    def candidate(self, number: int, evaluation: Evaluation) -> None:
        """A search has evaluated so many candidates, this one last."""

    def iteration(self, number: int, record: dict[str, Any], model: Callable[[], Any]) -> None:
        """An iteration is done. ``model()`` is the estimator as if the fit had ended with it."""


_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Let an observer follow every fit that runs inside."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def current_observer() -> Observer | None:
    return _observer.get()


class IterationCallbacks:
    """Tells an estimator's callbacks of the fit and of each Newton iteration in it."""

    def __init__(self, estimator, X, y, sample_weight):
        self.estimator = estimator
        self.context = None
        self.data = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
        if HAVE_CALLBACKS and hasattr(estimator, "_skl_callbacks"):
            self.context = estimator._init_callback_context(max_subtasks=None)
            self.context.call_on_fit_task_begin(estimator=estimator, **self.data)

    def iteration(self, attributes: Callable[[], dict]) -> bool:
        """After an iteration; true if a callback wants the fit to stop there."""
        if self.context is None:
            return False
        task = self.context.subcontext(task_name="newton-iteration")
        task.call_on_fit_task_begin(estimator=self.estimator, **self.data)
        return task.call_on_fit_task_end(
            estimator=self.estimator, reconstruction_attributes=attributes, **self.data
        )

    def end(self, attributes: Callable[[], dict]) -> None:
        if self.context is not None:
            self.context.call_on_fit_task_end(
                estimator=self.estimator, reconstruction_attributes=attributes, **self.data
            )
