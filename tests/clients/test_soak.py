"""A short soak of each catalog: all work at the same time, with restarts. `benches/soak.py` says what it checks."""
import os
import subprocess
import sys
import tempfile

import pytest

import postgres
from support import GATEWAY, PLIMSOLL, ROOT

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")


@pytest.mark.parametrize("engine", ["directory", "postgres", "journal"])
def test_all_work_makes_progress_and_changes_no_byte(engine):
    if engine == "postgres" and not postgres.programs():
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    words = ["--engine", engine, "--objects", "400", "--lifecycle-day", "20s", "--retain", "5", "--max-size", "24MiB"]
    # The paths of sockets are short. The files of a failed soak stay there.
    done = subprocess.run([sys.executable, os.path.join(ROOT, "benches", "soak.py"), *words], capture_output=True, text=True,
                          env=dict(os.environ, PLIMSOLL=PLIMSOLL, GATEWAY=GATEWAY, DATA=tempfile.gettempdir()))
    assert done.returncode == 0, done.stderr + done.stdout
