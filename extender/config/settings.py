"""Defines all settings with their defaults, units and bounds; the settings of a section are in sections.py.

This module must not know what the settings do, nor where their values come from (settingsfile.py). A setting's name
ends with its unit. A value that is out of bounds, or that contradicts another setting (relations.py), is refused with
the field's name, the value, what is allowed and what to change; nothing is silently corrected.
"""

from __future__ import annotations

import math
from typing import Final, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from extender.config.relations import against_first, broken_relations
from extender.config.sections import (
    ApiSettings,
    BarrierSettings,
    ControllerSettings,
    Count,
    GateSettings,
    JournalSettings,
    Kod2Settings,
    KubeName,
    LeaseSettings,
    NodesSettings,
    ProgressSettings,
    ReleaseSettings,
    SchedulerSettings,
    Seconds,
    SecondsOrZero,
    ServerSettings,
    UsageSettings,
)
from policy.systems import SYSTEMS, make_policy

PREFIX: Final = "KOHORT_"
DELIMITER: Final = "__"


class Settings(BaseSettings):
    """All settings of `kohort serve` and `kohort controller`; both read the same file."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, env_prefix=PREFIX, env_nested_delimiter=DELIMITER
    )

    policy: str = Field(
        default="kod2",
        description="The policy that decides; with NAME+specon, SpeCon moves jobs that the policy itself never moves.",
    )
    rebalance: Literal["", "specon", "guests"] = Field(
        default="",
        description="A second policy that moves jobs which the first never moves; policy: NAME+specon is the same.",
    )
    kod2: Kod2Settings = Kod2Settings()
    parameters: dict[str, bool | int | float | str] = Field(
        default={},
        description="Parameters of a policy other than kod2, by the names in docs/policies; those of a policy that "
        "moves jobs have its name before a dot: specon.interval.",
    )
    scheduler_name: KubeName = Field(default="kohort", description="spec.schedulerName by which a pod opts in.")
    answer: Literal["one-node", "ranked"] = Field(
        default="one-node",
        description="filter answers with the planned node only, or with every node on which the plan stays feasible.",
    )
    gate: Literal["when-queued", "always", "never"] = Field(
        default="when-queued", description="When new pods are created gated: while jobs wait, always, or never."
    )
    barrier: BarrierSettings = BarrierSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    nodes: NodesSettings = NodesSettings()
    nominate_above_nodes: Count = Field(
        default=500,
        ge=0,
        description="On clusters with more nodes than this every member with a planned node is nominated for it; on "
        "others only members that kube-scheduler has refused.",
    )
    refusal_memory_seconds: Seconds = Field(
        default=60, description="How long a node that kube-scheduler's plugins refused for a gang is not planned again."
    )
    resizes_per_minute: Count = Field(
        default=600,
        ge=0,
        le=100_000,
        description="How many jobs kod2, drs and dragon may shrink or grow in any minute; 0: no limit.",
    )
    tick_seconds: Seconds = Field(default=10, description="Longest time between two decisions.")
    coalesce_seconds: SecondsOrZero = Field(
        default=0.02, description="Changes gathered for this long make one decision."
    )
    release: ReleaseSettings = ReleaseSettings()
    server: ServerSettings = ServerSettings()
    api: ApiSettings = ApiSettings()
    progress: ProgressSettings = ProgressSettings()
    controller: ControllerSettings = ControllerSettings()
    lease: LeaseSettings = LeaseSettings()
    gate_parameters: GateSettings = GateSettings()
    journal: JournalSettings = JournalSettings()
    usage: UsageSettings = UsageSettings()
    kubeconfig: str = Field(
        default="",
        description="Path of a kubeconfig; empty: KUBECONFIG, else the default file, else the pod's service account.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe level logged."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return pydantic's sources of values: only the arguments of the constructor.

        pydantic must not read the environment by itself, so that the environment cannot affect tests. `load_settings`
        reads it.
        """
        return (init_settings,)

    @model_validator(mode="after")
    def _check_relations(self) -> Settings:
        if broken := list(broken_relations(self)):
            raise ValueError("\n".join(broken))
        return self

    @field_validator("policy")
    @classmethod
    def _check_policy(cls, value: str) -> str:
        try:
            make_policy(value)
        except ValueError:
            raise ValueError(f"one of {', '.join(sorted(SYSTEMS))}, or one of them with +specon") from None
        return value

    @property
    def system(self) -> str:
        """Return the policy's name for ``make_policy``: ``NAME``, or ``NAME+SECOND`` if a second policy moves jobs."""
        return f"{self.policy}+{self.rebalance}" if self.rebalance else self.policy

    @property
    def base(self) -> str:
        """Return the name of the policy that orders the queue: without ``+specon``, the policy that moves jobs."""
        return self.policy.partition("+")[0]

    @property
    def policy_parameters(self) -> dict[str, bool | int | float | str]:
        """Return the parameters of the policy for ``make_policy``, by name."""
        return self.kod2.model_dump() | self.parameters if self.base == "kod2" else self.parameters

    @property
    def commits_first(self) -> bool:
        """Tell whether an eligible gang is bound at its first bind call."""
        commit = self.barrier.commit
        return commit == "first" or (commit == "auto" and not any(against_first(self)))

    @property
    def largest_gang(self) -> int:
        """Return the most members that a gang may have.

        kube-scheduler must be able to schedule all members in the time for which a bind is held, and there must be a
        connection for the held bind of each member.
        """
        rate = min(self.scheduler.pods_per_second, self.controller.patches_per_second)
        by_time = math.floor(self.barrier.hold_seconds * rate)
        return min(by_time, self.server.connections - self.server.reserved_connections)
