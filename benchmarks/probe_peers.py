"""What linear probes are fitted with elsewhere, on arrays of NumPy or tensors of PyTorch alike.

All minimise F(W, b) = Σ_j −log p(y_j|x_j) + ‖W‖²/(2C), and put down F and the seconds since the start at each look.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import numpy as np
from scipy import optimize
from scipy.special import logsumexp

CHUNK = 2**17
PAIRS = 10
# Of which scikit-learn can make Newton steps.
FEW_PARAMETERS = 1_000
# DINOv2's grid, for batches of 256.
SGD_RATES = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1)
ADAMW_RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)


def is_tensor(X):
    return not isinstance(X, np.ndarray)


def finish(X):
    """Wait for a device to be done, so that seconds count."""
    if is_tensor(X) and X.is_cuda:
        import torch

        torch.cuda.synchronize(X.device)


@contextmanager
def products(precision):
    """Let float32 products of PyTorch be "highest" or "high" (TF32) meanwhile."""
    try:
        import torch
    except ImportError:
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def forget_peak(X):
    """Return how many bytes of a device are in use, X and all; from now on its peak is that."""
    if not (is_tensor(X) and X.is_cuda):
        return 0
    import torch

    torch.cuda.reset_peak_memory_stats(X.device)
    return torch.cuda.memory_allocated(X.device)


def peak_over(X, before):
    """Return the most memory of a device, in GB, that was in use since then beside what was then."""
    if not (is_tensor(X) and X.is_cuda):
        return float("nan")
    import torch

    return (torch.cuda.max_memory_allocated(X.device) - before) / 1e9


def all_but(gigabytes, X):
    """Return something that takes all memory of a device but so much."""
    import torch

    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info(X.device)[0]
    return torch.empty(max(int(free - gigabytes * 1e9), 0), dtype=torch.uint8, device=X.device)


class Log:
    """Seconds since the start and F, at each look; of processors, where ``clock`` says so."""

    clock = staticmethod(time.perf_counter)

    def __init__(self, X):
        finish(X)
        self._X, self._started = X, self.clock()
        self.seconds, self.values, self.passes = [], [], 0.0

    def add(self, value, passes=1.0):
        finish(self._X)
        self.passes += passes
        self.seconds.append(self.clock() - self._started)
        self.values.append(float(value))

    def seconds_to(self, value):
        """Return when F was as low as that, infinity if it never was."""
        return next((at for at, F in zip(self.seconds, self.values, strict=True) if value >= F), float("inf"))


class Passes:
    """F and its gradient, rows in chunks; parameters are one vector, class by class, its intercept last."""

    def __init__(self, X, y, C, classes):
        self.X, self.y, self.C, self.classes = X, y, C, classes
        self.columns = X.shape[1]

    def on(self, device):
        """Return the same on a device, if there is one."""
        if device is None:
            return self
        import torch

        X, y = (torch.as_tensor(each, device=device) for each in (self.X, self.y))
        return Passes(X, y, self.C, self.classes)

    def zeros(self):
        size = self.classes * (self.columns + 1)
        return self.X.new_zeros(size) if is_tensor(self.X) else np.zeros(size, dtype=self.X.dtype)

    def value_and_gradient(self, theta):
        W, b = self._parts(theta)
        gradient = 0 * theta
        G, c = self._parts(gradient)
        loss = 0.0
        for begin in range(0, len(self.X), CHUNK):
            X, y = self.X[begin : begin + CHUNK], self.y[begin : begin + CHUNK]
            some, R = losses_and_residuals(X @ W.T + b, y)
            loss += some
            G += R.T @ X
            c += R.sum(0)
        G += W / self.C
        return loss + float((W * W).sum()) / (2 * self.C), gradient

    def value(self, coef, intercept):
        """Return F in double precision, of coefficients as estimators have them."""
        loss = 0.0
        for begin in range(0, len(self.X), CHUNK // 2):
            X, y = self.X[begin : begin + CHUNK // 2], self.y[begin : begin + CHUNK // 2]
            X, W, b = (widened(each, X) for each in (X, coef, intercept))
            loss += losses_and_residuals(X @ W.T + b, y)[0]
        return loss + float(np.square(coef, dtype=np.float64).sum()) / (2 * self.C)

    def _parts(self, theta):
        both = theta.reshape(self.classes, self.columns + 1)
        return both[:, :-1], both[:, -1]


def widened(values, like):
    """Return an array or a tensor in double precision, where another one is."""
    if not is_tensor(like):
        return np.asarray(values, dtype=np.float64)
    import torch

    return torch.as_tensor(values, dtype=torch.float64, device=like.device)


def losses_and_residuals(S, y):
    """Return Σ_j −log p(y_j) and p − e_y, in the place of the scores."""
    if is_tensor(S):
        import torch

        S -= torch.logsumexp(S, 1, keepdim=True)
        own = torch.arange(len(y), device=S.device), y
        loss = -float(S[own].sum(dtype=torch.float64))
        S.exp_()
    else:
        S -= logsumexp(S, axis=1, keepdims=True)
        own = np.arange(len(y)), y
        loss = -float(S[own].sum(dtype=np.float64))
        np.exp(S, out=S)
    S[own] -= 1
    return loss, S


def lbfgs(passes, most=400, until=-np.inf):
    """L-BFGS of 10 pairs with a strong Wolfe search, our code: what cuML runs, with the same products as here."""
    log, theta = Log(passes.X), passes.zeros()
    value, gradient = passes.value_and_gradient(theta)
    pairs, looks = [], 1
    while looks < most and value > until:
        direction = -two_loops(gradient, pairs)
        first = 1.0 if pairs else 1.0 / float(abs(gradient).sum())
        found = strong_wolfe(passes, theta, direction, value, float(gradient @ direction), first)
        if found is None:
            break
        there, value, slope, tried = found
        s, g = there - theta, slope - gradient
        if float(s @ g) > 0:
            pairs = [*pairs[-PAIRS + 1 :], (s, g, 1 / float(s @ g))]
        theta, gradient, looks = there, slope, looks + tried
        log.add(value, tried)
    return log


def two_loops(gradient, pairs):
    """Return H g (Nocedal & Wright, Algorithm 7.4)."""
    q, kept = gradient + 0, []
    for s, g, rho in reversed(pairs):
        a = rho * float(s @ q)
        kept.append(a)
        q -= a * g
    if pairs:
        s, g, rho = pairs[-1]
        q *= 1 / (rho * float(g @ g))
    for (s, g, rho), a in zip(pairs, reversed(kept), strict=True):
        q += (a - rho * float(g @ q)) * s
    return q


def strong_wolfe(passes, theta, direction, value, slope, step, c1=1e-4, c2=0.9, most=20):
    """Return a point that satisfies the strong Wolfe conditions, F, ∇F and the looks it took; None if there is none."""
    low, high = 0.0, np.inf
    for tried in range(1, most + 1):
        there = theta + step * direction
        F, gradient = passes.value_and_gradient(there)
        along = float(gradient @ direction)
        if value + c1 * step * slope >= F and abs(along) <= c2 * abs(slope):
            return there, F, gradient, tried
        if value + c1 * step * slope < F or along > 0:
            high = step
        else:
            low = step
        step = 2 * step if high == np.inf else (low + high) / 2
    return None


class Enough(Exception):
    """A level was reached."""


def torch_lbfgs(passes, most=400, until=-np.inf):
    """``torch.optim.LBFGS``, 10 pairs, its strong Wolfe search."""
    import torch

    theta = passes.zeros().requires_grad_()
    log = Log(passes.X)
    settings = dict(history_size=PAIRS, line_search_fn="strong_wolfe", tolerance_grad=0, tolerance_change=0)
    optimizer = torch.optim.LBFGS([theta], max_iter=most, max_eval=most, **settings)

    def look():
        value, theta.grad = passes.value_and_gradient(theta.detach())
        log.add(value)
        if value <= until:
            raise Enough
        return value

    with suppress(Enough):
        optimizer.step(look)
    return log


def epochs_of(passes, optimizer_of, rate, epochs=10, batch=1024, seed=0):
    """One learning rate: mini-batches in random order, cosine to zero, the penalty in the loss; F at the end."""
    import torch

    X, y, rows = passes.X, passes.y, len(passes.X)
    layer = torch.nn.utils.skip_init(torch.nn.Linear, passes.columns, passes.classes, device=X.device, dtype=X.dtype)
    for each in layer.parameters():
        torch.nn.init.zeros_(each)
    optimizer, steps = optimizer_of(layer.parameters(), rate * batch / 256), epochs * -(-rows // batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    generator, log = torch.Generator(device=X.device).manual_seed(seed), Log(X)
    for _ in range(epochs):
        order = torch.randperm(rows, generator=generator, device=X.device)
        for some in order.split(batch):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(layer(X[some]), y[some])
            (loss + layer.weight.square().sum() / (2 * passes.C * rows)).backward()
            optimizer.step()
            schedule.step()
    log.add(0.0, epochs)
    log.values[-1] = passes.value(layer.weight.detach().cpu().numpy(), layer.bias.detach().cpu().numpy())
    return log


def sgd(parameters, rate):
    import torch

    return torch.optim.SGD(parameters, rate, momentum=0.9)


def adamw(parameters, rate):
    import torch

    return torch.optim.AdamW(parameters, rate, weight_decay=0.0)


def sklearn_lbfgs(passes, level, most=5_000):
    """scikit-learn's L-BFGS, ended at the first step at which its own F is as low as a level: no tolerance can."""
    log = Log(passes.X)
    with stopping_at(level / len(passes.X)):
        model = sklearn_fit(passes, 0.0, most)
    log.add(0.0)
    log.values[-1] = passes.value(*coefficients(model))
    return log, int(model.n_iter_[0])


