"""scikit-learn's ``LogisticRegression`` beside which ``majorant.py`` is shown: runs of 1, 2, … steps, each from zero.

The benchmark has a solver of that name, which asks for parts of SciPy that are gone.
"""

import warnings

from benchopt import BaseSolver
from sklearn.linear_model import LogisticRegression


class Solver(BaseSolver):
    name = "scikit-learn"
    sampling_strategy = "iteration"
    requirements = ["scikit-learn"]
    parameters = {"solver": ["lbfgs", "newton-cholesky", "newton-cg", "saga"]}
    parameter_template = "{solver}"

    def set_objective(self, X, y, lmbd):
        self.X, self.y = X, y
        self.model = LogisticRegression(solver=self.solver, C=1 / lmbd, fit_intercept=False, tol=1e-15)
        warnings.filterwarnings("ignore")

    def run(self, n_iter):
        self.model.set_params(max_iter=max(n_iter, 1)).fit(self.X, self.y)

    def get_result(self):
        return {"beta": self.model.coef_.ravel()}
