"""Defines the sections of the settings: each setting with its default, unit and bounds.

This module must not know what the settings do. A setting's name ends with its unit.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from extender.config.hosts import http_url
from extender.config.section import NUMBER, Section

TIMEOUT_MARGIN_SECONDS: Final = 2.0


Count = Annotated[int, NUMBER]
Rate = Annotated[float, NUMBER, Field(gt=0, le=10_000)]
Seconds = Annotated[float, NUMBER, Field(gt=0, le=86_400)]
SecondsOrZero = Annotated[float, NUMBER, Field(ge=0, le=86_400)]
PortNumber = Annotated[int, NUMBER, Field(ge=0, le=65_535)]
Text = Annotated[str, Field(min_length=1)]
KubeName = Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


class Kod2Settings(Section):
    """Parameters of the policy kod2; the defaults are the paper's where it states one."""

    starve_limit_seconds: Seconds = Field(
        default=600, description="A job that waits longer counts as STARVING and goes first."
    )
    gate: Literal["loose", "strict"] = Field(
        default="loose",
        description="How Algorithm 1's admission gate is read: loose admits what fits, strict only the queue's head.",
    )
    backfill: bool = Field(default=True, description="Let lighter jobs use room that the head of the queue cannot use.")
    cooldown_seconds: Seconds = Field(default=60, description="A job that was shrunk is not grown again for this long.")
    weight_mode: Literal["paper", "small-first"] = Field(
        default="paper",
        description="How a job's weight follows from its requests: as the paper prints it, or small jobs first.",
    )
    scale_out: Literal["together", "anywhere"] = Field(
        default="together",
        description="Where a job grows: beside its ps where one node could hold all of it, or as the paper prints it.",
    )
    restart_seconds: SecondsOrZero = Field(
        default=30,
        description="Time that a job loses when its workers change. A job that by its reports ends too soon to gain "
        "that time is not grown. 0: no cost, as in the paper.",
    )
    by_node: bool = Field(
        default=True,
        description="Take workers from the node where the fewest must go; false: strictly by weight, as in the paper.",
    )
    weigh_gpus: bool = Field(
        default=False,
        description="Count a worker's GPUs in a job's weight as its CPU and memory are; the paper does not.",
    )
    behind_head: bool = Field(
        default=False,
        description="Grow jobs even while others wait for room that no shrink frees, unless the first of them starves.",
    )
    weigh_utility: bool = Field(
        default=True, description="Multiply a job's weight by its utility; the paper has no utility."
    )
    starving_blocks: bool = Field(
        default=True, description="Let no job pass a starving head; the paper only puts a starving job first."
    )


class BarrierSettings(Section):
    """Settings of the barrier: how long a gang's bind calls wait for one another, and the deadlines that follow."""

    window_seconds: Seconds = Field(
        default=8, description="Binds of a gang are held until no further member has come for this long."
    )
    http_timeout_seconds: Seconds = Field(
        default=30,
        description="httpTimeout of the extender in KubeSchedulerConfiguration; it limits how long binds are held.",
    )
    binding_seconds: Seconds = Field(default=4, description="Time allowed for creating all bindings of a gang.")
    api_deadline_seconds: Seconds = Field(default=4, description="Deadline of a single call to the API server.")
    repair_seconds: Seconds = Field(
        default=20,
        description="A plan that is not bound, or a gang whose missing members have all stopped, is "
        "given up after this long.",
    )
    freeing_seconds: Seconds = Field(
        default=120,
        description="A plan whose room other pods still hold is made again when none of them has gone for this long, "
        "and given up the second time unless one of them is stopping; a migration is given up after this long without "
        "an arrival or a stopping pod.",
    )
    growing_seconds: Seconds = Field(
        default=60,
        description="If no worker of those that a running job was given arrives for this long, the missing ones are "
        "reported and tried once more. If none arrives for the same time again, they are taken back, and the job is "
        "not grown for twice this time; after further failures, for four times this time and so on.",
    )
    checkpoint_seconds: SecondsOrZero = Field(
        default=30, description="Time that a job gets to save its state before it is moved; 0: it is not asked to save."
    )
    commit: Literal["auto", "all", "first"] = Field(
        default="auto",
        description="When a gang is bound: all: when its minimum is held; first: at its first bind call, if "
        "kube-scheduler's plugins would look at nothing in its pods but what Kohort checks itself; auto: first, or all "
        "where first is not allowed (answer: ranked, server.tls.peers, lease.elect).",
    )
    gangs_at_once: Count = Field(
        default=1024, ge=1, le=1024, description="Gangs whose binds may be held at the same time."
    )

    @property
    def hold_seconds(self) -> float:
        """Return the longest time in seconds for which a bind is held.

        It leaves enough of httpTimeout to make the gang's bindings, even if the last call to the API server hangs.
        """
        return self.http_timeout_seconds - self.binding_seconds - self.api_deadline_seconds - TIMEOUT_MARGIN_SECONDS


