"""Handwritten cases: each shows one rule of kubectl, with the server that must get the request."""

from __future__ import annotations

import json
from typing import Any

from tests.kubectl.asking import Case
from tests.kubectl.kit import API_VERSION, ECHO, TOKEN, Json, Kit, b64, kubeconfig, one, script, several
from tests.kubectl.servers import LOGIN, NAME, OTHER_NAME, World


def _files(kit: Kit) -> dict[str, tuple[Case, str]]:
    dead = several({"dead": (kit.cluster("nobody"), TOKEN)}, "dead")
    good = several({"x": (kit.cluster("two"), TOKEN)}, "x")
    both = {"KUBECONFIG": "{folder}/a:{folder}/b"}
    certificate, key = kit.certificate("relative")
    pems = {"pki/ca.pem": kit.world.ca, "pki/me.pem": certificate, "pki/me.key": key, "pki/token": "from-file\n"}
    relative = kubeconfig(
        kit.cluster(certificate_authority="ca.pem", certificate_authority_data=None),
        {"client-certificate": "me.pem", "client-key": "./me.key"},
    )
    return {
        "the first file's current-context counts": (Case({"a": dead, "b": good}, both), ""),
        "and not the last one's": (Case({"a": good, "b": dead}, both), "two"),
        "the first that names one counts": (
            Case({"a": {**good, "current-context": ""}, "b": {**dead, "current-context": "x"}}, both),
            "two",
        ),
        "of entries of one name the first counts": (
            Case(
                {
                    "a": several({"x": (kit.cluster("one"), TOKEN)}),
                    "b": several({"x": (kit.cluster("two"), {"token": "other"})}, "x"),
                },
                both,
            ),
            "one",
        ),
        "a context of the second file": (
            Case({"a": good, "b": several({"z": (kit.cluster("one"), TOKEN)})}, both, ("--context", "z")),
            "one",
        ),
        "a name that is a yes": (one(several({"y": (kit.cluster(), TOKEN)}, "y")), ""),
        "a file that is not there is passed over": (Case({"b": good}, both), "two"),
        "an empty part of KUBECONFIG": (Case({"b": good}, {"KUBECONFIG": ":{folder}/b:"}), "two"),
        "an empty file": (Case({"a": "", "b": good}, both), "two"),
        "a file that is broken": (Case({"a": good, "b": "{"}, both), ""),
        "a file that is a folder": (Case({"a": good, "b/c": ""}, both), ""),
        "a file of another kind": (Case({"a": good, "b": {"apiVersion": "v1", "kind": "Pod"}}, both), ""),
        "a token that is a number": (one(kubeconfig(kit.cluster(), {"token": 7})), ""),
        **{
            f"a token {text} without quotes": (
                one(json.dumps(kubeconfig(kit.cluster(), TOKEN)).replace('"secret"', f" {text} ")),
                server,
            )
            for text, server in (
                ("12e5", ""),
                ("2026-01-01", "one"),
                ("12:30", "one"),
                ("0o17", ""),
                ("off", ""),
                ("0x1f", ""),
                ("1_0", ""),
                ("Null", ""),
            )
        },
        "a name that stands twice": (
            one({**kubeconfig(kit.cluster(), TOKEN), "users": [{"name": "u", "user": TOKEN}] * 2}),
            "",
        ),
        "base64 that is none": (one(kubeconfig(kit.cluster(certificate_authority_data="%"), TOKEN)), ""),
        "base64 in lines": (
            one(kubeconfig(kit.cluster(certificate_authority_data=f"{kit.ca_data[:76]}\n{kit.ca_data[76:]}\n"), TOKEN)),
            "one",
        ),
        "JSON with tabs": (one(json.dumps(kubeconfig(kit.cluster(), TOKEN), indent="\t")), "one"),
        "unknown fields": (one({**kubeconfig(kit.cluster(surplus=1), TOKEN), "more": {}}), "one"),
        "nulls": (
            one({**kubeconfig(kit.cluster(proxy_url="null"), TOKEN), "preferences": None, "extensions": None}),
            "",
        ),
        "--kubeconfig is stronger than KUBECONFIG": (
            Case({"a": dead, "b": good}, {"KUBECONFIG": "{folder}/a"}, ("--kubeconfig", "b")),
            "two",
        ),
        "--kubeconfig is one file": (
            Case({"a": dead, "b": good}, {}, ("--kubeconfig", "{folder}/none:{folder}/b")),
            "",
        ),
        "--kubeconfig that is not there": (
            Case({"a": good}, {"KUBECONFIG": "{folder}/a"}, ("--kubeconfig", "none")),
            "",
        ),
        "the file in the home folder": (Case({"home/.kube/config": good}), "two"),
        "KUBECONFIG is stronger than it": (Case({"home/.kube/config": good}, {"KUBECONFIG": "{folder}/none"}), ""),
        "no file at all": (Case(), ""),
        "paths are relative to their file": (
            Case({"a": dead | {"current-context": ""}, "pki/config": relative, **pems}, {"KUBECONFIG": "a:pki/config"}),
            "one",
        ),
        "a path that leads nowhere": (one(relative), ""),
        "a token's file, too": (
            Case(
                {"pki/config": kubeconfig(kit.cluster(), {"tokenFile": "token"}), **pems}, {"KUBECONFIG": "pki/config"}
            ),
            "one",
        ),
    }


