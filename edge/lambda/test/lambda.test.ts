/** The Lambda function behind a stand-in for its function URL, driven by Plimsoll. */
import assert from "node:assert/strict";
import { createServer, Server } from "node:http";
import { AddressInfo } from "node:net";
import { after, before, test } from "node:test";

import { plimsoll, Serve, serve, TOKEN } from "../../worker/test/plimsoll";
import { handler, UrlEvent } from "../src/handler";

let front: Server;
let store: Serve;

before(async () => {
    store = await serve("latency=5ms");
    Object.assign(process.env, { TOKEN, HOSTS: store.host, AWS_REGION: "eu-central-1" });
    // AWS converts a request to an event and the result to a response in this way.
    front = createServer(async (request, response) => {
        const pieces: Buffer[] = [];
        for await (const piece of request) pieces.push(piece);
        const event: UrlEvent = {
            rawPath: request.url ?? "/",
            headers: request.headers as Record<string, string>,
            requestContext: { domainName: "id.lambda-url.eu-central-1.on.aws", http: { method: request.method ?? "" } },
            body: Buffer.concat(pieces).toString("base64"),
            isBase64Encoded: true,
        };
        const { statusCode, headers, body } = await handler(event);
        response.writeHead(statusCode, headers).end(Buffer.from(body, "base64"));
    });
    await new Promise<void>((resolve) => front.listen(0, "127.0.0.1", resolve));
});

after(async () => {
    front.close();
    await store.stop();
});

test("an S3 store is measured from the region of the function", async () => {
    const url = `lambda=http://127.0.0.1:${(front.address() as AddressInfo).port}`;
    const run = ["edge", "run", "mixed", "--relay", url, "--store", store.url, "--rate", "50/s", "--duration", "2s"];
    const result = await plimsoll([...run, "--objects", "20", "--json"]);
    for (const window of result.windows) {
        assert.deepEqual(window.errors, {});
        assert.ok(window.service_ms.min >= 5);
    }
    assert.equal(result.places[0].place, "eu-central-1");
});

test("the function refuses requests without the token", async () => {
    const http = { method: "POST" };
    const requestContext = { domainName: "id.lambda-url.eu-central-1.on.aws", http };
    const result = await handler({ rawPath: "/v1/fetch", headers: {}, requestContext });
    assert.equal(result.statusCode, 401);
});