class NodesSettings(Section):
    """Settings about nodes on which members of gangs fail."""

    avoid_failing: bool = Field(
        default=False,
        description="Avoid a node once members of two different jobs have failed there while the jobs' other members "
        "lived on. Kohort keeps such failures in an annotation of the node, for which it needs the manifests' "
        "component nodes.",
    )
    half_life_seconds: Annotated[float, NUMBER, Field(gt=0, le=2_592_000)] = Field(
        default=3600,
        description="How long such a node is avoided at least. A failure weighs half as much after each half-life, and "
        "is forgotten after two.",
    )
    watch_seconds: Seconds = Field(
        default=15,
        description="How long the job's other members must live on before a failure counts against the node.",
    )


class SchedulerSettings(Section):
    """What Kohort assumes about kube-scheduler's configuration; `kohort check-config` compares both."""

    pod_initial_backoff_seconds: Seconds = Field(default=1, description="podInitialBackoffSeconds of kube-scheduler.")
    pod_max_backoff_seconds: Seconds = Field(default=2, description="podMaxBackoffSeconds of kube-scheduler.")
    pods_per_second: Rate = Field(
        default=60,
        description="Scheduling rate of kube-scheduler, from which the size of the largest gang is computed.",
    )
    plugins: tuple[Text, ...] = Field(
        default=(),
        description="Plugins that kube-scheduler's profile enables beyond its defaults; with one that Kohort does not "
        "know, barrier.commit: first binds no gang early.",
    )


class ReleaseSettings(Section):
    """How long a gang whose plan was given up waits before it is planned again."""

    backoff_initial_seconds: Seconds = Field(
        default=5, description="Pause after a gang's plan is given up for the first time."
    )
    backoff_max_seconds: Seconds = Field(
        default=120, description="Longest pause; each plan given up in a row doubles it."
    )


class TlsSettings(Section):
    """The listener that serves the verbs over mutual TLS, for a kube-scheduler outside Kohort's pod.

    TLS is on if ``peers`` is not empty: then only this listener serves the verbs, and the plain listeners serve REST,
    probes and metrics. Certificate files are read again when they change.
    """

    peers: tuple[Text, ...] = Field(
        default=(),
        description="Names (common or alternative) in the certificates of clients that may call; empty: no TLS.",
    )
    host: Text = Field(default="0.0.0.0", description="Address of the verbs over TLS.")
    port: PortNumber = Field(default=8904, description="Port of the verbs over TLS; 0 takes any free one.")
    certificate: str = Field(
        default="/etc/kohort-tls/tls.crt", description="Certificate of the verbs' listener, with its chain (PEM)."
    )
    key: str = Field(default="/etc/kohort-tls/tls.key", description="The key of that certificate (PEM).")
    client_ca: str = Field(
        default="/etc/kohort-tls/ca.crt",
        description="The CA of the clients' certificates; it should sign nothing else.",
    )

    @property
    def on(self) -> bool:
        """Tell whether the verbs are served over TLS."""
        return bool(self.peers)


class ServerSettings(Section):
    """The listener of the verbs (loopback) and the one for probes and metrics (pod network)."""

    host: Text = Field(default="127.0.0.1", description="Address of the verbs and of REST.")
    port: PortNumber = Field(default=8900, description="Port of the verbs and of REST; 0 takes any free one.")
    health_host: Text = Field(default="0.0.0.0", description="Address of /livez, /readyz and /metrics only.")
    health_port: PortNumber = Field(
        default=8901, description="Port of /livez, /readyz and /metrics; 0 takes any free one."
    )
    allow_remote_without_tls: bool = Field(
        default=False,
        description="Allow a host that is not loopback: anybody who reaches the port may then bind pods to nodes.",
    )
    body_limit_bytes: Count = Field(
        default=3 * 1024 * 1024, ge=4096, le=64 * 1024 * 1024, description="Longest request body."
    )
    header_seconds: Seconds = Field(default=5, description="A request's head must have arrived within this time.")
    body_seconds: Seconds = Field(default=5, description="A request's body must have arrived within this time.")
    answer_seconds: Seconds = Field(
        default=10, description="A client that reads nothing of its answer for this long is disconnected."
    )
    connections: Count = Field(
        default=2048, ge=2, le=65_536, description="Connections accepted at once; each held bind is one."
    )
    reserved_connections: Count = Field(
        default=64, ge=1, le=65_536, description="Number of these connections that held binds may not take."
    )
    keep_alive_seconds: Seconds = Field(
        default=120, description="Idle time after which a connection is closed; kube-scheduler closes it after 90 s."
    )
    graceful_seconds: Seconds = Field(
        default=5, description="Time that open requests get to finish when the process stops."
    )
    tls: TlsSettings = TlsSettings()


