"""When to buy a dearer curvature: rent until the rent has come to the price, then buy.

Steps in a cheap curvature are the rent. Whoever buys once they have cost as much as a dearer one never spends more than
twice what the best choice would have cost, whatever the data. How fast steps have gained ground says whether there is
still enough to do for it. Prices are those of shapes (``majorant.solvers.prices``), so that fits are reproducible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, log

from majorant.objective import Objective, Point
from majorant.solvers.forecasts import excess, saved, saved_at_once
from majorant.solvers.preconditioners import GramOfColumns, Preconditioner
from majorant.solvers.prices import Prices

# What costs no more steps than this is bought at once, or what is not much dearer than the cheapest; and, in
# nanoseconds, what nobody would notice.
CHEAP, NOT_MUCH = 0.5, 1.5
SMALL_CHANGE = 3e5
# A Hessian saves steps for certain, and may cost so many times as much.
SAVED_BY_HESSIAN = 2.0
# Where there is more to do than this many times its price, a curvature is bought at half the rent.
MUCH = 4.0
# Steps that are left to make in any curvature.
AT_LEAST = 4
# Steps before a curvature is found again where θ has moved; twice as many each time, unless it is a Hessian.
FIRST_RENEWAL = 4
HESSIAN_RENEWAL = 1
# Steps before Newton's, by conjugate gradients, may take over; how many of these it takes at least, and how many of
# them, and products, for each that would have been made: fewer of several classes, where pairs are soon outdated.
FIRST_STEPS, NEWTON_STEPS, AS_MANY_STEPS, AS_MANY_PRODUCTS = 3, 2.0, 0.1, 2.5
SEVERAL_CLASSES, OF_SEVERAL = 5, 1.8
# By how much costs have to grow before the diagonal that conjugate gradients are scaled by is found again.
RENEWED = 4.0
# Steps that a curvature found anew saves at once.
SAVED = 0.5
A_DIAGONAL, HESSIAN = 1, 3  # of this quality or worse, and of this or better
# Steps in a diagonal, and how many times the price of a matrix, after which it is tried whatever correlations say.
LONG, LONG_FOR_ITS_PRICE = 8, 3.0
# The gain that is left, relative to F, where nobody asks for more; and how many steps tell how fast it shrinks.
AIM = 1e-8
WINDOW = 8


@dataclass(frozen=True)
class Lease:
    """What steps are scaled by, since when, how often it was bought, and what steps have promised to gain since."""

    quality: int = -1  # nothing yet
    made_at: float = 0
    times: int = 0
    gains: tuple[float, ...] = ()  # −½∇Fᵀδ of the latest steps
    since: float = 0  # when the first of this quality was bought
    carried: bool = False  # whether from one penalty to the next, of who knows how many

    def signed(self, quality: int, step: float, *, steps_change: bool = True) -> Lease:
        """Return the lease of a curvature that was bought at a step, whether or not it changes what steps promise."""
        gains = () if steps_change else self.gains
        if quality == self.quality:
            return Lease(quality, step, self.times + 1, gains, self.since, self.carried)
        return Lease(quality, step, 1, gains, since=step, carried=self.carried)

    def carried_on(self, steps: float) -> Lease:
        """Return the lease under another penalty, where steps are counted anew after so many."""
        return replace(self, made_at=self.made_at - steps, since=self.since - steps, gains=(), carried=True)

    def gained(self, gain: float) -> Lease:
        """Return the lease after a step that promised so much."""
        gains = (*self.gains, gain)[-WINDOW:]
        return Lease(self.quality, self.made_at, self.times, gains, self.since, self.carried)

    def steps_left(self, value: float) -> float:
        """Return how many steps there are still to make at this rate, infinitely many if nobody knows."""
        if len(self.gains) < 2 or not 0 < self.gains[-1] < self.gains[0]:
            return inf
        rate = log(self.gains[0] / self.gains[-1]) / (len(self.gains) - 1)
        return max(log(self.gains[-1] / max(AIM * abs(value), 1e-300)), 0.0) / rate

    def is_slow(self, value: float, steps: float) -> bool:
        """Return whether steps that were made say that more than so many are left: no steps say nothing."""
        return len(self.gains) > 1 and self.steps_left(value) > steps


@dataclass(frozen=True)
class Market:
    """What can be bought, the dearest first, what each costs, in steps, and how many of these nobody would notice."""

    offers: tuple[Preconditioner, ...]
    prices: tuple[float, ...]
    unnoticed: float
    product: float = inf  # what a product with the Hessian costs, if there are any
    as_many: float = AS_MANY_PRODUCTS  # for each step that would have been made
    excess: float | None = None  # how many more steps, as a share, a diagonal takes than a matrix, if that is known
    upkeeps: tuple[float, ...] = ()  # what each adds to every step after it, in steps, if that is known
    at_first: tuple[float, ...] = ()  # what each costs where steps begin, if not as much as later on

    @classmethod
    def of(
        cls,
        offers: Sequence[Preconditioner],
        prices: Prices | None,
        *,
        products: bool = False,
        excess: float | None = None,
    ) -> Market:
        """Return the market for data of a shape; where prices are not known, everything is taken to cost a step.

        ``products`` says whether the Hessian can be multiplied without being written out, ``excess`` how many more
        steps, as a share, a diagonal takes than a matrix.

        What would more than double the price of every step after it is left out, unless there is nothing else.
        """
        dearest_first = tuple(reversed(offers))
        if prices is None:
            return cls(dearest_first, (1.0,) * len(offers), 0.0, upkeeps=(0.0,) * len(offers))
        step = prices.whole_step()
        kept = tuple(each for each in dearest_first if each.upkeep(prices) <= step) or dearest_first
        in_steps = tuple(each.price(prices) / step for each in kept)
        upkeeps = tuple(each.upkeep(prices) / step for each in kept)
        product = prices.product() / step if products else inf
        as_many = AS_MANY_PRODUCTS if prices.classes < SEVERAL_CLASSES else OF_SEVERAL
        return cls(kept, in_steps, SMALL_CHANGE / step, product, as_many, excess, upkeeps)

    def of_another(self, objective: Objective) -> Market:
        """Return the market of the same offers for another objective."""
        return market_for(self.offers[::-1], objective, products=self.product < inf)

    def due(self, lease: Lease, step: float, value: float) -> Preconditioner | None:
        """Return what is to be bought before a step, if anything."""
        if lease.quality < 0:
            return self._first()
        if lease.carried and step < AT_LEAST:  # as long as a penalty takes no more, there is nothing to be saved
            return None
        left, spent = lease.steps_left(value), step - lease.made_at
        if lease.carried:  # what is bought now serves the penalties to come: as much may be left as has been
            left = max(left, step - lease.since)
        for offer, price in zip(self.offers, self.prices, strict=True):
            if offer.quality > lease.quality:
                paid = step - lease.since if lease.carried else spent
                rent = 2 * paid if MUCH * price < left < inf else paid
                if price <= rent and price + AT_LEAST < left and self._saves(lease, offer, left, spent):
                    return offer
            elif offer.quality == lease.quality and spent >= _patience(lease):
                worth_it = spent >= price - SAVED and price + 2 < left
                return offer if worth_it or price <= self._unnoticed(offer) else None
        return None

    def turns_to_products(self, lease: Lease, rent: float, value: float) -> bool:
        """Return whether Newton steps by conjugate gradients are likely to be cheaper than as many as are left.

        They are when a step costs much more than a product with the Hessian, and many are left: it takes up to several
        times as many products as steps, and a few steps besides.
        """
        left = lease.steps_left(value)
        if not (lease.quality < HESSIAN and rent >= FIRST_STEPS and left < inf):
            return False
        return NEWTON_STEPS + (AS_MANY_STEPS + self.as_many * self.product) * left < left

    def due_for_products(self, lease: Lease, rent: float, pace: float, value: float) -> Preconditioner | None:
        """Return what is due where steps are Newton's, by conjugate gradients, and cost so many usual ones each.

        They stay scaled by what there is; a diagonal is found anew whenever they have cost several times as much. A
        Hessian needs none of them, and is bought where it is known that there is enough to do for it.
        """
        left = pace * lease.steps_left(value)
        for offer, price in zip(self.offers, self.prices, strict=True):
            if offer.quality >= HESSIAN and price <= rent and MUCH * price + AT_LEAST < left < inf:
                return offer
        if lease.quality > A_DIAGONAL or rent < RENEWED * lease.made_at:
            return None
        affordable = (each for each, price in zip(self.offers, self.prices, strict=True) if price <= rent)
        return next((each for each in affordable if lease.quality <= each.quality <= A_DIAGONAL), None)

    def _first(self) -> Preconditioner:
        cheap = max(CHEAP, NOT_MUCH * self.prices[-1])
        for offer, price, upkeep in zip(self.offers, self.at_first or self.prices, self.upkeeps, strict=True):
            worth = max(cheap, self._unnoticed(offer))
            if self.excess is not None and _is_matrix(offer):
                worth = max(_worth(saved_at_once(self.excess, upkeep)), self.unnoticed)
            if price <= worth:
                return offer
        return self.offers[-1]

    def _unnoticed(self, offer: Preconditioner) -> float:
        """Return what may be paid for it without a thought, in steps: more for a Hessian, which always saves some."""
        return SAVED_BY_HESSIAN * self.unnoticed if offer.quality >= HESSIAN else self.unnoticed

    def _saves(self, lease: Lease, offer: Preconditioner, left: float, spent: float) -> bool:
        """Return whether correlations say that a matrix saves its price, or steps in a diagonal that they are wrong.

        So does a Hessian where there is a single class: between several there is what correlations do not tell of.
        """
        if self.excess is None or lease.quality > A_DIAGONAL:
            return True
        if not (_is_matrix(offer) or (offer.quality >= HESSIAN and lease.quality < A_DIAGONAL)):
            return True
        place = self.offers.index(offer)
        price, upkeep = self.prices[place], self.upkeeps[place]
        in_vain = spent * (1.0 - upkeep) >= max(LONG, LONG_FOR_ITS_PRICE * price)
        return in_vain or (left < inf and price <= _worth(saved(left, self.excess, upkeep)))


def market_for(
    offers: Sequence[Preconditioner], objective: Objective, *, products: bool, at: Point | None = None
) -> Market:
    """Return the market for an objective, for steps that begin at a point.

    Where a Gram matrix costs next to nothing, or a Hessian is bought anyway, nobody asks how much it saves.
    """
    if not objective.model.has_rows:
        return Market.of(offers, None, products=products)
    prices, gram = Prices.of(objective), GramOfColumns()
    asks = gram in offers and gram.price(prices) > SMALL_CHANGE and not _is_given_away(offers[-1], prices)
    market = Market.of(offers, prices, products=products, excess=excess(objective) if asks else None)
    if at is None or gram not in market.offers or not gram.is_known(objective, at, prices):
        return market
    of_gram = gram.price_if_known(prices) / prices.whole_step()
    both = zip(market.offers, market.prices, strict=True)
    return replace(market, at_first=tuple(of_gram if each == gram else price for each, price in both))


def _is_given_away(offer: Preconditioner, prices: Prices) -> bool:
    """Return whether it is a Hessian that is bought before anything else."""
    return offer.quality >= HESSIAN and offer.price(prices) <= SAVED_BY_HESSIAN * SMALL_CHANGE


def _is_matrix(offer: Preconditioner) -> bool:
    """Return whether it is more than a diagonal, and less than a Hessian."""
    return A_DIAGONAL < offer.quality < HESSIAN


def _worth(steps: float) -> float:
    """Return the price of a matrix that saves so many steps: soon it is found again, where that is not dear."""
    return max(0.5 * steps, steps - FIRST_RENEWAL)


def _patience(lease: Lease) -> int:
    return HESSIAN_RENEWAL if lease.quality >= HESSIAN else FIRST_RENEWAL * 2 ** (lease.times - 1)
