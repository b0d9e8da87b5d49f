"""Every knob once, with its default, unit and bounds, and the relations between knobs.

This room must not know what the knobs do, nor where their values come from (settingsfile.py).
A setting's unit is the end of its name. Whatever is out of bounds or impossible in combination is refused with the
field's name, the value, what is allowed and what to change; nothing is silently corrected.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from policy.systems import SYSTEMS, kod2, make_policy

BACKOFF_MARGIN_SECONDS: Final = 2.0
TIMEOUT_MARGIN_SECONDS: Final = 2.0

PREFIX: Final = "KOHORT_"
DELIMITER: Final = "__"


def _keep_truth_from_numbers(value: object) -> object:
    """Refuse `yes` where a number is meant; pydantic would read it as 1."""
    if isinstance(value, bool):
        raise ValueError("a number")
    return value


_NUMBER: Final = BeforeValidator(_keep_truth_from_numbers)
Count = Annotated[int, _NUMBER]
Rate = Annotated[float, _NUMBER, Field(gt=0, le=10_000)]
Seconds = Annotated[float, _NUMBER, Field(gt=0, le=86_400)]
SecondsOrNone = Annotated[float, _NUMBER, Field(ge=0, le=86_400)]
PortNumber = Annotated[int, _NUMBER, Field(ge=0, le=65_535)]
KubeName = Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


class Section(BaseModel):
    """A part of the settings: closed (an unknown key is an error) and frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Kod2(Section):
    """Parameters of the policy kod2; the defaults are the paper's where it states one."""

    starve_limit_seconds: Seconds = Field(
        default=600, description="A job that waits longer counts as STARVING and goes first."
    )
    gate: Literal["loose", "strict"] = Field(
        default="loose",
        description="Reading of Algorithm 1's admission gate: loose admits what fits, strict only the head.",
    )
    backfill: bool = Field(default=True, description="Let lighter jobs use room that the head of the queue cannot use.")
    cooldown_seconds: Seconds = Field(default=60, description="A job that was resized is left alone for this long.")
    weight_mode: Literal["paper", "small-first"] = Field(
        default="paper",
        description="How a job's weight follows from its requests: as the paper prints it, or small jobs first.",
    )
    scale_out: Literal["together", "anywhere"] = Field(
        default="together",
        description="Where a job grows: beside its ps where one node could hold all of it, or as the paper prints it.",
    )
    restart_seconds: SecondsOrNone = Field(
        default=30,
        description="What a change of its workers costs a job: one whose reports say that it ends too soon to gain so "
        "much is not grown; 0: as the paper.",
    )


class Barrier(Section):
    """How long binds of a gang are held for one another, and what has to fit around that."""

    window_seconds: Seconds = Field(
        default=8, description="Binds of a gang are held until no further member has come for this long."
    )
    http_timeout_seconds: Seconds = Field(
        default=30,
        description="httpTimeout of the extender in KubeSchedulerConfiguration; bounds how long binds are held.",
    )
    binding_seconds: Seconds = Field(default=4, description="Time allowed for creating all bindings of a gang.")
    api_deadline_seconds: Seconds = Field(default=4, description="Deadline of a single call to the API server.")
    repair_seconds: Seconds = Field(
        default=30, description="A plan that is not bound, or a gang that lacks members, is given up after this long."
    )
    freeing_seconds: Seconds = Field(
        default=120, description="A plan whose room others still hold, or a migration, is given up after this long."
    )
    checkpoint_seconds: SecondsOrNone = Field(
        default=30, description="A job that is to be moved is given this long to save; 0: it is not asked."
    )
    gangs_at_once: Count = Field(
        default=1024, ge=1, le=1024, description="Gangs whose binds may be held at the same time."
    )

    @property
    def hold_seconds(self) -> float:
        """The longest that a bind is held: what httpTimeout leaves, when it is made then and the last call hangs."""
        return self.http_timeout_seconds - self.binding_seconds - self.api_deadline_seconds - TIMEOUT_MARGIN_SECONDS


class Scheduler(Section):
    """What we rely on in kube-scheduler's own configuration; `kohort check-config` compares."""

    pod_initial_backoff_seconds: Seconds = Field(default=1, description="podInitialBackoffSeconds of kube-scheduler.")
    pod_max_backoff_seconds: Seconds = Field(default=2, description="podMaxBackoffSeconds of kube-scheduler.")
    pods_per_second: Rate = Field(default=60, description="Scheduling rate by which the largest gang is sized.")


