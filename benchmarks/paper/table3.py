"""Table 3: three solvers for the same reduced linear SVM, features given.

    min_w  1/2 |w|^2 + C sum_i max(0, 1 - y_i <w, x~_i>)^2,     x~ = [K(x, L) M, 1],   C = 10

LA-SN is this package's semismooth Newton method, ``LASNClassifier(kernel="linear")``; LA-DCD and
LA-TRON are LIBLINEAR's dual coordinate descent and trust region Newton method through
scikit-learn's ``LinearSVC``, with the same C and the same regularised bias. LA-L1 is the linearised
L1-loss SVM of Proposition 1: LIBLINEAR's dual solver for the hinge on the same features. Landmarks
are the paper's k-means, k is Table 4's. The clock runs for ``fit`` only; features come in the type
that a solver reads without converting it (float64; float32 for LA-SN where it would choose that).

Time means nothing without the objective reached, so there are two rules to stop:

    default   each solver's own default: 1e-3 for LA-SN, LIBLINEAR's -e 0.1 (dual) and 0.01 (primal)
    equal     the first tolerance, ten times smaller at a time, that leaves the objective within
              ``GOAL`` of its minimum, relatively; only the fit that got there is timed

The minimum is that of LA-SN at a tolerance of 1e-9 in float64, or what a solver reached below it.
"""

import numpy as np

from measure import timed
from paper import printed, rows
from paper.cells import COMMON, Cell, Run
from paper.repeat import repeated

NAME = "table3"
KEYS = ("data_set", "solver", "rule")
FIELDS = (
    *KEYS, "k", "runs", "seconds", "seconds_std", "accuracy", "accuracy_std", "excess",
    "excess_std", "tol", "iterations", *COMMON,
)  # fmt: skip
C = 10.0
GOAL = 1e-4
LADDERS = {
    "LA-SN": (1e-3, 1e-4, 1e-5, 1e-6),
    "LA-DCD": (1e-1, 1e-2, 1e-3, 1e-4),
    "LA-TRON": (1e-2, 1e-3, 1e-4, 1e-5),
    "LA-L1": (1e-1,),
}
_FLOAT32_FROM = 1 << 22  # LASN's own rule for dtype="auto"
_MOST_PASSES = {"default": 1000, "equal": 20_000}  # 1000 is LIBLINEAR's


def cells(run: Run) -> list[Cell]:
    found = []
    for name in run.sets:
        size = printed.training_rows(name) * printed.landmarks(name)
        for solver in LADDERS:
            for rule in ("default", "equal") if solver != "LA-L1" else ("default",):
                guess = 3.0 + min(
                    run.budget, run.runs * size * (3e-7 if solver == "LA-SN" else 1e-6)
                )
                key = {"data_set": name, "solver": solver, "rule": rule}
                limits = {"runs": run.runs, "budget": run.budget}
                found.append(Cell(NAME, key, guess, limits, run.limit))
    return found


def measure(data_set: str, solver: str, rule: str, runs: int, budget: float) -> dict:
    sample = rows.load(data_set, "float64")
    k = min(printed.landmarks(data_set), len(sample.y_train))
    ladder = LADDERS[solver] if rule == "equal" else LADDERS[solver][:1]
    rung = 0
    small = ReducedProblem(sample.few(), min(k, 50), 0)
    small.fit(solver, ladder[0], rule)  # what a first call loads is not timed

    def once(seed: int) -> dict[str, float]:
        nonlocal rung
        problem = ReducedProblem(sample, k, seed)
        while True:
            model, seconds = timed(problem.fit, solver, ladder[rung], rule)
            result = {"seconds": seconds, "accuracy": problem.accuracy(model), "tol": ladder[rung]}
            result["iterations"] = float(np.max(model.n_iter_))
            if solver != "LA-L1":
                result["excess"] = problem.excess(model)
            if rung + 1 == len(ladder) or result["excess"] <= GOAL:
                return result
            rung += 1

    return {"k": k, **repeated(once, runs, budget)}


class ReducedProblem:
    """Features of the training rows for one seed's landmarks, and who minimises over them how."""

    def __init__(self, sample: rows.Rows, k: int, seed: int):
        from lasn import NystroemMap

        self.sample, self.y = sample, sample.y_train
        self.map = NystroemMap(k, random_state=seed).fit(sample.X_train)
        self.F = self.map.transform(sample.X_train)
        large = self.F.size > _FLOAT32_FROM
        self.F_newton = self.F.astype("float32") if large else self.F
        self._minimum: float | None = None

    def fit(self, solver: str, tol: float, rule: str):
        from sklearn.svm import LinearSVC

        from lasn import LASNClassifier

        if solver == "LA-SN":
            return LASNClassifier(C=C, kernel="linear", tol=tol).fit(self.F_newton, self.y)
        model = LinearSVC(
            C=C,
            loss="hinge" if solver == "LA-L1" else "squared_hinge",
            dual=solver != "LA-TRON",
            tol=tol,
            intercept_scaling=1.0,
            max_iter=_MOST_PASSES[rule],
            random_state=0,
        )
        return model.fit(self.F, self.y)

    def objective(self, model) -> float:
        w, b = model.coef_[0], float(model.intercept_[0])
        losses = np.maximum(0.0, 1.0 - self.y * (self.F @ w + b)) ** 2
        return 0.5 * float(w @ w + b * b) + C * float(np.sum(losses))

    def excess(self, model) -> float:
        """How far the objective is above its minimum, relatively."""
        from lasn import LASNClassifier

        if self._minimum is None:
            exact = LASNClassifier(C=C, kernel="linear", tol=1e-9, dtype="float64")
            self._minimum = self.objective(exact.fit(self.F, self.y))
        value = self.objective(model)
        return max(0.0, value / self._minimum - 1.0)

    def accuracy(self, model, block: int = 8192) -> float:
        """In % of the test rows, whose features are made block by block."""
        X, y = self.sample.X_test, self.sample.y_test
        right = 0
        for start in range(0, len(y), block):
            F = self.map.transform(X[start : start + block])
            right += np.count_nonzero(model.predict(F) == y[start : start + block])
        return 100.0 * right / len(y)
