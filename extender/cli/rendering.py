"""``kohort render``: print the manifests for one cluster, with its versions and addresses filled in."""

from __future__ import annotations

from typing import Annotated

import typer

from extender.cli.errors import CliError
from extender.cli.options import OUTPUT, Asked, Output, examples, shared

app = typer.Typer(rich_markup_mode=None)


@app.command(
    short_help="Print the manifests for this cluster.",
    epilog=examples(
        "kohort render --image REGISTRY/kohort:0.1.0 | kubectl apply -f -",
        "kohort render shared-scheduler --image IMAGE --kubernetes-version 1.37.2",
    ),
)
@shared(OUTPUT)
def render(
    asked: Asked,
    overlay: Annotated[
        str, typer.Argument(metavar="[OVERLAY]", help="base, or the name of a folder of manifests/overlays.")
    ] = "base",
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="IMAGE", help="The name of Kohort's image; default: kohort:VERSION."),
    ] = None,
    kubernetes_version: Annotated[
        str | None,
        typer.Option(
            "--kubernetes-version",
            metavar="X.Y.Z",
            help="The cluster's version. It selects the kube-scheduler; before 1.36 the gate is left out.",
        ),
    ] = None,
    component: Annotated[
        list[str] | None, typer.Option("--component", metavar="NAME", help="Add a folder of manifests/components.")
    ] = None,
    scheduler_address: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="Print the KubeSchedulerConfiguration that calls Kohort at this address."),
    ] = None,
) -> None:
    """Print the manifests of an overlay as one YAML stream for `kubectl apply -f -`. No file is written."""
    import json

    import yaml

    from extender.install import manifests
    from extender.install.kustomization import ManifestError

    try:
        if scheduler_address is not None:
            found = [manifests.scheduler_configuration(overlay, scheduler_address)]
        else:
            found = manifests.rendered(overlay, component or (), image, kubernetes_version)
    except ManifestError as error:
        raise CliError(str(error), 2) from None
    if asked.shown is Output.JSON:
        typer.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": found}, indent=2))
    else:
        typer.echo(yaml.safe_dump_all(found, sort_keys=False, allow_unicode=False).rstrip())
