#!/bin/sh
# Packs a Python environment for EMR Serverless into dist/environment.tar.gz: the packages of
# requirements/emr.txt, and a link to the interpreter of EMR's image. Run it in a container of Amazon
# Linux 2023, which has the same interpreter; templates/emr-serverless.yaml has the command.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3.12}
if ! command -v "$python" >/dev/null; then
    dnf install -y -q "$python" "$python-pip" tar gzip
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/environment"
"$work/environment/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
    --requirement requirements/emr.txt
mkdir -p dist
"$work/environment/bin/venv-pack" --quiet --force --prefix "$work/environment" \
    --output dist/environment.tar.gz
echo "dist/environment.tar.gz: $("$work/environment/bin/python" --version)"
