"""A latent model of one's own: shoppers who compare by price or by quality, and never say which.

    python -m examples.latent_ranking

A row is a set of offers, of which one is bought. Outcomes are pairs (offer y, taste m): with taste m only the columns
of m count, f(x, y, m) = e_m ⊗ x_y. The taste is never seen.
"""

import numpy as np

from majorant import Choices, LatentEnumerated, Objective, QuasiNewton, minimize_from

TASTES = 2


def written_out(offers: np.ndarray, bought: np.ndarray) -> Choices:
    """Every pair of an offer and a taste, and which of them agree with what was bought."""
    t, n, p = offers.shape
    features = np.einsum("tnp,mk->tnmkp", offers, np.eye(TASTES)).reshape(t * n * TASTES, TASTES * p)
    consistent = np.repeat((np.arange(n) == bought[:, None]).ravel(), TASTES)
    return Choices(features, sizes=np.full(t, n * TASTES), consistent=consistent)


def shoppers(rng: np.random.Generator, t: int = 600, n: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Half of them mind the price, the others want quality whatever it costs."""
    offers = rng.normal(size=(t, n, 2))  # price, quality
    tastes = np.where(rng.uniform(size=(t, 1)) < 0.5, [-3.0, 0.0], [0.0, 3.0])
    return offers, np.argmax(np.einsum("tnp,tp->tn", offers, tastes) + rng.gumbel(size=(t, n)), axis=1)


def main() -> None:
    data = written_out(*shoppers(np.random.default_rng(0)))
    F = Objective(LatentEnumerated(), data, ridge=1.0)
    restarts = minimize_from(F, QuasiNewton(), [F.first_params(seed) for seed in range(5)])
    print(restarts.result)
    for taste, (price, quality) in enumerate(restarts.best.params.reshape(TASTES, 2)):
        print(f"taste {taste}: price {price:+.1f}, quality {quality:+.1f}")


if __name__ == "__main__":
    main()
