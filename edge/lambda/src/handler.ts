/** The relay on AWS Lambda, behind a function URL. */
import { relay } from "../../worker/src/relay";

/** An event of a function URL (payload format version 2.0), as far as the relay needs it. */
export interface UrlEvent {
    rawPath: string;
    rawQueryString?: string;
    headers: Record<string, string | undefined>;
    requestContext: { domainName: string; http: { method: string } };
    body?: string;
    isBase64Encoded?: boolean;
}

/** A response of a function URL. */
export interface UrlResult {
    statusCode: number;
    headers: Record<string, string>;
    body: string;
    isBase64Encoded: boolean;
}

/** Maximum size of a body in bytes: a function URL carries 6 MB, and Base64 takes four bytes for three. */
const MAX_BODY = 4 << 20;

/** Answers a request to the function URL. The environment variables TOKEN and HOSTS are those of the Worker. */
export async function handler(event: UrlEvent): Promise<UrlResult> {
    const headers = new Headers();
    for (const [name, value] of Object.entries(event.headers)) {
        if (value !== undefined) headers.set(name, value);
    }
    const { method } = event.requestContext.http;
    const body = Buffer.from(event.body ?? "", event.isBase64Encoded ? "base64" : "utf8");
    const request = new Request(`https://${event.requestContext.domainName}${event.rawPath}`, {
        method,
        headers,
        body: method === "GET" || method === "HEAD" ? null : body,
    });
    const { TOKEN: token, HOSTS: hosts, AWS_REGION: place } = process.env;
    const response = await relay(request, { token, hosts, place: place ?? "", maxBody: MAX_BODY });
    return {
        statusCode: response.status,
        headers: Object.fromEntries(response.headers),
        body: Buffer.from(await response.arrayBuffer()).toString("base64"),
        isBase64Encoded: true,
    };
}
