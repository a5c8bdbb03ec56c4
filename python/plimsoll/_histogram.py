"""Latency histograms with three significant digits, which can be merged exactly."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterable, Iterator

_COMPRESSED = 0x1C849314
_PLAIN = 0x1C849313
# Number of buckets of equal width at the bottom; every octave above has half as many.
_LINEAR = 2048


class Histogram:
    """Number of operations by latency bucket.

    Merging histograms loses nothing, so percentiles of many seconds, blocks or runs are those of all their operations.
    Times are in milliseconds, with a resolution of 0.1%.
    """

    __slots__ = ("_counts",)

    def __init__(self, counts: dict[int, int] | None = None) -> None:
        """Creates a histogram from ``counts``, the number of operations by bucket number."""
        self._counts: dict[int, int] = dict(counts or {})

    @classmethod
    def decode(cls, data: bytes | str | None) -> Histogram:
        """Decodes a compressed HdrHistogram V2: bytes from ``intervals``, or base64 text from ``result.json``.

        Returns an empty histogram for empty data or ``None``. Raises ``ValueError`` for any other format, and for
        histogram parameters that Plimsoll does not use.
        """
        if not data:
            return cls()
        raw = base64.b64decode(data) if isinstance(data, str) else bytes(data)
        if len(raw) < 8 or struct.unpack_from(">I", raw)[0] != _COMPRESSED:
            raise ValueError("not a compressed HdrHistogram V2")
        try:
            plain = zlib.decompress(raw[8:])
        except zlib.error as error:
            raise ValueError(f"damaged histogram: {error}") from error
        cookie, _, _, digits, lowest = struct.unpack_from(">IIIIQ", plain)
        if (cookie, digits, lowest) != (_PLAIN, 3, 1):
            raise ValueError("unsupported histogram: it must have 3 significant digits and a lowest value of 1")
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
        """Returns the sum of several histograms."""
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
        """Returns the number of operations."""
        return sum(self._counts.values())

    def __repr__(self) -> str:
        return f"Histogram({len(self)} operations, p50 {self.quantile(0.5)} ms)"

    def quantile(self, q: float) -> float | None:
        """Returns the latency in milliseconds that a share ``q`` (0 to 1) of the operations does not exceed.

        The result is the highest value of its bucket; ``None`` if the histogram is empty.
        """
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"quantile {q} is out of range: it must be between 0 and 1")
        rank = max(math.ceil(q * len(self)), 1)
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= rank:
                return _edges(bucket)[1] / 1e3
        return None

    def within(self, ms: float) -> float:
        """Returns the share of operations that took at most ``ms`` milliseconds; NaN if the histogram is empty."""
        total = len(self)
        inside = sum(n for bucket, n in self._counts.items() if _edges(bucket)[1] <= ms * 1e3)
        return inside / total if total else math.nan

    def buckets(self) -> Iterator[tuple[float, float, int]]:
        """Yields each bucket in order: its lowest and highest latency in milliseconds and its number of operations."""
        for bucket in sorted(self._counts):
            low, high = _edges(bucket)
            yield low / 1e3, high / 1e3, self._counts[bucket]


def _edges(bucket: int) -> tuple[int, int]:
    """Returns the lowest and highest value of a bucket, in microseconds."""
    if bucket < _LINEAR:
        return bucket, bucket
    octave = bucket // (_LINEAR // 2) - 1
    low = (bucket % (_LINEAR // 2) + _LINEAR // 2) << octave
    return low, low + (1 << octave) - 1


def _varints(data: bytes) -> Iterator[int]:
    """Yields the numbers in ZigZag LEB128 encoding, which have at most nine bytes each."""
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
