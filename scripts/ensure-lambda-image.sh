#!/usr/bin/env bash
# Makes sure that the image in which `sam local invoke --skip-pull-image` runs a function is there.
# Where AWS's own cannot be pulled, builds a stand-in from Debian packages: Python 3.13, boto3 and
# AWS's runtime interface client, in the folders of Lambda. Needs root and a running Docker engine.
# debootstrap uses the mirror of apt's configuration.
set -euo pipefail
image=public.ecr.aws/lambda/python:3.13-x86_64

docker image inspect "$image" >/dev/null 2>&1 && exit 0
timeout 300 docker pull --quiet "$image" && exit 0

command -v debootstrap >/dev/null || {
    apt-get update -q || true
    apt-get -o DPkg::Lock::Timeout=300 install -qy --no-install-recommends debootstrap
} >/dev/null
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
    grep -v -e security -e updates | grep -m1 /debian)
work=$(mktemp -d)
root=$work/root
clean_up() { umount -l "$root/proc" "$root/sys" 2>/dev/null || true; rm -rf --one-file-system "$work"; }
trap clean_up EXIT

debootstrap --variant=minbase --include=python3,ca-certificates trixie "$root" "$mirror" >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; exit 1; }
umount -l "$root/proc" "$root/sys" 2>/dev/null || true
install -d "$root"/var/{task,runtime,rapid,lang/bin}
for name in python python3 python3.13; do ln -s /usr/bin/python3.13 "$root/var/lang/bin/$name"; done
python3 -m pip install -q --only-binary=:all: --implementation cp --python-version 3.13 \
    --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 \
    --target "$root/var/runtime" awslambdaric==4.2.2 boto3
cat >"$root/var/runtime/bootstrap" <<'BOOTSTRAP'
#!/bin/sh
export AWS_EXECUTION_ENV=AWS_Lambda_python3.13
export PYTHONPATH=/opt/python:/var/runtime
exec /var/lang/bin/python3.13 -m awslambdaric "$_HANDLER"
BOOTSTRAP
chmod 755 "$root/var/runtime/bootstrap"
tar -C "$root" --numeric-owner --one-file-system -c . | docker import \
    --change 'ENV PATH=/var/lang/bin:/usr/local/bin:/usr/bin:/bin' --change 'ENV LANG=C.UTF-8' \
    --change 'ENV LAMBDA_TASK_ROOT=/var/task' --change 'ENV LAMBDA_RUNTIME_DIR=/var/runtime' \
    --change 'WORKDIR /var/task' - "$image" >/dev/null
# What sam built on a former base must not be used on this one.
docker rmi public.ecr.aws/lambda/python:3.13-rapid-x86_64 2>/dev/null || true
