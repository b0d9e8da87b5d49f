"""Makes the view of what-if's answer from the jobs that would change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from extender.present.names import named, rigid_first
from extender.present.views.whatif import ChangedJobView, JobStatusView, WhatIfView
from policy.answers.explain import in_words
from policy.answers.whatif import Moved, Standing
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy


def what_if_view(snapshot: Snapshot, policy: Policy, moved: Iterable[Moved]) -> WhatIfView:
    """Return the jobs whose state, place or nodes would change under that policy, in order of arrival."""
    jobs = tuple(
        ChangedJobView(
            **named(one.job),
            before=_standing(one.before, snapshot) if one.before is not None else None,
            after=_standing(one.after, snapshot),
        )
        for one in moved
    )
    return WhatIfView(generation=snapshot.generation, policy=policy.name, jobs=jobs)


def _standing(standing: Standing, snapshot: Snapshot) -> JobStatusView:
    return JobStatusView(
        state=standing.state.value,
        workers=standing.workers,
        nodes=dict(sorted(Counter(standing.nodes.values()).items())),
        members={str(slot): standing.nodes[slot] for slot in sorted(standing.nodes, key=rigid_first)},
        waits=in_words(snapshot, standing.verdict) if standing.verdict is not None else None,
        position=standing.position,
        ahead=standing.ahead.key if standing.ahead is not None else "",
    )
