#!/usr/bin/env python3
"""Draws sentences of the project at random, to be read with fresh eyes: draw.py [SEED [COUNT]].

Five sources have equal shares: README, docs, help texts, error messages, doc comments. The same seed draws the same sentences
from the same tree. `make sentences` prints 60.
"""

import pathlib
import random
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def sentences(text: str) -> list[str]:
    """Splits prose into sentences of at least four words."""
    text = re.sub(r"\s+", " ", text)
    parts = re.split(r"(?<=[.!?])\s+(?=[A-Z`*\"'(\[])", text)
    return [p.strip(" -*") for p in parts if len(p.split()) >= 4]


def markdown(paths) -> list[tuple[str, str]]:
    """Returns the sentences of Markdown files outside code and tables."""
    out = []
    for path in paths:
        text = re.sub(r"```.*?```", "", path.read_text(), flags=re.S)
        for block in re.split(r"\n\s*\n|\n(?=[-*] )", text):
            if not block.lstrip().startswith(("|", "#", "<!--", "![")):
                out += [(str(path.relative_to(ROOT)), s) for s in sentences(block)]
    return out


def doc_comments(paths) -> list[tuple[str, str]]:
    """Returns the sentences of Rust doc comments."""
    out = []
    for path in paths:
        for block in re.findall(r"(?:^[ \t]*//[/!].*\n)+", path.read_text(), flags=re.M):
            text = "\n".join(re.sub(r"^\s*//[/!] ?", "", line) for line in block.splitlines())
            text = re.sub(r"```.*?```", "", text, flags=re.S)
            for part in re.split(r"\n\s*\n|\n(?=[-*#|] ?)", text):
                if not part.lstrip().startswith(("#", "|")):
                    out += [(str(path.relative_to(ROOT)), s) for s in sentences(part)]
    return out


def help_texts(paths) -> list[tuple[str, str]]:
    """Returns the doc comments that clap prints as help."""
    out = []
    for path in paths:
        for comment in re.findall(r"((?:^[ \t]*///.*\n)+)[ \t]*#\[arg", path.read_text(), flags=re.M):
            text = " ".join(re.sub(r"^\s*/// ?", "", line) for line in comment.splitlines())
            out.append((str(path.relative_to(ROOT)), text.strip()))
    return out


def errors(paths) -> list[tuple[str, str]]:
    """Returns the literals of error messages: of thiserror, of exits, of run errors."""
    out = []
    pattern = r"(?:#\[error\(|Exit::\w+\(|RunError::\w+\(|Problem::new\()\s*(?:\"[a-z_.]+\",\s*)?(?:format!\(\s*)?\"((?:[^\"\\]|\\.)*)\""
    for path in paths:
        for text in re.findall(pattern, path.read_text()):
            text = re.sub(r"\\\n\s*", "", text)
            if len(text.split()) >= 4:
                out.append((str(path.relative_to(ROOT)), text))
    return out


def main() -> int:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    rust = sorted(path for source in (ROOT / "crates").glob("*/*/src") for path in source.rglob("*.rs"))
    pools = {
        "README": markdown([ROOT / "README.md"]),
        "docs": markdown(sorted((ROOT / "docs").rglob("*.md"))),
        "help": help_texts([p for p in rust if "cli" in p.parts]),
        "error": errors(rust),
        "doc comment": doc_comments(rust),
    }
    draw, share = random.Random(seed), count // len(pools)
    # A pool that is too small shows that the files have moved.
    if small := [name for name, pool in pools.items() if len(set(pool)) < share]:
        print(f"draw.py: not {share} sentences in: {', '.join(small)}", file=sys.stderr)
        return 1
    for name, pool in pools.items():
        for path, sentence in draw.sample(sorted(set(pool)), share):
            print(f"[{name}] {path}: {sentence}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
