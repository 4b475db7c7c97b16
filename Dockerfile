# Two images: `--target operator` and `--target spark`. How to build them: docs/operating/images.md.
#
# Settings for package registries come as secrets (pip, certificates, java-certificates). All are
# optional, and none of them stays in an image.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS base
ENV LANG=C.UTF-8
# Each step removes the files that depend on the time of the build, and the setuid bits.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 tini \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old \
        /var/cache/ldconfig/aux-cache /var/lib/dpkg/*-old /var/log/apt /var/log/*.log \
    && find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
    && echo 'evenkeel:x:65532:' >> /etc/group \
    && echo 'evenkeel:x:65532:65532::/work:/usr/sbin/nologin' >> /etc/passwd \
    && install --directory --owner=65532 --group=65532 /work
ENV PATH=/opt/evenkeel/bin:/opt/evenkeel/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
WORKDIR /work

FROM base AS java
# Java's packages need the folder for manuals, which some bases lack. keytool writes the list of
# trusted authorities again, without dates.
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && cd /etc/ssl/certs/java \
    && keytool -importkeystore -noprompt -srckeystore cacerts -srcstorepass changeit \
        -destkeystore undated -deststoretype pkcs12 -deststorepass changeit \
        -J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE -J-Dkeystore.pkcs12.macAlgorithm=NONE \
    && mv undated cacerts \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old \
        /var/cache/ldconfig/aux-cache /var/lib/dpkg/*-old /var/log/apt /var/log/*.log /tmp/* \
    && find / -xdev -type f -perm /6000 -exec chmod a-s {} +

FROM base AS tools
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv

FROM tools AS operator-packages
COPY images/build/environment requirements/images/build.txt requirements/images/operator.txt /build/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=certificates \
    /build/environment /build/build.txt /build/operator.txt

FROM java AS spark-packages
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv
COPY images/build/environment requirements/images/build.txt requirements/images/spark.txt /build/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=certificates \
    /build/environment /build/build.txt /build/spark.txt
COPY images/spark/add_packages.py /build/
ARG EXTRA_PACKAGES=""
RUN --mount=type=secret,id=java-certificates \
    if [ -n "${EXTRA_PACKAGES}" ]; then /build/add_packages.py ${EXTRA_PACKAGES}; fi
COPY images/spark/archive images/spark/classes.gz /build/
# Java uses the archive only if the jars keep their times, and in the image all files are of 1980.
RUN touch --date=1980-01-01T00:00:00Z /opt/spark/jars/*.jar \
    && /build/archive /build/classes.gz /opt/spark/jars /opt/evenkeel /opt/spark/conf

FROM tools AS operator-code
COPY LICENSE /opt/evenkeel/
COPY contract/ /opt/evenkeel/code/contract/
COPY coordinator/ /opt/evenkeel/code/coordinator/
COPY lb_core/ /opt/evenkeel/code/lb_core/
COPY mq_client/ /opt/evenkeel/code/mq_client/
COPY operator/evenkeel/ /opt/evenkeel/code/evenkeel/
COPY evenkeel_cli/ /opt/evenkeel/code/evenkeel_cli/
COPY images/build/commands.py images/build/finish pyproject.toml /build/
RUN python3 /build/commands.py /build/pyproject.toml /opt/evenkeel/bin && /build/finish

FROM tools AS spark-code
COPY LICENSE /opt/evenkeel/
COPY contract/ /opt/evenkeel/code/contract/
COPY coordinator/ /opt/evenkeel/code/coordinator/
COPY follower/ /opt/evenkeel/code/follower/
COPY lb_core/ /opt/evenkeel/code/lb_core/
COPY mq_client/ /opt/evenkeel/code/mq_client/
COPY spark_jobs/ /opt/evenkeel/code/spark_jobs/
COPY images/spark/entrypoint.py /opt/evenkeel/bin/entrypoint
COPY images/spark/add_packages.py /opt/evenkeel/bin/add-packages
COPY images/spark/decom.sh /opt/decom.sh
COPY images/build/finish /build/
RUN /build/finish

FROM base AS operator
COPY --from=operator-packages /opt/ /opt/
COPY --from=operator-code /opt/ /opt/
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="evenkeel-operator" \
    org.opencontainers.image.description="Keeps RocketMQ consumer groups on an even keel" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}"
USER 65532:65532
ENTRYPOINT ["/usr/bin/tini", "--", "evenkeel"]
CMD ["--help"]

FROM java AS spark
ENV SPARK_HOME=/opt/spark PYSPARK_PYTHON=/opt/evenkeel/venv/bin/python
COPY --from=spark-packages /opt/ /opt/
COPY --from=spark-code /opt/ /opt/
ARG VERSION=0.1.0
ENV EVENKEEL_VERSION=${VERSION}
LABEL org.opencontainers.image.title="evenkeel-spark" \
    org.opencontainers.image.description="Runs Evenkeel's Spark jobs: driver and executors" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}"
USER 65532:65532
ENTRYPOINT ["/usr/bin/tini", "--", "entrypoint"]
