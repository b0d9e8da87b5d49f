"""Objects of Kubernetes' own kinds and groups, taken through the translator, the step and the desired state."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytest

from extender.kube.api import BATCHJOBS, DEPLOYMENTS, NODES, PODS, STATEFULSETS, Resource
from extender.kube.podgroupkinds import COSCHEDULING
from extender.kube.translate import Translator
from policy.cluster.actions import Bind, Edited
from policy.cluster.charges import planned_charge
from policy.cluster.events import BindDone, BindHeld, Event, Synced, Tick
from policy.cluster.gang import State
from policy.cluster.orders import Desired
from policy.cluster.reasons import Reason
from policy.cluster.refusal import refuse_pod
from policy.cluster.snapshot import Snapshot
from policy.desired import desired
from policy.step import step
from policy.systems import make_policy
from tests.unit.test_own_kinds import (
    INDEX,
    JOB_OWNER,
    SET_OWNER,
    Json,
    deployment,
    group,
    in_group,
    job,
    pod,
    replica,
    stateful_set,
)

JOB, GROUP_UID = "team/j1", "team/g1"
OTHERS_JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j9", "controller": True}
CRON_JOB = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "c1", "controller": True}
TRAIN_JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "name": "t",
    "uid": "t1",
    "controller": True,
}


class Cluster:
    """One translator and one snapshot; each change of an object gets a new resource version."""

    def __init__(self, nodes: int = 4, cpu: str = "8") -> None:
        self.snapshot, self.policy, self.now = Snapshot(), make_policy("kod2"), 1.8e9
        self._translator, self._version = Translator("kohort"), 100
        self.told: list[object] = []
        for index in range(nodes):
            allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
            self.see(
                NODES, {"metadata": {"name": f"n{index}", "uid": f"n{index}"}, "status": {"allocatable": allocatable}}
            )
        self.do(Synced())

    def do(self, *events: Event) -> Iterable[object]:
        self.now += 0.1
        self.snapshot, effects = step(self.snapshot, events, self.policy, self.now)
        self.told += effects
        return effects

    def see(self, resource: Resource, *items: Json) -> None:
        for item in items:
            self._version += 1
            item["metadata"]["resourceVersion"] = str(self._version)
            self._hear(resource, "MODIFIED", item)

    def lose(self, resource: Resource, *items: Json) -> None:
        for item in items:
            self._hear(resource, "DELETED", item)

    def _hear(self, resource: Resource, verb: str, item: Json) -> None:
        self.do(*self._translator.events(resource, {"type": verb, "object": copy.deepcopy(item)}))

    def start(self, *pods: Json) -> None:
        """Make the bind call of each pod; the watch then shows the pods that are bound."""
        by_uid = {one["metadata"]["uid"]: one for one in pods}
        for uid in by_uid:
            found = self.snapshot.pods[uid]
            assert found.slot is not None
            for effect in self.do(BindHeld(uid, self.snapshot.gang(found.job_uid).nodes[found.slot])):
                if isinstance(effect, Bind):
                    self._bound(by_uid[effect.uid], effect)

    def _bound(self, item: Json, bind: Bind) -> None:
        item["spec"]["nodeName"], item["status"] = bind.node, {"phase": "Running"}
        item["metadata"].setdefault("annotations", {})["kohort.dev/slot"] = str(bind.slot)
        self.do(BindDone(bind.uid, bind.node))
        self.see(PODS, item)

    def end(self, item: Json, phase: str = "Succeeded") -> None:
        item["status"] = {"phase": phase}
        self.see(PODS, item)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.do(Tick())

    def state(self, uid: str) -> State:
        return self.snapshot.gang(uid).state

    @property
    def orders(self) -> Desired:
        return desired(self.snapshot, 10**6)


def indexed(index: int, end: str = "abcde") -> Json:
    return pod(f"train-{index}-{end}", JOB_OWNER, labels={INDEX: str(index)})


def owned(item: Json, owner: Json) -> Json:
    item["metadata"]["ownerReferences"] = [owner]
    return item


def running_job(workers: int, **meta: Any) -> tuple[Cluster, Json, list[Json]]:
    cluster, made = Cluster(), job(workers)
    made["metadata"] |= {"annotations": {}, **meta}
    pods = [indexed(index) for index in range(workers)]
    cluster.see(BATCHJOBS, made)
    cluster.see(PODS, *pods)
    cluster.start(*pods)
    assert cluster.state(JOB) is State.RUNNING
    return cluster, made, pods


def suspended(cluster: Cluster, made: Json) -> None:
    (order,) = cluster.orders.suspend
    assert order.suspend
    made["spec"]["suspend"], made["metadata"]["annotations"] = True, {"kohort.dev/released": "true"}
    cluster.see(BATCHJOBS, made)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_job_whose_controller_leaves_ended_pods_is_let_go_on_beside_them(phase: str) -> None:
    cluster, made, pods = running_job(3)
    cluster.end(pods[0], phase)
    if phase == "Failed":
        again = indexed(0, "zzzzz")
        cluster.see(PODS, again)
        cluster.start(again)
        pods.append(again)
    cluster.lose(PODS, pods[1])
    cluster.pass_time(40)
    suspended(cluster, made)
    cluster.lose(PODS, *pods[2:])
    assert [order.suspend for order in cluster.orders.suspend] == [False]


@pytest.mark.parametrize("status", [{"completedIndexes": "0,2-3"}, {"completedIndexes": "2", "failedIndexes": "0,3"}])
def test_an_index_for_which_no_pod_comes_again_is_lacked_by_nobody(status: Json) -> None:
    cluster, made, pods = running_job(4)
    for over in (pods[0], *pods[2:]):
        cluster.end(over)
    made["status"] = status
    cluster.see(BATCHJOBS, made)
    cluster.lose(PODS, pods[0], *pods[2:])
    cluster.pass_time(40)
    assert (cluster.state(JOB), cluster.orders.suspend) == (State.RUNNING, ())
    cluster.lose(PODS, pods[1])
    cluster.pass_time(40)
    again = indexed(1, "again")
    cluster.see(PODS, again)
    cluster.start(again)
    assert cluster.state(JOB) is State.RUNNING, "it starts with the one that is left"


def test_an_index_that_failed_for_good_is_not_waited_for_beside_its_failed_pod() -> None:
    """The Job controller keeps the failed pod, also while the job is suspended."""
    cluster, made, pods = running_job(4)
    cluster.end(pods[2], "Failed")
    made["status"] = {"failedIndexes": "2"}
    cluster.see(BATCHJOBS, made)
    assert planned_charge(cluster.snapshot, JOB) == {}
    made["spec"]["suspend"] = True
    cluster.see(BATCHJOBS, made)
    cluster.lose(PODS, *(one for one in pods if one is not pods[2]))
    made["spec"]["suspend"] = False
    cluster.see(BATCHJOBS, made)
    again = [indexed(index, "zzzzz") for index in (0, 1, 3)]
    cluster.see(PODS, *again)
    cluster.start(*again)
    assert cluster.state(JOB) is State.RUNNING


@pytest.mark.parametrize(("owner", "suspends"), [(CRON_JOB, True), (TRAIN_JOB, False)], ids=["CronJob", "TrainJob"])
def test_a_job_is_suspended_unless_its_owner_would_undo_it(owner: Json, suspends: bool) -> None:
    cluster, _, pods = running_job(4, ownerReferences=[owner])
    cluster.lose(PODS, pods[0])
    cluster.pass_time(40)
    orders = cluster.orders
    assert (len(orders.suspend), len(orders.release)) == ((1, 0) if suspends else (0, 3))


def test_a_pod_that_is_taken_out_of_its_deployment_leaves_its_number_to_the_next() -> None:
    cluster, made = Cluster(), deployment(4)
    made["metadata"]["annotations"] = {}
    pods = [replica(name) for name in "abcd"]
    cluster.see(DEPLOYMENTS, made)
    cluster.see(PODS, *pods)
    cluster.start(*pods)
    pods[1]["metadata"] |= {"ownerReferences": [], "labels": {"debug": "me"}}
    cluster.see(PODS, pods[1])
    another = replica("e")
    cluster.see(PODS, another)
    cluster.start(another)
    cluster.pass_time(40)
    assert (cluster.state(JOB), cluster.orders.release) == (State.RUNNING, ())


def test_a_pod_that_names_another_group_leaves_its_place_to_the_next() -> None:
    cluster = Cluster()
    cluster.see(COSCHEDULING.resource, group(COSCHEDULING, 2), group(COSCHEDULING, 1, name="h", uid="h1"))
    moves, *others = (in_group(COSCHEDULING, name) for name in "abc")
    cluster.see(PODS, moves)
    moves["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "h"
    cluster.see(PODS, moves, *others)
    cluster.start(*others)
    assert cluster.state(GROUP_UID) is State.RUNNING


def test_pods_that_were_nobodys_for_a_while_are_no_gangs_of_their_own_any_more() -> None:
    cluster, made = Cluster(), stateful_set(2)
    made["metadata"]["annotations"] = {}
    pods = [pod(f"train-{n}", SET_OWNER, labels={"apps.kubernetes.io/pod-index": str(n)}) for n in range(2)]
    cluster.see(STATEFULSETS, made)
    cluster.see(PODS, *pods)
    cluster.start(*pods)
    cluster.lose(STATEFULSETS, made)
    cluster.see(PODS, *(owned(one, {}) for one in pods))
    assert len(cluster.snapshot.jobs) == 2, "orphans are gangs of one"
    made["metadata"]["uid"] = "j2"
    cluster.see(STATEFULSETS, made)
    cluster.see(PODS, *(owned(one, SET_OWNER | {"uid": "j2", "controller": True}) for one in pods))
    assert set(cluster.snapshot.jobs) == {"team/j2"}


def grouped(least: int, *names: str, cpu: str = "3", **meta: Any) -> tuple[Cluster, list[Json]]:
    cluster, pods = Cluster(nodes=1, cpu=cpu), [owned(in_group(COSCHEDULING, name), OTHERS_JOB) for name in names]
    cluster.see(COSCHEDULING.resource, group(COSCHEDULING, least, **meta))
    cluster.see(PODS, *pods)
    return cluster, pods


def test_a_group_of_which_all_have_ended_starts_anew_when_a_pod_comes() -> None:
    cluster, (first, second) = grouped(2, "a", "b")
    cluster.start(first, second)
    cluster.end(first)
    cluster.end(second, "Failed")
    assert cluster.state(GROUP_UID) is State.COMPLETED
    again = owned(in_group(COSCHEDULING, "c"), OTHERS_JOB)
    cluster.see(PODS, again)
    cluster.start(again)
    assert cluster.state(GROUP_UID) is State.RUNNING


def test_a_group_that_is_kept_takes_the_next_run() -> None:
    cluster, pods = grouped(2, "a", "b")
    cluster.start(*pods)
    for one in pods:
        cluster.end(one)
    cluster.lose(PODS, *pods)
    assert cluster.state(GROUP_UID) is State.COMPLETED
    pods = [owned(in_group(COSCHEDULING, name), OTHERS_JOB) for name in "cd"]
    cluster.see(PODS, *pods)
    cluster.start(*pods)
    assert cluster.state(GROUP_UID) is State.RUNNING


def test_a_malformed_group_is_told_and_none_of_its_pods_is_planned_by_itself() -> None:
    cluster, _ = grouped(3, "a", "b", "c", "d", cpu="4", annotations={"kohort.dev/utility": "high"})
    assert {uid: found.invalid[:19] for uid, found in cluster.snapshot.jobs.items()} == {
        GROUP_UID: "kohort.dev/utility:"
    }
    assert {one.job_uid for one in cluster.snapshot.pods.values()} == {GROUP_UID}
    assert not cluster.snapshot.gang(GROUP_UID).nodes
    cluster.see(COSCHEDULING.resource, group(COSCHEDULING, 3))
    assert len(cluster.snapshot.gang(GROUP_UID).nodes) == 3, "mended, it is a gang of its minimum"


def test_a_minimum_that_is_lowered_before_the_start_counts() -> None:
    cluster, pods = grouped(5, "a", "b", "c", "d", "e")
    assert cluster.state(GROUP_UID) is State.WAITING
    cluster.see(COSCHEDULING.resource, group(COSCHEDULING, 3))
    assert cluster.snapshot.jobs[GROUP_UID].min_workers == 3
    assert set(cluster.snapshot.jobs) == {GROUP_UID}, "the last two wait for the first three"
    cluster.start(*pods[:3])
    alone = {f"team/{one['metadata']['uid']}" for one in pods[3:]}
    assert set(cluster.snapshot.jobs) == {GROUP_UID, *alone}, "the last two are gangs of one"


def test_a_group_that_loses_a_pod_was_edited_by_nobody() -> None:
    cluster, pods = grouped(3, "a", "b", "c")
    cluster.start(*pods)
    cluster.lose(PODS, pods[2])
    assert cluster.snapshot.jobs[GROUP_UID].min_workers == 2
    assert not [effect for effect in cluster.told if isinstance(effect, Edited)]


def test_a_pod_beyond_the_minimum_takes_no_room_that_its_group_needs() -> None:
    cluster, _ = grouped(3, "a", "b", "c", "d", cpu="2")
    assert not any(gang.nodes for gang in cluster.snapshot.gangs.values()), "there is room for two"
    assert {refuse_pod(cluster.snapshot, one) for one in cluster.snapshot.pods.values()} == {Reason.TOO_LARGE}


def test_a_group_that_asks_for_no_gang_any_more_is_none() -> None:
    cluster, pods = grouped(5, "a", "b", "c")
    cluster.see(COSCHEDULING.resource, group(COSCHEDULING, 0))
    assert set(cluster.snapshot.jobs) == {f"team/{one['metadata']['uid']}" for one in pods}
    cluster.start(*pods)
    assert all(one.node for one in cluster.snapshot.pods.values())


def test_a_group_whose_newest_pod_is_gone_unseen_keeps_the_others() -> None:
    cluster, pods = grouped(3, "a", "b", "c")
    cluster.start(*pods)
    cluster.lose(PODS, {"metadata": {"namespace": "team", "name": "c", "uid": "u-c"}})
    cluster.pass_time(40)
    assert (cluster.state(GROUP_UID), cluster.orders.release) == (State.RUNNING, ())
