"""Latency histograms: exact sums of counts by bucket, three significant digits."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterable, Iterator

_COMPRESSED = 0x1C849314
_PLAIN = 0x1C849313
# Buckets of equal width at the bottom; every octave above has half as many.
_LINEAR = 2048


class Histogram:
    """How often each latency occurred.

    Adding two histograms loses nothing, so percentiles of many seconds, blocks or runs are those of all their operations together.
    Times are in milliseconds; within a bucket they are known to 0.1%.
    """

    __slots__ = ("_counts",)

    def __init__(self, counts: dict[int, int] | None = None) -> None:
        """``counts`` are operations by number of their bucket."""
        self._counts: dict[int, int] = dict(counts or {})

    @classmethod
    def decode(cls, data: bytes | str | None) -> Histogram:
        """Reads HdrHistogram V2, compressed: bytes from ``intervals``, base64 from ``result.json``. Nothing is an empty histogram.

        Raises ``ValueError`` when it is something else or of another shape.
        """
        if not data:
            return cls()
        raw = base64.b64decode(data) if isinstance(data, str) else bytes(data)
        if len(raw) < 8 or struct.unpack_from(">I", raw)[0] != _COMPRESSED:
            raise ValueError("not a compressed HdrHistogram of version 2")
        try:
            plain = zlib.decompress(raw[8:])
        except zlib.error as error:
            raise ValueError(f"a damaged histogram: {error}") from error
        cookie, _, _, digits, lowest = struct.unpack_from(">IIIIQ", plain)
        if (cookie, digits, lowest) != (_PLAIN, 3, 1):
            raise ValueError("a histogram of another shape")
        counts: dict[int, int] = {}
        bucket = 0
        for value in _varints(plain[40:]):
            if value > 0:
                counts[bucket] = value
                bucket += 1
            else:
                bucket += max(-value, 1)
        return cls(counts)

    @classmethod
    def merge(cls, histograms: Iterable[Histogram]) -> Histogram:
        """All operations of several histograms."""
        counts: dict[int, int] = {}
        for histogram in histograms:
            for bucket, n in histogram._counts.items():
                counts[bucket] = counts.get(bucket, 0) + n
        return cls(counts)

    def __add__(self, other: Histogram) -> Histogram:
        return Histogram.merge([self, other])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and self._counts == other._counts

    def __len__(self) -> int:
        """Number of operations."""
        return sum(self._counts.values())

    def __repr__(self) -> str:
        return f"Histogram({len(self)} operations, p50 {self.quantile(0.5)} ms)"

    def quantile(self, q: float) -> float | None:
        """The latency in milliseconds that a share ``q`` (0 to 1) of operations does not exceed: the highest value of its bucket.

        ``None`` when it is empty.
        """
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"a quantile lies between 0 and 1, not at {q}")
        rank = max(math.ceil(q * len(self)), 1)
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= rank:
                return _edges(bucket)[1] / 1e3
        return None

    def within(self, ms: float) -> float:
        """The share of operations that took at most ``ms`` milliseconds."""
        total = len(self)
        inside = sum(n for bucket, n in self._counts.items() if _edges(bucket)[1] <= ms * 1e3)
        return inside / total if total else math.nan

    def buckets(self) -> Iterator[tuple[float, float, int]]:
        """Lowest and highest latency of each bucket in milliseconds, and its operations, in order."""
        for bucket in sorted(self._counts):
            low, high = _edges(bucket)
            yield low / 1e3, high / 1e3, self._counts[bucket]


def _edges(bucket: int) -> tuple[int, int]:
    """Lowest and highest value of a bucket, in microseconds."""
    if bucket < _LINEAR:
        return bucket, bucket
    octave = bucket // (_LINEAR // 2) - 1
    low = (bucket % (_LINEAR // 2) + _LINEAR // 2) << octave
    return low, low + (1 << octave) - 1


def _varints(data: bytes) -> Iterator[int]:
    """Numbers in ZigZag LEB128 of at most nine bytes."""
    value = place = 0
    for byte in data:
        if place == 8:
            value |= byte << 56
        else:
            value |= (byte & 0x7F) << (7 * place)
        if byte & 0x80 and place < 8:
            place += 1
            continue
        yield (value >> 1) ^ -(value & 1)
        value = place = 0
