/**
 * The clock of the platform. As a protection against timing attacks, it stands still while code runs and advances only
 * when I/O completes. A difference of two readings therefore contains the I/O between them and no CPU time, and is
 * rounded to the platform's resolution.
 */

/** Milliseconds since an arbitrary origin. */
export type Milliseconds = number;

/** Returns the time at which the last I/O of this request completed. */
export function now(): Milliseconds {
    return performance.now();
}

/** Result of one operation. */
export interface Timed<T> {
    /** Result of the operation. */
    value: T;
    /** Time until the response began. */
    firstByteMs: Milliseconds;
    /** Time until the whole response had arrived. */
    totalMs: Milliseconds;
}

/** Times one operation: its response, then its content. */
export async function timed<R, T>(start: () => Promise<R>, finish: (response: R) => Promise<T>): Promise<Timed<T>> {
    const began = now();
    const response = await start();
    const first = now();
    const value = await finish(response);
    return { value, firstByteMs: first - began, totalMs: now() - began };
}
