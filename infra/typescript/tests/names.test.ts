/** Names against AWS's documented rules, on random inputs. */
import assert from "node:assert/strict";
import { randomBytes, randomInt } from "node:crypto";
import { test } from "node:test";

import { bucketName, bucketNameFault, directoryBucketName, directoryBucketNameFault, uniqueSuffix } from "../names";
import { expressZone } from "../zones";

/** Returns a random text: any characters, or pieces that rules are about. */
function randomBase(): string {
    const pieces = ["xn--", "sthree-", "amzn-s3-demo-", "google", "goog", "-", "--", ".", "A", "z", "9", "ü", "日本", " ", ""];
    if (randomInt(4) === 0) return randomBytes(randomInt(100)).toString("latin1");
    return Array.from({ length: randomInt(30) }, () => pieces[randomInt(pieces.length)]).join("");
}

test("names of 1,000 random inputs follow the rules", () => {
    for (let i = 0; i < 1_000; i++) {
        const base = randomBase();
        const suffix = uniqueSuffix(base, String(i));
        const name = bucketName(base, suffix);
        assert.equal(bucketNameFault(name), undefined, `${JSON.stringify(base)} -> ${name}`);
        assert.ok(!name.startsWith("goog") && !name.includes("google"), name);
        const zone = ["use1-az4", "apne1-az1", "usw2-lax1-az1"][i % 3];
        const directory = directoryBucketName(base, suffix, zone);
        assert.equal(directoryBucketNameFault(directory), undefined, `${JSON.stringify(base)} -> ${directory}`);
        assert.ok(directory.endsWith(`-${suffix}--${zone}--x-s3`));
    }
});

test("invalid names are found", () => {
    for (const bad of ["ab", "a".repeat(64), "Upper", "-a-b", "a..b", "10.0.0.1", "xn--abc", "abc-s3alias", "a_b"]) {
        assert.notEqual(bucketNameFault(bad), undefined, bad);
    }
    for (const bad of ["data--x-s3", "Data--use1-az4--x-s3", "data--useast1--x-s3", "xn--a--use1-az4--x-s3"]) {
        assert.notEqual(directoryBucketNameFault(bad), undefined, bad);
    }
});

test("the first zone that offers Express is chosen, and a wrong zone is refused", () => {
    const offered = ["use1-az1", "use1-az2", "use1-az6", "use1-az5"];
    assert.equal(expressZone("us-east-1", offered), "use1-az5");
    assert.equal(expressZone("us-east-1", offered, "use1-az1"), "use1-az1");
    assert.throws(() => expressZone("us-east-1", offered, "use1-az9"), /use1-az9/);
    assert.throws(() => expressZone("sa-east-1", ["sae1-az1"]), /sa-east-1/);
});