class Release(Section):
    """Back-off of a gang whose plan was released because its window passed."""

    backoff_initial_seconds: Seconds = Field(default=5, description="Wait after a gang's first release.")
    backoff_max_seconds: Seconds = Field(
        default=120, description="Longest wait; each release in a row doubles the last one."
    )


class Tls(Section):
    """The verbs over mutual TLS, for a kube-scheduler that is not in our pod; certificates are re-read on change.

    With ``peers`` it is on: the verbs are on this listener only, and the plain ones serve REST, probes and metrics.
    """

    peers: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="Names (common or alternative) in a client's certificate that may call; empty: no TLS."
    )
    host: str = Field(default="0.0.0.0", min_length=1, description="Address of the verbs over TLS.")
    port: PortNumber = Field(default=8904, description="Port of the verbs over TLS; 0 takes any free one.")
    certificate: str = Field(default="/etc/kohort-tls/tls.crt", description="Our certificate, with its chain (PEM).")
    key: str = Field(default="/etc/kohort-tls/tls.key", description="The key of our certificate (PEM).")
    client_ca: str = Field(
        default="/etc/kohort-tls/ca.crt", description="The CA of the clients' certificates, which signs nothing else."
    )

    @property
    def on(self) -> bool:
        """Whether the verbs are behind TLS."""
        return bool(self.peers)


class Server(Section):
    """The listener of the verbs (loopback) and the one for probes and metrics (pod network)."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address of the verbs and of REST.")
    port: PortNumber = Field(default=8900, description="Port of the verbs and of REST; 0 takes any free one.")
    health_host: str = Field(
        default="0.0.0.0", min_length=1, description="Address of /livez, /readyz and /metrics only."
    )
    health_port: PortNumber = Field(
        default=8901, description="Port of /livez, /readyz and /metrics; 0 takes any free one."
    )
    allow_remote_without_tls: bool = Field(
        default=False, description="Allow a host off loopback: whoever reaches the port may then bind pods to nodes."
    )
    body_limit_bytes: Count = Field(
        default=3 * 1024 * 1024, ge=4096, le=64 * 1024 * 1024, description="Longest request body."
    )
    header_seconds: Seconds = Field(default=5, description="A request's head must have arrived within this time.")
    body_seconds: Seconds = Field(default=5, description="A request's body must have arrived within this time.")
    connections: Count = Field(
        default=2048, ge=2, le=65_536, description="Connections accepted at once; each held bind is one."
    )
    reserved_connections: Count = Field(default=64, ge=1, le=65_536, description="Of these, kept free of held binds.")
    keep_alive_seconds: Seconds = Field(
        default=120, description="Idle time of a connection; kube-scheduler gives up after 90 s."
    )
    graceful_seconds: Seconds = Field(default=5, description="Time for open requests at a stop.")
    tls: Tls = Tls()


class ForPeople(Section):
    """REST and the page beyond loopback, for callers whose token and rights the API server knows; off by default.

    Answers hold what is in namespaces in which the caller may list ``jobs.kohort.dev``. The verbs are never here.
    """

    enabled: bool = Field(default=False, description="Whether to serve REST and the page to callers with a token.")
    host: str = Field(default="0.0.0.0", min_length=1, description="Address for callers with a token.")
    port: PortNumber = Field(default=8905, description="Port for callers with a token; 0 takes any free one.")
    certificate: str = Field(
        default="/etc/kohort-api-tls/tls.crt", description="Certificate of this listener, with its chain (PEM)."
    )
    key: str = Field(default="/etc/kohort-api-tls/tls.key", description="The key of that certificate (PEM).")
    without_tls: bool = Field(
        default=False, description="Serve plain HTTP, where something else in the pod ends TLS: tokens are secrets."
    )
    audiences: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=("kohort.dev",),
        description="A token must be for one of these; empty: for the API server, as people's own tokens are.",
    )
    review_seconds: Annotated[float, _NUMBER, Field(gt=0, le=600)] = Field(
        default=30, description="How long an answer about a token or a right is good; a stream ends after it."
    )


class Progress(Section):
    """The listener on which training code reports how far it is; off unless it is switched on."""

    enabled: bool = Field(default=False, description="Whether to listen for reports of training code.")
    host: str = Field(default="0.0.0.0", min_length=1, description="Address for reports.")
    port: PortNumber = Field(default=8903, description="Port for reports; 0 takes any free one.")
    audience: str = Field(
        default="kohort.dev", min_length=1, description="Audience that a pod's projected token must have."
    )
    interval_seconds: Seconds = Field(default=1, description="Shortest time between two reports of one job.")
    token_seconds: Seconds = Field(default=60, description="How long a reviewed token is not reviewed again.")


class Controller(Section):
    """The second process, which writes to the API what the extender wants to be true."""

    service_url: str = Field(default="http://127.0.0.1:8900", description="Where the extender's REST is.")
    interval_seconds: Seconds = Field(default=1.0, description="Longest time between two looks at the desired state.")
    patches_per_second: Rate = Field(
        default=100, description="Rate limit of all writes; the members of a waiting gang are let go at this rate."
    )
    request_timeout_seconds: Seconds = Field(default=5, description="Deadline of one request to the extender.")
    health_host: str = Field(default="0.0.0.0", min_length=1, description="Address of /livez, /readyz and /metrics.")
    health_port: PortNumber = Field(
        default=8902, description="Port of /livez, /readyz and /metrics; 0 takes any free one."
    )

    @field_validator("service_url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        url = urlsplit(value)  # a broken IPv6 address or port raises ValueError, which is what pydantic wants
        if url.scheme not in ("http", "https") or not url.hostname or url.port == 0:
            raise ValueError("an http:// or https:// URL with a host")
        return value.rstrip("/")


class Lease(Section):
    """The Lease by which a replica leads: kube-scheduler's own, or one that the extenders hold among themselves."""

    namespace: KubeName = Field(default="kohort-system", description="Namespace of the Lease.")
    name: KubeName = Field(default="kohort-scheduler", description="Name of the Lease: leaderElection.resourceName.")
    identity: str = Field(
        default="",
        description="Beginning of holderIdentity, before its underscore, that means this pod; empty: the host's name; "
        "*: always lead.",
    )

    elect: bool = Field(
        default=False,
        description="The extenders elect their leader by this Lease, and only the leader is ready: for a "
        "kube-scheduler that is not in our pod.",
    )