def _options(kit: Kit) -> dict[str, tuple[Case, str]]:
    config = several({"a": (kit.cluster("one"), TOKEN), "b": (kit.cluster("two"), kit.holder("bea"))}, "a")
    acting = kubeconfig(kit.cluster(), {**kit.holder("admin"), "as": "nobody-special"})
    whole = {"as": "x", "as-uid": "7", "as-groups": ["g", "h"], "as-user-extra": {"scopes.x/y%": ["1", "2"]}}
    return {
        "--context": (one(config, "--context", "b"), "two"),
        "--context that is not there": (one(config, "--context", "z"), ""),
        "--cluster": (one(config, "--cluster", "b"), "two"),
        "--cluster that is not there": (one(config, "--cluster", "z"), ""),
        "--user": (one(config, "--user", "b"), "one"),
        "--user that is not there": (one(config, "--user", "z"), ""),
        "--cluster and --user without a context": (
            one({**config, "current-context": ""}, "--cluster", "b", "--user", "a"),
            "two",
        ),
        "a current-context that is not there": (one({**config, "current-context": "z"}), ""),
        "and --context beside it": (one({**config, "current-context": "z"}, "--context", "b"), "two"),
        "a cluster that is not there": (one({**config, "clusters": []}), ""),
        "a user that is not there": (one({**config, "users": []}), ""),
        "as in the file": (one(acting), "one"),
        "--as is stronger": (one(acting, "--as", "bob"), "one"),
        "all that one can act with": (one(kubeconfig(kit.cluster(), {**TOKEN, **whole})), "one"),
        "the same by options": (
            one(
                kubeconfig(kit.cluster(), TOKEN),
                "--as",
                "x",
                "--as-uid",
                "7",
                "--as-group",
                "g",
                "--as-group",
                "h",
                "--as-user-extra",
                "k=1",
                "--as-user-extra",
                "k=2",
            ),
            "one",
        ),
        "--as beside groups of the file": (
            one(kubeconfig(kit.cluster(), {**TOKEN, **whole}), "--as", "bob", "--as-group", "z"),
            "one",
        ),
        "groups without a user": (one(kubeconfig(kit.cluster(), {**TOKEN, "as-groups": ["g"]})), ""),
        "--as-group without a user": (one(kubeconfig(kit.cluster(), TOKEN), "--as-group", "g"), ""),
        "--request-timeout": (one(config, "--request-timeout", "20s"), "one"),
        "--request-timeout 0": (one(config, "--request-timeout", "0"), "one"),
        "--request-timeout that is none": (one(config, "--request-timeout", "soon"), ""),
    }


