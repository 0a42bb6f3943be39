"""
A folder of Parquet files
=========================

``fit`` takes a source in the place of ``X`` and ``y``, and reads it pass by pass. The folder may be larger than memory.
The coefficients agree with a fit in memory, to the tolerance.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from majorant import LogisticRegression, Parquet
from majorant.plotting import BLUE, GREY

folder = tempfile.mkdtemp()
for part in range(5):  # five files of 20,000 rows
    rng = np.random.default_rng(part)
    X = rng.normal(size=(20_000, 3))
    bought = np.where(X @ [1.0, -2.0, 0.5] + rng.logistic(size=20_000) > 0, "yes", "no")
    rows = pa.table({"price": X[:, 0], "age": X[:, 1], "visits": X[:, 2], "bought": bought})
    pq.write_table(rows, f"{folder}/{part}.parquet")
source = Parquet(folder, target="bought")
streamed = LogisticRegression().fit(source)
print(streamed.result_)

# %%
# Left: the coefficients of the streamed fit, and of a fit of the same rows in memory. Right: the difference between the
# two fits, and the sum of their certified bounds.

table = pq.read_table(folder).to_pandas()
at_once = LogisticRegression().fit(table.drop(columns="bought"), table.bought)
names, places = streamed.feature_names_in_, np.arange(3)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(at_once.coef_[0], places, "o", color=GREY, ms=13, mfc="none", label="in memory")
left.plot(streamed.coef_[0], places, "o", color=BLUE, ms=6, label="from files")
left.set(yticks=places, yticklabels=names, xlabel="coefficient", ylim=(-0.5, 2.5))
left.legend(frameon=False)
difference = np.abs(streamed.coef_ - at_once.coef_)[0]
proved = streamed.coef_error_[0] + at_once.coef_error_[0]
right.hlines(places, np.maximum(difference, 1e-12), proved, color="0.85", lw=3, zorder=0)
right.plot(np.maximum(difference, 1e-12), places, "o", color=BLUE)
right.plot(proved, places, "|", ms=16, mew=2, color=BLUE)
right.annotate(
    "difference", (max(difference[2], 1e-12), 2), (0, 9), textcoords="offset points", ha="center", color=BLUE
)
right.annotate("proved bound", (proved[2], 2), (0, 11), textcoords="offset points", ha="center", color=BLUE)
right.set(xscale="log", yticks=places, yticklabels=[], ylim=(-0.5, 2.5), xlabel="distance of coefficients (log scale)")
right.margins(x=0.25)
