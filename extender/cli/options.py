"""Declares the options that many commands share. Each may stand before the command's name or after it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from extender.cli.errors import CliError, errors
from extender.cli.service import DEFAULT_SERVER, TOKEN_COMMAND, ServiceTarget, check_given
from extender.cli.viaapiserver import DEFAULT_SERVICE
from extender.kube.connection.kubectloptions import KubectlOptions

WATCH_SECONDS: Final = 2.0


class Output(StrEnum):
    """The formats in which an answer can be printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class Asked:
    """The values of the shared options; a value is None if its option was not given.

    namespace: empty for all namespaces; for a command about one job, empty means the namespace of the context. watch:
    print the answer again whenever it has changed. warned: the subjects of the warnings that this run of the command
    has printed already, so that no warning is printed twice.
    """

    server: str | None = None
    service: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    kubeconfig: str | None = None
    context: str | None = None
    cluster: str | None = None
    user: str | None = None
    as_user: str | None = None
    as_uid: str | None = None
    as_group: list[str] | None = None
    as_user_extra: list[str] | None = None
    request_timeout: str | None = None
    output: Output | None = None
    namespace: str | None = None
    all_namespaces: bool | None = None
    watch: bool | None = None
    warned: set[str] = field(default_factory=set, init=False)

    def overlaid_by(self, given: dict[str, Any]) -> Asked:
        """Return a copy in which values of ``given`` replace the present ones, unless they are None or an empty list.

        given: the options that stand after the command's name, which win over those before it.
        """
        return replace(self, **{name: value for name, value in given.items() if value not in (None, [])})

    @property
    def given(self) -> KubectlOptions:
        """Return the values of the options that kubectl has too, such as --context; empty where not given."""
        return KubectlOptions(
            kubeconfig=self.kubeconfig or "",
            context=self.context or "",
            cluster=self.cluster or "",
            user=self.user or "",
            as_user=self.as_user or "",
            as_uid=self.as_uid or "",
            as_group=tuple(self.as_group or ()),
            as_user_extra=tuple(self.as_user_extra or ()),
            request_timeout=self.request_timeout or "",
        )

    @property
    def target(self) -> ServiceTarget:
        """Return the values of the options that say how to reach the service and the cluster."""
        return ServiceTarget(self.server or "", self.service or "", self.given, self.token_file, self.ca_file)

    @property
    def shown(self) -> Output:
        """Return the format in which to print the answer: the one that -o names, else a table."""
        return self.output or Output.TABLE

    @property
    def only(self) -> str:
        """Return the namespace to which a list is limited; empty for all namespaces. Raise CliError for -n with -A."""
        if self.namespace and self.all_namespaces:
            raise CliError("-n and -A exclude one another; give one of them", 2)
        return self.namespace or ""

    def job(self, text: str) -> tuple[str, str]:
        """Return the namespace and name that the text ``[NAMESPACE/]NAME`` states. Raise CliError for any other text.

        A text without a namespace gets that of -n, else that of the kubeconfig's context, else ``default``.
        """
        before, slash, name = text.rpartition("/")
        if not name or (slash and not before) or "/" in before:
            raise CliError(f"{text!r} is not allowed; allowed: NAMESPACE/NAME, or NAME with -n NAMESPACE", 2)
        if before and self.namespace not in (None, before):
            raise CliError(f"the job's name says namespace {before}, and -n says {self.namespace}; give one of them", 2)
        return before or self.own_namespace(), name

    def own_namespace(self) -> str:
        """Return the namespace for a job that states none: that of -n, else that of the kubeconfig's context, else
        ``default``.
        """
        if self.namespace:
            return self.namespace
        from extender.kube.api import ClusterError
        from extender.kube.connection.resolve import namespace

        try:
            return namespace(self.given)
        except ClusterError as error:
            raise CliError(error.message) from None

    def placed(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Return the manifest with a namespace: its own, else that of `own_namespace`.

        Raise CliError if the manifest and -n name different namespaces.
        """
        meta = manifest.get("metadata")
        if not isinstance(meta, dict):
            return manifest  # the service refuses a manifest without metadata, with a message that names the field
        if not (named := meta.get("namespace")):
            return {**manifest, "metadata": {**meta, "namespace": self.own_namespace()}}
        if self.namespace not in (None, named):
            raise CliError(f"the manifest says namespace {named}, and -n says {self.namespace}; give one of them", 2)
        return manifest


SERVER_HELP: Final = f"The service's URL; default: through the API server of the kubeconfig, else {DEFAULT_SERVER}."
SERVICE_HELP: Final = f"The Service to ask with a token; default with --token-file: {DEFAULT_SERVICE}."
TIMEOUT_HELP: Final = "The time limit of a request to the API server, such as 5s or 1m; 0: no limit; default: 10s."
PLACE: Final = "NAMESPACE/NAME:PORT"
TOKEN_HELP: Final = f"A file with a token for the service, made by: {TOKEN_COMMAND}."
CONFIG_HELP: Final = (
    "The settings file, or a ConfigMap with it as kohort.yaml; default: the file that KOHORT_CONFIG names."
)
OUTPUT_HELP: Final = f"The format of the answer: {', '.join(Output)}; default: {Output.TABLE}."
CA_HELP: Final = "A file with the CA of the service's certificate, for --server https://...; default: the public CAs."
# Only options before the command's name may also be set by environment variables. If a variable could set an option
# after the name, it would override the same option that the user gave before the name.
RootServerOption = Annotated[
    str | None, typer.Option("--server", metavar="URL", envvar="KOHORT_CLI_SERVER", help=SERVER_HELP)
]
RootServiceOption = Annotated[
    str | None, typer.Option("--service", metavar=PLACE, envvar="KOHORT_CLI_SERVICE", help=SERVICE_HELP)
]
RootTokenOption = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", envvar="KOHORT_CLI_TOKEN_FILE", help=TOKEN_HELP)
]
RootCaOption = Annotated[
    Path | None, typer.Option("--ca-file", metavar="FILE", envvar="KOHORT_CLI_CA_FILE", help=CA_HELP)
]
TokenOption = Annotated[Path | None, typer.Option("--token-file", metavar="FILE", help=TOKEN_HELP)]
CaOption = Annotated[Path | None, typer.Option("--ca-file", metavar="FILE", help=CA_HELP)]
ServerOption = Annotated[str | None, typer.Option("--server", metavar="URL", help=SERVER_HELP)]
ServiceOption = Annotated[str | None, typer.Option("--service", metavar=PLACE, help=SERVICE_HELP)]
KubeconfigOption = Annotated[
    str | None,
    typer.Option("--kubeconfig", metavar="FILE", help="The kubeconfig file; default: KUBECONFIG, or ~/.kube/config."),
]
ContextOption = Annotated[str | None, typer.Option("--context", metavar="NAME", help="The context in the kubeconfig.")]
ClusterOption = Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="The cluster in the kubeconfig.")]
UserOption = Annotated[str | None, typer.Option("--user", metavar="NAME", help="The user in the kubeconfig.")]
AsOption = Annotated[str | None, typer.Option("--as", metavar="NAME", help="Act as this user, as in kubectl.")]
AsUidOption = Annotated[str | None, typer.Option("--as-uid", metavar="UID", help="Act with this UID.")]
AsGroupOption = Annotated[
    list[str] | None, typer.Option("--as-group", metavar="NAME", help="Act as a member of this group; may be repeated.")
]
AsExtraOption = Annotated[
    list[str] | None,
    typer.Option("--as-user-extra", metavar="KEY=VALUE", help="Act with this extra attribute; may be repeated."),
]
TimeoutOption = Annotated[
    str | None,
    typer.Option(
        "--request-timeout",
        metavar="TIME",
        help=TIMEOUT_HELP,
    ),
]
OutputOption = Annotated[Output | None, typer.Option("--output", "-o", help=OUTPUT_HELP)]
ALL_HELP: Final = "In lists: show only jobs of this namespace. In commands about one job: the job's namespace."
ONLY_HELP: Final = "Show only jobs of this namespace; default: all namespaces."
JOB_HELP: Final = "The namespace of the job; default: that of the kubeconfig's context, else default."
RootNamespaceOption = Annotated[str | None, typer.Option("--namespace", "-n", metavar="NAME", help=ALL_HELP)]
OnlyOption = Annotated[str | None, typer.Option("--namespace", "-n", metavar="NAME", help=ONLY_HELP)]
JobNamespaceOption = Annotated[str | None, typer.Option("--namespace", "-n", metavar="NAME", help=JOB_HELP)]
AllOption = Annotated[bool | None, typer.Option("--all-namespaces", "-A", help="Show all namespaces, as without -n.")]
WatchOption = Annotated[
    bool | None, typer.Option("--watch", "-w", help=f"Show the answer again every {WATCH_SECONDS:g} s, until Ctrl-C.")
]
ConfigOption = Annotated[Path | None, typer.Option("--config", metavar="FILE", help=CONFIG_HELP)]
JobArgument = Annotated[str, typer.Argument(metavar="[NAMESPACE/]NAME", help="The job.")]

CLUSTER: Final = {
    "kubeconfig": KubeconfigOption, "context": ContextOption, "cluster": ClusterOption, "user": UserOption,
    "as_user": AsOption, "as_uid": AsUidOption, "as_group": AsGroupOption, "as_user_extra": AsExtraOption,
    "request_timeout": TimeoutOption,
}  # fmt: skip
TARGET: Final = {
    "server": ServerOption, "service": ServiceOption, "token_file": TokenOption, "ca_file": CaOption, **CLUSTER,
}  # fmt: skip
OUTPUT: Final = {"output": OutputOption}
JOB: Final = {"namespace": JobNamespaceOption}
ONLY: Final = {"namespace": OnlyOption}
LIST: Final = {**ONLY, "all_namespaces": AllOption, "watch": WatchOption}


def shared(*groups: dict[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options in ``groups`` to a command ``run(asked, ...)``.

    The command gets the values of these options as ``asked``, and its errors are printed as one sentence.
    """
    taken = {name: option for group in groups for name, option in group.items()}

    def with_options(run: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(run, eval_str=True)

        @wraps(run)
        def command(typed: typer.Context, **given: Any) -> None:
            before: Asked = typed.obj or Asked()
            asked = before.overlaid_by({name: given.pop(name) for name in taken})
            with errors():
                if "kubeconfig" in taken:
                    check_given(asked.given)
                run(asked, **given)

        kind = inspect.Parameter.KEYWORD_ONLY
        parameters = [
            inspect.Parameter("typed", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
            *(one.replace(kind=kind) for one in list(own.parameters.values())[1:]),
            *(inspect.Parameter(name, kind, default=None, annotation=option) for name, option in taken.items()),
        ]
        # Typer reads the signature with inspect, which would follow __wrapped__ to the function without shared options.
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        del command.__wrapped__
        return command

    return with_options


def examples(*lines: str) -> str:
    """Return the end of a help text, with one example per line.

    The backspace character at the start tells click not to wrap the lines.
    """
    return "\n".join(("\b", "Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)))


assert {*TARGET, *OUTPUT, *LIST} == {field.name for field in fields(Asked) if field.init}
