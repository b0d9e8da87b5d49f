"""A control plane as one object that can be started, used and stopped."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import yaml

from tests.controlplane import training
from tests.controlplane.api import Api
from tests.controlplane.build import Binaries, build
from tests.controlplane.components import Layout, Ports
from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.nodes import THREE_NODES, NodeShape
from tests.controlplane.pki import Pki
from tests.controlplane.ports import LOOPBACK, free_ports
from tests.controlplane.process import Process
from tests.controlplane.recipes import KUBERNETES_VERSION, recipes_of

START_LIMIT = 180.0
START_TRIES = 3
STOCK_SCHEDULER = "leaderElection: {leaderElect: false}"
ADMIN = ("kit:admin", "system:masters")


@dataclass(slots=True)
class ControlPlane:
    """A running control plane, made by ``ControlPlane.start``; leaving its context stops it."""

    layout: Layout
    admin_kubeconfig: Path
    api: Api
    detached: bool = False
    on_start: Callable[[Process], None] = lambda process: None
    processes: dict[str, Process] = field(default_factory=dict)
    _temporary: bool = False

    @classmethod
    def start(
        cls,
        nodes: NodeShape | None = THREE_NODES,
        *,
        operator: bool = True,
        controller_manager: bool = False,
        workdir: Path | None = None,
        detached: bool = False,
        on_start: Callable[[Process], None] = lambda process: None,
        version: str = KUBERNETES_VERSION,
        features: str = "",
        runtime: str = "",
    ) -> ControlPlane:
        """Start etcd, the API server, KWOK with ``nodes``, and the optional parts; return when all are ready.

        Binaries that the cache lacks are built first. ``workdir`` (default: a temporary folder) takes data and logs.
        ``detached`` processes outlive this one. ``on_start`` is called with each process when it starts. ``version`` is
        that of the API server and the schedulers, ``features`` their gates as ``--feature-gates`` takes them, and
        ``runtime`` the API versions to serve as ``--runtime-config`` takes them.

        Raises ControlPlaneError with the end of a log if a part does not start.
        """
        binaries = build(recipes_of(version))
        for attempt in range(1, START_TRIES + 1):
            plane = cls._prepare(binaries, workdir, detached, on_start, (features, runtime))
            try:
                plane._bring_up(nodes, operator, controller_manager)
            except BaseException as error:
                clashed = any("address already in use" in process.tail() for process in plane.processes.values())
                plane._end_processes()
                if not (clashed and isinstance(error, ControlPlaneError) and attempt < START_TRIES):
                    raise
            else:
                return plane
        raise AssertionError("unreachable")

    @classmethod
    def _prepare(
        cls,
        binaries: Binaries,
        workdir: Path | None,
        detached: bool,
        on_start: Callable[[Process], None],
        switches: tuple[str, str],
    ) -> ControlPlane:
        directory = workdir or Path(tempfile.mkdtemp(prefix="kohort-controlplane-"))
        pki = Pki.create(directory / "pki")
        layout = Layout(directory, binaries, pki, Ports.choose(), *switches)
        layout.logs.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(layout.etcd_data, ignore_errors=True)  # A run that was killed may have left etcd's data.
        return cls(
            layout=layout,
            admin_kubeconfig=pki.user_kubeconfig(layout.url, *ADMIN),
            api=Api(layout.url, pki.client_context(*ADMIN)),
            detached=detached,
            on_start=on_start,
            _temporary=workdir is None,
        )

    # -- Tests read the values below. -----------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Return the API server's address."""
        return self.layout.url

    @property
    def workdir(self) -> Path:
        """Return the folder that holds data, keys and logs."""
        return self.layout.workdir

    @property
    def logs(self) -> Path:
        """Return the folder of the logs, one file per process."""
        return self.layout.logs

    @property
    def tls(self) -> ssl.SSLContext:
        """Return a TLS context with admin rights for other clients."""
        return self.layout.pki.client_context(*ADMIN)

    # -- Tests call the methods below. ----------------------------------------------------------------------------

    def add_nodes(self, shape: NodeShape, prefix: str = "node", *, limit: float = START_LIMIT) -> list[str]:
        """Create fake nodes named ``prefix``-N, wait until KWOK has made them ready, and return their names."""
        names = []
        for manifest in shape.manifests(prefix):
            self.api.create("/api/v1/nodes", manifest)
            names.append(manifest["metadata"]["name"])
        self.processes["kwok"].wait_until(lambda: self._ready_nodes() >= set(names), "the nodes were ready", limit)
        return names

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as admin and return its output. Raises ControlPlaneError with kubectl's message."""
        command = [
            str(self.layout.binaries["kubectl"]),
            f"--kubeconfig={self.admin_kubeconfig}",
            f"--cache-dir={self.workdir / 'kubectl-cache'}",
            *arguments,
        ]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, *manifests: str | Path | dict[str, Any]) -> str:
        """Apply YAML texts, files or objects server-side as admin; return kubectl's output."""
        documents = "\n---\n".join(_as_yaml(manifest) for manifest in manifests)
        return self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=documents)

    def service_account_kubeconfig(self, namespace: str, name: str, seconds: int = 86_400, url: str = "") -> Path:
        """Write a kubeconfig with a token, and so the rights, of that ServiceAccount.

        ``url`` is the address in the kubeconfig, such as that of a proxy before the API server.
        """
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        answer = self.api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", request)
        user = f"system:serviceaccount:{namespace}:{name}"
        return self.layout.pki.write_kubeconfig(url or self.url, user, {"token": answer["status"]["token"]})

    def start_scheduler(
        self,
        config_path: Path | None = None,
        name: str = "kube-scheduler",
        kubeconfig: Path | None = None,
        hostname: str = "-",
        *,
        limit: float = START_LIMIT,
    ) -> Process:
        """Start a kube-scheduler with a configuration (default: the stock one) and wait until live.

        Its rights are those of ``kubeconfig``, or else of the user system:kube-scheduler, whose RBAC role allows only a
        Lease named kube-scheduler. ``hostname`` gives the process a host name of its own, with which its identity in
        the Lease begins. Raises ControlPlaneError if it does not start.
        """
        rights = kubeconfig or self._user_kubeconfig("system:kube-scheduler")
        config = self._scheduler_config(config_path, name, rights)
        port = free_ports(1)[0]
        process = self.start_process(
            name,
            *self.layout.scheduler(config, rights, port),
            url=f"https://{LOOPBACK}:{port}",
            hostname=hostname,
        )
        process.wait_until(lambda: _serves(f"{process.url}/livez"), "it was live", limit)
        return process

    def start_process(
        self,
        name: str,
        *command: str,
        url: str = "",
        environment: dict[str, str] | None = None,
        hostname: str = "-",
    ) -> Process:
        """Start a program beside the control plane, which stops with it and logs to ``logs``/NAME.log.

        The first word of the command is a path. Raises ControlPlaneError if a process with that name is running.
        """
        if name in self.processes and self.processes[name].alive:
            raise ControlPlaneError(f"a process named {name} runs already")
        process = Process(
            name=name,
            command=command,
            log=self.logs / f"{name}.log",
            url=url,
            environment=environment or {},
            hostname=hostname,
            detached=self.detached,
        ).start()
        self.processes[name] = process
        self.on_start(process)
        return process

    def stop(self) -> None:
        """End all processes, newest first, and remove the data; logs stay if ``workdir`` was given."""
        self._end_processes()
        self.api.close()
        shutil.rmtree(self.workdir if self._temporary else self.layout.etcd_data, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- The methods below start the control plane. ---------------------------------------------------------------

    def _bring_up(self, nodes: NodeShape | None, operator: bool, controller_manager: bool) -> None:
        self.start_process("etcd", *self.layout.etcd())
        # The API server is started at once, because it waits for etcd by itself.
        apiserver = self.start_process("kube-apiserver", *self.layout.apiserver(), url=self.url)
        apiserver.wait_until(lambda: self.api.ok("/readyz"), "it was ready", START_LIMIT)
        if controller_manager:
            self._start_controller_manager()
        self.start_process("kwok", *self.layout.kwok(self._admin_kubeconfig_of("kwok")))
        if operator:
            self._start_operator()
        if nodes:
            self.add_nodes(nodes)
        if operator:
            self._await_operator()

    def _start_controller_manager(self) -> None:
        kubeconfig = self._user_kubeconfig("system:kube-controller-manager")
        url = f"https://{LOOPBACK}:{self.layout.ports.controller_manager}"
        self.start_process("kube-controller-manager", *self.layout.controller_manager(kubeconfig), url=url)

    def _start_operator(self) -> None:
        training.install(self.api, self.layout.binaries.job_definitions, self.layout.pki)
        self.processes["kube-apiserver"].wait_until(
            lambda: training.definitions_established(self.api), "the job definitions were served", START_LIMIT
        )
        self.start_process(
            "training-operator",
            *self.layout.operator(self._admin_kubeconfig_of("training-operator")),
            url=f"http://{LOOPBACK}:{self.layout.ports.operator_probe}",
            environment=training.ENVIRONMENT,
        )

    def _await_operator(self) -> None:
        process = self.processes["training-operator"]
        process.wait_until(lambda: _serves(f"{process.url}/readyz"), "it was ready", START_LIMIT)

    def _admin_kubeconfig_of(self, user: str) -> Path:
        """Return a kubeconfig with all rights, for components whose rights are not under test."""
        return self.layout.pki.user_kubeconfig(self.url, f"kit:{user}", "system:masters")

    def _user_kubeconfig(self, user: str) -> Path:
        return self.layout.pki.user_kubeconfig(self.url, user)

    def _scheduler_config(self, given: Path | None, name: str, kubeconfig: Path) -> Path:
        """Write kube-scheduler's configuration with the kubeconfig in it, and return its path.

        With --config, kube-scheduler ignores the flag --kubeconfig.
        """
        config: dict[str, Any] = yaml.safe_load(given.read_text() if given else STOCK_SCHEDULER)
        config.setdefault("apiVersion", "kubescheduler.config.k8s.io/v1")
        config.setdefault("kind", "KubeSchedulerConfiguration")
        config.setdefault("clientConnection", {})["kubeconfig"] = str(kubeconfig)
        path = self.workdir / f"{name}.config.yaml"
        path.write_text(yaml.safe_dump(config))
        return path

    def _ready_nodes(self) -> set[str]:
        return {node["metadata"]["name"] for node in self.api.get("/api/v1/nodes")["items"] if _is_ready(node)}

    def _end_processes(self) -> None:
        """Ask all processes to end, newest first, then wait for each, so that they end in parallel."""
        running = [process for process in reversed(self.processes.values()) if process.alive]
        for process in running:
            process.ask_to_stop()
        deadline = time.monotonic() + 3
        for process in running:
            process.stop(max(0.1, deadline - time.monotonic()))


def _is_ready(node: dict[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))


def _serves(url: str) -> bool:
    try:
        return httpx.get(url, verify=False, timeout=60, trust_env=False).is_success
    except httpx.TransportError:
        return False


def _as_yaml(manifest: str | Path | dict[str, Any]) -> str:
    match manifest:
        case str():
            return manifest
        case Path():
            return manifest.read_text()
        case _:
            return yaml.safe_dump(manifest)
