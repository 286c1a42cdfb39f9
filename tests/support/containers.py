"""A Docker engine and its images, which not every machine has."""

import subprocess
from pathlib import Path

_ENSURE = Path(__file__).parents[2] / "scripts" / "ensure-docker.sh"
PULL_SECONDS = 240


def missing_engine() -> str:
    """Why no Docker engine answers, or can be started; empty if one does."""
    started = subprocess.run([_ENSURE], capture_output=True, text=True, check=False)
    return started.stderr.strip() if started.returncode else ""


def missing_image(image: str) -> str:
    """Why an image is not here and cannot be pulled; empty if it is here."""
    inspect, pull = (["docker", *words, image] for words in (("image", "inspect"), ("pull", "-q")))
    if subprocess.run(inspect, capture_output=True, check=False).returncode == 0:
        return ""
    try:
        pulled = subprocess.run(
            pull, capture_output=True, text=True, timeout=PULL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not pulled within {PULL_SECONDS} s"
    return pulled.stderr.strip() if pulled.returncode else ""
