#!/bin/sh
# Locks each requirements/*.in, and the layer's, with hashes and without the URL of a package index.
# What locks is itself locked, in requirements/lock.txt: a changed uv could write any hash.
set -eu
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"$(scripts/find-python.sh)" -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --require-hashes --requirement requirements/pip.txt
"$tools/bin/python" -m pip install --quiet --require-hashes --requirement requirements/lock.txt
for source in requirements/pip.in requirements/lock.in requirements/demo.in requirements/dev.in \
    requirements/build.in requirements/sam.in requirements/job.in layers/core/requirements.in; do
    target="${source%.in}.txt"
    "$tools/bin/uv" pip compile --quiet --upgrade --universal --python-version 3.11 \
        --generate-hashes --no-emit-index-url --no-header --output-file "$target" "$source"
    { echo "# Locked with hashes by \`make lock\` from the .in file of the same name."; cat "$target"; } >"$tools/locked"
    cp "$tools/locked" "$target"
done
# What the wheel needs, without Spark: the container image installs it.
command=requirements/command.txt
"$tools/bin/uv" pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-header --constraint requirements/demo.txt --output-file "$command" pyproject.toml
{ echo "# Locked with hashes by \`make lock\` from pyproject.toml, without its extras."; cat "$command"; } >"$tools/locked"
cp "$tools/locked" "$command"
# What the wheel's users install beside it: the versions that the tests run with.
"$tools/bin/uv" pip compile --quiet --upgrade --universal --python-version 3.11 --no-emit-index-url \
    --no-header --no-annotate --extra spark --extra mcp --constraint requirements/dev.txt \
    --output-file requirements/constraints.txt pyproject.toml
