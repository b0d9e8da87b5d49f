"""Draw random cases: each part of a kubeconfig and of the environment is drawn by itself, and is sometimes invalid."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tests.kubectl.asking import Case
from tests.kubectl.kit import API_VERSION, ECHO, TOKEN, Json, Kit, b64, kubeconfig, script, several
from tests.kubectl.servers import LOGIN, NAME, OTHER_NAME, World

Files = dict[str, Any]
IN_POD: Final = 0.15  # A case is within a pod with this probability.
WRONG: Final = 0.12  # A part is one that kubectl refuses, or that leads nowhere, with this probability.


class Drawer:
    """Draws the sequence of cases of one seed."""

    def __init__(self, world: World, seed: int, *, pods: bool = True) -> None:
        """Start the sequence; without ``pods``, no case is within a pod, because this machine does not allow it."""
        self._kit = Kit(world)
        self._pods = pods
        self._chance = random.Random(seed)

    def case(self) -> Case:
        """Return the next case."""
        files: Files = {"broken": "{", "other": several({"other": (self._kit.cluster("two"), TOKEN)}, "other")}
        own = kubeconfig(self._cluster(files), self._user(files))
        environ, options = self._placed(files, own)
        environ |= self._variables() if self._is(0.5) else {}
        whole = Case(files, environ, (*options, *self._options()))
        return self._in_pod(whole) if self._is(IN_POD) and self._pods else whole

    def _is(self, likely: float) -> bool:
        return self._chance.random() < likely

    def _draw(self, right: Sequence[Any], wrong: Sequence[Any] = ()) -> Any:
        return self._chance.choice(wrong if wrong and self._is(WRONG) else right)

    def _in_pod(self, case: Case) -> Case:
        """Return the case changed to run within a pod, with its kubeconfig or with the pod's ServiceAccount alone."""
        port = str(self._kit.world.ports["one"])
        server = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": self._draw([port], [""])}
        account = {"token": "of-pod\n", "ca.crt": self._kit.world.ca.decode(), "namespace": "team"}
        if self._is(0.4):
            return replace(case, environ={**case.environ, **server}, account=account)
        proxies = {name: value for name, value in case.environ.items() if name != "KUBECONFIG"}
        return Case(environ={**proxies, **server}, account=account)

    # -- The methods below draw the cluster of a kubeconfig. -----------------------------------------

    def _cluster(self, files: Files) -> Json:
        kit = self._kit
        files["certs/ca.pem"] = kit.world.ca
        near = kit.cluster(self._draw(["one", "two"]), host=self._draw(["127.0.0.1", "localhost"]))
        far = kit.cluster(self._draw(["one", "two"]), host=self._draw([kit.world.address], [NAME]))
        without: dict[str, Any] = {"certificate_authority_data": None}
        plain, bare = kit.url("plain", scheme="http"), f"127.0.0.1:{kit.world.ports['plain']}"
        right = [
            *[near, far] * 3,
            kit.cluster("elsewhere", tls_server_name=OTHER_NAME),
            kit.cluster("stranger", insecure_skip_tls_verify=True, **without),
            kit.cluster(certificate_authority="certs/ca.pem", **without),
            {**far, "server": f"{far['server']}/k8s/clusters/c-1/"},
            {"server": plain},
            {"server": bare},
        ]
        wrong = [
            kit.cluster("elsewhere"),
            kit.cluster("stranger"),
            kit.cluster("stranger", insecure_skip_tls_verify=True),
            kit.cluster(certificate_authority="certs/none.pem", **without),
            kit.cluster(server=None),
            kit.cluster("nobody"),
        ]
        found = dict(self._draw(right, wrong))
        return {**found, "proxy-url": self._proxy(of_file=True)} if self._is(0.25) else found

    def _proxy(self, *, of_file: bool) -> str:
        kit = self._kit
        http, socks = kit.proxy("http-proxy"), kit.proxy("socks-proxy", "socks5")
        everywhere = [http, socks, kit.proxy("https-proxy", "https")]
        everywhere += [kit.proxy("login-proxy", login=LOGIN), kit.proxy("socks-login-proxy", "socks5", LOGIN)]
        of_variables = [http.removeprefix("http://"), socks.replace("socks5", "socks5h")]
        wrong = [kit.proxy("nobody"), kit.proxy("login-proxy"), *(of_variables if of_file else ())]
        return str(self._draw(everywhere if of_file else everywhere + of_variables, wrong))

    # -- The method below draws the user of a kubeconfig. --------------------------------------------

    def _user(self, files: Files) -> Json:
        kit = self._kit
        certificate, key = kit.certificate("drawn")
        pair = {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()}
        files |= {"token": self._draw(["from-file\n"], [""]), "me.pem": certificate, "me.key": key}
        failing = [script({}), script(TOKEN, 7, "log in again"), script("no JSON")]
        files["plugin"] = self._draw([ECHO, ECHO, script(pair), script({"token": "of-plugin"})], failing)
        password = {"username": "me", "password": "pw"}
        right = [
            TOKEN,
            {"tokenFile": "token"},
            {**TOKEN, "tokenFile": self._draw(["token", "no-such-token"])},
            kit.holder("drawn"),
            {**kit.holder("drawn"), **TOKEN},
            {"client-certificate": "me.pem", "client-key": "./me.key"},
            password,
            kit.plugin(),
            kit.plugin(provideClusterInfo=True, env=[{"name": "EXTRA", "value": "e"}], args=["a"]),
            kit.plugin(apiVersion=f"{API_VERSION}beta1", interactiveMode=None),
            {**kit.plugin("no-such-plugin"), **self._draw([TOKEN, password, kit.holder("drawn")])},
        ]
        wrong = [
            {},
            {"token": "wrong"},
            {**password, **TOKEN},
            {**password, "tokenFile": "token"},
            {"client-certificate-data": b64(certificate)},
            {"client-certificate": "none.pem", "client-key": "me.key"},
            {"tokenFile": "no-such-token"},
            {"auth-provider": {"name": "gcp"}},
            kit.plugin("no-such-plugin", installHint="install it"),
            kit.plugin(apiVersion=f"{API_VERSION}alpha1"),
            kit.plugin(interactiveMode="Always"),
        ]
        acting = [
            {"as": "bob"},
            {"as": "bob", "as-groups": ["g", "h"]},
            {"as": "b", "as-user-extra": {"k": ["1", "2"]}},
        ]
        return {**self._draw(right, wrong), **(self._draw(acting, [{"as-groups": ["g"]}]) if self._is(0.25) else {})}

    # -- The methods below draw where the kubeconfig is, and options and variables. --------------------

    def _placed(self, files: Files, own: Json) -> tuple[dict[str, str], tuple[str, ...]]:
        if self._is(0.15):
            for name in list(files):
                files[f"home/.kube/{name}"] = files.pop(name)
            files["home/.kube/config"] = own
            return {}, ()
        files["sub/config" if (is_below := self._is(0.2)) else "config"] = own
        if is_below:
            files |= {f"sub/{name}": files[name] for name in ("token", "me.pem", "me.key", "plugin", "certs/ca.pem")}
        path = "sub/config" if is_below else "config"
        if self._is(0.2):
            return {"KUBECONFIG": "{folder}/other"}, (
                "--kubeconfig",
                self._draw([path, f"{{folder}}/{path}"], ["none"]),
            )
        around = self._draw(
            ["", "", f"{path}:other", f"other:{path}", f"none:{path}", f":{path}"], [f"{path}:broken", "none"]
        )
        return {"KUBECONFIG": around or f"{{folder}}/{path}"}, ()

    def _options(self) -> list[str]:
        found: list[str] = []
        for likely, option, right, wrong in (
            (0.2, "--context", ["here"], ["none", "other"]),
            (0.1, "--cluster", ["c"], ["none", "other"]),
            (0.1, "--user", ["u"], ["none", "other"]),
            (0.1, "--request-timeout", ["20s", "0", "15"], ["soon"]),
        ):
            found += [option, self._draw(right, wrong)] if self._is(likely) else []
        if self._is(0.2):
            found += ["--as", "alice", *self._draw([[], ["--as-group", "team", "--as-group", "x"], ["--as-uid", "7"]])]
        return found

    def _variables(self) -> dict[str, str]:
        name = self._draw(["HTTPS_PROXY", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY"])
        found = {name: self._proxy(of_file=False)}
        if self._is(0.5):
            network = f"{self._kit.world.address.rpartition('.')[0]}.0/24"
            found[self._draw(["NO_PROXY", "no_proxy"])] = self._draw(
                [
                    "*",
                    NAME,
                    "cluster.invalid",
                    network,
                    f"{self._kit.world.address}:1",
                    "127.0.0.0/8,10.0.0.0/8",
                    "localhost",
                ]
            )
        return found