class ApiSettings(Section):
    """The listener that serves REST and the page beyond loopback; off by default.

    It answers callers whose token and rights the API server confirms. An answer has only objects of the namespaces in
    which the caller may list ``jobs.kohort.dev``. This listener never serves the verbs.
    """

    enabled: bool = Field(default=False, description="Whether to serve REST and the page to callers with a token.")
    host: Text = Field(default="0.0.0.0", description="Address for callers with a token.")
    port: PortNumber = Field(default=8905, description="Port for callers with a token; 0 takes any free one.")
    certificate: str = Field(
        default="/etc/kohort-api-tls/tls.crt", description="Certificate of this listener, with its chain (PEM)."
    )
    key: str = Field(default="/etc/kohort-api-tls/tls.key", description="The key of that certificate (PEM).")
    without_tls: bool = Field(
        default=False,
        description="Serve plain HTTP: only where something else in the pod terminates TLS, as tokens are secrets.",
    )
    audiences: tuple[Text, ...] = Field(
        default=("kohort.dev",),
        description="A token must have one of these audiences; empty: the API server's, as people's own tokens have.",
    )
    review_seconds: Annotated[float, NUMBER, Field(gt=0, le=600)] = Field(
        default=30,
        description="How long the API server's answer about a token or a right is used; a stream ends after that time.",
    )


class ProgressSettings(Section):
    """The listener on which training code reports its progress; off by default."""

    enabled: bool = Field(default=False, description="Whether to listen for reports of training code.")
    host: Text = Field(default="0.0.0.0", description="Address for reports.")
    port: PortNumber = Field(default=8903, description="Port for reports; 0 takes any free one.")
    audience: Text = Field(default="kohort.dev", description="Audience that a pod's projected token must have.")
    interval_seconds: Seconds = Field(default=1, description="Shortest time between two reports of one job.")
    token_seconds: Seconds = Field(
        default=60, description="How long a token that the API server has reviewed is accepted without another review."
    )


class ControllerSettings(Section):
    """Settings of the controller, the process that writes to the API server what the extender wants to be true."""

    service_url: Annotated[str, AfterValidator(http_url)] = Field(
        default="http://127.0.0.1:8900", description="URL of the extender's REST interface."
    )
    interval_seconds: Seconds = Field(default=1.0, description="Longest time between two reads of the desired state.")
    patches_per_second: Rate = Field(
        default=100,
        description="Rate limit of all writes per second; gates of a waiting gang's members are removed at this rate.",
    )
    request_timeout_seconds: Seconds = Field(default=5, description="Deadline of one request to the extender.")
    health_host: Text = Field(default="0.0.0.0", description="Address of /livez, /readyz and /metrics.")
    health_port: PortNumber = Field(
        default=8902, description="Port of /livez, /readyz and /metrics; 0 takes any free one."
    )


class LeaseSettings(Section):
    """The Lease that decides which replica leads: kube-scheduler's own, or one for which the extenders compete."""

    namespace: KubeName = Field(default="kohort-system", description="Namespace of the Lease.")
    name: KubeName = Field(default="kohort-scheduler", description="Name of the Lease: leaderElection.resourceName.")
    identity: str = Field(
        default="",
        description="The part of holderIdentity before the underscore that names this pod; empty: the host name; "
        "*: this replica always leads.",
    )
    elect: bool = Field(
        default=False,
        description="The extenders elect their leader with this Lease, and only the leader is ready; use it for a "
        "kube-scheduler outside Kohort's pod.",
    )


class JournalSettings(Section):
    """The journal on disk, for `kohort replay`."""

    folder: str = Field(default="", description="Folder for the journal of every step; empty: no journal is kept.")
    file_bytes: Count = Field(
        default=64 * 1024 * 1024,
        ge=64 * 1024,
        le=16 * 1024**3,
        description="A new file is begun when the current one has this many bytes of steps.",
    )
    files: Count = Field(
        default=4, ge=1, le=1000, description="Number of files that are kept; the oldest is deleted first."
    )
    compare_seconds: Seconds = Field(
        default=20, description="Longest time for which the page or REST compares the journal with another policy."
    )
    compare_bytes: Count = Field(
        default=1024**3, ge=256 * 1024**2, description="Memory limit of the process that compares."
    )


class UsageSettings(Section):
    """How the nodes' measured usage is read.

    The usage is exported as metrics, and SpeCon chooses by it between nodes that are equal otherwise.
    """

    interval_seconds: SecondsOrZero = Field(
        default=30, description="How often usage is read from metrics.k8s.io, where it is served; 0: never."
    )


class GateSettings(Section):
    """The ConfigMap that switches the admission gate on and off."""

    namespace: KubeName = Field(default="kohort-system", description="Namespace of the policy's parameter ConfigMap.")
    name: KubeName = Field(default="kohort-gate", description="Name of the policy's parameter ConfigMap.")