def _users(kit: Kit) -> dict[str, tuple[Case, str]]:
    def user(user: Json, *options: str, **files: Any) -> Case:
        return one(kubeconfig(kit.cluster(), user), *options, **files)

    certificate, key = kit.certificate("cert")
    other = kit.certificate("other")[1]
    expired = "2020-01-01T00:00:00Z"
    of_yaml = f"kind: ExecCredential\napiVersion: {API_VERSION}\nstatus: {{token: yaml}}"
    pair = {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()}
    told = kubeconfig(
        kit.cluster(extensions=[{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}}]),
        kit.plugin(provideClusterInfo=True, env=[{"name": "EXTRA", "value": "e"}], args=["a"]),
    )
    return {
        "a token": (user(TOKEN), "one"),
        "a token that the server refuses": (user({"token": "wrong"}), "one"),
        "a token with a line break": (user({"token": "a\nb"}), ""),
        "a certificate": (user(kit.holder("cert")), "one"),
        "a certificate and a token": (user({**kit.holder("cert"), **TOKEN}), "one"),
        "a certificate without its key": (user({"client-certificate-data": b64(certificate)}), ""),
        "a certificate with another's key": (
            user({"client-certificate-data": b64(certificate), "client-key-data": b64(other)}),
            "",
        ),
        "a key alone beside a token": (user({**TOKEN, "client-key-data": b64(key)}), "one"),
        "a name and a password": (user({"username": "me", "password": "p:w"}), "one"),
        "a password beside a token": (user({"username": "me", "password": "pw", **TOKEN}), ""),
        "a password beside a token's file": (user({"username": "me", "password": "pw", "tokenFile": "t"}, t="x"), ""),
        "a password without a name": (user({"password": "pw"}), ""),
        "a token's file is stronger than a token": (user({**TOKEN, "tokenFile": "t"}, t="from-file"), "one"),
        "but not where it cannot be read": (user({**TOKEN, "tokenFile": "t"}), "one"),
        "nor where it is empty": (user({**TOKEN, "tokenFile": "t"}, t=" \n"), "one"),
        "a token's file that is not there": (user({"tokenFile": "t"}), ""),
        "a token's file that is empty": (user({"tokenFile": "t"}, t=""), ""),
        "no credentials": (user({}), ""),
        "no credentials, but as": (user({"as": "admin"}), ""),
        "a provider that has gone": (user({"auth-provider": {"name": "gcp"}}), ""),
        "a provider beside a token": (user({"auth-provider": {"name": "azure"}, **TOKEN}), ""),
        "a plugin's token": (user(kit.plugin(), plugin=script({"token": "of-plugin"})), "one"),
        "a plugin's certificate": (user(kit.plugin(), plugin=script(pair)), "one"),
        "a plugin's certificate and token": (user(kit.plugin(), plugin=script({**pair, "token": "both"})), "one"),
        "a plugin on PATH": (
            Case(
                {"config": kubeconfig(kit.cluster(), kit.plugin("plug")), "bin/plug": script(TOKEN)},
                {"KUBECONFIG": "{folder}/config", "PATH": "{folder}/bin:/bin:/usr/bin"},
            ),
            "one",
        ),
        "a plugin in the current folder is not on PATH": (
            one(kubeconfig(kit.cluster(), kit.plugin("plug")), environ={"PATH": ".:/bin:/usr/bin"}, plug=script(TOKEN)),
            "",
        ),
        "what a plugin is told": (one(told, plugin=ECHO), "one"),
        "what a plugin is told by default": (user(kit.plugin(), plugin=ECHO), "one"),
        "a plugin of v1beta1": (
            user(kit.plugin(apiVersion=f"{API_VERSION}beta1", interactiveMode=None), plugin=ECHO),
            "one",
        ),
        "a plugin of v1alpha1": (user(kit.plugin(apiVersion=f"{API_VERSION}alpha1"), plugin=ECHO), ""),
        "a plugin of v1 must say whether it talks": (user(kit.plugin(interactiveMode=None), plugin=ECHO), ""),
        "a plugin that must talk": (user(kit.plugin(interactiveMode="Always"), plugin=ECHO), ""),
        "a plugin that may talk": (user(kit.plugin(interactiveMode="IfAvailable"), plugin=ECHO), "one"),
        "a plugin that fails": (user(kit.plugin(), plugin=script(TOKEN, 1, "Your SSO session has expired")), ""),
        "a plugin that is not installed": (user(kit.plugin("no-such-plugin", installHint="install it by hand")), ""),
        "a plugin that may not be run": (one(kubeconfig(kit.cluster(), kit.plugin("./text")), text="no program"), ""),
        "a plugin that prints nothing": (user(kit.plugin(), plugin=script("")), ""),
        "a plugin without a status": (user(kit.plugin(), plugin=script({})), ""),
        "a plugin of another version": (
            user(kit.plugin(), plugin=script(TOKEN, api_version=f"{API_VERSION}beta1")),
            "",
        ),
        "a plugin that forgets its key": (
            user(kit.plugin(), plugin=script({"clientCertificateData": certificate.decode()})),
            "",
        ),
        "a plugin whose credentials are over": (
            user(kit.plugin(), plugin=script({**TOKEN, "expirationTimestamp": expired})),
            "one",
        ),
        "a plugin that prints YAML": (user(kit.plugin(), plugin=script(of_yaml)), "one"),
        "a token comes before a plugin": (user({**TOKEN, **kit.plugin("no-such-plugin")}), "one"),
        "a plugin beside a provider": (user({**kit.plugin(), "auth-provider": {"name": "oidc"}}, plugin=ECHO), ""),
    }


