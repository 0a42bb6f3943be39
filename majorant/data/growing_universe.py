"""Which parameters a chain has that meets attributes and labels one chunk after the other.

Parameters stand in the order in which they came, so that none ever moves, and those of an attribute are linked: the one
that came last, the one before it, and so on. A chunk is thus met at the cost of its own attributes, however many others
there are: see :meth:`GrowingUniverse.part`.
"""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.data.stack import Stack
from majorant.data.universe import Universe

NONE = -1


class GrowingUniverse:
    """The parameters of a stream over n labels, by their places.

    Parameters
    ----------
    n : int
        Number of labels.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._attribute, self._label = Stack(np.int64), Stack(np.int64)  # of each parameter; of steps NONE and the step
        self._older = Stack(np.int64)  # the parameter that the same attribute got before this one
        self._newest = Stack(np.int64)  # of each attribute: the parameter it got last
        self._of_step = np.full(n * n, NONE)

    def __len__(self) -> int:
        return len(self._label)

    @property
    def n_attributes(self) -> int:
        """Number of attributes."""
        return len(self._newest)

    def grow(self, attributes: Array, pairs: Array, steps: Array, n_attributes: int) -> None:
        """Add the parameters that are new among some pairs and steps from·n + to, each in rising order.

        Parameters
        ----------
        attributes : array
            Numbers of attributes, without repeats.
        pairs : array
            k·n + label, for the kth of these attributes.
        steps : array
            from·n + to.
        n_attributes : int
            How many attributes there are by now.
        """
        self._newest.extend(np.full(max(n_attributes - self.n_attributes, 0), NONE))
        place, label = np.divmod(np.setdiff1d(pairs, self._pairs_of(attributes)[0], assume_unique=True), self.n)
        self._add_states(attributes[place], label)
        self._add_steps(steps[self._of_step[steps] == NONE])

    def part(self, attributes: Array) -> tuple[Universe, Array]:
        """Return the universe of some attributes, in its numbers the first, second, …, and the place of each parameter.

        It costs what these attributes have, and n² for the steps.
        """
        pairs, places = self._pairs_of(attributes)
        universe = Universe.of(pairs, np.flatnonzero(self._of_step != NONE), self.n, len(attributes))
        states = places[np.searchsorted(pairs, universe.pairs)]
        return universe, np.concatenate([states, self._of_step[universe.steps]])

    def cut(self, size: int, n_attributes: int) -> None:
        """Forget all but the first parameters and attributes."""
        gone = np.arange(len(self) - 1, size - 1, -1)  # so that the first one of an attribute is written last
        attribute, label = self._attribute.values[gone], self._label.values[gone]
        is_step = attribute == NONE
        self._of_step[label[is_step]] = NONE
        self._newest.values[attribute[~is_step]] = self._older.values[gone[~is_step]]
        for each in (self._attribute, self._label, self._older):
            each.cut(size)
        self._newest.cut(n_attributes)

    def _pairs_of(self, attributes: Array) -> tuple[Array, Array]:
        """Return k·n + label of every parameter of the kth attribute, in rising order, and its place."""
        which, at = np.arange(len(attributes)), self._newest.values[attributes]
        pairs, places = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        while len(at):
            which, at = which[at != NONE], at[at != NONE]
            pairs.append(which * self.n + self._label.values[at])
            places.append(at)
            at = self._older.values[at]
        keys = np.concatenate(pairs)
        order = np.argsort(keys)
        return keys[order], np.concatenate(places)[order]

    def _add_states(self, attribute: Array, label: Array) -> None:
        """Add parameters whose attributes stand together, each linked to the one before."""
        new = len(self) + np.arange(len(attribute))
        older = self._newest.values[attribute]
        again = np.flatnonzero(attribute[1:] == attribute[:-1])
        older[again + 1] = new[again]
        self._append(attribute, label, older)
        self._newest.values[attribute] = new  # the last of an attribute is written last

    def _add_steps(self, steps: Array) -> None:
        new = len(self) + np.arange(len(steps))
        self._append(np.full(len(steps), NONE), steps, np.full(len(steps), NONE))
        self._of_step[steps] = new

    def _append(self, attribute: Array, label: Array, older: Array) -> None:
        self._attribute.extend(attribute)
        self._older.extend(older)
        self._label.extend(label)  # the last, for it says how many there are