def sklearn_fit(passes, tol, most, solver="lbfgs"):
    """Return scikit-learn's fit; of tensors by Array API."""
    import sklearn
    from sklearn.linear_model import LogisticRegression

    with sklearn.config_context(array_api_dispatch=is_tensor(passes.X)):
        return LogisticRegression(C=passes.C, tol=tol, max_iter=most, solver=solver).fit(passes.X, passes.y)


def sklearn_optimum(passes, most):
    """Return scikit-learn's fit as far as it goes: by Newton steps in host memory where there are few parameters."""
    if passes.classes * passes.columns > FEW_PARAMETERS:
        return sklearn_fit(passes, 1e-8, most)
    here = [each.cpu().numpy() if is_tensor(each) else each for each in (passes.X, passes.y)]
    return sklearn_fit(Passes(*here, passes.C, passes.classes), 1e-9, 100, "newton-cholesky")


def coefficients(model):
    """Return coefficients and intercepts as arrays, wherever they are."""
    both = model.coef_, model.intercept_
    return [each.cpu().numpy() if is_tensor(each) else each for each in both]


@contextmanager
def stopping_at(mean):
    """Let SciPy end scikit-learn's fits where the mean of losses, penalty included, is as low as that."""
    from sklearn.linear_model import _logistic

    def look(intermediate_result):
        if intermediate_result.fun <= mean:
            raise StopIteration

    def minimize(*given, callback=None, **options):
        return optimize.minimize(*given, callback=look, **options)

    before, _logistic.optimize = _logistic.optimize, SimpleNamespace(minimize=minimize)
    try:
        yield
    finally:
        _logistic.optimize = before
