#!/bin/sh
# The tests of the report open it in a headless Chromium. Uses an installed one; else installs it with
# the system's package manager if that is allowed; else prints that these tests will be skipped.
set -u

for name in chromium chromium-browser google-chrome google-chrome-stable \
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" \
    "/Applications/Chromium.app/Contents/MacOS/Chromium"; do
    if command -v "$name" >/dev/null; then
        exit 0
    fi
done

as_root=
if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null && as_root="sudo -n"
fi
if [ "$(id -u)" = 0 ] || [ -n "$as_root" ]; then
    echo "No Chromium was found: installing one for the report's tests." >&2
    if command -v apt-get >/dev/null; then
        apt="$as_root apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"
        { $apt update -q; $apt install -qy --no-install-recommends chromium; } >&2 && exit 0
    elif command -v dnf >/dev/null; then
        $as_root dnf install -qy chromium-headless >&2 && exit 0
    elif command -v apk >/dev/null; then
        $as_root apk add -q chromium >&2 && exit 0
    fi
fi
echo "No Chromium was found and none could be installed here, so the tests that open the report in a" \
    "browser will be skipped: install one (Debian: apt-get install chromium; macOS: brew install --cask" \
    "google-chrome) to run them." >&2
