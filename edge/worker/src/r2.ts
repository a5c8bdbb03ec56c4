/**
 * An R2 bucket behind its binding, with the S3 requests that Plimsoll sends: paths are `/BUCKET/KEY`, and the name of the
 * bucket is ignored, because the binding determines it.
 */
import { textsOf, escape } from "./xml";

/** Returns an S3 error response. */
function fault(status: number, code: string, message: string): Response {
    return document(`<Error><Code>${code}</Code><Message>${escape(message)}</Message></Error>`, status);
}

function document(xml: string, status = 200): Response {
    return new Response(`<?xml version="1.0" encoding="UTF-8"?>${xml}`, {
        status,
        headers: { "content-type": "application/xml" },
    });
}

/** Returns the byte range of a `Range` header; `undefined` without a valid one. */
function rangeOf(request: Request): R2Range | undefined {
    const match = /^bytes=(\d+)-(\d+)$/.exec(request.headers.get("range") ?? "");
    return match ? { offset: Number(match[1]), length: Number(match[2]) - Number(match[1]) + 1 } : undefined;
}

function headersOf(object: R2Object): Record<string, string> {
    return { etag: object.httpEtag, "last-modified": object.uploaded.toUTCString() };
}

async function list(parameters: URLSearchParams, bucket: R2Bucket): Promise<Response> {
    const page = await bucket.list({
        prefix: parameters.get("prefix") ?? undefined,
        startAfter: parameters.get("start-after") ?? undefined,
        cursor: parameters.get("continuation-token") ?? undefined,
        limit: Math.min(Number(parameters.get("max-keys") ?? "1000") || 1000, 1000),
    });
    const contents = page.objects.map(
        ({ key, size, httpEtag, uploaded }) =>
            `<Contents><Key>${escape(key)}</Key><Size>${size}</Size><ETag>${escape(httpEtag)}</ETag>` +
            `<LastModified>${uploaded.toISOString()}</LastModified></Contents>`,
    );
    const next = page.truncated ? `<NextContinuationToken>${escape(page.cursor)}</NextContinuationToken>` : "";
    const fields = `<KeyCount>${contents.length}</KeyCount><IsTruncated>${page.truncated}</IsTruncated>${next}`;
    return document(`<ListBucketResult>${fields}${contents.join("")}</ListBucketResult>`);
}

async function deleteMany(body: ArrayBuffer, bucket: R2Bucket): Promise<Response> {
    await bucket.delete(textsOf(new TextDecoder().decode(body), "Key"));
    return document("<DeleteResult></DeleteResult>");
}

async function ofBucket(request: Request, parameters: URLSearchParams, body: ArrayBuffer, bucket: R2Bucket) {
    if (request.method === "HEAD") {
        await bucket.list({ limit: 1 });
        return new Response(null);
    }
    if (request.method === "GET" && parameters.get("list-type") === "2") return list(parameters, bucket);
    if (request.method === "POST" && parameters.has("delete")) return deleteMany(body, bucket);
    return fault(501, "NotImplemented", "the binding of an R2 bucket does not offer this request");
}

async function ofObject(request: Request, key: string, body: ArrayBuffer, bucket: R2Bucket): Promise<Response> {
    switch (request.method) {
        case "GET": {
            const range = rangeOf(request);
            const object = await bucket.get(key, { range });
            if (object === null) return fault(404, "NoSuchKey", "the object does not exist");
            return new Response(object.body, { status: range ? 206 : 200, headers: headersOf(object) });
        }
        case "HEAD": {
            const object = await bucket.head(key);
            if (object === null) return new Response(null, { status: 404 });
            return new Response(null, { headers: { ...headersOf(object), "content-length": String(object.size) } });
        }
        case "PUT": {
            const object = await bucket.put(key, body, { onlyIf: request.headers });
            if (object === null) return fault(412, "PreconditionFailed", "a condition is not met");
            return new Response(null, { headers: headersOf(object) });
        }
        case "DELETE":
            await bucket.delete(key);
            return new Response(null, { status: 204 });
        default:
            return fault(405, "MethodNotAllowed", "the binding of an R2 bucket does not offer this request");
    }
}

/** Executes an S3 request on the bucket. */
export async function r2(request: Request, body: ArrayBuffer, bucket: R2Bucket): Promise<Response> {
    const url = new URL(request.url);
    const key = decodeURIComponent(url.pathname.split("/").slice(2).join("/"));
    if (new TextEncoder().encode(key).length > 1024) {
        return fault(400, "KeyTooLongError", "the key is longer than 1024 bytes");
    }
    if (key === "") return ofBucket(request, url.searchParams, body, bucket);
    // Unfinished uploads cannot be listed through the binding, so none could be cleaned up.
    if (url.searchParams.has("uploads") || url.searchParams.has("uploadId")) {
        return fault(501, "NotImplemented", "multipart uploads are not measured through the binding");
    }
    return ofObject(request, key, body, bucket);
}
