"""
A Dask cluster
==============

Every worker reads its share of the rows. Only parameters and sums travel between the client and the workers. This
example runs two workers in its own process; for a real cluster use ``Client("tcp://scheduler:8786")``.
"""

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

from majorant import LogisticRegression
from majorant.plotting import BLUE, SKY

rng = np.random.default_rng(0)
X = rng.normal(size=(40_000, 10))
y = (X @ rng.normal(size=10) + rng.logistic(size=40_000) > 0).astype(int)

dask.config.set({"distributed.worker.memory.target": False, "distributed.admin.log-length": 0})
with (
    LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
    Client(cluster) as client,
):
    on_cluster = LogisticRegression().fit(da.from_array(X, chunks=(5_000, 10)), da.from_array(y, chunks=5_000))
here = LogisticRegression().fit(X, y)
print(on_cluster.result_)
print(f"{on_cluster.n_rounds_} rounds of calls to the workers")

# %%
# Both fits end at the same optimum. A step is one round of calls to the workers. The fit of the cluster starts from a
# sample of the rows, so its curve starts lower.

fig, axis = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
optimum = min(on_cluster.trace_["objective"][-1], here.trace_["objective"][-1])
for model, name, style in ((here, "in this process", "o-"), (on_cluster, "by two workers", "s--")):
    excess = model.trace_["objective"] / optimum - 1
    colour = BLUE if model is here else SKY
    axis.plot(np.maximum(excess, 1e-14), style, color=colour, mfc="none", ms=8, label=name)
axis.set(yscale="log", xlabel="step", ylabel="relative excess of the objective", ylim=(3e-15, None))
axis.legend(frameon=False)
