import subprocess
import sys
import time
from pathlib import Path

from demo.spark import end_tree
from tests.needs import needs_proc

CHILD = "import time; time.sleep(60)"
PARENT = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


@needs_proc
def test_process_that_does_not_listen_ends_with_its_children() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())

        end_tree(process, grace_seconds=0.2)

        assert process.returncode is not None
        assert _is_gone(child)


def test_process_that_listens_ends_within_its_grace() -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD]) as process:
        end_tree(process, grace_seconds=10)

        assert process.returncode == -15


def _is_gone(pid: int) -> bool:
    """Gone, or dead and waiting to be collected by whoever adopted it."""
    stat = Path(f"/proc/{pid}/stat")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False
