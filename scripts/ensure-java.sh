#!/bin/sh
# Spark 4.1 runs on Java 17 or 21. Uses an installed one; else installs it with the system's package
# manager if that is allowed; else prints what to do.
set -u

java_major() {
    "$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1
}

for java in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} java; do
    major=$(java_major "$java" 2>/dev/null)
    if [ "${major:-0}" -ge 17 ]; then
        exit 0
    fi
done

as_root=
if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null && as_root="sudo -n"
fi
if [ "$(id -u)" = 0 ] || [ -n "$as_root" ]; then
    echo "No Java 17 or later was found: installing one." >&2
    if command -v apt-get >/dev/null; then
        apt="$as_root apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"
        { $apt update -q; $apt install -qy --no-install-recommends openjdk-17-jre-headless ||
            $apt install -qy --no-install-recommends openjdk-21-jre-headless; } >&2 && exit 0
    elif command -v dnf >/dev/null; then
        $as_root dnf install -qy java-17-openjdk-headless >&2 && exit 0
    elif command -v apk >/dev/null; then
        $as_root apk add -q openjdk17-jre-headless >&2 && exit 0
    fi
fi
echo "Spark needs Java 17 or later and none could be installed here: install one (Debian and Ubuntu:" \
    "apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17, then" \
    'export JAVA_HOME="$(brew --prefix openjdk@17)") or set JAVA_HOME to an installed one.' >&2
exit 1
