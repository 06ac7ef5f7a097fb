# Two images: `worker` (no Spark, no Java) and `sink`.
#   docker build --target worker --tag aqueduct-worker .
#   docker build --target sink --tag aqueduct-sink .
#   docker build --target sink-iceberg --tag aqueduct-sink-iceberg .

ARG PYTHON_IMAGE=python:3.11-slim-bookworm

# --- the worker ----------------------------------------------------------------------------------

FROM ${PYTHON_IMAGE} AS worker-packages
COPY requirements.build.lock requirements.worker.lock /locks/
RUN python -m venv /venv \
 && /venv/bin/pip install --no-cache-dir --require-hashes -r /locks/requirements.build.lock \
 && /venv/bin/pip install --no-cache-dir --require-hashes --no-build-isolation -r /locks/requirements.worker.lock

FROM ${PYTHON_IMAGE} AS worker
RUN useradd --uid 10001 --create-home aqueduct \
 && install --directory --owner=10001 --group=10001 /var/lib/aqueduct
COPY --from=worker-packages /venv /venv
COPY wire/ /app/wire/
COPY connectors/ /app/connectors/
COPY tables/ /app/tables/
COPY aqueduct_client/ /app/aqueduct_client/
COPY app/ /app/app/
# Else each start compiles all modules again.
RUN /venv/bin/python -m compileall -q /app
ENV PATH=/venv/bin:$PATH \
    PYTHONPATH=/app \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    AQUEDUCT_DATA_DIR=/var/lib/aqueduct
WORKDIR /var/lib/aqueduct
USER 10001
EXPOSE 8083
# It asks whether the process serves; a destination that failed is for an alert, not for a restart.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request as u; u.urlopen('http://127.0.0.1:' + os.environ.get('AQUEDUCT_HTTP__PORT', '8083') + '/health', timeout=4)"]
STOPSIGNAL SIGTERM
CMD ["faust", "-A", "app", "worker", "-l", "info"]

# --- the sink ------------------------------------------------------------------------------------

FROM ${PYTHON_IMAGE} AS java
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
 && rm -rf /var/lib/apt/lists/*

FROM java AS sink-packages
COPY requirements.build.lock requirements.lock /locks/
# What only development needs goes again in the same layer; PySpark's Ivy fetches the jars below.
RUN python -m venv /venv \
 && /venv/bin/pip install --no-cache-dir --require-hashes -r /locks/requirements.build.lock \
 && /venv/bin/pip install --no-cache-dir --require-hashes --no-build-isolation -r /locks/requirements.lock \
 && /venv/bin/pip uninstall --yes flask flask-cors hypothesis moto mypy pytest pytest-asyncio pytest-xdist ruff

FROM sink-packages AS jars
WORKDIR /build
COPY devstack/ devstack/
COPY spark_sink/jars.lock spark_sink/iceberg.lock spark_sink/jdbc.lock spark_sink/
RUN /venv/bin/python -m devstack jars

FROM java AS sink
RUN useradd --uid 10001 --create-home aqueduct \
 && install --directory --owner=10001 --group=10001 /var/lib/aqueduct /var/lib/aqueduct/warehouse
COPY --from=sink-packages /venv /venv
COPY --from=jars /build/.cache/jars/spark /opt/jars
COPY --from=jars /build/.cache/jars/jdbc /opt/jdbc-jars
COPY wire/ /app/wire/
COPY spark_sink/ /app/spark_sink/
RUN /venv/bin/python -m compileall -q /app
ENV PATH=/venv/bin:$PATH \
    PYTHONPATH=/app \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    AQUEDUCT_JDBC_JARS=/opt/jdbc-jars \
    AQUEDUCT_SPARK_JARS=/opt/jars
WORKDIR /var/lib/aqueduct
USER 10001
EXPOSE 8084
HEALTHCHECK --interval=10s --timeout=5s --start-period=90s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request as u; u.urlopen('http://127.0.0.1:' + os.environ.get('AQUEDUCT_SINK_METRICS__PORT', '8084') + '/metrics', timeout=4)"]
STOPSIGNAL SIGTERM
# tini passes signals on and collects what the JVM leaves.
ENTRYPOINT ["tini", "--"]
CMD ["python", "-m", "spark_sink"]

# With the jar of Iceberg, which only a sink with format: iceberg loads.
FROM sink AS sink-iceberg
COPY --from=jars /build/.cache/jars/iceberg /opt/iceberg-jars
ENV AQUEDUCT_ICEBERG_JARS=/opt/iceberg-jars
