"""Executes the operations of a job with an S3 library of Python. Without arguments, lists the libraries that it has.

With the paths of a job and of a result (JSON), executes the job: an operation on each key, `concurrency` at a time. The
result has the time from the first request to the last response, the CPU time of the process in it, and the time of each
operation, in nanoseconds.
"""
import importlib.metadata
import json
import os
import sys
import threading
import time
from urllib.parse import quote, urlsplit

LIBRARIES = ("boto3", "awscrt", "obstore")


def checked(job, size):
    if size != job["bytes"]:
        raise SystemExit(f"read {size} of {job['bytes']} bytes")


def in_threads(job, operation):
    """Executes operation(key) in as many threads as operations are in flight; returns the time of each operation."""
    keys, times, errors = iter(job["keys"]), [], []
    lock = threading.Lock()

    def work():
        own = []
        try:
            while True:
                with lock:
                    key = None if errors else next(keys, None)
                if key is None:
                    break
                start = time.perf_counter_ns()
                operation(key)
                own.append(time.perf_counter_ns() - start)
        except BaseException as error:
            errors.append(error)
        times.extend(own)

    threads = [threading.Thread(target=work) for _ in range(job["concurrency"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return times


def boto3(job, content):
    import boto3
    from botocore.config import Config

    style = "path" if job["path_style"] else "virtual"
    config = Config(max_pool_connections=job["concurrency"], s3={"addressing_style": style})
    s3 = boto3.client("s3", endpoint_url=job["endpoint"], region_name=job["region"], config=config)
    bucket = job["bucket"]

    def put(key):
        s3.put_object(Bucket=bucket, Key=key, Body=content)

    def get(key):
        checked(job, len(s3.get_object(Bucket=bucket, Key=key)["Body"].read()))

    operation = put if job["operation"] == "put" else get
    return lambda: in_threads(job, operation)


def awscrt(job, content):
    import io

    from awscrt.auth import AwsCredentialsProvider
    from awscrt.http import HttpHeaders, HttpRequest
    from awscrt.io import ClientBootstrap, DefaultHostResolver, EventLoopGroup
    from awscrt.s3 import S3Client, S3RequestTlsMode, S3RequestType

    loops = EventLoopGroup()
    bootstrap = ClientBootstrap(loops, DefaultHostResolver(loops))
    url = urlsplit(job["endpoint"])
    tls = S3RequestTlsMode.ENABLED if url.scheme == "https" else S3RequestTlsMode.DISABLED
    provider = AwsCredentialsProvider.new_static(
        os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"], os.environ.get("AWS_SESSION_TOKEN") or None)
    client = S3Client(bootstrap=bootstrap, region=job["region"], credential_provider=provider, tls_mode=tls)
    host = url.netloc if job["path_style"] else f"{job['bucket']}.{url.netloc}"
    path = f"/{job['bucket']}/" if job["path_style"] else "/"
    is_put = job["operation"] == "put"

    def operation(key):
        headers = HttpHeaders([("host", host)])
        got = [0]
        if is_put:
            headers.add("content-length", str(len(content)))
            request = HttpRequest("PUT", path + quote(key), headers, io.BytesIO(content))
            kind = S3RequestType.PUT_OBJECT
        else:
            request, kind = HttpRequest("GET", path + quote(key), headers), S3RequestType.GET_OBJECT

        def on_body(chunk, offset, **_):
            got[0] += len(chunk)

        client.make_request(request=request, type=kind, on_body=on_body).finished_future.result()
        if not is_put:
            checked(job, got[0])

    return lambda: in_threads(job, operation)


def obstore(job, content):
    import asyncio

    import obstore
    from obstore.store import S3Store

    store = S3Store(job["bucket"], endpoint=job["endpoint"], region=job["region"],
                    virtual_hosted_style_request=not job["path_style"],
                    client_options={"allow_http": True, "timeout": "60s"})
    keys, times = iter(job["keys"]), []

    async def put(key):
        await obstore.put_async(store, key, content, use_multipart=False)

    async def get(key):
        checked(job, len(await (await obstore.get_async(store, key)).bytes_async()))

    operation = put if job["operation"] == "put" else get

    async def work():
        for key in keys:
            start = time.perf_counter_ns()
            await operation(key)
            times.append(time.perf_counter_ns() - start)

    async def all_of_them():
        await asyncio.gather(*(work() for _ in range(job["concurrency"])))

    def run():
        asyncio.run(all_of_them())
        return times

    return run


def main():
    if len(sys.argv) < 3:
        for name in LIBRARIES:
            try:
                __import__(name)
                print(name, importlib.metadata.version(name))
            except Exception:
                continue
        return
    with open(sys.argv[1]) as file:
        job = json.load(file)
    content = os.urandom(job["bytes"]) if job["operation"] == "put" else b""
    run = {"boto3": boto3, "awscrt": awscrt, "obstore": obstore}[job["library"]](job, content)
    cpu, start = time.process_time_ns(), time.perf_counter_ns()
    times = run()
    result = {"wall_ns": time.perf_counter_ns() - start, "cpu_ns": time.process_time_ns() - cpu, "latencies_ns": times}
    with open(sys.argv[2], "w") as file:
        json.dump(result, file)
    # Threads of a library can abort the process while the interpreter ends.
    os._exit(0)


if __name__ == "__main__":
    main()
