"""Fixtures of pytest: an S3 server in memory, and an empty bucket for each test.

In ``conftest.py``: ``pytest_plugins = ["plimsoll.fixtures"]``.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from plimsoll._program import ProgramError, program
from plimsoll._serve import Server, serve


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Server]:
    """An S3 server for all tests of the session; replace the fixture to start it with faults or other options."""
    with serve() as server:
        yield server


@pytest.fixture
def s3_bucket(s3_server: Server) -> str:
    """The name of an empty bucket of the server, for one test."""
    done = subprocess.run([program(), "bucket", "create", "--without-marker", s3_server.store("test-{random}")],
                          capture_output=True, text=True, env={**os.environ, **s3_server.environment}, check=False)
    if done.returncode != 0:
        raise ProgramError(done.stderr.strip().removeprefix("plimsoll: "), done.returncode)
    return done.stdout.split("s3://")[1].split("?")[0]


@pytest.fixture
def s3_environment(s3_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Sets the environment variables with which AWS SDKs use the server, for one test."""
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server
