"""
A folder of Parquet files
=========================

``fit`` takes a source in the place of ``X`` and ``y``, reads it pass by pass and keeps no rows: the folder may be
larger than memory. The coefficients are those of a fit in memory, to the tolerance.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

from examples.larger_than_memory import write
from majorant import LogisticRegression, Parquet
from majorant.plotting import BLUE, VERMILION

folder = tempfile.mkdtemp()
write(folder)  # five files of 20,000 rows
source = Parquet(folder, target="bought")
streamed = LogisticRegression().fit(source)
print(streamed.result_)

# %%
# The same rows in memory, and how far apart the two fits are.

table = pq.read_table(folder).to_pandas()
at_once = LogisticRegression().fit(table.drop(columns="bought"), table.bought)
names, places = streamed.feature_names_in_, np.arange(3)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.barh(places - 0.2, streamed.coef_[0], height=0.4, color=BLUE, label="file by file")
left.barh(places + 0.2, at_once.coef_[0], height=0.4, color=VERMILION, label="in memory")
left.set(yticks=places, yticklabels=names, xlabel="coefficient")
left.legend(frameon=False)
right.plot(np.abs(streamed.coef_ - at_once.coef_)[0], places, "o", color="black", label="difference")
right.plot(
    streamed.coef_error_[0] + at_once.coef_error_[0], places, "|", ms=16, color=VERMILION, label="what was proved"
)
right.set(xscale="log", yticks=places, yticklabels=[], ylim=left.get_ylim(), xlabel="distance of the two fits")
right.legend(frameon=False)
