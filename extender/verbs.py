"""POST filter, prioritize, bind, preempt: decode, ask ``policy``, encode.

1. Answers are 200 with an ``Error`` where something is wrong: kube-scheduler drops the body of any other status.
2. filter, prioritize and preempt never call the API and never wait; bind waits at the barrier.
3. A pod that did not opt in passes: filter is the identity, prioritize all zeros, bind a plain binding.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from starlette.requests import Request
from starlette.responses import Response

from extender import wire
from extender.barrier import Barrier, look_again
from extender.kube.api import PODS, Api, ClusterError, Done, Ref, Refused
from extender.kube.translate import Translator
from extender.ledger import Ledger
from extender.server import disconnected
from extender.strict import RequestError
from policy.answers.verdict import Offer, filter_pod, preempt_pod, prioritize_pod
from policy.cluster.events import NodeNotOffered
from policy.cluster.reasons import Reason

REPLANS = 4
Observe = Callable[[str, float, str], None]


class Verbs:
    """The four endpoints. ``observe`` is told the verb, its seconds, and the reason code of a refusal (or nothing)."""

    def __init__(self, ledger: Ledger, barrier: Barrier, api: Api, translator: Translator, name: str, observe: Observe):
        self._ledger = ledger
        self._barrier = barrier
        self._api = api
        self._translator = translator
        self._scheduler_name = name
        self._observe = observe

    async def filter(self, request: Request) -> Response:
        """Exactly the planned node for a member that has one, else every node with the same constant reason."""
        started = perf_counter()
        try:
            args = wire.decode_filter(await request.body())
            result, reason = self._filter(args)
        except RequestError as error:
            result, reason = wire.ExtenderFilterResult(Error=str(error)), "RequestError"
        self._observe("filter", perf_counter() - started, reason)
        return _json(wire.encode_filter(result))

    def _filter(self, args: wire.ExtenderArgs) -> tuple[wire.ExtenderFilterResult, str]:
        if args.pod.scheduler_name != self._scheduler_name:
            return wire.filter_result(args, args.node_names), ""
        self._see(args)
        offer = self._offer(args)
        if offer.reason is None:
            return wire.filter_result(args, offer.nodes), ""
        # Unresolvable: nobody is to be preempted for a gang that cannot run.
        refused = dict.fromkeys(args.node_names, offer.reason.text)
        return wire.filter_result(args, [], unresolvable=refused), offer.reason.value

    def _see(self, args: wire.ExtenderArgs) -> None:
        """A pod that the watch has not shown yet is a fact too; facts that wait may be the rest of its gang."""
        if args.pod.uid not in self._ledger.snapshot.pods:
            self._ledger.step(*self._translator.pod_events(args.pod_dict()))
        elif self._ledger.dirty:
            self._ledger.step()

    def _offer(self, args: wire.ExtenderArgs) -> Offer:
        """The plan against what kube-scheduler offers; where it misses, the gang is planned anew, a few times."""
        offer = filter_pod(self._ledger.snapshot, args.pod.uid, args.node_names)
        for _ in range(REPLANS):
            if not offer.missed or self._is_nominated_only(args):
                break
            self._ledger.step(NodeNotOffered(args.pod.uid, offer.missed))
            offer = filter_pod(self._ledger.snapshot, args.pod.uid, args.node_names)
        return offer

    def _is_nominated_only(self, args: wire.ExtenderArgs) -> bool:
        """kube-scheduler tries a nominated node alone first: that the plan is not there says nothing of the plan."""
        if len(args.node_names) != 1:
            return False
        status = args.pod_dict().get("status") or {}
        return isinstance(status, dict) and status.get("nominatedNodeName") == args.node_names[0]

    async def prioritize(self, request: Request) -> Response:
        """0-10 by co-location; an empty list where the body is malformed, since this answer has no ``Error``."""
        started = perf_counter()
        reason, scores = "", dict[str, int]()
        try:
            args = wire.decode_prioritize(await request.body())
            ours = args.pod.scheduler_name == self._scheduler_name
            names = args.node_names
            scores = prioritize_pod(self._ledger.snapshot, args.pod.uid, names) if ours else dict.fromkeys(names, 0)
        except RequestError:
            reason = "RequestError"
        self._observe("prioritize", perf_counter() - started, reason)
        return _json(wire.encode_prioritize(scores))

    async def bind(self, request: Request) -> Response:
        """Hold a member until its gang is complete; bind any other pod at once."""
        started = perf_counter()
        try:
            error = await self._bind(wire.decode_bind(await request.body()), request)
        except RequestError as malformed:
            error = str(malformed)
        self._observe("bind", perf_counter() - started, "BindError" if error else "")
        return _json(wire.encode_bind(error))

    async def _bind(self, args: wire.ExtenderBindingArgs, request: Request) -> str:
        if args.uid not in self._ledger.snapshot.pods:
            await self._look_up(args)
        pod = self._ledger.snapshot.pods.get(args.uid)
        if pod is None or (pod.namespace, pod.name) != (args.namespace, args.name):
            return Reason.POD_GONE.text
        if not pod.opted_in:
            return await self._bind_plainly(args)
        return await self._barrier.hold(args.uid, args.node, disconnected(request))

    async def _look_up(self, args: wire.ExtenderBindingArgs) -> None:
        """The watch is late, or the pod is gone: only the API server knows."""
        try:
            item = await self._api.get(Ref(PODS, args.namespace, args.name))
        except ClusterError:
            return
        if item is not None and item["metadata"].get("uid") == args.uid:
            self._ledger.step(*self._translator.pod_events(item))

    async def _bind_plainly(self, args: wire.ExtenderBindingArgs) -> str:
        outcome = await self._api.bind(args.namespace, args.name, args.uid, args.node, {})
        if isinstance(outcome, Refused) and outcome.status == 409:
            outcome = await look_again(self._api, args.namespace, args.name, args.uid, args.node, outcome)
        if isinstance(outcome, Done):
            return ""
        return outcome.message if isinstance(outcome, Refused) else outcome.why

    async def preempt(self, request: Request) -> Response:
        """Spare the gangs that would be left below their minimum; on a malformed body nobody is preempted."""
        started = perf_counter()
        reason, kept = "", dict[str, wire.Victims]()
        try:
            args = wire.decode_preempt(await request.body())
            candidates = {node: victims.uids for node, victims in args.victims.items()}
            spared = preempt_pod(self._ledger.snapshot, candidates)
            kept = {node: wire.Victims(uids, args.victims[node].pdb_violations) for node, uids in spared.items()}
        except RequestError:
            reason = "RequestError"
        self._observe("preempt", perf_counter() - started, reason)
        return _json(wire.encode_preempt(kept))


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")
