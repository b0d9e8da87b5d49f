"""Changes of a job's utility after which a waiting job might be admitted.

For policies with weights, the utility itself is raised. For OASiS, either the value of the job's utility curve is
raised, or the curve's target, the delay after which the utility has fallen to half.

A proposed number has four significant figures, and is the smallest such number that admits the job. OASiS is an
exception: values are tried in steps, and the smallest value is searched for only below the first step that admits the
job. Because OASiS's prices depend on the highest utility of all jobs, a value between two steps that fail may admit the
job; such a value is not found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from policy.answers.change import Change, Finer, Kind, with_job
from policy.answers.queue import places
from policy.cluster.job import Job
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy

FIGURES = 4
A_STEP_MORE = 1.5
MOST_STEPS = 12  # This many higher values are tried; the last is about a hundred times the present value.
MOST_SLOTS = 100


def higher_utilities(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> Iterator[Change]:
    """Yield changes that raise the job's utility so that it just outweighs (or equals) each heavier job in turn.

    Heavier jobs are waiting jobs, which come before it, and running jobs, which could be shrunk for it if it were
    heavier.
    """
    weight = policy.base.weights(snapshot)
    if weight is None or job.utility <= 0:
        return
    own = weight(job)
    others = [place.job for place in places(snapshot, policy, now)] + list(snapshot.running())
    level = sorted({weight(other) / own for other in others if own > 0 and weight(other) >= own and other is not job})
    enough = {just_above(job.utility * ratio): _at_least(job.utility * ratio) for ratio in level}
    for above, equal in sorted(enough.items()):
        finer = _only(_heavier(job, equal)) if job.utility < equal < above else None
        yield replace(_heavier(job, above), finer=finer)


def _only(change: Change) -> Finer:
    return Finer(1, lambda _: change)


def _heavier(job: Job, utility: float) -> Change:
    """Return the change that raises the job's utility to ``utility``."""
    text = f"raise kohort.dev/utility from {_shown(job.utility)} to {_shown(utility)}"
    made = replace(job, utility=utility, utility_stated=True)
    return Change(Kind.UTILITY, text, utility - job.utility, with_job(made))


def dearer(job: Job) -> Iterator[Change]:
    """Yield changes that raise the value of the job's utility curve, each to 1.5 times the value before.

    They suit a system that judges a job by its value and has no weights, such as OASiS.
    """
    value = _value(job)
    tried = value
    for power in range(1, MOST_STEPS + 1 if value > 0 else 1):
        most = just_above(value * A_STEP_MORE**power)
        step = _unit(most)
        first, last = math.floor(tried / step) + 1, round(most / step)
        yield replace(_worth(job, most), finer=Finer(last - first + 1, _multiples(job, first, step)))
        tried = most


def _multiples(job: Job, first: int, step: float) -> Callable[[int], Change]:
    return lambda at: _worth(job, _rounded((first + at) * step))


def _value(job: Job) -> float:
    utility = job.training.utility if job.training is not None else None
    return utility.value if utility is not None else job.utility


def _worth(job: Job, more: float) -> Change:
    """Return the change that raises the job's value (the height of its utility curve) to ``more``."""
    training = job.training
    if training is not None and training.utility is not None:
        made = replace(job, training=replace(training, utility=replace(training.utility, value=more)))
        field = "utility.value in kohort.dev/training"
    else:
        made = replace(job, utility=more)
        field = "kohort.dev/utility"
    text = f"raise {field} from {_shown(_value(job))} to {_shown(more)}"
    return Change(Kind.UTILITY, text, more - _value(job), with_job(made))


def with_more_time(job: Job) -> Iterator[Change]:
    """Yield changes that give the job more time: each makes the target of its utility curve one more time slot later.

    The target is the delay after the job's arrival at which the curve has fallen to half of its value (`Utility`).
    """
    training = job.training
    utility = training.utility if training is not None else None
    if training is None or utility is None:
        return
    for slots in range(1, MOST_SLOTS + 1):
        later = replace(utility, target=float(math.floor(utility.target) + slots))
        unit = "slot" if later.target == 1 else "slots"
        text = f"raise utility.target in kohort.dev/training from {_shown(utility.target)} to {later.target:.0f} {unit}"
        made = replace(job, training=replace(training, utility=later))
        yield Change(Kind.TARGET, text, later.target - utility.target, with_job(made))


# -- The functions below find and round the figures of a change. -----------------------------------


def just_above(value: float) -> float:
    """Return the smallest number of four significant figures that is larger than ``value``, which is above 0."""
    step = _unit(value)
    return _rounded((math.floor(value / step * (1 + 1e-12)) + 1) * step)


def _at_least(value: float) -> float:
    """Return the smallest number of four significant figures that is not below ``value``, which is above 0."""
    step = _unit(value)
    return _rounded(math.ceil(value / step * (1 - 1e-12)) * step)


def _unit(value: float) -> float:
    """Return the place value of the last of four significant figures of a number: 0.01 for 12.34."""
    return float(10.0 ** (math.floor(math.log10(value)) - FIGURES + 1))


def _rounded(value: float) -> float:
    return float(f"{value:.{FIGURES}g}")


def _shown(value: float) -> str:
    """Return the value as a user would write it, with up to twelve significant figures."""
    return f"{value:.12g}"
