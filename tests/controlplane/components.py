"""The command lines, ports and files of each program of the control plane; nothing here runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from tests.controlplane.build import Binaries
from tests.controlplane.pki import Pki
from tests.controlplane.ports import LOOPBACK, free_ports

HERE = Path(__file__).parent
KWOK_CONFIG = HERE / "kwok" / "config.yaml"
SERVICE_ACCOUNT_ISSUER = "https://kubernetes.default.svc"
# ServiceAccount would refuse every pod until a controller manager has created its namespace's default account, and
# TaintNodesByCondition taints new nodes until its node lifecycle controller removes the taints; no such controller
# runs.
DISABLED_ADMISSION = "ServiceAccount,TaintNodesByCondition"
OPERATOR_SCHEMES = ("tfjob", "pytorchjob", "mpijob")


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one control plane."""

    etcd: int
    etcd_peer: int
    apiserver: int
    kwok: int
    operator_probe: int
    operator_webhook: int
    controller_manager: int

    @classmethod
    def choose(cls) -> Ports:
        """Return ports that are free now."""
        return cls(*free_ports(len(fields(cls))))


@dataclass(frozen=True, slots=True)
class Layout:
    """The files, ports and keys of one control plane.

    ``features`` are gates of the API server and the schedulers, ``runtime`` the API versions to serve
    (--runtime-config).
    """

    workdir: Path
    binaries: Binaries
    pki: Pki
    ports: Ports
    features: str = ""
    runtime: str = ""

    @property
    def url(self) -> str:
        """Return the API server's address."""
        return f"https://{LOOPBACK}:{self.ports.apiserver}"

    @property
    def logs(self) -> Path:
        """Return the folder of the logs, one file per process."""
        return self.workdir / "logs"

    @property
    def etcd_data(self) -> Path:
        """Return etcd's folder."""
        return self.workdir / "etcd"

    def etcd(self) -> Sequence[str]:
        """Return etcd's command; it runs without fsync, because its data is temporary."""
        client = f"http://{LOOPBACK}:{self.ports.etcd}"
        peer = f"http://{LOOPBACK}:{self.ports.etcd_peer}"
        return (
            str(self.binaries["etcd"]),
            "--name=kohort",
            f"--data-dir={self.etcd_data}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=kohort={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def apiserver(self) -> Sequence[str]:
        """Return the API server's command, with RBAC and tokens signed by the kit's own key."""
        return (
            str(self.binaries["kube-apiserver"]),
            f"--etcd-servers=http://{LOOPBACK}:{self.ports.etcd}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.ports.apiserver}",
            # No client uses the kubernetes Service, whose endpoints may not be loopback addresses anyway.
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={self.pki.server_certificate}",
            f"--tls-private-key-file={self.pki.server_key}",
            f"--client-ca-file={self.pki.ca_file}",
            # Without these flags, every component's own server keeps logging that it does not know a front proxy.
            f"--requestheader-client-ca-file={self.pki.ca_file}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--service-account-issuer={SERVICE_ACCOUNT_ISSUER}",
            f"--service-account-key-file={self.pki.token_key}",
            f"--service-account-signing-key-file={self.pki.token_key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            f"--disable-admission-plugins={DISABLED_ADMISSION}",
            "--allow-privileged=true",
            *(self._features(),) * bool(self.features),
            *(f"--runtime-config={self.runtime}",) * bool(self.runtime),
        )

    def kwok(self, kubeconfig: Path) -> Sequence[str]:
        """Return KWOK's command, with the kit's own stages."""
        return (
            str(self.binaries["kwok"]),
            f"--kubeconfig={kubeconfig}",
            f"--config={KWOK_CONFIG}",
            f"--server-address={LOOPBACK}:{self.ports.kwok}",
            f"--node-ip={LOOPBACK}",
        )

    def operator(self, kubeconfig: Path) -> Sequence[str]:
        """Return the training operator's command."""
        return (
            str(self.binaries["training-operator"]),
            f"--kubeconfig={kubeconfig}",
            *(f"--enable-scheme={scheme}" for scheme in OPERATOR_SCHEMES),
            "--metrics-bind-address=0",
            f"--health-probe-bind-address={LOOPBACK}:{self.ports.operator_probe}",
            f"--webhook-server-port={self.ports.operator_webhook}",
            # If this file does not exist, the built-in template is used, and not one that the machine has in the
            # default place.
            f"--pytorch-init-container-template-file={self.workdir / 'no-template'}",
        )

    def controller_manager(self, kubeconfig: Path) -> Sequence[str]:
        """Return the controller manager's command: all of its default controllers, each as its own ServiceAccount."""
        return (
            str(self.binaries["kube-controller-manager"]),
            *self._serving(self.ports.controller_manager, kubeconfig),
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.pki.token_key}",
            f"--root-ca-file={self.pki.ca_file}",
        )

    def scheduler(self, config: Path, kubeconfig: Path, port: int) -> Sequence[str]:
        """Return a kube-scheduler's command for a configuration file."""
        return (
            str(self.binaries["kube-scheduler"]),
            *self._serving(port, kubeconfig),
            f"--config={config}",
            "--v=2",
            *(self._features(),) * bool(self.features),
        )

    def _features(self) -> str:
        return f"--feature-gates={self.features}"

    def _serving(self, port: int, kubeconfig: Path) -> Sequence[str]:
        """Return the flags of a component's own HTTPS server; any local process may read its metrics."""
        return (
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--tls-cert-file={self.pki.server_certificate}",
            f"--tls-private-key-file={self.pki.server_key}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics",
        )
