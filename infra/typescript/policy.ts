/** Least-privilege policies: the documents that `plimsoll probe STORE --policy` prints. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** Returns the policy for a bucket. `prefix` is empty or ends in a slash. */
export function policy(kind: "s3" | "s3-express", bucket: string, region: string, prefix = ""): string {
    const template = readFileSync(join(__dirname, "..", "policy", `${kind}.json`), "utf8");
    return template
        .replaceAll("__BUCKET__", bucket)
        .replaceAll("__REGION__", region)
        .replaceAll("__PREFIX__", prefix);
}
