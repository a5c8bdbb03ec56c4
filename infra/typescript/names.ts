/**
 * Names of buckets that follow the documented rules.
 *
 * Sources: Amazon S3 User Guide, "General purpose bucket naming rules" and "Directory bucket naming rules"; the rules of
 * R2 and Google Cloud Storage allow everything that these functions return.
 */
import { createHash } from "node:crypto";

/** Maximum length of a bucket name. */
const LONGEST = 63;
/** Number of characters that distinguish names with the same beginning. */
const DIGITS = 8;
/** Beginnings that AWS reserves. */
const RESERVED_PREFIXES = ["xn--", "sthree-", "amzn-s3-demo-"];
/** Ends that AWS reserves for access points, directory buckets, Object Lambda and tables. */
const RESERVED_SUFFIXES = ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3", "-an"];

/** Returns the suffix that makes a name unique for a stack: a digest of the project, the stack and the account. */
export function uniqueSuffix(...parts: string[]): string {
    return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, DIGITS);
}

/** Returns letters, digits and single hyphens of a text, without hyphens at the ends, in lower case. */
function plain(text: string): string {
    return text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "");
}

/** Returns a beginning that is not reserved. */
function beginning(text: string): string {
    let name = plain(text) || "plimsoll";
    while (RESERVED_PREFIXES.some((prefix) => `${name}-`.startsWith(prefix))) {
        name = `b-${name}`;
    }
    return name;
}

/** Returns the name of a general purpose bucket, also valid for R2 and Google Cloud Storage. */
export function bucketName(base: string, suffix: string): string {
    // "goog" at the beginning and "google" anywhere are reserved by Google Cloud Storage.
    const name = beginning(base).replace(/goog/g, "g-g").replace(/^-+/, "");
    return `${name.slice(0, LONGEST - suffix.length - 1).replace(/-+$/, "")}-${suffix}`;
}

/** Returns the name of a directory bucket in a zone: `base-suffix--zone--x-s3`. */
export function directoryBucketName(base: string, suffix: string, zoneId: string): string {
    const end = `--${zoneId}--x-s3`;
    const room = LONGEST - end.length - suffix.length - 1;
    if (room < 1) {
        throw new Error(`the zone id ${zoneId} is too long for a bucket name`);
    }
    return `${beginning(base).slice(0, room).replace(/-+$/, "")}-${suffix}${end}`;
}

/** Returns the rule that the name of a general purpose bucket breaks; `undefined` if it is valid. */
export function bucketNameFault(name: string): string | undefined {
    if (name.length < 3 || name.length > LONGEST) return "3 to 63 characters";
    if (!/^[a-z0-9.-]+$/.test(name)) return "only a-z, 0-9, '.' and '-'";
    if (!/^[a-z0-9].*[a-z0-9]$/.test(name)) return "letters or digits at both ends";
    if (name.includes("..")) return "no two adjacent periods";
    if (/^\d+\.\d+\.\d+\.\d+$/.test(name)) return "not formatted as an IP address";
    if (RESERVED_PREFIXES.some((prefix) => name.startsWith(prefix))) return "no reserved prefix";
    if (RESERVED_SUFFIXES.some((end) => name.endsWith(end))) return "no reserved suffix";
    return undefined;
}

/** Returns the rule that the name of a directory bucket breaks; `undefined` if it is valid. */
export function directoryBucketNameFault(name: string): string | undefined {
    if (name.length < 3 || name.length > LONGEST) return "3 to 63 characters";
    if (!/^[a-z0-9-]+$/.test(name)) return "only a-z, 0-9 and '-'";
    if (!/^[a-z0-9]/.test(name)) return "a letter or digit at the beginning";
    if (!/^.+--[a-z0-9]+(-[a-z0-9]+)*-az\d+--x-s3$/.test(name)) return "the form base--zone--x-s3";
    if (RESERVED_PREFIXES.some((prefix) => name.startsWith(prefix))) return "no reserved prefix";
    return undefined;
}
