# The command dlq, without Spark and Java: `make image` builds it, docs/install.md says how to run it.
FROM python:3.13.7-slim-bookworm@sha256:adafcc17694d715c905b4c7bebd96907a1fd5cf183395f0ebc4d3428bd22d92d AS build
WORKDIR /build
COPY requirements/pip.txt requirements/build.txt requirements/command.txt requirements/
# Two environments: that of the tools stays in this stage, and /opt/dlq has no pip.
RUN python -m venv tools \
    && tools/bin/python -m pip install --no-cache-dir --require-hashes --requirement requirements/pip.txt \
    && tools/bin/python -m pip install --no-cache-dir --require-hashes --requirement requirements/build.txt \
    && python -m venv --without-pip /opt/dlq \
    && tools/bin/python -m pip --python /opt/dlq/bin/python install --no-cache-dir --require-hashes --only-binary :all: \
        --requirement requirements/command.txt
COPY pyproject.toml README.md LICENSE ./
COPY docs docs
COPY layers layers
COPY dlq dlq
COPY spark_reprocess spark_reprocess
RUN tools/bin/python -m pip wheel --no-index --no-deps --no-build-isolation --wheel-dir dist . \
    && tools/bin/python -m pip --python /opt/dlq/bin/python install --no-index --no-deps dist/*.whl

FROM python:3.13.7-slim-bookworm@sha256:adafcc17694d715c905b4c7bebd96907a1fd5cf183395f0ebc4d3428bd22d92d
# The folder of a user that --user names is this one, too: boto3 reads ~/.aws.
ENV PATH=/opt/dlq/bin:$PATH HOME=/home/dlq PYTHONDONTWRITEBYTECODE=1
COPY --from=build /opt/dlq /opt/dlq
# Nothing in the image is written: files go to /tmp and to what is mounted on /letters.
RUN mkdir --mode=0755 /home/dlq /letters && chown 65532:65532 /letters
WORKDIR /letters
USER 65532:65532
ENTRYPOINT ["dlq"]
