"""majorant in benchopt's ℓ2-regularised logistic regression (github.com/benchopt/benchmark_logreg_l2).

Its objective is Σ_j log(1 + exp(−y_j βᵀx_j)) + ½ λ |β|², which is that of ``LogisticRegression`` with C = 1/λ. A fit is
watched from step to step: what benchopt sees are the β of one run, and seconds from the call of ``fit`` on. The
certificate comes after the last of them, and is not among the seconds.
"""

import warnings

import numpy as np
from benchopt import BaseSolver
from sklearn.exceptions import ConvergenceWarning

from majorant import LogisticRegression

LARGEST_BOUND = 2_000  # columns: "bbm" keeps a matrix of as many rows and columns


class Solver(BaseSolver):
    name = "majorant"
    sampling_strategy = "callback"
    install_cmd = "conda"
    requirements = ["pip::majorant"]
    references = [
        'A. Choromanska and T. Jebara, "Stochastic Bound Majorization", arXiv:1309.5605 (2013)',
        'T. Jebara and A. Choromanska, "Majorization for CRFs and Latent Likelihoods", NIPS (2012)',
    ]
    parameters = {"solver": ["auto", "newton", "bbm"]}
    parameter_template = "{solver}"

    def skip(self, X, y, lmbd):
        if self.solver == "bbm" and X.shape[1] > LARGEST_BOUND:
            return True, f"bbm keeps a {X.shape[1]} × {X.shape[1]} matrix"
        return False, None

    def set_objective(self, X, y, lmbd):
        self.X, self.y, self.beta = X, y, np.zeros(X.shape[1])
        self.model = LogisticRegression(solver=self.solver, C=1 / lmbd, fit_intercept=False, tol=1e-15)
        warnings.filterwarnings("ignore", category=ConvergenceWarning)

    def warm_up(self):
        self.model.set_params(callbacks=None).fit(self.X, self.y)  # compiles what is compiled

    def run(self, cb):
        def look(row, theta):
            self.beta = theta
            return not cb()

        self.model.set_params(callbacks=[look]).fit(self.X, self.y)

    def get_result(self):
        return {"beta": self.beta}
