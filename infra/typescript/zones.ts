/** Choice of an availability zone that offers S3 Express One Zone. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

interface ExpressZones {
    zones: Record<string, string[]>;
}

const known: ExpressZones = JSON.parse(readFileSync(join(__dirname, "..", "express-zones.json"), "utf8"));

/**
 * Returns the zone of the directory bucket and the load generator: the wanted one, else the first zone of the account
 * that offers S3 Express One Zone.
 *
 * @param region region of the stack, such as `us-east-1`
 * @param offered zone ids of the account in this region; zone names such as `us-east-1a` differ between accounts
 * @param wanted zone id from the configuration; `undefined` to choose one
 */
export function expressZone(region: string, offered: string[], wanted?: string): string {
    if (wanted !== undefined) {
        // AWS adds zones, so the account's own list decides.
        if (!offered.includes(wanted)) {
            throw new Error(`plimsoll:zone ${wanted} is no zone of ${region}; use one of ${offered.join(", ")}`);
        }
        return wanted;
    }
    const zone = (known.zones[region] ?? []).find((id) => offered.includes(id));
    if (zone === undefined) {
        const regions = Object.keys(known.zones).join(", ");
        throw new Error(
            `no known zone of ${region} offers S3 Express One Zone; set plimsoll:zone, or use one of ${regions}`,
        );
    }
    return zone;
}
