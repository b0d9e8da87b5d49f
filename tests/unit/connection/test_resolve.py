"""Which API server is asked, and as which user, follows from options, environment variables and files.
The test tests/e2e/test_kubectl_agrees.py compares this with kubectl.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.kube.api import ClusterError
from extender.kube.connection.goyaml import plain
from extender.kube.connection.kubectloptions import NOTHING, KubectlOptions
from extender.kube.connection.resolve import check_options, namespace, resolve, seconds_of
from extender.kube.connection.target import CREDENTIALS, NO_CLUSTER, OptionError

Json = dict[str, Any]
IN_POD = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}


def config(user: Json, **cluster: Any) -> Json:
    context = {"cluster": "c", "user": "u", "namespace": "team"}
    return {
        "current-context": "here",
        "contexts": [{"name": "here", "context": context}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }


@pytest.fixture
def account(tmp_path: Path) -> Path:
    folder = tmp_path / "account"
    folder.mkdir()
    (folder / "token").write_text("of-pod\n")
    (folder / "namespace").write_text("own\n")
    return folder


def written(tmp_path: Path, content: Json) -> dict[str, str]:
    (tmp_path / "config").write_text(yaml.safe_dump(content))
    return {"KUBECONFIG": str(tmp_path / "config")}


def test_nothing_of_a_secret_is_in_what_is_printed(tmp_path: Path) -> None:
    found = resolve(environ=written(tmp_path, config({"token": "secret-token"})))
    assert found.token == "secret-token"
    assert "secret-token" not in repr(found)


def test_over_plain_http_nothing_is_shown(tmp_path: Path) -> None:
    user = {"token": "t", "as": "bob"}
    found = resolve(environ=written(tmp_path, config(user, server="http://api.example:8001/")))
    assert (found.server, found.token, found.impersonate) == (
        "http://api.example:8001",
        "",
        (("Impersonate-User", "bob"),),
    )


def test_the_account_of_a_pod(tmp_path: Path, account: Path) -> None:
    found = resolve(environ={**IN_POD, "HOME": str(tmp_path)}, account=account)
    assert (found.server, found.token, found.token_file) == ("https://[fd00::1]:443", "of-pod", str(account / "token"))
    assert not found.authority, "the system's, where the pod has no ca.crt"
    (account / "ca.crt").write_text("x")
    assert resolve(environ={**IN_POD, "HOME": str(tmp_path)}, account=account).authority.file == str(account / "ca.crt")


def test_a_kubeconfig_is_stronger_than_the_pod(tmp_path: Path, account: Path) -> None:
    environ = {**IN_POD, **written(tmp_path, config({"token": "t"}))}
    assert resolve(environ=environ, account=account).server == "https://api.example"
    assert resolve(KubectlOptions(kubeconfig=environ["KUBECONFIG"]), IN_POD, account).server == "https://api.example"


NAMESPACES: dict[str, tuple[Json, dict[str, str], str]] = {
    "of the context": (config({}), {}, "team"),
    "of the context in a pod": (config({}), IN_POD, "team"),
    "of the pod": ({}, IN_POD, "own"),
    "of the pod, by a variable": ({}, {**IN_POD, "POD_NAMESPACE": "told"}, "told"),
    "a variable without a pod": ({}, {"POD_NAMESPACE": "told"}, "default"),
    "none": ({}, {}, "default"),
}


@pytest.mark.parametrize(("content", "environ", "want"), NAMESPACES.values(), ids=NAMESPACES.keys())
def test_the_namespace(tmp_path: Path, account: Path, content: Json, environ: dict[str, str], want: str) -> None:
    assert namespace(NOTHING, {**written(tmp_path, content), **environ}, account) == want


def test_the_namespace_of_a_file_that_is_broken_is_not_guessed(tmp_path: Path) -> None:
    environ = written(tmp_path, {})
    (tmp_path / "config").write_text("{")
    with pytest.raises(ClusterError, match="neither JSON nor YAML"):
        namespace(NOTHING, environ)


def test_where_nobody_is_named_it_is_told_where_was_looked(tmp_path: Path) -> None:
    with pytest.raises(ClusterError) as told:
        resolve(environ={"KUBECONFIG": "/no/such:/nor/such"})
    assert (told.value.reason, told.value.message) == (NO_CLUSTER, "'/no/such' or '/nor/such': no such file")
    assert told.value.status == 0, "nobody was asked, so nobody has answered"
    with pytest.raises(ClusterError, match="no context is chosen"):
        resolve(environ=written(tmp_path, {**config({}), "current-context": ""}))


def test_kubernetes_master_names_the_server_by_default() -> None:
    assert (
        resolve(environ={"HOME": "/no/such", "KUBERNETES_MASTER": "http://a.example:1"}).server == "http://a.example:1"
    )


WRONG: dict[str, tuple[Json, str]] = {
    "a port": (config({"token": "t"}, server="https://a:b"), "server: 'https://a:b' is not a URL"),
    "a password in the URL": (
        config({"token": "t"}, server="https://u:p@a"),
        "server: a name and a password in the URL",
    ),
    "a proxy of another kind": (
        config({"token": "t"}, **{"proxy-url": "ftp://p"}),
        "proxy-url: 'ftp://p' is not allowed; allowed: http://",
    ),
    "a token in two lines": (config({"token": "a\nb"}), "user 'u': token contains a line break"),
    "a name in two lines": (config({"token": "t", "as": "a\r\nb"}), "Impersonate-User contains a line break"),
    "a certificate that is not there": (
        config({"client-certificate": "none.pem", "client-key": "none.key"}),
        "user 'u': client-certificate: '.*none.pem': no such file",
    ),
    "base64": (config({"client-key-data": "%"}), "user 'u': client-key-data is not base64"),
    "a number": (config({"token": 12}), r"Expected `str`, got `int` - at `\$.users\[0\].user.token`"),
}


@pytest.mark.parametrize(("content", "told"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_named(tmp_path: Path, content: Json, told: str) -> None:
    with pytest.raises(ClusterError, match=told) as error:
        resolve(environ=written(tmp_path, content))
    assert error.value.reason == CREDENTIALS


def test_a_proxy_of_the_environment_that_is_of_no_kind_we_know_is_refused(tmp_path: Path) -> None:
    environ = {**written(tmp_path, config({"token": "t"})), "HTTPS_PROXY": "ftp://proxy.example"}
    with pytest.raises(ClusterError, match=r"'ftp://proxy\.example' is not supported; allowed: http://"):
        resolve(environ=environ)


OPTIONS = [
    KubectlOptions(context="x"),
    KubectlOptions(cluster="x"),
    KubectlOptions(user="x"),
    KubectlOptions(kubeconfig="/no/such"),
    KubectlOptions(as_user_extra=("x",)),
]


@pytest.mark.parametrize("given", [*OPTIONS, KubectlOptions(request_timeout="x")], ids=str)
def test_an_option_that_names_nothing_is_told(tmp_path: Path, given: KubectlOptions) -> None:
    with pytest.raises(OptionError, match=r"'(x|/no/such)'"):
        check_options(given, written(tmp_path, config({"token": "t"})))


TIMES = {"": None, "0": 0, "15": 15, "+15": 15, "300ms": 0.3, "1m30s": 90, "1.5h": 5400, ".5s": 0.5, "-1s": 0}


@pytest.mark.parametrize(("text", "want"), TIMES.items())
def test_a_duration(text: str, want: float | None) -> None:
    assert seconds_of(text) == pytest.approx(want)


@pytest.mark.parametrize("text", ["soon", "-1", "1 s", "1d", "s", "1s2"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(OptionError, match="--request-timeout: "):
        seconds_of(text)


READ = {
    "0x1f": 31,
    "0o17": 15,
    "1_000": 1000,
    "1e3": 1000.0,
    ".5": 0.5,
    "y": True,
    "Off": False,
}
AS_TEXT = ["2026-01-01", "12:30:45", "._", "0x", "1-2", "yep", "e5", "'y'"]


@pytest.mark.parametrize(("text", "want"), READ.items())
def test_what_is_no_text_to_go_is_none_to_us(text: str, want: object) -> None:
    assert plain(f"a: {text}".encode()) == {"a": want}


@pytest.mark.parametrize("text", ["-.inf", ".NaN", "!!binary aGVsbG8=", "!!timestamp 2026-01-01", "&a [*a]"])
def test_what_json_cannot_express_is_refused(text: str) -> None:
    """Every kubeconfig must be convertible to JSON, as in kubectl."""
    with pytest.raises(ValueError, match=r"is not allowed; allowed: text, numbers, |an alias of itself"):
        plain(f"a: {text}".encode())


@pytest.mark.parametrize("text", AS_TEXT)
def test_what_is_text_to_go_is_text_to_us(text: str) -> None:
    assert plain(f"a: {text}".encode()) == {"a": text.strip("'")}
