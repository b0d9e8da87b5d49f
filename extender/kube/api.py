"""Declares what Kohort needs of a Kubernetes API: resources, outcomes of a write, and the `Api` protocol.

`client.KubeApi` implements the protocol over HTTP, and an in-memory cluster implements it for tests and the demo.
Objects are plain dicts as JSON gives them; only `translate` and the modules that it calls read their fields.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

Json = dict[str, Any]

MALFORMED: Final = "kohort.dev/malformed"
"""Key that is set at the top level of an object that could not be read; its value is the reason. Such an object has
only its metadata besides.
"""


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the Kubernetes API, as its URLs name it; the group is empty for the core group."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return the ``apiVersion`` of the resource's objects: ``batch/v1``, or ``v1`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """Return the URL path of the resource's group and version: ``/apis/batch/v1``, ``/api/v1``."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


# apiserver/pkg/admission/plugin: webhook/errors/statuserror.go, policy/validating/dispatcher.go and validator.go
_DENIAL: Final = re.compile(
    r'admission webhook "[^"]*" denied the request'
    r"|ValidatingAdmissionPolicy '[^']*'(?: with binding '[^']*')? denied"
)

PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes", namespaced=False)
SERVICES = Resource("", "v1", "services")
CONFIGMAPS = Resource("", "v1", "configmaps")
QUOTAS = Resource("", "v1", "resourcequotas")
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
EVENTS = Resource("events.k8s.io", "v1", "events")
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", namespaced=False)
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases")
TFJOBS = Resource("kubeflow.org", "v1", "tfjobs")
PYTORCHJOBS = Resource("kubeflow.org", "v1", "pytorchjobs")
MPIJOBS = Resource("kubeflow.org", "v1", "mpijobs")
BATCHJOBS = Resource("batch", "v1", "jobs")
STATEFULSETS = Resource("apps", "v1", "statefulsets")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
JOBSETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets")


@dataclass(frozen=True, slots=True)
class Ref:
    """The address of one API object; ``namespace`` is empty for an object of a resource that has no namespaces."""

    resource: Resource
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Done:
    """The write took effect; ``body`` is the API's answer (the object, or a Status)."""

    body: Json


@dataclass(frozen=True, slots=True)
class Refused:
    """The write certainly did not take effect.

    ``status`` is the HTTP status (409 conflict, 404 not found, 403, 422, 429 ...), or 0 where the request was never
    sent; ``reason`` is the API's machine-readable reason (``Conflict``), ``message`` its text for people.
    """

    status: int
    reason: str
    message: str

    @property
    def words(self) -> str:
        """Return the API server's reason and message in one text, without the HTTP status."""
        return f"{self.reason}: {self.message}" if self.reason and self.message else self.message or self.reason

    @property
    def denied(self) -> bool:
        """Tell whether an admission webhook or policy has denied the write, by the API server's words.

        A webhook chooses the HTTP status of its denial, so the status does not tell: it may look like a conflict or
        like an object that is gone.
        """
        return _DENIAL.search(self.message) is not None

    @property
    def outdated(self) -> bool:
        """Tell whether the write failed because the object is gone, has changed, or was replaced by another object of
        the same name.

        Such a write is not a fault, and must not be repeated.
        """
        gone = self.status in (404, 409) or (self.status == 422 and "metadata.uid" in self.message)
        return gone and not self.denied


@dataclass(frozen=True, slots=True)
class Unknown:
    """The write may or may not have taken effect: a time-out, a lost connection, a 5xx. Only the watch can show
    which.
    """

    why: str

    @property
    def words(self) -> str:
        """Return the error's text in one line."""
        return self.why


Outcome = Done | Refused | Unknown
PatchKind = Literal["json", "merge"]


class ClusterError(Exception):
    """A read failed. ``status`` is the HTTP status, 0 when no answer came; ``retry_after`` is in seconds."""

    def __init__(self, status: int, reason: str, message: str = "", retry_after: float = 0.0) -> None:
        super().__init__(f"{status} {reason}: {message}" if message else f"{status} {reason}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class Api(Protocol):
    """The calls of the Kubernetes API that Kohort makes: reads raise ClusterError; writes return an Outcome and never
    raise.
    """

    def list_pages(self, resource: Resource) -> AsyncGenerator[tuple[list[Json], str], None]:
        """Yield (items, resourceVersion) page by page; all pages belong to one consistent read at that version."""

    def watch(self, resource: Resource, resource_version: str, timeout: float) -> AsyncGenerator[list[Json], None]:
        """Yield lists of events ``{"type", "object"}`` in order for about ``timeout`` seconds.

        Each list has the events that have arrived since the one before. The first one is yielded as soon as the API has
        accepted the watch, and may be empty. BOOKMARK and ERROR events are included.
        """

    async def get(self, ref: Ref) -> Json | None:
        """Return the object, or None where it does not exist."""

    async def bind(self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> Outcome:
        """Bind the pod of that UID to ``node``; the annotations are merged into the pod in the same write."""

    async def patch(
        self,
        ref: Ref,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        uid: str = "",
        resource_version: str = "",
    ) -> Outcome:
        """Patch the object or its subresource, only if it still has that UID and resourceVersion (where given).

        A failed precondition is Refused: with 422, or with 409 where a merge patch names another resourceVersion. A
        refusal for the UID has ``metadata.uid`` in its message.
        """

    async def delete_pod(self, namespace: str, name: str, uid: str) -> Outcome:
        """Delete the pod if it still has that UID.

        The outcome is Refused with 409 where the pod has another UID, and with 404 where there is no such pod.
        """

    async def evict_pod(self, namespace: str, name: str, uid: str) -> Outcome:
        """Evict the pod if it still has that UID.

        The outcome is Refused with 429 while a PodDisruptionBudget does not allow the eviction.
        """

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> Outcome:
        """Create one events.k8s.io/v1 Event."""
