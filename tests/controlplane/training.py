"""The objects and files that the Kubeflow training operator 1.8.1 needs before it starts."""

from __future__ import annotations

import json
import shutil
import ssl
from pathlib import Path
from typing import Any

from tests.controlplane.api import Api
from tests.controlplane.cache import locked
from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.pki import Pki

NAMESPACE = "kubeflow"
WEBHOOK_SECRET = "training-operator-webhook-cert"
WEBHOOK_CONFIGURATION = "validator.training-operator.kubeflow.org"
# This path is compiled into the operator. No webhook is registered, so any certificate will do and several control
# planes on one machine may share it; without it the operator does not start its controllers.
CERTIFICATE_FOLDER = Path("/tmp/k8s-webhook-server/serving-certs")
ENVIRONMENT = {"TMPDIR": "/tmp", "MY_POD_NAMESPACE": NAMESPACE}
DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def install(api: Api, definitions: Path, pki: Pki) -> None:
    """Create the operator's resource definitions, Secret and webhook configuration, and its serving certificate."""
    for definition in json.loads(definitions.read_text()):
        api.create(DEFINITIONS_PATH, definition)
    api.create("/api/v1/namespaces", _named("v1", "Namespace", NAMESPACE))
    api.create(f"/api/v1/namespaces/{NAMESPACE}/secrets", _named("v1", "Secret", WEBHOOK_SECRET))
    admission = "admissionregistration.k8s.io/v1"
    api.create(
        f"/apis/{admission}/validatingwebhookconfigurations",
        _named(admission, "ValidatingWebhookConfiguration", WEBHOOK_CONFIGURATION) | {"webhooks": []},
    )
    _place_certificate(pki)


def definitions_established(api: Api) -> bool:
    """Tell whether the API server serves every resource definition that exists."""
    items = api.get(DEFINITIONS_PATH)["items"]
    return all(_is_established(item) for item in items)


def _is_established(definition: dict[str, Any]) -> bool:
    conditions = definition["status"].get("conditions") or []  # The API server leaves the conditions null at first.
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _named(version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def _place_certificate(pki: Pki) -> None:
    """Put the operator's key pair in its folder if none is there. An existing pair stays, because the operator of
    another control plane may use it.

    The lock is in the same folder, so it is shared by all checkouts and caches of this machine.
    """
    certificate, key = CERTIFICATE_FOLDER / "tls.crt", CERTIFICATE_FOLDER / "tls.key"
    if _is_pair(certificate, key):
        return
    try:
        CERTIFICATE_FOLDER.mkdir(parents=True, exist_ok=True)
        with locked(CERTIFICATE_FOLDER / "lock", "waiting for another start of the training operator"):
            if not _is_pair(certificate, key):
                shutil.copyfile(pki.server_key, key)
                shutil.copyfile(pki.server_certificate, certificate)
    except PermissionError as error:
        raise ControlPlaneError(
            f"{error}: the training operator looks for its certificate in {CERTIFICATE_FOLDER} and nowhere else; "
            "remove that folder, or have its owner start a control plane once"
        ) from None


def _is_pair(certificate: Path, key: Path) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError:  # A file is missing, or the two files are no pair (ssl.SSLError).
        return False
    return True
