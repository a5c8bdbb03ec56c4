/**
 * Executes single operations on an object store from inside Cloudflare and reports how long they took.
 *
 * The driver decides when operations start and computes all figures; the Worker only measures. Each request is one
 * operation, so the driver's open loop is the load of the store. `x-plimsoll-batch: N` repeats an operation N times in
 * one request and reports each duration, if requests to the Worker are scarcer than requests to the store.
 */
import { now, timed, Timed } from "./clock";

export interface Env {
    /** R2 bucket to measure; `undefined` without a binding. */
    BUCKET?: R2Bucket;
    /** Secret that requests must carry as a bearer token. */
    TOKEN?: string;
    /** Hosts that `/v1/fetch` may contact, separated by spaces. */
    HOSTS?: string;
}

/** Maximum size of a body in bytes: a Worker has 128 MB of memory. */
const MAX_BODY = 64 << 20;
/** Maximum number of operations in one request; the platform limits the subrequests of a request. */
const MAX_BATCH = 40;
/** Maximum length of a key in bytes. */
const MAX_KEY = 1024;

/** An error with the HTTP status of its response. */
class Refused extends Error {
    constructor(
        readonly status: number,
        message: string,
    ) {
        super(message);
    }
}

/** Content and properties of a response of the store. */
interface Answer {
    status: number;
    body?: ArrayBuffer | string;
    size?: number;
    etag?: string;
}

/** Compares two secrets in a time that does not depend on their common beginning. */
async function sameSecret(given: string, expected: string): Promise<boolean> {
    const digest = (text: string) => crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
    const [a, b] = (await Promise.all([digest(given), digest(expected)])).map((hash) => new Uint8Array(hash));
    return a.reduce((different, byte, i) => different | (byte ^ b[i]), 0) === 0;
}

async function authorize(request: Request, env: Env): Promise<void> {
    if (!env.TOKEN || env.TOKEN.length < 16) {
        throw new Refused(500, "the secret TOKEN is missing or has fewer than 16 characters");
    }
    const given = request.headers.get("authorization") ?? "";
    if (!(await sameSecret(given, `Bearer ${env.TOKEN}`))) {
        throw new Refused(401, "the bearer token is wrong");
    }
}

async function bodyOf(request: Request): Promise<ArrayBuffer> {
    if (Number(request.headers.get("content-length") ?? "0") > MAX_BODY) {
        throw new Refused(413, `the body is larger than ${MAX_BODY} bytes`);
    }
    const body = await request.arrayBuffer();
    if (body.byteLength > MAX_BODY) {
        throw new Refused(413, `the body is larger than ${MAX_BODY} bytes`);
    }
    return body;
}

/** Returns the byte range of a `Range` header; `undefined` without one. */
function rangeOf(request: Request): R2Range | undefined {
    const text = request.headers.get("range");
    if (text === null) {
        return undefined;
    }
    const match = /^bytes=(\d+)-(\d+)$/.exec(text);
    if (match === null || Number(match[2]) < Number(match[1])) {
        throw new Refused(400, "the range is not of the form bytes=FIRST-LAST");
    }
    return { offset: Number(match[1]), length: Number(match[2]) - Number(match[1]) + 1 };
}

/** Returns an operation on the R2 bucket that can be repeated. */
async function r2Operation(request: Request, url: URL, bucket: R2Bucket): Promise<() => Promise<Timed<Answer>>> {
    const key = decodeURIComponent(url.pathname.slice("/v1/r2/".length));
    if (new TextEncoder().encode(key).length > MAX_KEY) {
        throw new Refused(400, `the key is longer than ${MAX_KEY} bytes`);
    }
    if (key === "") {
        if (request.method !== "GET") {
            throw new Refused(405, "only GET lists the bucket");
        }
        const parameters = url.searchParams;
        const options: R2ListOptions = {
            prefix: parameters.get("prefix") ?? undefined,
            startAfter: parameters.get("start-after") ?? undefined,
            cursor: parameters.get("cursor") ?? undefined,
            limit: Math.min(Number(parameters.get("limit") ?? "1000") || 1000, 1000),
        };
        const objects = ({ key, size, etag }: R2Object) => ({ key, size, etag });
        return () =>
            timed(
                () => bucket.list(options),
                async (page) => ({
                    status: 200,
                    body: JSON.stringify({
                        objects: page.objects.map(objects),
                        cursor: page.truncated ? page.cursor : null,
                    }),
                }),
            );
    }
    const stored = (object: R2Object | null): Answer =>
        object === null ? { status: 404 } : { status: 200, size: object.size, etag: object.httpEtag };
    switch (request.method) {
        case "GET": {
            const range = rangeOf(request);
            return () =>
                timed(
                    () => bucket.get(key, { range }),
                    async (object) =>
                        object === null
                            ? { status: 404 }
                            : { ...stored(object), status: range ? 206 : 200, body: await object.arrayBuffer() },
                );
        }
        case "HEAD":
            return () => timed(() => bucket.head(key), async (object) => stored(object));
        case "PUT": {
            const body = await bodyOf(request);
            return () => timed(() => bucket.put(key, body), async (object) => stored(object));
        }
        case "DELETE":
            return () => timed(() => bucket.delete(key), async () => ({ status: 204 }));
        default:
            throw new Refused(405, "use GET, HEAD, PUT or DELETE");
    }
}

