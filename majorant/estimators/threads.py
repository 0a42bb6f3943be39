"""How many threads share a fit."""

from __future__ import annotations

from joblib import cpu_count, effective_n_jobs
from joblib.parallel import get_active_backend

from majorant._threads import blas_threads

# A pass over fewer numbers takes about as long as it takes to start threads.
WORTH_SHARING = 2**19


def fit_threads(n_jobs: int | None, numbers: int) -> int:
    """Return how many threads share a fit whose passes multiply so many numbers.

    With ``n_jobs`` that is what joblib makes of it: −1 for all cores. With None, as many as BLAS and OpenMP would use
    here (``OMP_NUM_THREADS``, ``threadpool_limits``), no more than joblib counts cores (``LOKY_MAX_CPU_COUNT``,
    affinity, the quota of a container), and one where the work is too small, or is one of several jobs already.
    """
    if n_jobs is not None:
        return int(effective_n_jobs(n_jobs))
    if numbers < WORTH_SHARING or get_active_backend()[0].nesting_level:
        return 1
    return max(min(blas_threads(), cpu_count()), 1)
