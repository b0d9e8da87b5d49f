"""The node map: one tile per node and one mark per member, which shows whether its ps or workers are on other nodes.

A tile's HTML is reused while its content stays, so a decision costs only the tiles that it changes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Final, NamedTuple

from extender.access.visibility import EVERYTHING, Visibility
from extender.page.formatting import MOST_KEY, amount, clean, ranges, short_name
from extender.page.marks import Look, Looks, dot, outline
from policy.cluster.job import PS, WORKER, Job, Slot
from policy.cluster.node import Node
from policy.cluster.resources import GPU_SUFFIX, Resources
from policy.cluster.snapshot import Snapshot
from policy.cluster.words import counted

SIDE: Final = 30.0  # a tile's marks are drawn in a square whose side has this many SVG units
LEAST_COLUMNS, MOST_COLUMNS = 2, 5
ROOMY_NODES: Final = 48  # the map shows the names of the nodes if there are at most this many
SOME_NODES: Final = 240


class MapMember(NamedTuple):
    """A member on a node of the map.

    job: the job's UID in the ledger. key: the job's namespace/name. away: whether a ps or worker of the job with which
    the member exchanges data is on another node. finished: whether the job has ended.
    """

    job: str
    key: str
    role: str
    number: int
    away: bool
    finished: bool


class Tile(NamedTuple):
    """Everything that a tile shows of its node.

    used: percent of the resource that is used most. text: the use of each resource in words. guests: the members of
    jobs on the node. others: the number of foreign pods. columns: marks in a row. roomy: whether the name is shown.
    """

    name: str
    state: str
    used: int
    text: str
    guests: tuple[MapMember, ...]
    others: int
    columns: int
    roomy: bool


@dataclass(frozen=True, slots=True)
class NodeMap:
    """The map: its tiles as HTML, in order of node name.

    density: the CSS class for the number of nodes. pairs: the number of ps-worker pairs of all jobs. cross: how many
    pairs have their ps and worker on different nodes. cross_jobs: how many jobs have such pairs.
    """

    tiles: tuple[str, ...]
    density: str
    pairs: int = 0
    cross: int = 0
    cross_jobs: int = 0


class JobOnMap(NamedTuple):
    """The members of one job that have a node.

    where: the node of each slot. guests: (node, member) for each mark. pairs: the number of ps-worker pairs. cross: the
    number of pairs whose ps and worker are on different nodes.
    """

    where: Mapping[Slot, str]
    finished: bool
    guests: tuple[tuple[str, MapMember], ...]
    pairs: int
    cross: int


@dataclass(slots=True)
class NodeMapDrawer:
    """Draws the map of each new snapshot, and reuses the tiles that have not changed since the last call.

    let_loop_run: a function that is called again and again while tiles are drawn, so that the event loop can answer
    kube-scheduler meanwhile. Members of jobs that ``visibility`` hides are not drawn.
    """

    looks: Looks
    let_loop_run: Callable[[], None]
    visibility: Visibility = EVERYTHING
    _known: dict[str, tuple[Tile, tuple[Look, ...], str]] = field(default_factory=dict)
    _jobs: dict[str, JobOnMap] = field(default_factory=dict)
    _uses: dict[str, tuple[Node, Resources | None, tuple[int, str]]] = field(default_factory=dict)

    def draw(self, snapshot: Snapshot) -> NodeMap:
        """Return the node map of a snapshot."""
        self._find_members(snapshot)
        guests: dict[str, list[MapMember]] = defaultdict(list)
        for on_map in self._jobs.values():
            for host, guest in on_map.guests:
                guests[host].append(guest)
        others = _others(snapshot) if self.visibility.every else {}
        columns = _columns([len(there) for there in guests.values()])
        roomy = len(snapshot.nodes) <= ROOMY_NODES
        tiles = []
        for at, (name, node) in enumerate(sorted(snapshot.nodes.items())):
            if at % 25 == 0:
                self.let_loop_run()
            tile = Tile(
                name, _state(node), *self._use(node, snapshot.charged.get(name)), tuple(guests.get(name, ())),
                others.get(name, 0), columns, roomy,
            )  # fmt: skip
            tiles.append(self._tile(tile))
        for gone in self._known.keys() - snapshot.nodes.keys():
            del self._known[gone], self._uses[gone]
        density = "roomy" if roomy else "some" if len(tiles) <= SOME_NODES else "many"
        jobs = self._jobs.values()
        pairs, cross = sum(on_map.pairs for on_map in jobs), sum(on_map.cross for on_map in jobs)
        return NodeMap(tuple(tiles), density, pairs, cross, sum(on_map.cross > 0 for on_map in jobs))

    def _find_members(self, snapshot: Snapshot) -> None:
        """Collect the members of each job, in order of the jobs' arrival; reuse the last call's result for a job whose
        members have not moved.
        """
        known, self._jobs = self._jobs, {}
        seen = (job for job in snapshot.jobs.values() if self.visibility.sees(job.namespace))
        for at, job in enumerate(sorted(seen, key=lambda job: (job.arrival, job.key))):
            if at % 25 == 0:
                self.let_loop_run()
            where = places_of(snapshot, job.uid)
            if not where:
                continue
            on_map = known.get(job.uid)
            same = on_map is not None and (on_map.where, on_map.finished) == (where, job.finished)
            self._jobs[job.uid] = on_map if on_map is not None and same else _job_on_map(job, where)

    def _use(self, node: Node, charged: Resources | None) -> tuple[int, str]:
        known = self._uses.get(node.name)
        if known is None or known[0] is not node or known[1] is not charged:
            known = self._uses[node.name] = node, charged, _used(node, charged)
        return known[2]

    def _tile(self, tile: Tile) -> str:
        looks = tuple(self.looks.of(guest.job) for guest in tile.guests)
        known = self._known.get(tile.name)
        if known is not None and known[0] == tile and known[1] == looks:
            return known[2]
        html = _html(tile, looks)
        self._known[tile.name] = (tile, looks, html)
        return html


def _columns(counts: list[int]) -> int:
    """Return how many marks a row of a tile has, so that nine nodes of ten can show all their members.

    counts: the number of members on each node. All tiles use the same number, because marks of one size are easier to
    compare.
    """
    usual = sorted(counts)[len(counts) * 9 // 10] if counts else 0
    return min(MOST_COLUMNS, max(LEAST_COLUMNS, math.ceil(math.sqrt(usual))))


def places_of(snapshot: Snapshot, uid: str) -> dict[Slot, str]:
    """Return the node of each member that is bound or planned; members whose pods have ended are left out."""
    gang = snapshot.gangs.get(uid)
    where: dict[Slot, str] = {}
    if gang is not None and gang.admitted:
        where.update(gang.nodes)
    pods = snapshot.pods
    for slot, pod_uid in snapshot.members.get(uid, {}).items():
        pod = pods[pod_uid]
        if pod.ended:
            where.pop(slot, None)
        elif pod.node:
            where[slot] = pod.node
    return where


def _hosts(where: Mapping[Slot, str], role: str) -> list[str]:
    return [node for slot, node in where.items() if slot[0] == role]


def _job_on_map(job: Job, where: Mapping[Slot, str]) -> JobOnMap:
    """Return the members of a job as the map draws them, rigid members first; ``where`` has the node of each slot."""
    servers, workers = _hosts(where, PS), _hosts(where, WORKER)
    cross = sum(1 for server in servers for worker in workers if server != worker)
    guests = []
    for (role, index), node in sorted(where.items(), key=lambda item: (item[0][0] == WORKER, item[0])):
        away = cross > 0 and _away(role, node, servers, workers)
        guests.append((node, MapMember(job.uid, job.key, role, index, away, job.finished)))
    return JobOnMap(where, job.finished, tuple(guests), len(servers) * len(workers), cross)


def _away(role: str, node: str, servers: list[str], workers: list[str]) -> bool:
    if role == WORKER:
        return any(server != node for server in servers)
    return role == PS and any(worker != node for worker in workers)


def _others(snapshot: Snapshot) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for pod in snapshot.pods.values():
        if not pod.opted_in and pod.holds_room:
            found[pod.node] += 1
    return found


def _state(node: Node) -> str:
    return "down" if not node.ready else "cordoned" if node.unschedulable else "avoided" if node.shunned else "ready"


def _used(node: Node, charged: Resources | None) -> tuple[int, str]:
    """Return the use of a node: percent of the resource that is used most, and a text with the use of each resource."""
    most, uses = 0.0, []
    for name in sorted(node.allocatable.amounts):
        whole = node.allocatable[name]
        if name not in ("cpu", "memory") and not name.endswith(GPU_SUFFIX):
            continue
        part = charged[name] if charged is not None else 0
        most = max(most, part / whole if whole > 0 else 0.0)
        uses.append(
            f"{amount(name, part)} of {amount(name, whole)}{'' if name == 'memory' else ' ' + short_name(name)}"
        )
    return round(100 * most), ", ".join(uses)


# -- The functions below draw one tile. --------------------------------------------------------------


def _html(tile: Tile, looks: tuple[Look, ...]) -> str:
    kind = f"tile {tile.state}{' cross' if any(guest.away for guest in tile.guests) else ''}"
    label = escape(_label(tile))
    caption = f'<span class="name">{escape(clean(tile.name, 60))}</span>' if tile.roomy else ""
    return (
        f'<button type="button" class="{kind}" tabindex="-1" aria-label="{label}">{caption}'
        f'<svg viewBox="0 0 30 33" aria-hidden="true">{_marks(tile, looks)}{_bar(tile.used)}</svg></button>'
    )


def _marks(tile: Tile, looks: tuple[Look, ...]) -> str:
    """Return the SVG of a tile's marks; ``looks`` has the look of each of its members.

    Equal marks of one job are one SVG path, so that a page of a thousand tiles stays small.
    """
    step = SIDE / tile.columns
    half = step * 0.4
    places = tile.columns * tile.columns
    groups: dict[tuple[str, int, bool, bool], list[str]] = defaultdict(list)
    shown = tile.guests if len(tile.guests) <= places else tile.guests[: places - 1]
    for at, (guest, look) in enumerate(zip(shown, looks, strict=False)):
        x, y = (at % tile.columns + 0.5) * step, (at // tile.columns + 0.5) * step
        path = groups[guest.key, look.colour, guest.away, guest.finished]
        path.append(outline(look.shape, x, y, half))
        if guest.role == PS:
            path.append(dot(x, y, half))
        elif guest.role != WORKER:
            path.append(dot(x, y, half * 1.7))
    drawn = [
        f'<path class="c{colour}{" away" if away else ""}{" over" if finished else ""}" '
        f'data-name="{escape(clean(job, MOST_KEY))}" d="{"".join(paths)}"/>'
        for (job, colour, away, finished), paths in groups.items()
    ]
    if len(shown) < len(tile.guests):
        drawn.append(
            f'<text x="{SIDE - step / 2:.1f}" y="{SIDE - step / 3:.1f}">+{len(tile.guests) - len(shown)}</text>'
        )
    return "".join(drawn)


def _bar(used: int) -> str:
    width = SIDE * min(100, max(0, used)) / 100
    return (
        f'<rect class="track" y="31" width="30" height="2"/><rect class="used" y="31" width="{width:.1f}" height="2"/>'
    )


def _label(tile: Tile) -> str:
    """Return the content of a tile in words, for screen readers and for the line of text above the map."""
    state = "" if tile.state == "ready" else f" ({'not ready' if tile.state == 'down' else tile.state})"
    parts = [f"{clean(tile.name, 80)}{state}: {tile.text or 'no capacity known'}"]
    for key, guests in _by_job(tile.guests):
        roles = ", ".join(f"{role} {ranges(numbers)}" for role, numbers in _by_role(guests))
        away = sum(guest.away for guest in guests)
        note = f"; {counted(away, 'member')} with a partner on another node" if away else ""
        over = "; finished, still holds resources" if guests[0].finished else ""
        parts.append(f"{clean(key, 120)} {roles}{note}{over}")
    if tile.others:
        parts.append(f"{counted(tile.others, 'pod')} of other schedulers")
    return " | ".join(parts)


def _by_job(guests: Iterable[MapMember]) -> Iterable[tuple[str, list[MapMember]]]:
    found: dict[str, list[MapMember]] = defaultdict(list)
    for guest in guests:
        found[guest.key].append(guest)
    return found.items()


def _by_role(guests: Iterable[MapMember]) -> Iterable[tuple[str, list[int]]]:
    found: dict[str, list[int]] = defaultdict(list)
    for guest in guests:
        found[guest.role].append(guest.number)
    return found.items()
