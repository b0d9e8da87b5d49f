"""Answers of the service, and of the API server in front of it, for the tests of the command line."""

from typing import Any

WAITS = {
    "reason": "WaitingForRoom", "text": "kohort: the gang waits for room", "detail": "[red]3\x1b[2J cpu", "behind": "",
}  # fmt: skip
JOB: dict[str, Any] = {
    "namespace": "team", "name": "big", "kind": "TFJob", "uid": "u", "state": "waiting", "min_workers": 2,
    "workers": 0, "max_workers": 4, "replicas": 2, "elastic": True, "utility": 1.0, "weight": 0.75, "arrival": 0.0,
    "waited_seconds": 192.0, "keeps_pods": False, "waits": WAITS,
}  # fmt: skip
EXPECTED = {"at": 290.0, "in_seconds": 90.0, "basis": "if no other job comes, once team/run has ended"}
AMOUNTS = {"cpu": {"quantity": "1500m", "exact": 1500}, "memory": {"quantity": "8Gi", "exact": 8 * 2**30}}
HELD = [{"job": "team/done", "pod": "done-ps-0", "node": "n1", "requests": AMOUNTS}]
ANSWERS: dict[str, Any] = {
    "/v1/queue": {
        "generation": 1, "gated_pods": 3, "warnings": ["controller: not heard from for 12 s"],
        "jobs": [
            {
                **JOB, "position": 1, "members": 3, "needs": AMOUNTS, "gated_pods": 3, "expected": EXPECTED,
            }
        ],
        "held": HELD,
    },
    "/v1/jobs": {"generation": 1, "jobs": [JOB, {**JOB, "name": "run", "state": "running", "waits": None}]},
    "/v1/nodes": {
        "generation": 1,
        "nodes": [
            {
                "name": "n1", "ready": True, "unschedulable": False, "allocatable": AMOUNTS, "free": AMOUNTS,
                "other_pods": 2,
                "members": [
                    {"job": "team/run", "role": role, "index": index, "state": "bound"}
                    for role, index in (("ps", 0), ("worker", 0), ("worker", 1))
                ]
                + [{"job": "team/done", "role": "ps", "index": 0, "state": "bound", "finished": True}],
            }
        ],
        "held": HELD,
    },
    "/v1/plans": {
        "generation": 1,
        "plans": [
            {
                "namespace": "team", "name": "run", "kind": "TFJob", "uid": "u", "plan": "7-1", "state": "planned",
                "workers": 2, "nodes": {"ps-0": "n1", "worker-0": "n1", "worker-1": "n2"}, "at_barrier": ["ps-0"],
                "deadline_in_seconds": 12.5,
            }
        ],
    },
    "/v1/decisions": {
        "instance": "i", "latest": 7,
        "decisions": [
            {
                "sequence": 7, "at": 0.0, "generation": 3, "cause": ["PodSeen"], "action": "Admit",
                "job": {"namespace": "team", "name": "run", "kind": "TFJob", "uid": "u"},
                "text": "started with 2 workers", "inputs": {"weight": "0.7500"},
            }
        ],
    },
    "/v1/explain/team/big": {
        **JOB, "roles": [{"role": "worker", "replicas": 2, "requests": AMOUNTS}], "mend": "add nodes",
        "arithmetic": "1 of 2 workers would fit", "expected": EXPECTED,
        "history": [
            {"step": 3, "at": 0.0, "because": ["PodSeen"], "told": ["scaled in to 2 workers"],
             "inputs": {"weight": "0.7500", "for": "team/run"}},
        ], "ahead": [{"job": "team/run", "why": "arrived before this job"}],
        "missing_pods": "worker 1 of 2", "checked_singly": "worker-0 has volumes",
        "needs": [{"role": "ps", "members": 1, "requests": AMOUNTS}], "shrunk_for": "team/run",
        "waits_for": ["team/run-worker-1"],
        "members": [{"role": "ps", "index": 0, "pod": "big-ps-0", "node": "", "state": "gated"}],
        "nodes": [
            {"node": "n2", "free": AMOUNTS, "missing": AMOUNTS},
            {"node": "n1", "free": AMOUNTS, "missing": {}, "refused": "cordoned"},
        ],
        "held": HELD, "unblock": [{"kind": "nodes", "size": 2, "text": "add 2 nodes like n1"}],
    },
    "/v1/explain/team/run": {
        **JOB, "name": "run", "state": "running", "workers": 3, "waits": None, "roles": [], "members": [],
        "running": {"placement": "whole on n1", "pairs": 3, "crossing": 0, "traffic": "0 of 3 pairs cross nodes",
                    "growth": "room"},
        "schedule": {"needed": 11.0, "scheduled": 10.0, "behind": 1.0, "percent": 8.3,
                     "text": "1 worker-slot (8 % of its work) behind"},
    },
}  # fmt: skip


WHAT_IF: dict[str, Any] = {
    "generation": 4, "policy": "kod2",
    "jobs": [
        {
            "namespace": "team", "name": "run", "kind": "TFJob", "uid": "u",
            "before": {"state": "running", "workers": 4, "nodes": {"n1": 5}},
            "after": {"state": "running", "workers": 2, "nodes": {"n1": 3}},
        },
        {
            "namespace": "team", "name": "new", "kind": "TFJob", "uid": "what-if", "before": None,
            "after": {
                "state": "planned", "workers": 2, "nodes": {"n1": 2},
                "waits": {"reason": "RoomBeingFreed", "text": "", "detail": "2 pods must go first"},
            },
        },
    ],
}  # fmt: skip

TFJOB: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v1", "kind": "TFJob",
    "metadata": {
        "name": "mnist", "namespace": "team", "uid": "u-1", "resourceVersion": "7",
        "annotations": {"kohort.dev/min-workers": "2", "kohort.dev/max-workers": "6"},
    },
    "spec": {
        "enableDynamicWorker": True,
        "tfReplicaSpecs": {
            "Worker": {
                "replicas": 4,
                "template": {
                    "spec": {"schedulerName": "kohort", "containers": [{"name": "tensorflow", "image": "none"}]}
                },
            }
        },
    },
}  # fmt: skip
