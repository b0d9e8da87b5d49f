# One image for `kohort serve` and `kohort controller`: a virtual environment from the hashed lock, nothing else.

FROM python:3.11.14-slim-bookworm AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/kohort && python -m venv /opt/build
# The locks change seldom: their layers stay cached while the code changes.
COPY requirements/build.txt requirements/runtime.txt requirements/
RUN /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements/build.txt \
 && /opt/build/bin/pip --python /opt/kohort/bin/python install --no-cache-dir --require-hashes -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
# Not lab: simulator, studies and demo are for people. What they draw and solve with is not in the lock either.
COPY policy policy
COPY extender extender
COPY manifests manifests
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /src/dist . \
 && /opt/build/bin/pip --python /opt/kohort/bin/python install --no-cache-dir --no-deps /src/dist/*.whl

FROM python:3.11.14-slim-bookworm
LABEL org.opencontainers.image.title="kohort" \
      org.opencontainers.image.description="Elastic gang scheduling as an extender of the stock kube-scheduler" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/kohort /opt/kohort
# A read-only root file system has no place for byte code; logs must not wait in a buffer.
ENV PATH=/opt/kohort/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# A number, so that `runAsNonRoot` can be checked. No HEALTHCHECK: the kubelet asks /livez and /readyz.
USER 65532:65532
ENTRYPOINT ["kohort"]