/**
 * Returns a request to a URL that can be repeated. The driver signs the URL (presigned requests of S3), so the Worker
 * knows no keys. Only listed hosts can be contacted, so the Worker is no open proxy.
 */
async function fetchOperation(request: Request, env: Env): Promise<() => Promise<Timed<Answer>>> {
    const hosts = (env.HOSTS ?? "").split(/\s+/).filter((host) => host !== "");
    let target: URL;
    try {
        target = new URL(request.headers.get("x-plimsoll-url") ?? "");
    } catch {
        throw new Refused(400, "the header x-plimsoll-url is not a URL");
    }
    if (!hosts.includes(target.host)) {
        throw new Refused(403, `the variable HOSTS does not list ${target.host}`);
    }
    const method = request.headers.get("x-plimsoll-method") ?? "GET";
    if (!["GET", "HEAD", "PUT", "DELETE"].includes(method)) {
        throw new Refused(400, "the header x-plimsoll-method must be GET, HEAD, PUT or DELETE");
    }
    const body = method === "PUT" ? await bodyOf(request) : undefined;
    const range = request.headers.get("range");
    const headers: Record<string, string> = range === null ? {} : { range };
    return () =>
        timed(
            // The cache of Cloudflare must not answer, and a redirect could lead to another host.
            () => fetch(target, { method, body, headers, redirect: "manual", cf: { cacheTtl: -1 } }),
            async (response) => ({
                status: response.status,
                body: method === "HEAD" ? undefined : await response.arrayBuffer(),
                size: Number(response.headers.get("content-length") ?? "0"),
                etag: response.headers.get("etag") ?? undefined,
            }),
        );
}

/** Place of the Worker and properties of its clock. */
async function place(request: Request): Promise<Response> {
    const cf = (request as { cf?: IncomingRequestCfProperties }).cf;
    const began = now();
    for (let i = 0, x = 0; i < 1_000_000; i++) x += i;
    return Response.json({
        colo: cf?.colo ?? null,
        country: cf?.country ?? null,
        // True if the clock stands still while code runs, so that durations contain no CPU time.
        clock_advances_only_on_io: now() === began,
    });
}

async function handle(request: Request, env: Env): Promise<Response> {
    const url = new URL(request.url);
    await authorize(request, env);
    if (url.pathname === "/v1/place") {
        return place(request);
    }
    let operation: () => Promise<Timed<Answer>>;
    if (url.pathname.startsWith("/v1/r2/")) {
        if (env.BUCKET === undefined) {
            throw new Refused(501, "the Worker has no R2 bucket; add the binding BUCKET");
        }
        operation = await r2Operation(request, url, env.BUCKET);
    } else if (url.pathname === "/v1/fetch" && request.method === "POST") {
        operation = await fetchOperation(request, env);
    } else {
        throw new Refused(404, "unknown path");
    }
    const batch = Number(request.headers.get("x-plimsoll-batch") ?? "1");
    if (!Number.isInteger(batch) || batch < 1 || batch > MAX_BATCH) {
        throw new Refused(400, `x-plimsoll-batch must be between 1 and ${MAX_BATCH}`);
    }
    const times: Timed<Answer>[] = [];
    for (let i = 0; i < batch; i++) {
        times.push(await operation());
    }
    return report(times, request);
}

/** Returns the last answer of the store, with the durations of all operations in microseconds. */
function report(times: Timed<Answer>[], request: Request): Response {
    const { status, body, size, etag } = times[times.length - 1].value;
    const us = (ms: number) => String(Math.round(ms * 1000));
    const cf = (request as { cf?: IncomingRequestCfProperties }).cf;
    const headers = new Headers({
        "x-plimsoll-status": String(status),
        "x-plimsoll-total-us": times.map((time) => us(time.totalMs)).join(","),
        "x-plimsoll-first-byte-us": times.map((time) => us(time.firstByteMs)).join(","),
        "x-plimsoll-colo": cf?.colo ?? "",
        "cache-control": "no-store",
    });
    if (size !== undefined) headers.set("x-plimsoll-size", String(size));
    if (etag !== undefined) headers.set("x-plimsoll-etag", etag);
    // The Worker's own status is 200 if the store has answered, whatever the answer is.
    return new Response(body ?? null, { status: 200, headers });
}

export default {
    async fetch(request: Request, env: Env): Promise<Response> {
        try {
            return await handle(request, env);
        } catch (error) {
            const status = error instanceof Refused ? error.status : 502;
            const message = error instanceof Error ? error.message : "unknown error";
            return Response.json({ error: message }, { status, headers: { "cache-control": "no-store" } });
        }
    },
};
