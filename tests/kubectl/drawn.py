"""Draws cases at random: every part of a kubeconfig and of the environment by itself, many of them wrong."""

from __future__ import annotations

import random
from typing import Any

from tests.kubectl.asking import Case
from tests.kubectl.kit import API_VERSION, ECHO, TOKEN, Json, Kit, b64, kubeconfig, script, several
from tests.kubectl.servers import LOGIN, NAME, OTHER_NAME, World

Files = dict[str, Any]


class Drawer:
    """One seed, one sequence of cases."""

    def __init__(self, world: World, seed: int) -> None:
        self._kit = Kit(world)
        self._chance = random.Random(seed)

    def case(self) -> Case:
        """The next one."""
        files: Files = {}
        own = kubeconfig(self._cluster(files), self._user(files))
        other = several({"other": (self._kit.cluster("two"), TOKEN)}, "other")
        environ, options = self._placed(files, own, other)
        options += self._options()
        if self._is(0.5):
            environ |= self._variables()
        return Case(files, environ, tuple(options))

    def _is(self, likely: float) -> bool:
        return self._chance.random() < likely

    def _one(self, *choices: Any) -> Any:
        return self._chance.choice(choices)

    # -- the cluster ---------------------------------------------------------------------------------

    def _cluster(self, files: Files) -> Json:
        kit, host = self._kit, self._one("127.0.0.1", "localhost", NAME, self._kit.world.address or "127.0.0.1")
        found = kit.cluster(self._one("one", "one", "two"), host=host)
        match self._one(
            *["plain"] * 12, "elsewhere", "named", "stranger", "insecure", "file", "http", "bare", "path", "none"
        ):
            case "elsewhere":
                found = kit.cluster("elsewhere")
            case "named":
                found = kit.cluster("elsewhere", tls_server_name=OTHER_NAME)
            case "stranger":
                found = kit.cluster("stranger")
            case "insecure":
                found = kit.cluster("stranger", certificate_authority_data=None, insecure_skip_tls_verify=True)
            case "file":
                files["certs/ca.pem"] = kit.world.ca
                found = kit.cluster(certificate_authority="certs/ca.pem", certificate_authority_data=None)
            case "http":
                found = {"server": kit.url("plain", scheme="http")}
            case "bare":
                found = {"server": f"127.0.0.1:{kit.world.ports['plain']}"}
            case "path":
                found = {**found, "server": f"{found['server']}/k8s/clusters/c-1"}
            case "none":
                found.pop("server")
        if self._is(0.25):
            found["proxy-url"] = self._proxy()
        return found

    def _proxy(self) -> str:
        kit = self._kit
        http, socks = kit.proxy("http-proxy"), kit.proxy("socks-proxy", "socks5")
        return str(
            self._one(
                http,
                socks,
                http.removeprefix("http://"),
                socks.replace("socks5", "socks5h"),
                kit.proxy("https-proxy", "https"),
                kit.proxy("login-proxy", login=LOGIN),
                kit.proxy("socks-login-proxy", "socks5", LOGIN),
                kit.proxy("nobody"),
            )
        )

    # -- the user ------------------------------------------------------------------------------------

    def _user(self, files: Files) -> Json:
        kit = self._kit
        certificate, key = kit.certificate("drawn")
        pair = {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()}
        files["token"], files["plugin"] = self._one("from-file\n", "", "of-file"), ECHO
        user: Json = self._one(
            {},
            TOKEN,
            TOKEN,
            {"tokenFile": "token"},
            {**TOKEN, "tokenFile": self._one("token", "no-such-token")},
            kit.holder("drawn"),
            {**kit.holder("drawn"), **TOKEN},
            {"client-certificate-data": b64(certificate)},
            {"client-certificate": "me.pem", "client-key": "me.key"},
            {"username": "me", "password": "pw"},
            {"username": "me", "password": "pw", **TOKEN},
            {"auth-provider": {"name": self._one("gcp", "azure")}},
            kit.plugin(self._one("./plugin", "./plugin", "no-such-plugin")),
            kit.plugin(provideClusterInfo=True, env=[{"name": "EXTRA", "value": "e"}]),
            kit.plugin(apiVersion=f"{API_VERSION}{self._one('', 'alpha1', 'beta1')}", interactiveMode="IfAvailable"),
            {**kit.plugin("no-such-plugin"), **self._one(TOKEN, {})},
        )
        if "exec" in user and self._is(0.4):
            files["plugin"] = self._one(script(pair), script({}), script(TOKEN, 7, "log in again"), script("no JSON"))
        if "client-certificate" in user and self._is(0.7):
            files["me.pem"], files["me.key"] = certificate, key
        if self._is(0.25):
            user = {**user, **self._one({"as": "bob"}, {"as": "bob", "as-groups": ["g", "h"]}, {"as-groups": ["g"]})}
        return user

    # -- where it stands, and what is said beside it ---------------------------------------------------

    def _placed(self, files: Files, own: Json, other: Json) -> tuple[dict[str, str], list[str]]:
        files["other"], files["broken"] = other, "{"
        files["home/.kube/config" if (is_home := self._is(0.15)) else "config"] = own
        if is_home:
            for name in [name for name in files if name not in ("other", "broken", "home/.kube/config")]:
                files[f"home/.kube/{name}"] = files.pop(name)
            return {}, []
        if self._is(0.2):
            return {"KUBECONFIG": "{folder}/other"}, ["--kubeconfig", self._one("config", "{folder}/config")]
        paths = self._one(
            "config",
            "config",
            "config:other",
            "other:config",
            "none:config",
            "config:none",
            "config:broken",
            "none",
            ":config",
        )
        return {"KUBECONFIG": ":".join(f"{{folder}}/{path}" if path else "" for path in paths.split(":"))}, []

    def _options(self) -> list[str]:
        found: list[str] = []
        for likely, options in (
            (0.25, ["--context", self._one("here", "here", "other", "other", "none")]),
            (0.1, ["--cluster", self._one("c", "other", "other", "none")]),
            (0.1, ["--user", self._one("u", "other", "other", "none")]),
            (0.15, ["--as", "alice"]),
            (0.05, ["--as-group", "team"]),
            (0.1, ["--as-uid", "7"]),
            (0.1, ["--request-timeout", self._one("20s", "0", "soon")]),
        ):
            found += options if self._is(likely) else []
        return found

    def _variables(self) -> dict[str, str]:
        upper = self._one("HTTPS_PROXY", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY")
        found = {upper: self._proxy()}
        if self._is(0.6):
            network = f"{self._kit.world.address.rpartition('.')[0]}.0/24"
            excepted = (
                "*",
                NAME,
                "cluster.invalid",
                ".invalid",
                f"{NAME}:1",
                network,
                "127.0.0.0/8,10.0.0.0/8",
                "localhost",
            )
            found[self._one("NO_PROXY", "no_proxy")] = self._one(*excepted)
        return found
