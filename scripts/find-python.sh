#!/bin/sh
# Prints the path of a Python 3.11 to 3.13 with the venv module, or how to install one.
set -u
for candidate in ${PYTHON:-} python3.13 python3.12 python3.11 python3; do
    if "$candidate" - >/dev/null 2>&1 <<'EOF'
import ensurepip, sys, venv
raise SystemExit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
EOF
    then
        command -v "$candidate"
        exit 0
    fi
done
echo "No Python 3.11, 3.12 or 3.13 with the venv module was found: install one (Debian and Ubuntu:" \
    "apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python3.12" >&2
exit 1
