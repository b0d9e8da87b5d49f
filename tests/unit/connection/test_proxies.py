"""Which proxy the environment names: Go's rule (golang.org/x/net/http/httpproxy)."""

from __future__ import annotations

import pytest

from extender.kube.connection.addresses import proxy_for

PROXY = "http://proxy.example:3128"
NAMED: dict[str, tuple[str, dict[str, str], str]] = {
    "for https": ("https://10.96.0.1", {"HTTPS_PROXY": PROXY}, PROXY),
    "for http": ("http://10.96.0.1", {"HTTP_PROXY": PROXY}, PROXY),
    "not the one for http": ("https://10.96.0.1", {"HTTP_PROXY": PROXY, "ALL_PROXY": PROXY}, ""),
    "in small letters": ("https://10.96.0.1", {"https_proxy": PROXY}, PROXY),
    "capitals first": ("https://10.96.0.1", {"https_proxy": "http://b", "HTTPS_PROXY": PROXY}, PROXY),
    "without a scheme": ("https://10.96.0.1", {"HTTPS_PROXY": "proxy.example:3128"}, PROXY),
    "an address without a scheme": ("https://10.96.0.1", {"HTTPS_PROXY": "10.0.0.1:3128"}, "http://10.0.0.1:3128"),
    "socks5": ("https://10.96.0.1", {"HTTPS_PROXY": "socks5://p:1"}, "socks5://p:1"),
    "empty": ("https://10.96.0.1", {"HTTPS_PROXY": ""}, ""),
    "loopback": ("https://127.0.0.2", {"HTTPS_PROXY": PROXY}, ""),
    "loopback of IPv6": ("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, ""),
    "localhost": ("https://localhost", {"HTTPS_PROXY": PROXY}, ""),
}
EXCEPTED: dict[str, tuple[str, str, bool]] = {
    "a CIDR": ("https://10.96.0.1", "x,10.96.0.0/12", True),
    "a CIDR by one of its addresses": ("https://10.96.0.1", "10.96.7.7/12", True),
    "another CIDR": ("https://10.96.0.1", "10.112.0.0/12", False),
    "a netmask is no CIDR": ("https://10.96.0.1", "10.96.0.0/255.240.0.0", False),
    "a CIDR of IPv6": ("https://[fd00::1]:6443", "fd00::/8", True),
    "an address": ("https://10.96.0.1", "10.96.0.1", True),
    "an address with its port": ("https://10.96.0.1:6443", "10.96.0.1:6443", True),
    "an address with another port": ("https://10.96.0.1:6443", "10.96.0.1:443", False),
    "an address of IPv6 with its port": ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
    "brackets without a port": ("https://[fd00::1]:6443", "[fd00::1]", False),
    "a mapped address": ("https://[::ffff:10.0.0.1]", "10.0.0.0/8", True),
    "the port by default": ("https://a.example", "a.example:443", True),
    "a name": ("https://a.example", "a.example", True),
    "a name in capitals": ("https://a.EXAMPLE", " A.example ", True),
    "names below it": ("https://b.a.example", "a.example", True),
    "not names that end alike": ("https://ba.example", "a.example", False),
    "only names below it": ("https://a.example", ".a.example", False),
    "a star for names below it": ("https://b.a.example", "*.a.example", True),
    "a star not for itself": ("https://a.example", "*.a.example", False),
    "a suffix of an address": ("https://10.96.0.1", ".0.1", False),
    "everything": ("https://a.example", "x,*", True),
    "nothing": ("https://a.example", ",,", False),
}


@pytest.mark.parametrize(("url", "environ", "want"), NAMED.values(), ids=NAMED.keys())
def test_the_proxy_that_is_named(url: str, environ: dict[str, str], want: str) -> None:
    assert proxy_for(url, environ) == want


@pytest.mark.parametrize(("url", "excepted", "want"), EXCEPTED.values(), ids=EXCEPTED.keys())
def test_what_no_proxy_excepts(url: str, excepted: str, want: bool) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        assert (proxy_for(url, {"HTTPS_PROXY": PROXY, name: excepted}) == "") is want
