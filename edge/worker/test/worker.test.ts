/** The Worker on workerd: R2 through its binding, HTTP stores with known delays, and requests that must be refused. */
import assert from "node:assert/strict";
import { createServer, Server } from "node:http";
import { AddressInfo } from "node:net";
import { after, before, test } from "node:test";

import { Miniflare } from "miniflare";

const TOKEN = "a-secret-of-at-least-16-characters";
let worker: Miniflare;
let slow: Server;
let host: string;

before(async () => {
    // A store that answers after the delay in its path, in milliseconds.
    slow = createServer((request, response) => {
        request.resume();
        request.on("end", () => {
            const delay = Number(/\d+/.exec(request.url ?? "")?.[0] ?? 0);
            setTimeout(() => response.end(`after ${delay} ms`), delay);
        });
    });
    await new Promise<void>((resolve) => slow.listen(0, "127.0.0.1", resolve));
    host = `127.0.0.1:${(slow.address() as AddressInfo).port}`;
    worker = new Miniflare({
        modules: true,
        scriptPath: "dist/worker.js",
        compatibilityDate: "2026-07-30",
        r2Buckets: ["BUCKET"],
        bindings: { TOKEN, HOSTS: host },
    });
    await worker.ready;
});

after(async () => {
    await worker.dispose();
    slow.close();
});

/** Sends a request with the token. */
function ask(path: string, init: { method?: string; headers?: Record<string, string>; body?: any } = {}) {
    const headers = { authorization: `Bearer ${TOKEN}`, ...init.headers };
    return worker.dispatchFetch(`http://worker${path}`, { ...init, headers });
}

/** Returns the durations in a response, in milliseconds. */
function durations(response: { headers: { get(name: string): string | null } }): number[] {
    return (response.headers.get("x-plimsoll-total-us") ?? "").split(",").map((us) => Number(us) / 1000);
}

test("objects of R2 are written, read, listed and deleted", async () => {
    const content = "0123456789".repeat(100);
    const put = await ask("/v1/r2/a/key%20with%20space", { method: "PUT", body: content });
    assert.equal(put.headers.get("x-plimsoll-status"), "200");
    const get = await ask("/v1/r2/a/key%20with%20space");
    assert.equal(await get.text(), content);
    assert.equal(get.headers.get("x-plimsoll-etag"), put.headers.get("x-plimsoll-etag"));
    const range = await ask("/v1/r2/a/key%20with%20space", { headers: { range: "bytes=5-8" } });
    assert.equal(await range.text(), "5678");
    assert.equal(range.headers.get("x-plimsoll-status"), "206");
    const head = await ask("/v1/r2/a/key%20with%20space", { method: "HEAD" });
    assert.equal(head.headers.get("x-plimsoll-size"), "1000");
    const list = (await (await ask("/v1/r2/?prefix=a/")).json()) as any;
    assert.deepEqual(list.objects.map((object: any) => object.key), ["a/key with space"]);
    const deleted = await ask("/v1/r2/a/key%20with%20space", { method: "DELETE" });
    assert.equal(deleted.headers.get("x-plimsoll-status"), "204");
    assert.equal((await ask("/v1/r2/a/key%20with%20space")).headers.get("x-plimsoll-status"), "404");
});

test("known delays are measured", async () => {
    for (const delay of [5, 20, 100]) {
        const headers = { "x-plimsoll-url": `http://${host}/${delay}`, "x-plimsoll-batch": "20" };
        const response = await ask("/v1/fetch", { method: "POST", headers });
        assert.equal(await response.text(), `after ${delay} ms`);
        const times = durations(response).sort((a, b) => a - b);
        assert.equal(times.length, 20);
        console.log(`delay ${delay} ms: p50 ${times[9]} ms, max ${times[19]} ms`);
        assert.ok(times[0] >= delay - 1, "no operation is faster than the store");
    }
});

test("the clock contains no CPU time", async () => {
    const place = (await (await ask("/v1/place")).json()) as any;
    assert.equal(typeof place.clock_advances_only_on_io, "boolean");
});

test("requests without the token, to other hosts or with invalid values are refused", async () => {
    const bare = await worker.dispatchFetch("http://worker/v1/place");
    assert.equal(bare.status, 401);
    assert.equal((await ask("/v1/place", { headers: { authorization: "Bearer wrong" } })).status, 401);
    const other = { "x-plimsoll-url": "http://169.254.169.254/latest/meta-data" };
    assert.equal((await ask("/v1/fetch", { method: "POST", headers: other })).status, 403);
    assert.equal((await ask("/v1/fetch", { method: "POST" })).status, 400);
    const batch = { "x-plimsoll-url": `http://${host}/0`, "x-plimsoll-batch": "1000" };
    assert.equal((await ask("/v1/fetch", { method: "POST", headers: batch })).status, 400);
    assert.equal((await ask(`/v1/r2/${"k".repeat(1025)}`)).status, 400);
    assert.equal((await ask("/v1/r2/k", { headers: { range: "bytes=9-1" } })).status, 400);
    assert.equal((await ask("/v1/r2/k", { method: "PATCH" })).status, 405);
    assert.equal((await ask("/v2")).status, 404);
});
