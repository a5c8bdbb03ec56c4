/** The Worker on workerd, driven by Plimsoll: R2 through its binding, S3 through fetch, and requests that it refuses. */
import assert from "node:assert/strict";
import { test, after, before } from "node:test";

import { Miniflare } from "miniflare";

import { failure, plimsoll, Serve, serve, TOKEN } from "./plimsoll";

let worker: Miniflare;
let url: string;
let store: Serve;

before(async () => {
    store = await serve("latency=20ms");
    worker = new Miniflare({
        modules: true,
        scriptPath: "dist/worker.js",
        compatibilityDate: "2026-07-30",
        host: "127.0.0.1",
        port: 0,
        r2Buckets: ["BUCKET"],
        bindings: { TOKEN, HOSTS: store.host },
    });
    url = (await worker.ready).origin;
});

after(async () => {
    await worker.dispose();
    await store.stop();
});

test("an R2 bucket is measured through its binding", async () => {
    const run = ["edge", "run", "mixed", "--relay", `here=${url}`, "--size", "10KiB", "--objects", "50"];
    const result = await plimsoll([...run, "--rate", "100/s", "--duration", "2s", "--json"]);
    const windows = result.windows.filter((window: any) => window.role === "measure");
    assert.ok(windows.length >= 2, "reads and writes are measured");
    for (const window of windows) {
        assert.ok(window.operations >= 20, window.operation);
        assert.deepEqual(window.errors, {});
    }
    assert.equal(result.places[0].store, "here");
    assert.ok(result.places[0].requests > 200);
    const left = await worker.getR2Bucket("BUCKET");
    assert.deepEqual((await left.list()).objects, [], "the objects are deleted after the run");
});

test("listings and metadata are measured through the binding, multipart uploads are refused", async () => {
    const common = ["--relay", url, "--duration", "1s", "--warmup", "0s", "--concurrency", "2", "--json"];
    for (const run of [["edge", "run", "list", "--objects", "30"], ["edge", "run", "head"]]) {
        const result = await plimsoll([...run, ...common]);
        for (const window of result.windows) assert.deepEqual(window.errors, {});
    }
    const parts = ["edge", "run", "put", "--size", "11MiB", "--part-size", "5MiB", "--relay", url];
    assert.match(await failure(parts), /multipart/);
    const bucket = await worker.getR2Bucket("BUCKET");
    assert.deepEqual((await bucket.list()).objects, []);
});

test("an S3 store is measured through fetch, without the network path to the Worker", async () => {
    const run = ["edge", "run", "get", "--relay", url, "--store", store.url, "--rate", "20/s", "--duration", "3s"];
    const result = await plimsoll([...run, "--json"]);
    const get = result.windows.find((window: any) => window.role === "measure");
    assert.deepEqual(get.errors, {});
    assert.ok(get.service_ms.p50 >= 20, "no operation is faster than the store");
    assert.equal(get.connections, 0, "connections to the Worker are not those to the store");
});

test("requests without the token, to other hosts or of other forms are refused", async () => {
    const ask = (headers: Record<string, string>, path = "/v1/fetch") =>
        fetch(url + path, { method: "POST", headers, body: "" });
    const authorization = `Bearer ${TOKEN}`;
    const url_ = `http://${store.host}/`;
    const cases: [number, Record<string, string>, string?][] = [
        [401, {}],
        [401, { authorization: "Bearer wrong" }],
        [400, { authorization }],
        [403, { authorization, "x-plimsoll-url": "http://169.254.169.254/", "x-plimsoll-method": "GET" }],
        [400, { authorization, "x-plimsoll-url": url_, "x-plimsoll-method": "CONNECT" }],
        [404, { authorization }, "/v2"],
    ];
    for (const [status, headers, path] of cases) {
        const response = await ask(headers, path);
        assert.equal(response.status, status, await response.text());
        assert.equal(response.headers.get("x-plimsoll-status"), null);
    }
});

test("errors of the relay are told apart from those of the store", async () => {
    const other = "s3://bucket?endpoint=http://127.0.0.1:9";
    const message = await failure(["edge", "run", "get", "--relay", url, "--store", other]);
    assert.match(message, /the relay failed: HOSTS does not list 127.0.0.1:9/);
    const wrong = await failure(["edge", "run", "get", "--relay", url], { PLIMSOLL_RELAY_TOKEN: "another token" });
    assert.match(wrong, /the token is wrong/);
});
