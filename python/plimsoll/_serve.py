"""S3 servers for tests: ``plimsoll serve`` as a context manager."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from types import TracebackType

from plimsoll._program import ProgramError, flags, program


class Server:
    """An S3 server on this machine that keeps objects in memory. It ends with the ``with`` block, or with this process."""

    url: str
    """Address, such as ``http://127.0.0.1:40123``."""
    access_key: str
    """Access key of its only account."""
    secret_key: str
    """Secret key of the account."""
    region: str = "us-east-1"
    """Region that it reports; it accepts all."""

    def __init__(self, **options: object) -> None:
        """Starts a server. ``options`` are those of ``plimsoll serve``, such as ``inject="latency=5ms,error=0.01"``."""
        self.access_key, self.secret_key = "plimsoll", secrets.token_hex(16)
        options = {"listen": "127.0.0.1:0", **options}
        variables = {"PLIMSOLL_ACCESS_KEY": self.access_key, "PLIMSOLL_SECRET_KEY": self.secret_key}
        with tempfile.TemporaryFile("w+") as messages:
            # The standard input of the server closes if this process dies, which ends the server. Its messages go to a
            # file, because a pipe that nobody reads would become full.
            self._process = subprocess.Popen([program(), "serve", "--until-stdin-closes", *flags(options)], text=True,
                                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=messages,
                                             env={**os.environ, **variables})
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
            if line.startswith("metrics on "):
                line = self._process.stdout.readline()
            if not line:
                self.close()
                messages.seek(0)
                raise ProgramError(messages.read().strip().removeprefix("plimsoll: "), self._process.returncode)
        self.url = line.split()[-1]

    def store(self, bucket: str) -> str:
        """Returns the URL of a bucket for ``plimsoll.run``; ``create_bucket=True`` creates it."""
        return f"s3://{bucket}?endpoint={self.url}"

    @property
    def environment(self) -> dict[str, str]:
        """Returns the environment variables with which AWS SDKs, and ``plimsoll.run``, use the server."""
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key, "AWS_REGION": self.region,
                "AWS_DEFAULT_REGION": self.region, "AWS_ENDPOINT_URL": self.url, "AWS_SESSION_TOKEN": ""}

    @property
    def boto3(self) -> dict[str, str]:
        """Returns the arguments of a client: ``boto3.client("s3", **server.boto3)``."""
        return {"endpoint_url": self.url, "aws_access_key_id": self.access_key, "aws_secret_access_key": self.secret_key,
                "region_name": self.region}

    def close(self) -> None:
        """Ends the server. Its objects are lost."""
        self._process.communicate()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self.close()


def serve(**options: object) -> Server:
    """Starts an S3 server for tests: ``with plimsoll.serve(inject="latency=5ms") as server: ...``.

    ``options`` are those of ``plimsoll serve``, with underscores for dashes. Raises :class:`ProgramError` for invalid ones.
    """
    return Server(**options)
