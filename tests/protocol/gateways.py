"""Starts `plimsoll-gateway` for the protocol suites: on one directory, or on two tiers between which every object moves
without pause (`--moving`)."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "clients"))
from support import GATEWAY, Server  # noqa: E402

MOVING = "--moving" in sys.argv
RUN = MOVING or "--gateway" in sys.argv


def settings(folder):
    """Writes the settings of a gateway that packs everything small and moves everything. Returns the name of the file."""
    path = os.path.join(folder, "gateway.toml")
    moves = "".join(f'[[move]]\nfrom = "{a}"\nto = "{b}"\nwhen = "age >= 0s"\nkeep_source = "0s"\n'
                    for a, b in (("hot", "cold"), ("cold", "hot")))
    with open(path, "w") as file:
        file.write(f"""
[catalog]
url = "dir:{folder}/catalog"
[tier.hot]
url = "file://{folder}/hot"
[tier.cold]
url = "file://{folder}/cold"
[write]
tier = "hot"
inline = "1 KiB"
[retain]
deleted = "0s"
[pack]
tier = "hot"
max_body = "64 KiB"
file_size = "1 MiB"
min_age = "0s"
max_wait = "0s"
{moves}""")
    return path


def start(folder, *options):
    place = [settings(folder), "--move-every", "10ms"] if MOVING else ["--data", os.path.join(folder, "data")]
    return Server(*place, *options, command=(GATEWAY, "run"))
