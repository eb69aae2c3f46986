"""
Regression with bands
=====================

``LASNRegressor`` fits a curve and ignores errors up to ``epsilon``. How far off may a prediction
be? A second regressor learns how large errors are at each x, and rows that neither has seen turn
that into a band that holds 90 % of new observations (split conformal prediction: no assumption
about the noise is needed for it).
"""

import matplotlib.pyplot as plt
import numpy as np

from lasn import LASNRegressor

rng = np.random.default_rng(0)


def observe(n_rows):
    x = rng.uniform(0, 10, n_rows)
    truth = np.sin(x) + 0.25 * x + 0.6 * np.sin(3.0 * x) * (x > 5)
    return x[:, None], truth + rng.normal(size=n_rows) * (
        0.08 + 0.4 * np.exp(-0.5 * (x - 4.5) ** 2)
    )


# %%
# A third of the rows for the curve, a third for the size of the errors, a third for the width.
X_curve, y_curve = observe(3000)
X_error, y_error = observe(3000)
X_width, y_width = observe(3000)
curve = LASNRegressor(60, C=10.0, gamma=0.8, epsilon=0.05, random_state=0).fit(X_curve, y_curve)
errors = np.abs(y_error - curve.predict(X_error))
size = LASNRegressor(60, C=10.0, gamma=0.8, epsilon=0.0, random_state=0).fit(X_error, errors)


def error_size(X):
    return np.maximum(size.predict(X), 0.02)


scaled = np.abs(y_width - curve.predict(X_width)) / error_size(X_width)
width = np.quantile(scaled, 0.9 * (1 + 1 / len(scaled)))

# %%
# On new rows the band holds what it promises, where the noise is large and where it is small.
X_new, y_new = observe(4000)
middle, half = curve.predict(X_new), width * error_size(X_new)
inside = np.abs(y_new - middle) <= half
print(f"inside the band: {100 * inside.mean():.1f} % of {len(y_new)} new rows")

x = np.linspace(0, 10, 400)[:, None]
figure, (top, bottom) = plt.subplots(2, 1, figsize=(8.5, 5.6), height_ratios=(3, 1), sharex=True)
figure.suptitle("A band that holds 90 % of new observations")
top.scatter(X_new[inside, 0], y_new[inside], s=4, color="0.6", linewidths=0)
top.scatter(X_new[~inside, 0], y_new[~inside], s=6, color="C1", linewidths=0, label="outside")
low, high = curve.predict(x) - width * error_size(x), curve.predict(x) + width * error_size(x)
top.fill_between(x[:, 0], low, high, color="C0", alpha=0.22, linewidth=0, label="90 % band")
top.plot(x, curve.predict(x), color="C0", label="LASNRegressor")
top.plot(curve.landmarks_[:, 0], np.full(curve.n_landmarks_, top.get_ylim()[0]), "|", color="black",
         markersize=8, label="landmarks")  # fmt: skip
top.set_ylabel("y")
top.legend(ncols=4, fontsize=9, loc="upper left")
edges = np.linspace(0, 10, 21)
places = np.digitize(X_new[:, 0], edges) - 1
share = [100 * inside[places == place].mean() for place in range(20)]
bottom.bar((edges[:-1] + edges[1:]) / 2, share, width=0.45, color="C0")
bottom.axhline(90, color="0.3", linestyle="--", linewidth=1)
bottom.set(xlabel="x", ylabel="inside, %", ylim=(70, 100))
plt.show()
