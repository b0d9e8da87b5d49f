"""A test kit: a ledger, a barrier and the verbs on a fake API server, and an event loop in virtual time."""

from __future__ import annotations

import asyncio
import functools
import inspect
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from extender.barrier import Barrier
from extender.clock import Clock
from extender.http.limits import BindConnections, Limits
from extender.kube.api import PODS, ClusterError, Done, Json, Outcome, Ref
from extender.state.journal import Journal
from extender.state.ledger import Ledger
from policy.cluster.events import JobSeen, NodeSeen, PodSeen, Synced
from policy.cluster.job import Job
from policy.cluster.pod import Pod
from policy.cluster.snapshot import Rules
from policy.systems.kod2 import Kod2
from tests.builders import START, JobBuilder, members, node
from tests.unasked import Unasked

LOOPBACK_SECONDS = 0.01  # Data that was sent to a socket of this machine arrives within this many real seconds.
THREAD_SECONDS = 30.0  # A thread must finish its work within this many real seconds.


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer as soon as nothing else can run.

    Waiting takes no real time, and no timer is late. Sockets between two parts of one test work, too: before a jump,
    the loop waits a moment for data that was sent and has not arrived.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now = 1_000_000.0
        selector: selectors.BaseSelector = self._selector  # type: ignore[attr-defined]
        real = selector.select

        def select(timeout: float | None) -> list[Any]:
            if found := real(0):
                return list(found)
            has_sockets = len(selector.get_map()) > 1  # The loop itself has one socket.
            if timeout is None:
                found = real(THREAD_SECONDS)
            elif has_sockets:
                found = real(min(timeout, LOOPBACK_SECONDS))
            if found:
                return list(found)
            assert timeout is not None, "everybody waits for ever"
            self._now += timeout
            return []

        self._selector.select = select  # type: ignore[attr-defined]

    def time(self) -> float:
        return self._now


class VirtualClock(Clock):
    """A clock that shows the time of the virtual loop."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class HandClock(Clock):
    """A clock that stands still until a test sets ``time`` or a sleep adds to it."""

    def __init__(self, time: float = START) -> None:
        super().__init__()
        self.time = time

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Return the asynchronous test as a function that runs it in virtual time."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    del run.__wrapped__  # Without this, pytest would see the coroutine function and not run it.
    run.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
    return run


class FakeApi(Unasked):
    """A fake API server that makes every binding that is asked for.

    ``answers`` has other outcomes of a binding by pod name, and ``objects`` the objects that a read returns.
    """

    def __init__(self) -> None:
        # each binding as (pod's name, UID, node, annotations)
        self.bindings: list[tuple[str, str, str, dict[str, str]]] = []
        self.answers: dict[str, Outcome | Exception] = {}
        self.objects: dict[Ref, Json] = {}
        self.reads = 0
        self.unreadable: Exception | None = None
        self.slow_seconds = 0.0
        self.read: Callable[[], None] = lambda: None  # a function that is called while a read is under way

    async def bind(self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> Outcome:
        self.bindings.append((name, uid, node, dict(annotations)))
        await asyncio.sleep(self.slow_seconds)
        answer = self.answers.get(name, Done({}))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def get(self, ref: Ref) -> Json | None:
        self.reads += 1
        self.read()
        if self.unreadable is not None:
            raise self.unreadable
        return self.objects.get(ref)

    def shows(self, pod: Pod, node: str = "", uid: str = "") -> None:
        """Let a read return the pod, bound to that node; without a node, unbound."""
        item: Json = {"metadata": {"uid": uid or pod.uid, "namespace": pod.namespace, "name": pod.name}}
        self.objects[Ref(PODS, pod.namespace, pod.name)] = item | {"spec": {"nodeName": node} if node else None}


UNREACHABLE = ClusterError(0, "Timeout")


class Stage:
    """The service from the ledger up to the barrier, on two nodes of ten cores; ``places`` is the most bind calls that
    it holds.
    """

    def __init__(self, *nodes: str, places: int = 100, **rules: Any) -> None:
        self.api = FakeApi()
        self.outcomes: list[str] = []
        self.holds: list[float] = []
        self.ledger = Ledger(Kod2(), Rules(**rules), VirtualClock(), Journal())
        limits = Limits(connections=places, reserved_connections=0)
        self.places = BindConnections(limits)
        self.leads = True
        told = (self.outcomes.append, self.holds.append)
        self.barrier = Barrier(self.ledger, self.api, self.places, *told, leads=lambda: self.leads)
        self.ledger.step(*(NodeSeen(node(name)) for name in nodes or ("n1", "n2")), Synced())

    def submit(self, *jobs: JobBuilder) -> list[Pod]:
        """Report the jobs and their pods to the ledger; return the pods in slot order."""
        made = [one.done() for one in jobs]
        pods = [p for one in made for p in members(one)]
        self.ledger.step(*(JobSeen(one) for one in made), *(PodSeen(p) for p in pods))
        return pods

    def planned(self, pod: Pod) -> str:
        """Return the node that the plan has for the pod."""
        assert pod.slot is not None
        return self.ledger.snapshot.gang(pod.job_uid).nodes[pod.slot]

    def gang(self, of: Job | JobBuilder) -> Any:
        return self.ledger.snapshot.gang(of.done().uid if isinstance(of, JobBuilder) else of.uid)