def _servers(kit: Kit) -> dict[str, tuple[Case, str]]:
    def cluster(cluster: Json, user: Json = TOKEN) -> Case:
        return one(kubeconfig(cluster, user))

    plain = {"server": kit.url("plain", scheme="http")}
    return {
        "a path before the API's": (cluster(kit.cluster(server=kit.url() + "/prefix/?x=1#y")), "one"),
        "a slash at the end": (cluster(kit.cluster(server=kit.url() + "/")), "one"),
        "a name in capitals": (cluster(kit.cluster(server=f"HTTPS://LOCALHOST:{kit.world.ports['one']}")), "one"),
        "by plain HTTP no token is sent": (cluster(plain, {**TOKEN, "as": "bob"}), "plain"),
        "by plain HTTP no plugin is run": (cluster(plain, kit.plugin("no-such-plugin")), "plain"),
        "without a scheme it is plain HTTP": (
            cluster({"server": f"127.0.0.1:{kit.world.ports['plain']}", "certificate-authority-data": kit.ca_data}),
            "plain",
        ),
        "another scheme": (cluster(kit.cluster(server="ftp://127.0.0.1:1")), ""),
        "a server that is no URL": (cluster(kit.cluster(server="https://127.0.0.1:port")), ""),
        "no server": (cluster(kit.cluster(server=None)), ""),
        "a server where nobody is": (cluster(kit.cluster("nobody")), ""),
        "a certificate of a stranger": (cluster(kit.cluster("stranger")), ""),
        "insecure-skip-tls-verify": (
            cluster(
                kit.cluster("stranger", certificate_authority_data=None, insecure_skip_tls_verify=True), kit.holder("i")
            ),
            "stranger",
        ),
        "insecure-skip-tls-verify beside an authority": (
            cluster(kit.cluster("stranger", insecure_skip_tls_verify=True)),
            "",
        ),
        "the system's authorities": (cluster(kit.cluster(certificate_authority_data=None)), ""),
        "an authority that is none": (cluster(kit.cluster(certificate_authority_data=b64(b"x"))), ""),
        "an authority twice": (cluster(kit.cluster(certificate_authority="/dev/null")), ""),
        "a certificate for another name": (cluster(kit.cluster("elsewhere")), ""),
        "tls-server-name": (cluster(kit.cluster("elsewhere", tls_server_name=OTHER_NAME)), "elsewhere"),
        "a tls-server-name that is not its": (cluster(kit.cluster(tls_server_name="wrong.invalid")), ""),
    }


