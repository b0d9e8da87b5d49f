"""Makes the ledger's rules, its policy and its journal on disk from the settings."""

from __future__ import annotations

from pathlib import Path

from extender.config.settings import Settings
from extender.state.record import Recorder
from policy.cluster.snapshot import Rules, Snapshot
from policy.systems import POD_BY_POD, make_policy
from policy.systems.base import Policy


def rules_of(settings: Settings) -> Rules:
    """Return the rules (deadlines and limits) that a step follows, made from the settings.

    The setting ``barrier.repair_seconds`` is the deadline for a new plan as well as for a repair.
    """
    return Rules(
        window_seconds=settings.barrier.window_seconds,
        hold_seconds=settings.barrier.hold_seconds,
        binding_seconds=settings.barrier.binding_seconds,
        plan_seconds=settings.barrier.repair_seconds,
        freeing_seconds=settings.barrier.freeing_seconds,
        growing_seconds=settings.barrier.growing_seconds,
        checkpoint_seconds=settings.barrier.checkpoint_seconds,
        repair_seconds=settings.barrier.repair_seconds,
        backoff_initial_seconds=settings.release.backoff_initial_seconds,
        backoff_max_seconds=settings.release.backoff_max_seconds,
        refusal_memory_seconds=settings.refusal_memory_seconds,
        largest_gang=settings.largest_gang,
        gangs_at_once=settings.barrier.gangs_at_once,
        ranked=settings.answer == "ranked",
        commit_first=settings.commits_first,
        plugins=settings.scheduler.plugins,
        gangs=settings.base not in POD_BY_POD,
        stores=True,
        resizes_per_minute=settings.resizes_per_minute,
        half_life_seconds=settings.nodes.half_life_seconds if settings.nodes.avoid_failing else 0.0,
        watch_seconds=settings.nodes.watch_seconds,
    )


def policy_of(settings: Settings) -> Policy:
    """Return the policy that the settings name, with its parameters."""
    return make_policy(settings.system, **settings.policy_parameters)


def recorder_of(settings: Settings, policy: Policy, rules: Rules) -> Recorder | None:
    """Return the writer of the journal on disk; None where the settings name no folder for it.

    Raises OSError where the folder cannot be made.
    """
    journal = settings.journal
    if not journal.folder:
        return None
    return Recorder(Path(journal.folder), policy, Snapshot(rules=rules), journal.file_bytes, journal.files)
