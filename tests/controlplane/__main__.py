from tests.controlplane.build import build
print(build())
