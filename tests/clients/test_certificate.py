"""The certificate of the gateway: one that is expired, or expires soon, is reported at the start and at SIGHUP."""
import os
import re
import shutil
import signal
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest

from support import GATEWAY, Server
from test_tiers import wait

pytestmark = [pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built"),
              pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")]


def write(directory, days):
    """Writes a certificate that expires in some days, and its key."""
    key, request, certificate = (str(directory / name) for name in ("tls.key", "tls.csr", "tls.pem"))
    new = ["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost"]
    (directory / "extensions").write_text("subjectAltName = IP:127.0.0.1\n")
    sign = ["x509", "-req", "-in", request, "-signkey", key, "-days", str(days), "-out", certificate, "-extfile",
            str(directory / "extensions")]
    for words in ([*new, "-keyout", key, "-out", request], sign):
        subprocess.run(["openssl", *words], check=True, capture_output=True)


def test_a_certificate_that_expires_is_reported(tmp_path):
    write(tmp_path, 365)
    log = tmp_path / "log"
    with start(tmp_path, log) as server:
        def days():
            text = urllib.request.urlopen(server.metrics).read().decode()
            return float(re.search(r"^plimsoll_gateway_certificate_left_seconds (\S+)$", text, re.M)[1]) / 86_400

        assert 364 < days() < 366 and "the certificate" not in log.read_text()
        for left, words in [(3, "the certificate expires at 20"), (-1, "the certificate has expired at 20")]:
            write(tmp_path, left)
            server.process.send_signal(signal.SIGHUP)
            wait(lambda: words in log.read_text(), "the log does not report it")
            wait(lambda: left - 0.1 < days() < left + 0.1, "the metric is old")
        with pytest.raises(urllib.error.URLError) as error:
            urllib.request.urlopen(server.url, context=ssl.create_default_context(cafile=str(tmp_path / "tls.pem")))
        assert "expired" in str(error.value)


def serve_tls(directory, days=365):
    """Starts a gateway with a certificate, whose log is a file."""
    write(directory, days)
    return start(directory, directory / "tls.log")


def start(directory, log):
    words = f'exec "{GATEWAY}" run --data "{directory}/data" --tls-cert "{directory}/tls.pem" --tls-key "{directory}/tls.key" "$@" 2>"{log}"'
    return Server("--metrics-listen", "127.0.0.1:0", command=("sh", "-c", words, "sh"))
