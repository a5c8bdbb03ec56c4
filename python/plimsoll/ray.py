"""Starts the nodes of a fleet as actors of a Ray cluster. ``plimsoll fleet run --on ray`` runs this module.

One actor is placed on each Ray node (placement group with STRICT_SPREAD). It starts the program of this package as a
child process. This module copies its standard input to all of them, and their output to standard output; it does not
interpret the messages.
"""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import threading
from typing import Any

from plimsoll._program import program

# Longest time for which an actor waits for output before it answers, in seconds. The driver then asks again.
WAIT_S = 0.2
# Maximum number of lines in one answer.
MAX_LINES = 1_000


class Node:
    """A child process on one node."""

    def __init__(self, index: int, of: int, path: str | None) -> None:
        command = [path or program(), "fleet", "node", "--shard", f"{index + 1}/{of}"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._lines: collections.deque[bytes] = collections.deque()
        self._changed = threading.Condition()
        self._ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._output:
            with self._changed:
                self._lines.append(line)
                self._changed.notify()
        with self._changed:
            self._ended = True
            self._changed.notify()

    def write(self, line: bytes) -> None:
        """Sends a line to the process; an empty one closes its input."""
        try:
            if line:
                self._input.write(line)
                self._input.flush()
            else:
                self._input.close()
        except (BrokenPipeError, ValueError):
            pass  # The process has ended, which `read` reports.

    def read(self) -> tuple[list[bytes], bool]:
        """Returns the next lines, and true if there are no more."""
        with self._changed:
            if not self._lines and not self._ended:
                self._changed.wait(WAIT_S)
            lines = [self._lines.popleft() for _ in range(min(len(self._lines), MAX_LINES))]
            return lines, self._ended and not self._lines


def place(of: int, timeout_s: float) -> Any:
    """Reserves one CPU on each of ``of`` different nodes; exits if the cluster has too few."""
    import ray
    from ray.util.placement_group import placement_group

    group = placement_group([{"CPU": 1}] * of, strategy="STRICT_SPREAD")
    if not group.wait(timeout_s):
        ray.util.remove_placement_group(group)
        alive = sum(node["Alive"] for node in ray.nodes())
        sys.exit(f"--nodes {of}: the Ray cluster has {alive} nodes, or too few of them have a free CPU")
    return group


def forward_input(actors: list[Any]) -> None:
    """Copies standard input to all actors, and its end."""
    while True:
        line = sys.stdin.buffer.readline()
        for actor in actors:
            actor.write.options(concurrency_group="input").remote(line)
        if not line:
            return


def forward_output(actors: list[Any]) -> None:
    """Copies the output of all actors to standard output, until all have ended or died."""
    import ray

    def read(actor: Any) -> Any:
        return actor.read.options(concurrency_group="output").remote()

    waiting = {read(actor): (index, actor) for index, actor in enumerate(actors)}
    while waiting:
        ready, _ = ray.wait(list(waiting), num_returns=1)
        for reference in ready:
            index, actor = waiting.pop(reference)
            try:
                lines, ended = ray.get(reference)
            except ray.exceptions.RayError as error:
                reason = str(error).strip().splitlines()[0]
                print(f'{{"node":{index},"report":{{"lost":"{type(error).__name__}"}}}}', flush=True)
                print(f"node {index + 1}: {reason}", file=sys.stderr, flush=True)
                continue
            sys.stdout.buffer.writelines(lines)
            sys.stdout.buffer.flush()
            if not ended:
                waiting[read(actor)] = (index, actor)
            elif not any(b'"ended"' in line for line in lines):
                print(f'{{"node":{index},"report":{{"lost":"its process ended"}}}}', flush=True)


def main() -> None:
    """Runs the fleet's nodes until they end."""
    parser = argparse.ArgumentParser(prog="python -m plimsoll.ray", description=__doc__.splitlines()[0])
    parser.add_argument("--address", default="auto", help="address of the cluster: auto, HOST:PORT or ray://HOST:PORT")
    parser.add_argument("--nodes", type=int, required=True, help="number of nodes")
    parser.add_argument("--program", help="path of plimsoll on the nodes; default: the one of this package")
    parser.add_argument("--timeout", type=float, default=60, help="seconds to wait for free nodes")
    arguments = parser.parse_args()
    try:
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
    except ImportError:
        sys.exit("Ray is not installed for this Python; install plimsoll[ray], or set PLIMSOLL_PYTHON")
    try:
        ray.init(address=arguments.address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError) as error:
        sys.exit(f"no Ray cluster at {arguments.address}: {str(error).strip().splitlines()[0]}")
    group = place(arguments.nodes, arguments.timeout)
    # One thread for each direction keeps the lines in order.
    node = ray.remote(num_cpus=1, concurrency_groups={"input": 1, "output": 1})(Node)
    actors = [
        node.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index))
        .remote(index, arguments.nodes, arguments.program)
        for index in range(arguments.nodes)
    ]
    threading.Thread(target=forward_input, args=(actors,), daemon=True).start()
    forward_output(actors)
    ray.util.remove_placement_group(group)
    # Everything has been forwarded. A normal exit would wait for the thread that reads standard input.
    os._exit(0)


if __name__ == "__main__":
    main()
