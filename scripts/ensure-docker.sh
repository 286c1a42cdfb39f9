#!/bin/sh
# Exits with 0 if a Docker engine answers. Else, as root on Linux, installs and starts one; else
# prints what to do.
set -u

answers() { docker info >/dev/null 2>&1; }

if answers; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || [ "$(uname -s)" != Linux ]; then
    echo "No Docker engine answers: start Docker (docker info must succeed)." >&2
    exit 1
fi
if ! command -v dockerd >/dev/null && command -v apt-get >/dev/null; then
    echo "No Docker engine was found: installing one." >&2
    apt="apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"
    { $apt update -q; $apt install -qy --no-install-recommends docker.io; } >&2 || exit 1
fi
log=${TMPDIR:-/tmp}/dockerd.log
echo "Starting a Docker engine; its log is $log." >&2
nohup dockerd >"$log" 2>&1 </dev/null &
for _ in $(seq 60); do
    answers && exit 0
    sleep 0.5
done
echo "The Docker engine did not start:" >&2
tail -n 20 "$log" >&2
exit 1
