/**
 * A relay: sends each request that it receives to a store, and reports how long the store took.
 *
 * `plimsoll edge run` decides when operations start, signs them and computes all figures; the relay only measures. A
 * request to the relay is a POST to `/v1/fetch` that carries the URL in `x-plimsoll-url`, the method in
 * `x-plimsoll-method`, each header in `x-plimsoll-h-NAME`, and the body. The response carries the store's status in
 * `x-plimsoll-status`, its headers in `x-plimsoll-h-NAME`, its body, and the durations. A response without
 * `x-plimsoll-status` is an error of the relay itself.
 *
 * This module uses only web standards, so it runs on Cloudflare Workers, AWS Lambda and Node.
 */
import { now } from "./clock";

/** Properties of the platform and of the deployment. */
export interface Settings {
    /** Secret that requests must carry as a bearer token. */
    token?: string;
    /** Hosts that the relay may contact, separated by spaces. */
    hosts?: string;
    /** Name of the place: a data centre or a region. */
    place: string;
    /** Maximum size of a body in bytes. */
    maxBody: number;
    /** Options of requests to stores that the platform needs, such as to bypass its cache. */
    options?: RequestInit;
    /** Sends a request to the host `binding`, which is a bucket that the platform binds to the relay. */
    bound?: (request: Request, body: ArrayBuffer) => Promise<Response>;
}

/** Host that stands for the bucket that the platform binds to the relay. */
export const BINDING = "binding";
/** Methods of the requests to stores. */
const METHODS = ["GET", "HEAD", "PUT", "POST", "DELETE"];
/** Prefix of the headers that carry headers of requests and responses. */
const CARRIED = "x-plimsoll-h-";
/** Headers of responses that belong to the connection between relay and store. */
const OF_CONNECTION = ["connection", "content-encoding", "keep-alive", "set-cookie", "transfer-encoding"];

/** An error of the relay, with the HTTP status of its response. */
export class Refused extends Error {
    constructor(
        readonly status: number,
        message: string,
    ) {
        super(message);
    }
}

/** Compares two secrets in a time that does not depend on their common beginning. */
async function sameSecret(given: string, expected: string): Promise<boolean> {
    const digest = (text: string) => crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
    const [a, b] = (await Promise.all([digest(given), digest(expected)])).map((hash) => new Uint8Array(hash));
    return a.reduce((different, byte, i) => different | (byte ^ b[i]), 0) === 0;
}

async function authorize(request: Request, token?: string): Promise<void> {
    if (!token || token.length < 16) {
        throw new Refused(500, "the secret TOKEN of the relay is missing or has fewer than 16 characters");
    }
    if (!(await sameSecret(request.headers.get("authorization") ?? "", `Bearer ${token}`))) {
        throw new Refused(401, "the token is wrong");
    }
}

/** Returns the request to the store. Only listed hosts can be contacted, so the relay is no open proxy. */
function carried(request: Request, settings: Settings, body: ArrayBuffer): Request {
    let target: URL;
    try {
        target = new URL(request.headers.get("x-plimsoll-url") ?? "");
    } catch {
        throw new Refused(400, "the header x-plimsoll-url is not a URL");
    }
    const listed = (settings.hosts ?? "").split(/\s+/).includes(target.host);
    if (target.host === BINDING ? settings.bound === undefined : !listed) {
        const fix = target.host === BINDING ? "the relay has no bound bucket" : `HOSTS does not list ${target.host}`;
        throw new Refused(403, fix);
    }
    if (target.protocol !== "https:" && target.protocol !== "http:") {
        throw new Refused(400, "the header x-plimsoll-url must begin with https:// or http://");
    }
    const method = request.headers.get("x-plimsoll-method") ?? "";
    if (!METHODS.includes(method)) {
        throw new Refused(400, `the header x-plimsoll-method must be one of ${METHODS.join(", ")}`);
    }
    const headers = new Headers();
    for (const [name, value] of request.headers) {
        if (name.startsWith(CARRIED)) headers.append(name.slice(CARRIED.length), value);
    }
    const hasBody = method === "PUT" || method === "POST";
    // A redirect could lead to another host.
    return new Request(target, { method, headers, body: hasBody ? body : null, redirect: "manual", ...settings.options });
}

/** Sends a request to a store with `send`, and returns its response with the durations in microseconds. */
async function measure(request: Request, send: (request: Request) => Promise<Response>, settings: Settings): Promise<Response> {
    const began = now();
    const answer = await send(request);
    const first = now();
    const tooLarge = () => new Refused(413, `the object is larger than ${settings.maxBody} bytes`);
    if (request.method !== "HEAD" && Number(answer.headers.get("content-length") ?? "0") > settings.maxBody) {
        await answer.body?.cancel();
        throw tooLarge();
    }
    const body = await answer.arrayBuffer();
    const end = now();
    if (body.byteLength > settings.maxBody) throw tooLarge();
    const us = (ms: number) => String(Math.round(ms * 1000));
    const headers = new Headers({
        "x-plimsoll-status": String(answer.status),
        "x-plimsoll-first-byte-us": us(first - began),
        "x-plimsoll-total-us": us(end - began),
        "x-plimsoll-place": settings.place,
        "cache-control": "no-store, no-transform",
    });
    for (const [name, value] of answer.headers) {
        if (!OF_CONNECTION.includes(name)) headers.append(CARRIED + name, value);
    }
    return new Response(body, { headers });
}

async function handle(request: Request, settings: Settings): Promise<Response> {
    await authorize(request, settings.token);
    if (new URL(request.url).pathname.replace(/^.*(?=\/v1\/)/, "") !== "/v1/fetch" || request.method !== "POST") {
        throw new Refused(404, "unknown path; use POST /v1/fetch");
    }
    const tooLarge = () => new Refused(413, `the body is larger than ${settings.maxBody} bytes`);
    if (Number(request.headers.get("content-length") ?? "0") > settings.maxBody) throw tooLarge();
    const body = await request.arrayBuffer();
    if (body.byteLength > settings.maxBody) throw tooLarge();
    const inner = carried(request, settings, body);
    const bound = new URL(inner.url).host === BINDING ? settings.bound : undefined;
    return measure(inner, (inner) => (bound ? bound(inner, body) : fetch(inner)), settings);
}

/** Answers a request to the relay. */
export async function relay(request: Request, settings: Settings): Promise<Response> {
    try {
        return await handle(request, settings);
    } catch (error) {
        const status = error instanceof Refused ? error.status : 502;
        const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : "";
        const message = error instanceof Error ? error.message + cause : "unknown error";
        return Response.json({ error: message }, { status, headers: { "cache-control": "no-store" } });
    }
}
