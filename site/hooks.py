"""Hooks of MkDocs: pages that are generated from the code, pages and files outside of docs/, and links to them."""
import os
import re
import sys
from pathlib import Path

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
import compatibility  # noqa: E402
import keys  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
# Written by `make site` before: the reference of the command lines, and the reports of the gallery.
GENERATED = Path(os.environ.get("PLIMSOLL_GENERATED", ROOT / "target/generated"))
PROJECT = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
# Schemas with the title and the introduction of their pages.
SCHEMAS = {
    "experiment": ("Keys of experiments", "[Experiments](../experiments.md) explains them with examples."),
    "gateway": ("Keys of gateway.toml", "[Tiers](../tiers.md) explains them with examples. Sizes are texts such as "
                "`64 KiB`, times such as `7d`."),
    "result": ("result.json", "Output of a run and of `plimsoll show RUN --json`."),
    "prices": ("Price books", "[Cost](../cost.md) explains them with examples."),
    "bills": ("Bills", "Output of `plimsoll cost --format json`."),
}
# Files that browsers would not show.
TEXTS = (".md", ".rs", ".toml", ".py")
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s#]+)(#[^)\s]*)?\)")


def generated_pages():
    """Returns the pages that are not files of docs/, by path."""
    pages = {f"reference/{program}.md": (GENERATED / f"reference/{program}.md").read_text()
             for program in ("plimsoll", "plimsoll-gateway")}
    for name, (title, introduction) in SCHEMAS.items():
        pages[f"reference/{name}.md"] = keys.page(ROOT / f"schema/{name}.schema.json", title, introduction)
    pages["reference/compatibility.md"] = compatibility.page(ROOT / "tests")
    for name in PROJECT:
        pages[f"project/{name}"] = (ROOT / name).read_text()
    for page in (ROOT / "results").rglob("*.md"):
        pages[page.relative_to(ROOT).as_posix()] = page.read_text()
    return pages


def on_files(files, config):
    for path, text in generated_pages().items():
        files.append(File.generated(config, path, content=text))
    for report in sorted((GENERATED / "gallery").glob("*.html")):
        files.append(File.generated(config, f"gallery/{report.name}", abs_src_path=str(report)))
    for name in ("site.css", "iframe-worker.js"):
        files.append(File.generated(config, f"assets/{name}", abs_src_path=str(Path(__file__).parent / name)))
    return files


def without_other_hosts(output, root):
    """Replaces the only address of another host, which pages that are opened as files would load."""
    return output.replace("https://unpkg.com/iframe-worker/shim", f"{root}assets/iframe-worker.js")


def on_post_page(output, page, config):
    return without_other_hosts(output, "../" * page.url.count("/"))


def on_post_template(output_content, template_name, config):
    # 404.html is a template and not a page. Servers send it for paths of any depth.
    return without_other_hosts(output_content, "/")


def on_page_markdown(markdown, page, config, files):
    """Replaces links to files that are not pages: to pages of the project, and to copies of other files."""
    if page.file.src_uri == "README.md":
        page.meta["hide"] = ["navigation"]
    # Pages of the project and of results are at the root of the repository, all others in docs/.
    source = page.file.src_uri
    if source.startswith("project/"):
        folder = ROOT
    else:
        folder = (ROOT / ("" if source.startswith("results/") else "docs") / source).parent

    def replaced(match):
        text, target, anchor = match.group(1), match.group(2), match.group(3) or ""
        path = (folder / target).resolve()
        if not path.is_relative_to(ROOT) or not path.exists():
            return match.group(0)
        outside = path.relative_to(ROOT).as_posix()
        if path.is_relative_to(ROOT / "docs"):
            inside = path.relative_to(ROOT / "docs").as_posix() + ("/README.md" if path.is_dir() else "")
        elif outside == "README.md" or outside in PROJECT:
            inside = outside if outside == "README.md" else f"project/{outside}"
        elif outside.startswith("results/") and path.suffix == ".md":
            inside = outside
        elif path.is_dir():
            # A folder of the repository has no page.
            return text
        else:
            inside = f"files/{outside}" + (".txt" if path.suffix in TEXTS else "")
            if not files.get_file_from_path(inside):
                files.append(File.generated(config, inside, abs_src_path=str(path)))
        return f"[{text}]({'../' * source.count('/')}{inside}{anchor})"

    markdown = LINK.sub(replaced, markdown)
    if source == "gallery/README.md":
        # A picture opens its report.
        markdown = re.sub(r"(!\[[^\]]*\]\(\S*?([\w-]+)\.png\))", r"[\1](\2.html)", markdown)
    return markdown
