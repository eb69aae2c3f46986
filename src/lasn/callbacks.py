"""scikit-learn's fit callbacks (its version 1.9 and later); nothing happens with an older one."""

from __future__ import annotations

from collections.abc import Callable

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


class IterationCallbacks:
    """Tells an estimator's callbacks of the fit and of each Newton iteration in it."""

    def __init__(self, estimator, X, y, sample_weight):
        self.estimator = estimator
        self.n_iter = 0
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
