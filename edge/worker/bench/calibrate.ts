/** Calibrates the Worker on workerd with known latencies of 5, 20 and 100 ms. Run on a quiet machine. */
import { createServer } from "node:net";

import { Miniflare } from "miniflare";

import { inherited, TOKEN } from "../test/plimsoll";

/** Returns a free port. */
async function free(): Promise<number> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    await new Promise((resolve) => server.close(resolve));
    return port;
}

const listen = `127.0.0.1:${await free()}`;
const worker = new Miniflare({
    modules: true,
    scriptPath: "dist/worker.js",
    compatibilityDate: "2026-07-30",
    host: "127.0.0.1",
    port: 0,
    bindings: { TOKEN, HOSTS: listen },
});
const url = (await worker.ready).origin;
process.exitCode = await inherited(["edge", "calibrate", "--relay", url, "--listen", listen]);
await worker.dispose();
