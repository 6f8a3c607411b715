# Three images, one inside the other: a node; a node that can also tell the facts as tables (Faust, mirror, page); and that with Java and
# Spark. Everything Python comes from the hash-locked sets; the project is built without isolation, so its build back end does too.
#   docker build --target node -t quorate:node .        docker build --target readers …        docker build --target spark …

FROM python:3.11.15-slim-bookworm AS node
WORKDIR /src
COPY requirements/build.txt requirements/node.txt requirements/
RUN pip install --no-cache-dir --require-hashes -r requirements/build.txt \
 && pip install --no-cache-dir --no-build-isolation --require-hashes -r requirements/node.txt
COPY pyproject.toml README.md LICENSE ./
COPY schemas schemas
COPY services services
COPY projections projections
COPY spark spark
RUN pip install --no-cache-dir --no-build-isolation --no-deps . \
 && useradd --uid 10001 --create-home quorate \
 && install -d -o quorate /var/lib/quorate
USER quorate
VOLUME /var/lib/quorate
ENTRYPOINT ["quorate"]
CMD ["serve", "--config", "/etc/quorate/node.toml"]

FROM node AS readers
USER root
COPY requirements/projections.txt requirements/
RUN pip install --no-cache-dir --no-build-isolation --require-hashes -r requirements/projections.txt
USER quorate

FROM readers AS spark
USER root
COPY requirements/spark.txt requirements/
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/* \
 && pip install --no-cache-dir --no-build-isolation --require-hashes -r requirements/spark.txt
USER quorate
