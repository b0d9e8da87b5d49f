"""POST filter, prioritize, bind and preempt: decode the request, ask ``policy``, encode the answer.

1. Every answer has status 200, with an ``Error`` where something is wrong: kube-scheduler drops the body of any
   other status.
2. filter, prioritize and preempt never call the API server and never wait; bind waits at the barrier. One exception:
   a filter call to a replica that does not lead waits until the Lease was read, because kube-scheduler calls filter
   only while it holds that Lease.
3. A pod that did not opt in is not restricted: filter returns all nodes, prioritize returns zeros, bind binds at once.
4. An internal error is also an ``Error`` (or an empty answer, if the type has none); it is logged and counted.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from extender.barrier import UNKNOWN_OUTCOME, Barrier
from extender.http.asgi import App, Receive, Scope, Send
from extender.http.server import disconnected
from extender.http.strict import RequestError
from extender.kube.api import PODS, Api, ClusterError, Done, Ref, Refused
from extender.kube.binding import look_again
from extender.kube.fields import digits, part, text
from extender.kube.translate import Translator, identity
from extender.kubescheduler import wire
from extender.state.ledger import Ledger
from policy.answers.verdict import FilterAnswer, filter_pod, preempt_pod, prioritize_pod
from policy.cluster.events import NodeNotOffered
from policy.cluster.reasons import Reason

REPLANS: Final = 4
INTERNAL_ERROR: Final = (
    "kohort: an internal error; the log of Kohort has its cause, and kube-scheduler tries the pod again"
)
TOO_LONG: Final = "kohort: the body of kube-scheduler's call is longer than server.body_limit_bytes; raise that setting"
UNREADABLE: Final = "kohort: the pod could not be read from the API server; kube-scheduler tries it again"
Observe = Callable[[str, float, str], None]
# A verb's answer is its body, and the reason code of a refusal (empty if the request was granted).
Answered = tuple[bytes, str]
_log = logging.getLogger(__name__)


def refusal(verb: str, why: str) -> bytes:
    """Return the body with which a verb refuses a request: an ``Error``; empty for prioritize and preempt."""
    match verb:
        case "filter":
            return wire.encode_filter(wire.ExtenderFilterResult(Error=why))
        case "bind":
            return wire.encode_bind(why)
        case "preempt":
            return wire.encode_preempt({})
        case _:
            return wire.encode_prioritize({})


def too_long(path: str) -> tuple[int, bytes]:
    """Return the status and body of the answer to a request whose body is too long.

    The listener calls this before the app gets the request (``server.Endpoint.refuse``).
    """
    verb = path.rsplit("/", 1)[-1]
    return (200, refusal(verb, TOO_LONG)) if verb in wire.VERBS else (413, b"{}")


class VerbsFirst:
    """An ASGI app that serves the verbs under ``prefix`` and passes all other requests to ``others``.

    kube-scheduler waits for each answer. A framework's routing (paths, parameters, exit stacks) would take several
    times as long as the verb itself, and four fixed paths do not need it.
    """

    def __init__(self, verbs: Verbs, prefix: str, others: App) -> None:
        self._verbs = {f"{prefix}/{verb}": getattr(verbs, verb) for verb in wire.VERBS}
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        verb = self._verbs.get(scope["path"]) if scope["type"] == "http" else None
        if verb is None:
            await self._others(scope, receive, send)
            return
        post = scope["method"] == "POST"
        answer = await verb(Request(scope, receive)) if post else Response(status_code=405, headers={"allow": "POST"})
        await answer(scope, receive, send)


async def _nobody() -> None:
    """Do nothing. This is the default of the argument ``asked`` of `Verbs`, for a service that has no Lease to read."""


class Verbs:
    """Answers the four calls of kube-scheduler: filter, prioritize, bind and preempt.

    observe: called after each answer with the verb, its duration in seconds, and the reason code of a refusal or "".

    asked: awaited before a filter call is answered while this replica does not lead. It reads the Lease, so that the
    replica may lead afterwards.

    elects: whether replicas elect their leader behind one address. Then a replica that does not lead closes each
    connection after its answer; otherwise kube-scheduler would keep calling a former leader on the same connection.
    """

    def __init__(
        self,
        ledger: Ledger,
        barrier: Barrier,
        api: Api,
        translator: Translator,
        name: str,
        observe: Observe,
        asked: Callable[[], Awaitable[None]] = _nobody,
        *,
        elects: bool = False,
    ) -> None:
        self._ledger = ledger
        self._barrier = barrier
        self._api = api
        self._translator = translator
        self._scheduler_name = name
        self._observe = observe
        self._asked = asked
        self._elects = elects
        # _nominated_only is the UID of the pod of the last filter call, if that call offered only the pod's nominated
        # node
        self._nominated_only = ""

    async def filter(self, request: Request) -> Response:
        """Return only the planned node for a member that has one; otherwise refuse all nodes with one reason."""
        return await self._answer("filter", request, self._filter)

    async def prioritize(self, request: Request) -> Response:
        """Return scores from 0 to 10 by co-location. A malformed body gets an empty list, because the answer has no
        ``Error``.
        """
        return await self._answer("prioritize", request, self._prioritize)

    async def bind(self, request: Request) -> Response:
        """Hold a member until its gang is complete; bind any other pod at once."""
        return await self._answer("bind", request, self._bind)

    async def preempt(self, request: Request) -> Response:
        """Remove candidate nodes whose victims would leave a gang below its minimum; all, if the body is malformed."""
        return await self._answer("preempt", request, self._preempt)

    async def _answer(self, verb: str, request: Request, ask: Callable[[Request], Awaitable[Answered]]) -> Response:
        started = perf_counter()
        try:
            body, reason = await ask(request)
        except RequestError as error:
            body, reason = refusal(verb, f"kohort: kube-scheduler's call is malformed: {error}"), "RequestError"
        except Exception:
            _log.exception("%s failed", verb)
            body, reason = refusal(verb, INTERNAL_ERROR), "InternalError"
        self._observe(verb, perf_counter() - started, reason)
        does_not_lead = self._elects and not self._ledger.snapshot.leading
        return Response(body, media_type="application/json", headers={"connection": "close"} if does_not_lead else None)

    async def _filter(self, request: Request) -> Answered:
        args = wire.decode_filter(await request.body())
        if args.pod.scheduler_name != self._scheduler_name:
            return wire.encode_filter(wire.filter_result(args, args.node_names)), ""
        if not self._ledger.snapshot.leading:
            await self._asked()
        offer = self._offer(args)
        if offer.reason is None:
            return wire.encode_filter(wire.filter_result(args, offer.nodes)), ""
        # FailedAndUnresolvableNodes keeps kube-scheduler from preempting pods for a gang that cannot run.
        # One name is enough: kube-scheduler refuses nodes that the answer does not name in the same way (NodeToStatus).
        # More names would change the count in the pod's condition (FitError), and each change of it wakes the pod.
        refused = dict.fromkeys(args.node_names[:1], offer.reason.text)
        return wire.encode_filter(wire.filter_result(args, [], unresolvable=refused)), offer.reason.value

    def _offer(self, args: wire.ExtenderArgs) -> FilterAnswer:
        """Return the planned node if kube-scheduler offers it; otherwise plan the gang again, at most REPLANS times."""
        uid = args.pod.uid
        if self._ledger.was_deleted(uid, digits(args.pod.resource_version)):
            return FilterAnswer(reason=Reason.POD_GONE)
        self._see(args)
        offer = filter_pod(self._ledger.snapshot, uid, args.node_names)
        if self._says_nothing(args):
            return offer
        for _ in range(REPLANS):
            missed = offer.missed
            if not missed:
                break
            self._ledger.step(NodeNotOffered(uid, missed))
            offer = filter_pod(self._ledger.snapshot, uid, args.node_names)
            if offer.missed == missed:
                # the new plan has the same node, because the member is bound to it, so another plan would not help
                break
        return offer

    def _see(self, args: wire.ExtenderArgs) -> None:
        """Bring the ledger up to date for a filter call: add the pod if the watch has not shown it yet, and apply
        queued events about its gang.

        Other queued events wait for the next step, because every pod in kube-scheduler's queue waits for this answer. A
        pod in the request that is already on a node is ignored, because kube-scheduler never asks about such a pod. A
        pod whose UID is that of a known job is ignored too, because it must not replace that job.
        """
        known = self._ledger.snapshot.pods.get(args.pod.uid)
        if known is None:
            item = args.pod_dict()
            placed = text(part(item, "spec"), "nodeName")
            if not placed and identity(args.pod.namespace, args.pod.uid) not in self._ledger.snapshot.jobs:
                self._ledger.step(*self._translator.pod_events(item))
        elif self._ledger.tells_of(known.job_uid):
            self._ledger.step()

    def _says_nothing(self, args: wire.ExtenderArgs) -> bool:
        """Tell whether this filter call says nothing about the planned node, because it offers only the pod's nominated
        node for the first time.

        kube-scheduler first tries the nominated node alone and then all nodes. If its next call is about the same pod
        and offers that node alone again, its plugins have refused all other nodes, and the plan must change.
        """
        only = len(args.node_names) == 1 and self._is_nominated(args, args.node_names[0])
        again = only and self._nominated_only == args.pod.uid
        self._nominated_only = args.pod.uid if only and not again else ""
        return only and not again

    def _is_nominated(self, args: wire.ExtenderArgs, node: str) -> bool:
        return text(part(args.pod_dict(), "status"), "nominatedNodeName") == node

    async def _prioritize(self, request: Request) -> Answered:
        args = wire.decode_prioritize(await request.body())
        # No check for opting in is needed: a pod that did not opt in has no slot, so all its scores are 0.
        return wire.encode_prioritize(prioritize_pod(self._ledger.snapshot, args.pod.uid, args.node_names)), ""

    async def _bind(self, request: Request) -> Answered:
        args = wire.decode_bind(await request.body())
        error = await self._look_up(args) or await self._bind_known(args, request)
        return wire.encode_bind(error), "BindError" if error else ""

    async def _bind_known(self, args: wire.ExtenderBindingArgs, request: Request) -> str:
        pod = self._ledger.snapshot.pods.get(args.uid)
        if pod is None or (pod.namespace, pod.name) != (args.namespace, args.name):
            return Reason.POD_GONE.text
        if not pod.opted_in:
            return await self._bind_plainly(args)
        return await self._barrier.hold(args.uid, args.node, disconnected(request))

    async def _look_up(self, args: wire.ExtenderBindingArgs) -> str:
        """Read the pod from the API server if the ledger does not know it, because the watch may be late.

        Return an error text if the API server cannot be asked, else an empty text.
        """
        if args.uid in self._ledger.snapshot.pods:
            return ""
        try:
            item = await self._api.get(Ref(PODS, args.namespace, args.name))
        except ClusterError:
            return UNREADABLE
        # During the call the watch may have shown the pod, or that the pod was deleted; then the answer is outdated.
        known = args.uid in self._ledger.snapshot.pods or self._ledger.was_deleted(args.uid)
        if not known and item is not None and text(part(item, "metadata"), "uid") == args.uid:
            self._ledger.step(*self._translator.pod_events(item))
        return ""

    async def _bind_plainly(self, args: wire.ExtenderBindingArgs) -> str:
        outcome = await self._api.bind(args.namespace, args.name, args.uid, args.node, {})
        if isinstance(outcome, Refused) and outcome.status == 409:
            outcome = await look_again(self._api, args.namespace, args.name, args.uid, args.node, outcome)
        match outcome:
            case Done():
                return ""
            case Refused():
                return f"{Reason.BIND_FAILED.text}: {outcome.message or outcome.reason}"
            case _:
                return UNKNOWN_OUTCOME

    async def _preempt(self, request: Request) -> Answered:
        args = wire.decode_preempt(await request.body())
        # A node without victims is left out: kube-scheduler treats such a node in the answer as an error.
        candidates = {node: victims.uids for node, victims in args.victims.items() if victims.uids}
        spared = preempt_pod(self._ledger.snapshot, candidates)
        kept = {node: wire.NodeVictims(uids, args.victims[node].pdb_violations) for node, uids in spared.items()}
        return wire.encode_preempt(kept), ""
