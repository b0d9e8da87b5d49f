"""The real control plane as a test kit: etcd, Kubernetes 1.37.2, KWOK nodes and the Kubeflow training operator.

The binaries are built from pinned Go modules into a cache. They run on loopback, as child processes that end with the
test::

    with ControlPlane.start(NodeShape(count=3, cpu="10")) as plane:
        plane.start_scheduler()
        plane.apply(Path("job.yaml"))
        print(plane.kubectl("get", "pods"))

``python -m tests.controlplane build | up | down`` does the same by hand.
"""

from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.nodes import NodeShape
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Process

__all__ = ["ControlPlane", "ControlPlaneError", "NodeShape", "Process"]
