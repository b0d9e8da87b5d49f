"""The kinds of jobs as one table: where roles, replicas and bounds stand, and what the owner's operator does.

Adding a kind is adding a row (and a fixture). ``design.md`` section 5 lists what each row means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from extender.kube.api import TFJOBS, Resource

MIN_WORKERS: Final = "kohort.dev/min-workers"
MAX_WORKERS: Final = "kohort.dev/max-workers"
UTILITY: Final = "kohort.dev/utility"
WAKE: Final = "kohort.dev/wake"
PLAN: Final = "kohort.dev/plan"
SLOT: Final = "kohort.dev/slot"
GATE: Final = "kohort.dev/admission"

ROLE_LABEL: Final = "training.kubeflow.org/replica-type"
INDEX_LABEL: Final = "training.kubeflow.org/replica-index"


@dataclass(frozen=True, slots=True)
class JobKind:
    """One kind of training job.

    roles: the role of each key under ``replicas_at``. elastic: the Worker's replicas may be patched while it runs, if
    the field ``elastic_if`` of the spec is true; the operator then removes the highest index first.
    """

    kind: str
    resource: Resource
    replicas_at: str
    roles: Mapping[str, str]
    elastic: bool
    elastic_if: str


TFJOB: Final = JobKind(
    kind="TFJob",
    resource=TFJOBS,
    replicas_at="tfReplicaSpecs",
    roles={"PS": "ps", "Worker": "worker", "Chief": "chief", "Master": "master", "Evaluator": "evaluator"},
    elastic=True,
    # Without it the operator takes a running worker that is being removed for a failure of the job (1.8.1,
    # pkg/core/status.go).
    elastic_if="enableDynamicWorker",
)

KINDS: Final[Mapping[str, JobKind]] = {kind.kind: kind for kind in (TFJOB,)}
LONE_POD: Final = "Pod"
