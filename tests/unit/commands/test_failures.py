"""A failure is printed when it happens."""

import pytest

pytest_plugins = ["pytester"]


def test_a_failure_is_printed_before_the_run_ends(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "from tests.commands.failures import Failures\n"
        "def pytest_configure(config):\n"
        "    config.pluginmanager.register(Failures(config))\n"
    )
    pytester.makepyfile("def test_bad():\n    assert 1 == 2, 'why'\n\ndef test_good():\n    pass\n")
    lines = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:asyncio").outlines
    told = next(at for at, line in enumerate(lines) if line.startswith("failed: ") and "test_bad (call): " in line)
    assert "why" in lines[told]
    assert told < next(at for at, line in enumerate(lines) if "FAILURES" in line)
