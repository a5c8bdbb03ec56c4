/**
 * The clock of the platform.
 *
 * On Cloudflare Workers, it stands still while code runs and advances when I/O completes, as a protection against timing
 * attacks. A difference of two readings then contains the I/O between them and no CPU time, in steps of a millisecond.
 * On other platforms it is an ordinary monotonic clock.
 */

/** Returns milliseconds since an arbitrary origin. */
export function now(): number {
    return performance.now();
}
