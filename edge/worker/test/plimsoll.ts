/** Starts the plimsoll program, which PLIMSOLL names or the release build of this repository provides. */
import { ChildProcess, spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PROGRAM = process.env.PLIMSOLL ?? join(import.meta.dirname, "../../../target/release/plimsoll");

/** Token of the relay in the tests. */
export const TOKEN = "a-secret-of-at-least-16-characters";

const KEYS = { AWS_ACCESS_KEY_ID: "test-access-key", AWS_SECRET_ACCESS_KEY: "test-secret-key" };

function start(args: string[], more: Record<string, string> = {}, stdio: "pipe" | "inherit" = "pipe"): ChildProcess {
    const env = { ...process.env, ...KEYS, PLIMSOLL_RELAY_TOKEN: TOKEN, ...more };
    return spawn(PROGRAM, args, { env, stdio, cwd: mkdtempSync(join(tmpdir(), "plimsoll-edge-")) });
}

/** Runs a command with the streams of this process, and returns its exit code. */
export async function inherited(args: string[]): Promise<number> {
    const child = start(args, {}, "inherit");
    return new Promise((resolve) => child.on("close", (code) => resolve(code ?? 1)));
}

async function finished(args: string[], more?: Record<string, string>) {
    const child = start(args, more);
    const texts = { stdout: "", stderr: "" };
    child.stdout!.on("data", (data) => (texts.stdout += data));
    child.stderr!.on("data", (data) => (texts.stderr += data));
    const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
    return { code, ...texts };
}

/** Runs a command that prints JSON, and returns it. */
export async function plimsoll(args: string[]): Promise<any> {
    const { code, stdout, stderr } = await finished(args);
    if (code !== 0) throw new Error(`exit code ${code}: ${stderr}`);
    return JSON.parse(stdout);
}

/** Runs a command that must fail, and returns its messages. */
export async function failure(args: string[], more?: Record<string, string>): Promise<string> {
    const { code, stderr } = await finished(args, more);
    if (code === 0) throw new Error("the command did not fail");
    return stderr;
}

/** A running `plimsoll serve` with a bucket. */
export interface Serve {
    /** Host and port. */
    host: string;
    /** URL of the store. */
    url: string;
    stop(): Promise<void>;
}

/** Starts `plimsoll serve` with faults, and creates a bucket. */
export async function serve(inject: string): Promise<Serve> {
    const child = start(["serve", "--listen", "127.0.0.1:0", "--inject", inject]);
    const endpoint = await new Promise<string>((resolve, reject) => {
        child.stdout!.on("data", (line) => resolve(String(line).trim().replace("listening on ", "")));
        child.on("close", () => reject(new Error("the server did not start")));
    });
    const url = `s3://bucket?endpoint=${endpoint}`;
    const made = await finished(["bucket", "create", url]);
    if (made.code !== 0) throw new Error(made.stderr);
    const stop = async () => {
        child.kill();
        await new Promise((resolve) => (child.exitCode === null ? child.on("close", resolve) : resolve(0)));
    };
    return { host: endpoint.replace("http://", ""), url, stop };
}