def _proxies(kit: Kit) -> dict[str, tuple[Case, str]]:
    config, unknown = kubeconfig(kit.cluster(), TOKEN), kubeconfig(kit.cluster(host=NAME), TOKEN)
    http, https, socks = kit.proxy("http-proxy"), kit.proxy("https-proxy", "https"), kit.proxy("socks-proxy", "socks5")
    bare, closed = http.removeprefix("http://"), kit.proxy("nobody")

    def through(proxy: str, **more: Any) -> Case:
        return one(kubeconfig(kit.cluster(proxy_url=proxy, **more), TOKEN))

    def by_variable(config: Json = unknown, **environ: str) -> Case:
        return one(config, environ=environ)

    found = {
        "proxy-url": (through(http), "one"),
        "proxy-url with a login": (through(kit.proxy("login-proxy", login=LOGIN)), "one"),
        "proxy-url without the login": (through(kit.proxy("login-proxy")), ""),
        "proxy-url by TLS": (through(https), "one"),
        "proxy-url socks5": (through(socks), "one"),
        "proxy-url socks5 with a login": (through(kit.proxy("socks-login-proxy", "socks5", LOGIN)), "one"),
        "proxy-url socks5 without the login": (through(kit.proxy("socks-login-proxy", "socks5")), ""),
        "proxy-url socks5h": (through(kit.proxy("socks-proxy", "socks5h")), ""),
        "proxy-url without a scheme": (through(bare), ""),
        "proxy-url where nobody is": (through(closed), ""),
        "proxy-url and tls-server-name": (
            through(http, server=kit.url("elsewhere"), tls_server_name=OTHER_NAME),
            "elsewhere",
        ),
        "socks5 and tls-server-name": (
            through(socks, server=kit.url("elsewhere"), tls_server_name=OTHER_NAME),
            "elsewhere",
        ),
        "a stranger behind a proxy": (through(http, server=kit.url("stranger")), ""),
        "a stranger behind socks5": (through(socks, server=kit.url("stranger")), ""),
        "proxy-url of a plain server": (
            one(kubeconfig({"server": kit.url("plain", scheme="http"), "proxy-url": http}, TOKEN)),
            "plain",
        ),
        "a name that only the proxy knows": (through(http, server=kit.url(host=NAME)), "one"),
        "a name that only socks5 knows": (through(socks, server=kit.url(host=NAME)), "one"),
        "proxy-url is stronger than the environment": (
            one(kubeconfig(kit.cluster(proxy_url=socks), TOKEN), environ={"HTTPS_PROXY": closed, "NO_PROXY": "*"}),
            "one",
        ),
        "loopback is never proxied": (by_variable(config, HTTPS_PROXY=closed), "one"),
        "nor is localhost": (by_variable(kubeconfig(kit.cluster(host="localhost"), TOKEN), HTTPS_PROXY=closed), "one"),
        "nor with NO_PROXY of loopback": (by_variable(config, HTTPS_PROXY=closed, NO_PROXY="127.0.0.0/8"), "one"),
        "HTTPS_PROXY": (by_variable(HTTPS_PROXY=http), "one"),
        "https_proxy": (by_variable(https_proxy=http), "one"),
        "HTTPS_PROXY is stronger": (by_variable(HTTPS_PROXY=http, https_proxy=closed), "one"),
        "HTTPS_PROXY without a scheme": (by_variable(HTTPS_PROXY=bare), "one"),
        "HTTPS_PROXY by TLS": (by_variable(HTTPS_PROXY=https), "one"),
        "HTTPS_PROXY socks5": (by_variable(HTTPS_PROXY=socks), "one"),
        "HTTPS_PROXY socks5h": (by_variable(HTTPS_PROXY=socks.replace("socks5", "socks5h")), "one"),
        "HTTPS_PROXY with a login": (by_variable(HTTPS_PROXY=kit.proxy("login-proxy", login=LOGIN)), "one"),
        "HTTPS_PROXY where nobody is": (by_variable(HTTPS_PROXY=closed), ""),
        "HTTP_PROXY is not for https": (by_variable(HTTP_PROXY=http), ""),
        "ALL_PROXY is nothing to Go": (by_variable(ALL_PROXY=http, all_proxy=http), ""),
        "NO_PROXY with the name": (by_variable(HTTPS_PROXY=http, NO_PROXY=f"x, {NAME}"), ""),
        "no_proxy with a suffix": (by_variable(HTTPS_PROXY=http, no_proxy="cluster.invalid"), ""),
        "NO_PROXY with a dot before it": (by_variable(HTTPS_PROXY=http, NO_PROXY=".cluster.invalid"), ""),
        "NO_PROXY with a star before it": (by_variable(HTTPS_PROXY=http, NO_PROXY="*.cluster.invalid"), ""),
        "NO_PROXY with a part of the name": (by_variable(HTTPS_PROXY=http, NO_PROXY="uster.invalid"), "one"),
        "NO_PROXY with another port": (by_variable(HTTPS_PROXY=http, NO_PROXY=f"{NAME}:1"), "one"),
        "NO_PROXY with its port": (by_variable(HTTPS_PROXY=http, NO_PROXY=f"{NAME}:{kit.world.ports['one']}"), ""),
        "NO_PROXY *": (by_variable(HTTPS_PROXY=http, NO_PROXY="*"), ""),
    }
    if address := kit.world.address:
        own = kubeconfig(kit.cluster(host=address), TOKEN)
        around = f"{address.rpartition('.')[0]}.0/24"
        found |= {
            "an address of the network is proxied": (by_variable(own, HTTPS_PROXY=http), "one"),
            "NO_PROXY with a CIDR": (by_variable(own, HTTPS_PROXY=closed, NO_PROXY=f"10.0.0.0/8,{around}"), "one"),
            "NO_PROXY with another CIDR": (by_variable(own, HTTPS_PROXY=closed, NO_PROXY="198.51.100.0/24"), ""),
            "NO_PROXY with the address": (by_variable(own, HTTPS_PROXY=closed, NO_PROXY=address), "one"),
            "NO_PROXY with its end is no suffix": (
                by_variable(own, HTTPS_PROXY=closed, NO_PROXY=f".{address.partition('.')[2]}"),
                "",
            ),
        }
    return found


