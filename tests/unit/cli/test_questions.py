"""The commands that ask the service: tables for people, JSON and YAML for scripts, errors that say what to do next."""

import copy
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner, Result

from extender.cli import commands, processes
from extender.cli.errors import CliError
from extender.cli.service import path_of
from extender.config.settings import Settings
from extender.http.server import AddressError
from extender.kube.api import ClusterError
from lab.demo import sides as demo
from policy.cluster.reasons import Reason
from policy.cluster.words import visible
from tests.unit.cli.bodies import ANSWERS, JOB, WHAT_IF
from tests.unit.cli.conftest import Server

HELD_TABLE = [
    "", "HELD BY FINISHED JOB POD NODE ROOM", "team/done done-ps-0 n1 1.5 cpu 8Gi",
    "what helps: set spec.runPolicy.cleanPodPolicy: Running on these jobs, or delete them",
]  # fmt: skip
HISTORY = ["", "STEP TIME BECAUSE WHAT", "3 00:00:00Z pods came or changed scaled in to 2 workers"]
TABLES = {
    "queue": (
        ("queue",),
        ["# NAMESPACE NAME WEIGHT WAITED MEMBERS NEEDS EXPECTED WHY",
         "1 team big 0.7500 3m12s 3 1.5 cpu 8Gi in 1m30s WaitingForRoom ([red]3\ufffd[2J cpu)", *HELD_TABLE],
    ),
    "jobs": (
        ("jobs",),
        ["NAMESPACE NAME KIND WORKERS STATE WAITED WHY",
         "team big TFJob 0 (2-4) waiting 3m12s WaitingForRoom ([red]3\ufffd[2J cpu)",
         "team run TFJob 2 → 0 (2-4) running 3m12s -"],
    ),
    "nodes": (
        ("nodes",),
        ["NODE STATE ALLOCATABLE FREE OTHERS FAILURES MEMBERS",
         "n1 ready 1.5 cpu 8Gi 1.5 cpu 8Gi 2 - team/run 1 ps+2 workers, team/done (finished) 1 ps", *HELD_TABLE],
    ),
    "plans": (
        ("plans",),
        ["NAMESPACE NAME PLAN STATE WORKERS NODES WAITS FOR AT BARRIER DEADLINE",
         "team run 7-1 planned 2 n1: 2, n2: 1 - 1 12s"],
    ),
    "decisions": (
        ("decisions",),
        ["# TIME ACTION JOB POD WHAT", "7 00:00:00Z Admit team/run - started with 2 workers"],
    ),
    "explain": (
        ("explain", "team/big"),
        ["job team/big (TFJob)", "state waiting", "workers 0 given, 2 asked for, 2 to 4 allowed", "weight 0.7500",
         "waited 3m12s", "needs 1 ps of 1.5 cpu 8Gi", "reason WaitingForRoom", "kohort: the gang waits for room",
         "detail [red]3\ufffd[2J cpu", "room 1 of 2 workers would fit",
         "expected in 1m30s: if no other job comes, once team/run has ended", "pods missing: worker 1 of 2",
         "binding once each member is checked: worker-0 has volumes",
         "ahead team/run: arrived before this job", "shrunk for team/run",
         "freeing team/run-worker-1", "held 1.5 cpu 8Gi on n1 by done-ps-0 of team/done, which has finished",
         "what helps add nodes", "would admit add 2 nodes like n1",
         "", "MEMBER POD NODE STATE", "ps-0 big-ps-0 - gated", "",
         "NODE FREE LACKS FOR THE GANG NO CHOICE BECAUSE", "n2 1.5 cpu 8Gi 1.5 cpu 8Gi -",
         "n1 1.5 cpu 8Gi - cordoned", *HISTORY],
    ),
    "explain a running job": (
        ("explain", "team/run"),
        ["job team/run (TFJob)", "state running", "workers 3 given, 2 asked for, 2 to 4 allowed", "weight 0.7500",
         "waited 3m12s", "placed whole on n1", "traffic 0 of 3 pairs cross nodes", "growth room",
         "schedule 1 worker-slot (8 % of its work) behind"],
    ),
    "describe": (
        ("describe", "team/big"),
        ["job team/big (TFJob)", "state waiting", "workers 0 given, 2 asked for, 2 to 4 allowed", "weight 0.7500",
         "waited 3m12s", "reason WaitingForRoom", "kohort: the gang waits for room", "detail [red]3\ufffd[2J cpu",
         "what helps add nodes", "", "ROLE REPLICAS EACH ASKS FOR", "worker 2 1.5 cpu 8Gi", "", "MEMBER POD NODE STATE",
         "ps-0 big-ps-0 - gated", *HISTORY],
    ),
    "top": (
        ("top",),
        ["1 node, cpu 0% requested; 0 running jobs, 1 waiting job", "warning: controller: not heard from for 12 s", "",
         "NODE CPU FREE MEMBERS",
         "n1 ........................ 0% 1.5 cpu 8Gi team/run 1 ps+2 workers, team/done 1 ps", "",
         "# WAITS FOR NEEDS WHY",
         "1 team/big 3m12s 1.5 cpu 8Gi WaitingForRoom ([red]3\ufffd[2J cpu)"],
    ),
    "wide decisions": (
        ("decisions", "-o", "wide"),
        ["# TIME ACTION JOB POD WHAT STEP BECAUSE INPUTS",
         "7 00:00:00Z Admit team/run - started with 2 workers 3 pods came or changed weight 0.7500"],
    ),
    "wide queue": (
        ("queue", "-o", "wide"),
        ["# NAMESPACE NAME WEIGHT WAITED MEMBERS NEEDS EXPECTED WHY GATED BASIS BEHIND REFUSED",
         "1 team big 0.7500 3m12s 3 1.5 cpu 8Gi in 1m30s WaitingForRoom ([red]3\ufffd[2J cpu) 3 "
         "if no other job comes, once team/run has ended - -", *HELD_TABLE],
    ),
    "another namespace": (("queue", "-n", "other"), ["no job of namespace other waits", *HELD_TABLE]),
    "jobs of another namespace": (
        ("jobs", "-n", "other"),
        ["no job of namespace other has opted in; a job opts in by spec.schedulerName of its pods"],
    ),
    "decisions of another namespace": (
        ("decisions", "-n", "other"),
        ["no decision about a job of namespace other is known; the list begins with the start of the service"],
    ),
    "all namespaces": (
        ("jobs", "-A"),
        ["NAMESPACE NAME KIND WORKERS STATE WAITED WHY",
         "team big TFJob 0 (2-4) waiting 3m12s WaitingForRoom ([red]3\ufffd[2J cpu)",
         "team run TFJob 2 → 0 (2-4) running 3m12s -"],
    ),
    "nodes of a namespace": (
        ("nodes", "-n", "other"),
        ["NODE STATE ALLOCATABLE FREE OTHERS FAILURES MEMBERS", "n1 ready 1.5 cpu 8Gi 1.5 cpu 8Gi 6 - -", *HELD_TABLE],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("args", "want"), TABLES.values(), ids=TABLES.keys())
def test_tables_for_people(kohort: Callable[..., Result], args: tuple[str, ...], want: list[str]) -> None:
    found = kohort(*args)
    assert found.exit_code == 0
    assert [" ".join(line.split()) for line in found.stdout.splitlines()] == want


def test_explain_of_an_invalid_job_tells_no_numbers_that_nobody_could_read(
    kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = {
        "reason": "JobInvalid",
        "text": Reason.INVALID.text,
    }
    wrong = {**JOB, "state": "invalid", "workers": 0, "replicas": 0, "waits": {**waits, "detail": "it", "behind": ""}}
    monkeypatch.setitem(
        ANSWERS, "/v1/explain/team/big", {**wrong, "mend": "correct it; kohort explain names the field"}
    )
    monkeypatch.setitem(ANSWERS, "/v1/jobs", {"generation": 1, "jobs": [wrong]})
    told = kohort("explain", "team/big").stdout
    assert "workers" not in told
    assert "kohort explain" not in told, "that is this answer"
    assert kohort("jobs").stdout.splitlines()[1].split()[3:5] == ["-", "invalid"]


def test_a_job_without_bounds_tells_none(kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    none = {**JOB, "state": "suspended", "workers": 0, "min_workers": 0, "max_workers": 0, "replicas": 0}
    wrong = {**JOB, "state": "invalid", "workers": 4, "replicas": 0}
    monkeypatch.setitem(ANSWERS, "/v1/explain/team/big", none)
    monkeypatch.setitem(ANSWERS, "/v1/jobs", {"generation": 1, "jobs": [none, wrong]})
    assert "workers" not in kohort("explain", "team/big").stdout
    assert [line.split()[3] for line in kohort("jobs").stdout.splitlines()[1:]] == ["-", "4"]


def test_explain_says_how_many_older_steps_it_leaves_out(
    kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ANSWERS["/v1/explain/team/big"]
    steps = [{**one["history"][0], "step": 700 + at} for at in range(13)]
    monkeypatch.setitem(ANSWERS, "/v1/explain/team/big", {**one, "history": steps})
    told = kohort("explain", "team/big").stdout
    assert "702" not in told
    assert "and 3 more that are older; kohort describe shows all" in told
    assert "702" in kohort("describe", "team/big").stdout


def test_a_malformed_job_is_found_where_people_look_for_it(
    kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"namespace": "team", "name": "bad", "kind": "TFJob", "uid": "w", "detail": "a: 'b' is not allowed"}
    monkeypatch.setitem(ANSWERS, "/v1/queue", {"generation": 1, "gated_pods": 0, "jobs": [], "invalid": [wrong]})
    assert [" ".join(line.split()) for line in kohort("queue").stdout.splitlines()] == [
        "no job waits", "", "MALFORMED JOB KIND WHY IT DOES NOT QUEUE", "team/bad TFJob a: 'b' is not allowed",
    ]  # fmt: skip
    assert "team/bad" not in kohort("queue", "-n", "other").stdout


def test_members_of_a_running_job_that_wait_are_found_where_people_look_for_what_waits(
    kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = {"namespace": "team", "name": "rd", "kind": "Deployment", "uid": "u", "members": 2, "detail": "2 of 4 wait"}
    monkeypatch.setitem(ANSWERS, "/v1/queue", {"generation": 1, "gated_pods": 0, "jobs": [], "unplaced": [waits]})
    assert [" ".join(line.split()) for line in kohort("queue").stdout.splitlines()] == [
        "no job waits", "", "RUNNING JOB KIND MEMBERS THAT WAIT FOR ROOM", "team/rd Deployment 2 of 4 wait",
    ]  # fmt: skip
    assert "team/rd" not in kohort("queue", "-n", "other").stdout


@pytest.mark.parametrize("what", ["ahead", "nodes"])
def test_explain_says_how_many_jobs_ahead_and_nodes_it_leaves_out_and_wide_shows_all(
    kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    lists: dict[str, list[dict[str, object]]] = {
        "ahead": [{"job": f"team/first-{at}", "why": "arrived before this job"} for at in range(13)],
        "nodes": [{"node": f"first-{at}", "free": {}, "missing": {}} for at in range(23)],
    }
    found = lists[what]
    monkeypatch.setitem(ANSWERS, "/v1/explain/team/big", {**ANSWERS["/v1/explain/team/big"], what: found})
    told, last = kohort("explain", "team/big").stdout, f"first-{len(found) - 1}"
    assert ("and 3 more; -o wide shows all" in told, last in told) == (True, False)
    wide = kohort("explain", "team/big", "-o", "wide").stdout
    assert ("more" in wide, last in wide) == (False, True)


def test_explain_shows_the_members_first_that_are_not_bound(
    kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    states = ["bound"] * 30 + ["waiting"]
    members = [
        {"role": "worker", "index": at, "pod": f"p{at}", "node": "", "state": state} for at, state in enumerate(states)
    ]
    monkeypatch.setitem(ANSWERS, "/v1/explain/team/big", {**ANSWERS["/v1/explain/team/big"], "members": members})
    told = kohort("explain", "team/big").stdout
    assert ("worker-30" in told, "worker-18" in told, "worker-19" in told) == (True, True, False)
    assert "and 11 more; -o wide shows all" in told
    wide = kohort("explain", "team/big", "-o", "wide").stdout
    assert all(f"worker-{at} " in wide for at in range(31))


def test_what_if_posts_the_question_and_shows_who_would_stand_elsewhere(
    kohort: Callable[..., Result], server: Server, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("kind: TFJob\nmetadata: {name: new, namespace: team}\n")
    found = kohort("what-if", "-f", str(file), "--cordon", "n2", "--add-nodes", "n1=3", "--policy", "kod2")
    assert [" ".join(line.split()) for line in found.stdout.splitlines()] == [
        "NAMESPACE NAME NOW WOULD BE MEMBERS WHY",
        "team run running, 4 workers running, 2 workers n1: 3 -",
        "team new - planned, 2 workers n1: 2 RoomBeingFreed (2 pods must go first)",
    ]
    path, body = server.asked[-1]
    assert path == "/v1/what-if"
    assert body == {
        "job": {"kind": "TFJob", "metadata": {"name": "new", "namespace": "team"}}, "cordon": ["n2"], "uncordon": [],
        "remove_nodes": [], "add_nodes": [{"like": "n1", "count": 3}], "policy": "kod2",
    }  # fmt: skip
    assert json.loads(kohort("what-if", "--remove-node", "n1", "-o", "json").stdout)["policy"] == "kod2"


JOB_MANIFEST = "kind: TFJob\nmetadata: {name: new, namespace: team}\n"
OTHERS = "---\nkind: ConfigMap\nmetadata: {name: data}\n---\nkind: Service\nmetadata: {generateName: to-}\n"
LISTED = "kind: List\nitems:\n- {kind: TFJob, metadata: {name: new, namespace: team}}\n- {kind: Pod}\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (JOB_MANIFEST, ""),
        (JOB_MANIFEST + OTHERS, "ignored, because they are not jobs: ConfigMap data, Service to-\n"),
        (LISTED, "ignored, because they are not jobs: Pod -\n"),
    ],
    ids=["alone", "one of several documents", "an item of a List"],
)
@pytest.mark.parametrize("by", ["file", "standard input"])
def test_what_if_takes_the_one_job_of_what_kubectl_takes(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, told: str, by: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(content)
    monkeypatch.setenv("KOHORT_CLI_SERVER", server.url)
    args = ("what-if", "-f", str(file) if by == "file" else "-")
    found = CliRunner().invoke(commands.app, args, input=content)
    assert (found.exit_code, found.stderr) == (0, told)
    assert server.asked[-1][1]["job"] == {"kind": "TFJob", "metadata": {"name": "new", "namespace": "team"}}


def test_what_if_tells_who_would_lose_members(kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    moved = copy.deepcopy(WHAT_IF["jobs"][0])
    moved["before"]["nodes"], moved["after"]["nodes"] = {"n1": 4}, {}
    moved["after"] |= {"state": "repairing", "workers": 1}
    monkeypatch.setitem(WHAT_IF, "jobs", [moved])
    shown = " ".join(kohort("what-if", "--remove-node", "n1").stdout.split())
    assert shown.endswith("running, 4 workers repairing, 1 worker - 4 members without a node")


def test_what_if_shows_the_places_in_the_queue_and_who_is_directly_ahead(
    kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = {"reason": "WaitingForRoom", "text": "", "detail": "12 cpu"}
    behind = {"reason": "WaitingBehind", "text": "", "detail": "behind team/new", "behind": "team/new"}
    waits = {"state": "waiting", "workers": 0, "nodes": {}, "waits": room}
    starts, new, pushed = (copy.deepcopy(WHAT_IF["jobs"][1]) for _ in range(3))
    starts |= {"name": "starts", "before": waits | {"position": 1}}
    new |= {"after": waits | {"position": 1, "ahead": ""}}
    pushed |= {"name": "pushed", "before": waits | {"position": 2, "ahead": "team/starts"}}
    pushed["after"] = waits | {"position": 3, "ahead": "team/other"}
    last = copy.deepcopy(pushed)
    last["name"], last["after"] = "last", waits | {"position": 2, "ahead": "team/new", "waits": behind}
    monkeypatch.setitem(WHAT_IF, "jobs", [*WHAT_IF["jobs"][:1], starts, new, pushed, last])
    assert [" ".join(line.split()) for line in kohort("what-if", "--cordon", "n2").stdout.splitlines()] == [
        "NAMESPACE NAME NOW WOULD BE QUEUE MEMBERS WHY",
        "team run running, 4 workers running, 2 workers - n1: 3 -",
        "team starts waiting planned, 2 workers 1 → - n1: 2 RoomBeingFreed (2 pods must go first)",
        "team new - waiting - → 1 - WaitingForRoom (12 cpu)",
        "team pushed waiting waiting 2 → 3 - WaitingForRoom (12 cpu), directly behind team/other",
        "team last waiting waiting 2 - WaitingBehind (behind team/new)",
    ]
    found = json.loads(kohort("what-if", "--cordon", "n2", "-o", "json").stdout)["jobs"]
    places = [(one["before"] and one["before"]["position"], one["after"]["position"]) for one in found]
    assert places == [(None, None), (1, None), (None, 1), (2, 3), (2, 2)]
    assert found[3]["after"]["ahead"] == "team/other"


def test_what_if_tells_a_few_of_those_that_would_only_wait_at_another_place(
    kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = {"state": "waiting", "workers": 0, "nodes": {}, "waits": {"reason": "WaitingForRoom", "text": ""}}
    pushed = [
        WHAT_IF["jobs"][1] | {"name": f"pushed-{at}", "uid": f"uid-{at}"}
        | {"before": waits | {"position": at}, "after": waits | {"position": at + 1}}
        for at in range(1, 8)
    ]  # fmt: skip
    starts = WHAT_IF["jobs"][1] | {"name": "starts", "uid": "uid-starts", "before": waits | {"position": 9}}
    monkeypatch.setitem(WHAT_IF, "jobs", [*pushed, starts])
    told = kohort("what-if", "--cordon", "n2").stdout
    assert ("pushed-5 " in told, "pushed-6 " in told, "starts " in told) == (True, False, True)
    assert all(fact in told.splitlines()[-1] for fact in ("2 more", "-o wide"))
    wide = kohort("what-if", "--cordon", "n2", "-o", "wide").stdout
    assert all(f"pushed-{at} " in wide for at in range(1, 8))
    assert "more" not in wide


def test_what_if_asks_about_a_job_in_a_few_figures(kohort: Callable[..., Result], server: Server) -> None:
    shape = ("--workers", "4", "--ps", "1", "--requests", "cpu=2,memory=4Gi", "--min", "2")
    assert kohort("what-if", *shape).exit_code == 0
    question = server.asked[-1][1]
    assert question["shape"] == {
        "workers": 4, "ps": 1, "requests": {"cpu": "2", "memory": "4Gi"}, "min_workers": 2, "max_workers": None,
        "namespace": "default",
    }  # fmt: skip
    assert question["job"] is None


@pytest.mark.parametrize(
    ("args", "content", "told"),
    [
        (
            ("-f", "job.yaml"),
            "a:\n  - b: [",
            "kohort: -f: job.yaml: neither JSON nor YAML: expected the node content, but found '<stream end>', "
            "in line 2, column 9; give one job's manifest\n",
        ),
        (("-f", "job.yaml"), "a: !!int x\n", "-f: job.yaml: neither JSON nor YAML: invalid literal"),
        (("-f", "job.yaml"), "kind: A\n---\nkind: B\n", "holds no job (A -, B -); allowed: one job's manifest"),
        (("-f", "job.yaml"), "", "holds no job (nothing); allowed: one job's manifest"),
        (
            ("-f", "job.yaml"),
            "kind: Job\nmetadata: {name: a}\n---\nkind: Pod\n---\nkind: TFJob\nmetadata: {name: b}\n",
            "holds 2 jobs (Job a, TFJob b); allowed: one job's manifest",
        ),
        (
            ("-f", "job.yaml"),
            "just text\n",
            "-f: job.yaml: holds a single value; allowed: one job's manifest, which is a mapping",
        ),
        (
            ("-f", "job.yaml"),
            "- kind: A\n",
            "-f: job.yaml: holds a list; allowed: one job's manifest, which is a mapping",
        ),
        (("-f", "none.yaml"), "", "-f: none.yaml: No such file or directory; name a file with one job's manifest"),
        (("-f", "."), "", "-f: .: Is a directory; name a file with one job's manifest"),
        (("--add-nodes", "n1=x"), "", "--add-nodes: 'n1=x' is not allowed; allowed: NODE=COUNT"),
        ((), "", "the question is empty; give -f FILE or --workers N for a job"),
        (("--workers", "2", "-f", "job.yaml"), "kind: A\n", "-f and --workers exclude one another; give one of them"),
        (
            ("--cordon", "n1", "-n", "team"),
            "",
            "-n is the namespace of a job, and the question has no job; give -f or --workers",
        ),
        (("--ps", "2"), "", "--ps, --requests, --min and --max describe the job of --workers; give --workers too"),
        (("--cordon", "n1", "--requests", "cpu=1"), "", "--requests, --min and --max describe the job of --workers"),
        (("--workers", "2", "--requests", "mem=4"), "", "--requests: 'mem' is not allowed; allowed: cpu, memory, "),
        (("--workers", "2", "--requests", "cpu"), "", "--requests: 'cpu' is not allowed; allowed: NAME=AMOUNT,..."),
    ],
)
def test_what_if_says_what_is_wrong_with_the_question(
    kohort: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...], content: str, told: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(content)
    found = kohort("what-if", *args)
    assert found.exit_code == 2
    assert told in found.stderr


@pytest.mark.parametrize(
    ("field", "args", "code", "told"),
    [
        ("cordon", ("--cordon", "nope"), 2, "--cordon: 'nope' is not allowed; allowed: n1"),
        ("add_nodes.0.like", ("--add-nodes", "nope"), 2, "--add-nodes: 'nope' is not allowed; allowed: n1"),
        ("job.kind", ("-f", "job.yaml"), 2, "-f: job.yaml: kind: 'nope' is not allowed; allowed: n1"),
        ("new", ("--cordon", "n1"), 2, "new: 'nope' is not allowed; allowed: n1"),
        ("namespace", ("--workers", "1"), 1, "namespace: 'nope' is not allowed; allowed: n1"),
    ],
)
def test_what_the_service_refuses_of_a_question_is_told_by_its_option(
    kohort: Callable[..., Result], server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    field: str, args: tuple[str, ...], code: int, told: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text("kind: nope\n")
    detail = f"{field}: 'nope' is not allowed; allowed: n1"
    server.refuses = {"status": 422 if code == 2 else 403, "field": field, "detail": detail}
    found = kohort("what-if", *args)
    assert (found.exit_code, found.stderr) == (code, f"kohort: {told}\n")


def test_what_keeps_the_queue_from_moving_is_a_warning_beside_the_answer(kohort: Callable[..., Result]) -> None:
    found = kohort("queue")
    assert found.stderr == "warning: controller: not heard from for 12 s\n"


@pytest.mark.parametrize("command", ["jobs", "nodes", "plans", "decisions"])
def test_a_list_that_may_not_be_all_says_so(kohort: Callable[..., Result], server: Server, command: str) -> None:
    server.cluster[f"/v1/{command}"] = {
        **ANSWERS[f"/v1/{command}"],
        "warnings": ["leading: this replica does not lead"],
    }
    assert kohort(command).stderr == "warning: leading: this replica does not lead\n"


def test_json_and_yaml_are_for_scripts(kohort: Callable[..., Result]) -> None:
    as_json, as_yaml = kohort("queue", "-o", "json"), kohort("-o", "yaml", "queue")
    assert json.loads(as_json.stdout) == yaml.safe_load(as_yaml.stdout)
    assert json.loads(as_json.stdout)["jobs"][0]["needs"]["cpu"] == {"quantity": "1500m", "exact": 1500}


@pytest.mark.parametrize("command", ["jobs", "queue", "nodes", "plans"])
def test_scripts_read_the_keys_of_rest(
    kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    assert {"continue", "remaining"} <= set(json.loads(kohort(command, "-o", "json").stdout))
    assert "continue" in yaml.safe_load(kohort(command, "-o", "yaml").stdout)
    after(1, monkeypatch)
    assert "continue" in json.loads(kohort(command, "-w", "-o", "json").stdout)


def test_options_may_stand_before_the_command_or_after_it(kohort: Callable[..., Result], server: Server) -> None:
    url = f"http://localhost:{server.server_port}/"
    assert kohort("--server", "http://127.0.0.1:1", "jobs", "--server", url).exit_code == 0
    assert kohort("--server", url, "jobs").exit_code == kohort("jobs", "--server", url).exit_code == 0


def test_decisions_are_asked_for_after_a_number(kohort: Callable[..., Result], server: Server) -> None:
    assert kohort("decisions", "--since", "5").exit_code == 0
    assert server.asked[-1] == "/v1/decisions?since=5"


NAMES = {
    "namespace/name": (("team/big",), "/v1/explain/team/big?unblock=true"),
    "-n namespace": (("big", "-n", "team"), "/v1/explain/team/big?unblock=true"),
    "both, and the same": (("team/big", "-n", "team"), "/v1/explain/team/big?unblock=true"),
    "neither: default": (("big",), "/v1/explain/default/big?unblock=true"),
}


@pytest.mark.parametrize(("args", "path"), NAMES.values(), ids=NAMES.keys())
def test_a_job_is_named_in_either_way(
    kohort: Callable[..., Result], server: Server, args: tuple[str, ...], path: str
) -> None:
    kohort("explain", *args)
    assert server.asked[-1] == path


def test_no_name_leaves_its_place_in_the_path() -> None:
    assert path_of("explain", "../x", "a b") == "/v1/explain/..%2Fx/a%20b"


WRONG = {
    "an unknown job": (("explain", "team/x"), 1, "no job team/x is known; one of big"),
    "a name of three parts": (("explain", "a/b/c"), 2, "allowed: NAMESPACE/NAME, or NAME with -n NAMESPACE"),
    "an empty name": (("explain", "a/"), 2, "allowed: NAMESPACE/NAME"),
    "an empty namespace": (("explain", "/a"), 2, "allowed: NAMESPACE/NAME"),
    "two namespaces": (("explain", "a/b", "-n", "c"), 2, "says namespace a, and -n says c; give one of them"),
    "a server that is no URL": (("queue", "--server", "localhost:8900"), 2, "allowed: a URL such as http://"),
    "a server with a port that is none": (("queue", "--server", "http://h:99999"), 2, "allowed: a URL"),
    "an unknown output": (("queue", "-o", "xml"), 2, "'xml'"),
    "an unknown command": (("queu",), 2, "queu"),
    "settings that are not there": (("serve", "--config", "/no/such"), 2, "settings /no/such cannot be used"),
    "a file to check that is not there": (("check-config", "/no/such"), 2, ""),
}


@pytest.mark.parametrize(("args", "code", "text"), WRONG.values(), ids=WRONG.keys())
def test_errors_say_what_is_allowed(kohort: Callable[..., Result], args: tuple[str, ...], code: int, text: str) -> None:
    found = kohort(*args)
    assert (found.exit_code, text in found.stderr) == (code, True), found.output
    assert "Traceback" not in found.output


def test_a_service_that_is_not_there_is_told_how_to_start(kohort: Callable[..., Result]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # the port is bound, but nobody listens on it
        found = kohort("queue", "--server", f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert found.exit_code == 1
    assert "kohort serve" in found.stderr
    lines = [line.strip() for line in found.stderr.splitlines() if "kubectl" in line]
    guide = (Path(__file__).parents[3] / "docs/how-to/install.md").read_text().splitlines()
    assert len(lines) == 2
    assert set(lines) <= set(guide), "as the guide has it"


def test_what_is_not_kohort_is_said_to_be_so(kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ANSWERS, "/v1/queue", {"something": "else"})
    found = kohort("queue")
    assert (found.exit_code, "not as this version of Kohort does" in found.stderr) == (1, True)


def test_an_unknown_setting_stops_the_start_by_name(kohort: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "kohort.yaml"
    file.write_text("barier: {}\n")
    found = kohort("controller", "--config", str(file))
    assert (found.exit_code, "barier" in found.stderr) == (2, True)


def test_texts_of_users_do_not_steer_the_terminal() -> None:
    assert visible("a\x1b[31mb\nc[red]") == "a\ufffd[31mb\ufffdc[red]"


def test_check_config_exits_by_its_verdict(kohort: Callable[..., Result], tmp_path: Path) -> None:
    good = Path(__file__).parents[3] / "manifests/base/scheduler-config.yaml"
    bad = tmp_path / "bad.yaml"
    bad.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    assert kohort("check-config", str(good)).exit_code == 0
    found = kohort("check-config", str(bad))
    assert (found.exit_code, "what helps:" in found.stdout) == (1, True)


@pytest.mark.parametrize("text", ["a: [1", "[1]", None], ids=["no YAML", "a list", "a folder"])
def test_check_config_tells_a_file_that_is_none_from_one_that_is_refused(
    kohort: Callable[..., Result], tmp_path: Path, text: str | None
) -> None:
    file = tmp_path / "file.yaml"
    if text is None:
        file.mkdir()
    else:
        file.write_text(text)
    found = kohort("check-config", str(file), "-o", "json")
    assert (found.exit_code, json.loads(found.stdout)["good"]) == (2, False)


def test_the_demo_gets_its_options(kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(demo, "run", lambda *args, **others: asked.append((args, others)))
    kohort("demo", "--json", "out.json", "--speed", "20", "--seed", "3", "--no-live")
    assert asked == [((Path("out.json"),), {"speed": 20.0, "seed": 3, "live": False, "port": None})]


ENDS = {
    "no cluster": (ClusterError(0, "NoCluster", "no such file"), "no such file.*set KUBECONFIG"),
    "no credentials": (ClusterError(0, "Credentials", "user 'u' has none; give it some"), "user 'u' has none; give"),
    "a port that is taken": (
        AddressError("127.0.0.1", 8900, OSError(98, "Address already in use")),
        "port 8900 of 127.0.0.1 is used by another process; set server.port to another port, or 0 for any free one",
    ),
    "a fault in a part": (ExceptionGroup("parts", [ValueError("why")]), "ValueError: why"),
}


@pytest.mark.parametrize(("error", "text"), ENDS.values(), ids=ENDS.keys())
def test_a_process_that_ends_says_why(error: Exception, text: str) -> None:
    async def fails(_: Settings) -> None:
        raise error

    with pytest.raises(CliError, match=text) as told:
        processes.run("serve", fails, Settings())
    assert told.value.code == 1
    assert str(told.value).startswith("kohort serve has stopped: ")


def test_help_shows_examples(kohort: Callable[..., Result]) -> None:
    found = kohort("--help")
    assert found.exit_code == 0
    assert "    kohort explain team/job  why this job waits\n" in found.stdout
    for command in ("serve", "controller", "queue", "explain", "check-config"):
        assert command in found.stdout


# -- The tests below are about what all commands have in common. ---------------------------------

DATA: dict[str, tuple[tuple[str, ...], str]] = {
    "queue": (("queue",), "jobs"), "jobs": (("jobs",), "jobs"), "nodes": (("nodes",), "nodes"),
    "plans": (("plans",), "plans"), "top": (("top",), "queue"), "decisions": (("decisions",), "decisions"),
    "describe": (("describe", "team/big"), "history"), "explain": (("explain", "team/big"), "unblock"),
    "what-if": (("what-if", "--cordon", "n1"), "jobs"), "version": (("version",), "kohort"),
    "check-config": (("check-config", "manifests/base/scheduler-config.yaml"), "findings"),
}  # fmt: skip


@pytest.mark.parametrize(("args", "key"), DATA.values(), ids=DATA.keys())
def test_the_same_as_json_and_yaml(
    kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], key: str
) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    as_json, as_yaml = kohort(*args, "-o", "json"), kohort("-o", "yaml", *args)
    assert as_json.exit_code == as_yaml.exit_code == 0, as_json.output
    assert json.loads(as_json.stdout) == yaml.safe_load(as_yaml.stdout)
    assert key in json.loads(as_json.stdout)


@pytest.mark.parametrize("command", sorted(get_command(commands.app).commands))  # type: ignore[attr-defined]
def test_every_command_has_help_with_an_example(kohort: Callable[..., Result], command: str) -> None:
    found = kohort(command, "--help")
    assert found.exit_code == 0
    head, *lines = found.stdout.rpartition("Example")[2].splitlines()
    assert head in (":", "s:")
    assert any(line.startswith(f"    kohort {command}") for line in lines)
    assert all(line.startswith("    kohort ") for line in lines if line), "one a line"


def test_version_and_exit_codes_are_told(kohort: Callable[..., Result]) -> None:
    assert kohort("version").stdout.startswith("kohort 0.")
    assert "Exit codes: 0 done; 1 it failed" in " ".join(kohort("--help").stdout.split())


def test_completion_is_there_for_a_shell(kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_KOHORT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "kohort ex")
    monkeypatch.setenv("COMP_CWORD", "1")
    found = CliRunner().invoke(commands.app, [], prog_name="kohort")
    assert found.stdout.split() == ["explain"]


# -- The tests below are about commands that ask repeatedly (--watch). ---------------------------


def after(looks: int, monkeypatch: pytest.MonkeyPatch, between: Callable[[int], None] = lambda _: None) -> None:
    """Make the command's sleep raise KeyboardInterrupt in its call number ``looks``; ``between`` runs in every call."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        between(len(slept))
        if len(slept) >= looks:
            raise KeyboardInterrupt

    monkeypatch.setattr("extender.cli.questions.time.sleep", sleep)


def test_watch_shows_what_has_changed_and_ends_with_ctrl_c(
    kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    another = {**ANSWERS["/v1/jobs"], "jobs": []}
    after(3, monkeypatch, lambda looks: monkeypatch.setitem(ANSWERS, "/v1/jobs", another) if looks == 2 else None)
    found = kohort("jobs", "--watch")
    assert found.exit_code == 130
    assert found.stdout.count("NAMESPACE") == 1
    assert found.stdout.splitlines()[-1] == "no job has opted in; a job opts in by spec.schedulerName of its pods"


def test_watched_json_is_one_document_a_line(kohort: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    after(2, monkeypatch)
    (line,) = kohort("jobs", "-w", "-o", "json").stdout.splitlines()
    assert len(json.loads(line)["jobs"]) == 2


def test_decisions_are_followed_from_the_last_one(
    kohort: Callable[..., Result], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    after(3, monkeypatch)
    found = kohort("decisions", "--follow", "-n", "team")
    assert found.exit_code == 130
    assert [path for path in server.asked if "decisions" in path] == [
        "/v1/decisions", "/v1/decisions?since=7", "/v1/decisions?since=7",
    ]  # fmt: skip
    assert found.stdout.splitlines()[0] == "7  00:00:00Z  Admit  team/run  -  started with 2 workers"