class Journal(Section):
    """The journal on disk, for `kohort replay`."""

    folder: str = Field(default="", description="Folder for the journal of every step; empty: none is kept.")
    file_bytes: Count = Field(
        default=64 * 1024 * 1024,
        ge=64 * 1024,
        le=16 * 1024**3,
        description="A file with so many bytes of steps is followed by a new one.",
    )
    files: Count = Field(default=4, ge=1, le=1000, description="Files that are kept; the oldest goes first.")
    compare_seconds: Seconds = Field(
        default=20, description="Longest that the page or REST compares the journal with another policy, beside us."
    )
    compare_bytes: Count = Field(
        default=1024**3, ge=256 * 1024**2, description="Most memory that the process has which compares."
    )


class Usage(Section):
    """What nodes use, by the metrics API, for metrics and for SpeCon's ties."""

    interval_seconds: SecondsOrNone = Field(
        default=30, description="How often metrics.k8s.io is asked, where it is served; 0: never."
    )


class GateParameters(Section):
    """The ConfigMap that switches the admission gate on and off."""

    namespace: KubeName = Field(default="kohort-system", description="Namespace of the policy's parameter ConfigMap.")
    name: KubeName = Field(default="kohort-gate", description="Name of the policy's parameter ConfigMap.")


class Settings(BaseSettings):
    """All settings of `kohort serve` and `kohort controller`; both read the same file."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, env_prefix=PREFIX, env_nested_delimiter=DELIMITER
    )

    policy: str = Field(
        default="kod2",
        description="The policy that decides; NAME+specon: SpeCon moves jobs that the policy leaves undisturbed.",
    )
    rebalance: Literal["", "specon", "guests"] = Field(
        default="",
        description="Who moves jobs that the policy leaves undisturbed; policy: NAME+specon says the same.",
    )
    kod2: Kod2 = Kod2()
    parameters: dict[str, bool | int | float | str] = Field(
        default={}, description="Parameters of another policy than kod2, by the names in docs/policies."
    )
    scheduler_name: KubeName = Field(default="kohort", description="spec.schedulerName by which a pod opts in.")
    answer: Literal["one-node", "ranked"] = Field(
        default="one-node",
        description="filter gives the planned node only, or every node on which the plan stays feasible.",
    )
    gate: Literal["when-queued", "always", "never"] = Field(
        default="when-queued", description="When new pods are created gated: while jobs wait, always, or never."
    )
    barrier: Barrier = Barrier()
    scheduler: Scheduler = Scheduler()
    nominate_above_nodes: Count = Field(
        default=500,
        ge=0,
        description="Nominate planned nodes on clusters larger than this; below, only those of refused members.",
    )
    refusal_memory_seconds: Seconds = Field(
        default=60, description="How long a node that plugins refused is not planned again."
    )
    resizes_per_minute: Count = Field(
        default=600,
        ge=0,
        le=100_000,
        description="How many jobs kod2, drs and dragon may shrink or grow in any minute; 0: no limit.",
    )
    tick_seconds: Seconds = Field(default=10, description="Longest time between two decisions.")
    coalesce_seconds: SecondsOrNone = Field(
        default=0.02, description="Changes gathered for this long make one decision."
    )
    release: Release = Release()
    server: Server = Server()
    api: ForPeople = ForPeople()
    progress: Progress = Progress()
    controller: Controller = Controller()
    lease: Lease = Lease()
    gate_parameters: GateParameters = GateParameters()
    journal: Journal = Journal()
    usage: Usage = Usage()
    kubeconfig: str = Field(
        default="", description="Path of a kubeconfig; empty: the pod's own account, else the default file."
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
        """Take values as given; `load_settings` alone reads the environment, so that a test is not steered by it."""
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
        """The policy with who moves jobs above it, as ``make_policy`` takes them."""
        return f"{self.policy}+{self.rebalance}" if self.rebalance else self.policy

    @property
    def policy_parameters(self) -> dict[str, bool | int | float | str]:
        """What the policy is made with, by its own names."""
        if self.policy.partition("+")[0] != "kod2":
            return self.parameters
        given = self.kod2.model_dump()
        own = {field.name for field in fields(kod2.Kod2)}
        return {name if name in own else name.removesuffix("_seconds"): value for name, value in given.items()}

    @property
    def largest_gang(self) -> int:
        """The most members a gang may have: let go and scheduled while binds are held, and held in our connections."""
        rate = min(self.scheduler.pods_per_second, self.controller.patches_per_second)
        by_time = math.floor(self.barrier.hold_seconds * rate)
        return min(by_time, self.server.connections - self.server.reserved_connections)


def broken_relations(settings: Settings) -> Iterator[str]:
    """Say which settings cannot hold together, and which one to change."""
    yield from _broken_rebalance(settings) or _broken_parameters(settings)
    yield from _broken_times(settings)
    yield from _broken_listeners(settings)
    yield from _broken_sharing(settings)


def _broken_rebalance(settings: Settings) -> list[str]:
    if not settings.rebalance:
        return []
    try:
        make_policy(settings.system)
    except ValueError as error:
        return [f"rebalance: {settings.rebalance!r} is not allowed with policy: {settings.policy}; {error}"]
    return []


def _broken_parameters(settings: Settings) -> Iterator[str]:
    if settings.parameters and settings.policy_parameters is not settings.parameters:
        names = ", ".join(sorted(settings.parameters))
        yield f"parameters: {names} is not allowed; allowed: nothing, the policy kod2 has the section kod2"
        return
    try:
        make_policy(settings.system, **settings.policy_parameters)
    except ValueError as error:
        yield f"parameters: {error}"


def _broken_times(settings: Settings) -> Iterator[str]:
    barrier, scheduler, release = settings.barrier, settings.scheduler, settings.release
    least_window = scheduler.pod_max_backoff_seconds + BACKOFF_MARGIN_SECONDS
    if barrier.window_seconds < least_window:
        yield (
            f"barrier.window_seconds: {barrier.window_seconds:g} is shorter than scheduler.pod_max_backoff_seconds "
            f"({scheduler.pod_max_backoff_seconds:g}) + {BACKOFF_MARGIN_SECONDS:g}: a member in back-off would miss "
            f"the barrier; allowed: at least {least_window:g}, or lower scheduler.pod_max_backoff_seconds"
        )
    least_timeout = least_http_timeout_seconds(barrier)
    if barrier.http_timeout_seconds < least_timeout:
        yield (
            f"barrier.http_timeout_seconds: {barrier.http_timeout_seconds:g} is shorter than barrier.window_seconds "
            f"({barrier.window_seconds:g}) + barrier.binding_seconds ({barrier.binding_seconds:g}) + "
            f"barrier.api_deadline_seconds ({barrier.api_deadline_seconds:g}) + {TIMEOUT_MARGIN_SECONDS:g}: "
            f"kube-scheduler would give up on a bind that is still held; allowed: at least {least_timeout:g}, "
            f"or lower barrier.window_seconds"
        )
    yield from _not_above(
        ("scheduler.pod_initial_backoff_seconds", scheduler.pod_initial_backoff_seconds),
        ("scheduler.pod_max_backoff_seconds", scheduler.pod_max_backoff_seconds),
    )
    yield from _not_above(
        ("release.backoff_initial_seconds", release.backoff_initial_seconds),
        ("release.backoff_max_seconds", release.backoff_max_seconds),
    )
    yield from _not_above(
        ("coalesce_seconds", settings.coalesce_seconds),
        ("tick_seconds", settings.tick_seconds),
    )
    spare = settings.server.connections - settings.server.reserved_connections
    if barrier.http_timeout_seconds >= least_timeout and settings.largest_gang < 1 <= spare:
        yield (
            f"scheduler.pods_per_second: {scheduler.pods_per_second:g} schedules no pod while a bind may be held "
            f"({barrier.hold_seconds:g} s), so no gang could ever start; allowed: a product of at least 1"
        )


def _broken_listeners(settings: Settings) -> Iterator[str]:
    server, progress, api = settings.server, settings.progress, settings.api
    if server.connections - server.reserved_connections < 1:
        yield (
            f"server.reserved_connections: {server.reserved_connections} leaves none of server.connections "
            f"({server.connections}) for held binds; allowed: at most {server.connections - 1}, or raise "
            f"server.connections"
        )
    if not is_loopback(server.host) and not server.allow_remote_without_tls:
        yield (
            f"server.host: {server.host!r} is not a loopback address, so anybody who reaches it may bind pods to "
            f"nodes; allowed: 127.0.0.1, ::1 or localhost; to show REST and the page to people set api.enabled, or "
            f"set server.allow_remote_without_tls if something else guards the port"
        )
    if api.enabled and api.without_tls and not is_loopback(api.host):
        yield (
            f"api.without_tls: true with api.host {api.host!r} sends tokens in the clear; allowed: false, or api.host "
            f"127.0.0.1 with something in the pod that ends TLS before it"
        )
    ports = (
        ("server.port", server.port),
        ("server.health_port", server.health_port),
        ("controller.health_port", settings.controller.health_port),
        *([("progress.port", progress.port)] if progress.enabled else []),
        *([("server.tls.port", server.tls.port)] if server.tls.on else []),
        *([("api.port", api.port)] if api.enabled else []),
    )
    seen: dict[int, str] = {}
    for name, port in ports:
        if port and port in seen:
            yield f"{name}: {port} is {seen[port]} as well; allowed: a port of its own"
        seen.setdefault(port, name)


def _broken_sharing(settings: Settings) -> Iterator[str]:
    """With one kube-scheduler and several extenders behind a Service, the Lease has to say which of these is asked."""
    lease = settings.lease
    if settings.server.tls.on and not lease.elect and not lease.identity:
        yield (
            "lease.elect: False with server.tls.peers: the Lease of a kube-scheduler on another host never names this "
            "pod, so no replica would lead; allowed: true, or lease.identity '*' with a single replica"
        )
    if lease.elect and lease.identity == "*":
        yield "lease.identity: '*' always leads, against lease.elect; allowed: another one, or lease.elect false"


def _not_above(lower: tuple[str, float], upper: tuple[str, float]) -> Iterator[str]:
    if lower[1] > upper[1]:
        yield f"{lower[0]}: {lower[1]:g} is above {upper[0]} ({upper[1]:g}); allowed: at most that, or raise {upper[0]}"


def least_http_timeout_seconds(barrier: Barrier) -> float:
    """Say which httpTimeout outlives a bind that is held for one window, then made, the last call hanging."""
    return barrier.window_seconds + barrier.binding_seconds + barrier.api_deadline_seconds + TIMEOUT_MARGIN_SECONDS


def is_loopback(host: str) -> bool:
    """Tell whether only this machine, or this pod, can reach the host."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
