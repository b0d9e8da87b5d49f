"""OASiS's Algorithm 1 for one job: finds its best schedule at the present prices, in the room that no plan takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policy.cluster.constraints import Constraints
from policy.cluster.job import PS, WORKER
from policy.cluster.node import Node
from policy.cluster.resources import NOTHING, Resources
from policy.placement.fit import accepts
from policy.systems.oasis.arithmetic import Array
from policy.systems.oasis.dp import Best, Counts, SlotOffer, SlotRole, best_schedule, most_work, offer, room_for
from policy.systems.oasis.prices import Ground, Prices, Pricing
from policy.systems.oasis.schedule import Plan, Seen, Shift
from policy.systems.oasis.steady import steady_schedule
from policy.systems.oasis.workload import Work


@dataclass(frozen=True, slots=True)
class Window:
    """The time slots that may be planned: ``slots`` time slots from ``first`` on, the number of a time slot since the
    epoch.
    """

    first: int
    slots: int

    @property
    def last(self) -> int:
        """The last time slot (T)."""
        return self.first + self.slots - 1


@dataclass(frozen=True, slots=True)
class Quote:
    """The planner's answer for one job.

    best: the job's best schedule; None if the window has no room for the job. plan: that schedule as a plan; None if
    the schedule does not pay. cheapest: the time slot in which the job's workers cost least, and the least price in it;
    None if no time slot has room for a worker.
    """

    best: Best | None
    plan: Plan | None
    cheapest: tuple[int, float] | None


def why_refused(quote: Quote, window: Window) -> str:
    """Return in words why a job was refused: its payoff, worth and price, and the cheapest time slot."""
    if quote.best is None:
        return f"it does not fit into the {window.slots} time slots that the policy plans ahead"
    best = quote.best
    text = f"its utility is {best.worth:.4g} and the price of its room {best.cost:.4g} (payoff {best.payoff:.4g})"
    if quote.cheapest is not None:
        slot, price = quote.cheapest
        text += f"; its fewest workers cost least in time slot {slot}: {price:.4g}"
    return text


class Planner:
    """The prices and the free room of a window, kept up to date while plans are made one after another.

    plans: the plans that are made already. seen: the jobs from which the bounds of the prices are computed. works: the
    jobs to be planned.
    """

    def __init__(
        self, pricing: Pricing, nodes: Sequence[tuple[Node, Resources]], plans: Iterable[Plan],
        seen: Sequence[Seen], works: Iterable[Work], window: Window,
    ) -> None:  # fmt: skip
        self.window, plans = window, tuple(plans)
        self.ground = Ground.of(nodes, _names((*works, *(plan.work for plan in plans))))
        self._pricing = pricing
        self._used = self.ground.usage(plans, window.first, window.slots)
        self.see(seen)

    def see(self, seen: Sequence[Seen]) -> None:
        """Compute the bounds of the prices from the jobs seen so far."""
        asked, slots = self.ground, self.window.slots
        worker, server = (self._pricing.bounds(asked, seen, role, slots) for role in self.ground.hosts)
        self._prices = Prices(self.ground, worker, server)

    def book(self, plan: Plan) -> None:
        """Charge the plan's room to its time slots (lines 9-12 of Algorithm 1)."""
        self._used += self.ground.usage((plan,), self.window.first, self.window.slots)

    def free(self, plan: Plan) -> None:
        """Give the room of the plan back in all its time slots."""
        self._used -= self.ground.usage((plan,), self.window.first, self.window.slots)

    def overfull(self) -> set[tuple[int, str]]:
        """Return each time slot and node (by name) where the plans take more than the node has."""
        over = (self._used > self.ground.capacity).any(axis=2)
        return {(self.window.first + int(t), self.ground.nodes[int(n)].name) for t, n in np.argwhere(over)}

    def quote(
        self, work: Work, barred: frozenset[str], *, whatever: bool = False, part: bool = False, at_once: bool = False
    ) -> Quote:
        """Return the best schedule of the job, with a plan if the schedule pays.

        barred: the names of nodes that the job may not use. whatever: make a plan even if the schedule does not pay.
        part: plan as much of the work as there is room for. at_once: a job that cannot pause starts in the window's
        first time slot, because it runs already; for other jobs ``at_once`` has no effect.
        """
        offers = self._offers(work, barred)
        costs = np.array([found.cost for found in offers]) if offers else np.zeros((0, 1))
        size = most_work(costs, work.work, gaps=not work.holds) if part else work.work
        begin = (0 if at_once else len(offers) - 1) if work.holds else None
        best = self._best(work, costs, size, begin) if size else None
        cheapest = self._cheapest(costs)
        if best is None or not (whatever or best.payoff > 1e-9 * work.utility.value):
            return Quote(best, None, cheapest)
        shifts = tuple(self._shift(work, at, count, offers[at]) for at, count in best.workers.items())
        return Quote(best, Plan(work, shifts, best.payoff), cheapest)

    def _best(self, work: Work, costs: Array, size: int, begin: int | None) -> Best | None:
        def worth(at: int) -> float:
            return work.worth(self.window.first + at)

        if not self._pricing.switching:
            return best_schedule(costs, size, worth, begin)
        return steady_schedule(costs, size, worth, begin, self._pricing.switching * work.utility.value)

    def _offers(self, work: Work, barred: frozenset[str]) -> list[SlotOffer]:
        """Return for each time slot the price and placement of each number of workers.

        They are computed only once for all time slots in which the plans take the same room.
        """
        roles = self._roles(work, barred)
        known: dict[bytes, SlotOffer] = {}
        offers = []
        for used in self._used:
            key = used.tobytes()
            if key not in known:
                price = self._prices.units(used)
                known[key] = offer(np.maximum(self.ground.capacity - used, 0.0), price, roles)
            offers.append(known[key])
        return offers

    def _roles(self, work: Work, barred: frozenset[str]) -> tuple[SlotRole, ...]:
        """Return the job's roles, each with the number of its members for each possible number of workers.

        The largest number of workers is the job's maximum, or the number that fits into the empty cluster if that is
        less.
        """
        most, roles = work.most, []
        if not work.single:
            is_open, request = self._open(WORKER, work.constraints, barred), self._vector(work.requests)
            most = min(most, int(room_for(self.ground.capacity[None], request)[0, is_open].sum()))
            allowed = np.array([count == 0 or count >= work.least for count in range(most + 1)])
            roles.append(SlotRole(WORKER, request, is_open, np.where(allowed, np.arange(most + 1), -1)))
        for part in work.parts:
            found = [work.counts(part, count) for count in range(most + 1)]
            counts: Counts = np.array([-1 if count is None else count for count in found])
            is_open = self._open(part.role, part.constraints, barred)
            roles.append(SlotRole(part.role, self._vector(part.requests), is_open, counts))
        return tuple(roles)

    def _vector(self, requests: Resources) -> Array:
        return self.ground.vector(requests)

    def _open(self, role: str, constraints: Constraints, barred: frozenset[str]) -> NDArray[np.bool_]:
        hosts = self.ground.hosts.get(role, self.ground.hosts[WORKER])
        takes = [node.name not in barred and accepts(node, constraints) for node in self.ground.nodes]
        found: NDArray[np.bool_] = hosts & np.array(takes, dtype=bool)
        return found

    def _shift(self, work: Work, at: int, count: int, found: SlotOffer) -> Shift:
        names = [part.role for part in work.parts] if work.single else [WORKER, *(part.role for part in work.parts)]
        layout = Counter[tuple[str, str]]()
        for role, take in zip(names, found.takes, strict=True):
            for node in np.flatnonzero(take[count]):
                layout[role, self.ground.nodes[int(node)].name] += int(take[count][node])
        return Shift(self.window.first + at, tuple((role, node, size) for (role, node), size in sorted(layout.items())))

    def _cheapest(self, costs: Array) -> tuple[int, float] | None:
        least = costs[:, 1:].min(axis=1, initial=np.inf)
        at = int(least.argmin()) if least.size else 0
        return (self.window.first + at, float(least[at])) if least.size and np.isfinite(least[at]) else None


def seen_of(work: Work, window: Window) -> Seen:
    """Return the facts about a job from which the bounds of the prices are computed.

    The job's best utility is f (its utility curve) at the delay that it has with all its workers in every time slot.
    """
    worst = work.utility.ln_at(window.last - work.arrival)
    best = work.worth(work.arrival + work.shortest)
    servers = [part.requests for part in work.parts if part.role == PS]
    return Seen(work.arrival, best, work.requests, servers[0] if servers else NOTHING, work.work, worst)


def hopeless(work: Work, now_slot: int, share: float) -> bool:
    """Tell whether a job is worth too little even if it runs with all its workers from time slot ``now_slot`` on.

    That is so if its utility is no more than the share ``share`` of its theta1, the value of its utility curve.
    """
    return work.worth(max(now_slot, work.arrival) + work.shortest) <= share * work.utility.value


def _names(works: Iterable[Work]) -> set[str]:
    requests = {request for work in works for request in (work.requests, *(part.requests for part in work.parts))}
    return {name for request in requests for name in request}
