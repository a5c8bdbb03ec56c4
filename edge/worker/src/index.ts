/** The relay on Cloudflare Workers, with an optional R2 bucket. */
import { r2 } from "./r2";
import { relay } from "./relay";

export interface Env {
    /** R2 bucket to measure; `undefined` without a binding. */
    BUCKET?: R2Bucket;
    /** Secret that requests must carry as a bearer token. */
    TOKEN?: string;
    /** Hosts that the relay may contact, separated by spaces. */
    HOSTS?: string;
}

/** Maximum size of a body in bytes: a Worker has 128 MB of memory, and holds a body once. */
const MAX_BODY = 64 << 20;

export default {
    async fetch(request: Request, env: Env): Promise<Response> {
        const { BUCKET: bucket, TOKEN: token, HOSTS: hosts } = env;
        const place = (request as { cf?: IncomingRequestCfProperties }).cf?.colo ?? "";
        const bound = bucket && ((inner: Request, body: ArrayBuffer) => r2(inner, body, bucket));
        return relay(request, { token, hosts, place, maxBody: MAX_BODY, bound, options: { cache: "no-store" } });
    },
};