def _pods(kit: Kit) -> dict[str, tuple[Case, str]]:
    account = {"token": "of-pod\n", "ca.crt": kit.world.ca.decode(), "namespace": "team"}
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(kit.world.ports["one"])}
    config = {"config": kubeconfig(kit.cluster("two"), TOKEN)}
    named = {**environ, "KUBECONFIG": "{folder}/config"}
    empty = {"config": kubeconfig(None, TOKEN)}
    return {
        "a pod without a kubeconfig": (Case({}, environ, (), account), "one"),
        "a kubeconfig is stronger than the pod": (Case(config, named, (), account), "two"),
        "a kubeconfig in the home folder, too": (
            Case({"home/.kube/config": config["config"]}, environ, (), account),
            "two",
        ),
        "a kubeconfig without a server": (Case(empty, named, (), account), "one"),
        "a KUBECONFIG that is not there": (Case({}, named, (), account), "one"),
        "--as in a pod": (Case({}, environ, ("--as", "bob"), account), ""),
        "a pod without a port": (Case({}, {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}, (), account), ""),
        "a pod without a token": (Case({}, environ, (), {"namespace": "team"}), ""),
    }


def by_hand(world: World) -> dict[str, tuple[Case, str]]:
    """Return by name each case and the server that must get a request; "" means no request and a failed command."""
    kit = Kit(world)
    return {**_files(kit), **_options(kit), **_users(kit), **_servers(kit), **_proxies(kit)}


def in_pods(world: World) -> dict[str, tuple[Case, str]]:
    """Return by name the cases within a pod, with the server that must get a request."""
    return _pods(Kit(world))
