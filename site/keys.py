"""Pages that describe a file key by key, from its JSON schema."""
import json


def page(path, title, introduction):
    """Returns the Markdown of a schema: the keys of the file, then those of each table."""
    schema = json.loads(path.read_text())
    described = schema.get("description", "").rstrip(".")
    parts = [f"# {title}\n\n{described}. {introduction} [JSON schema](../../schema/{path.name}).\n"]
    parts.append(table(schema))
    for name, part in sorted(schema.get("$defs", {}).items()):
        parts.append(f"\n## {name}\n\n{part.get('description', '')}\n\n{body(part)}")
    return "".join(parts)


def body(part):
    """Returns the keys of a table, the alternatives of a choice, or the kind of a simple value."""
    if "properties" in part:
        return table(part)
    if choices := part.get("anyOf") or part.get("oneOf"):
        lines = []
        for choice in choices:
            described = choice.get("description", "")
            lines.append(f"- {kind(choice)}{': ' if described else ''}{text(described)}\n")
            for name, value in choice.get("properties", {}).items():
                lines.append(f"    - `{name}` ({kind(value)}): {text(value.get('description', ''))}\n")
        return "".join(lines)
    return f"{kind(part).capitalize()}.\n"


def table(part):
    required = part.get("required", [])
    rows = ["| key | value | meaning |\n| --- | --- | --- |\n"]
    for name, value in sorted(part.get("properties", {}).items()):
        notes = [] if name not in required else ["required"]
        if value.get("default") not in (None, [], {}, ""):
            notes.append(f"default: `{json.dumps(value['default']).strip(chr(34))}`")
        described = text(value.get("description", ""))
        note = f" ({', '.join(notes)})" if notes and "default:" not in described.lower() else ""
        rows.append(f"| `{name}` | {kind(value)} | {described}{note} |\n")
    return "".join(rows) + "\n"


def text(description):
    """Returns a description for one line of a table."""
    return description.replace("\n", " ").replace("|", "\\|").replace("<", "&lt;")


def kind(value):
    """Returns the kind of a value in words, with a link to the table that it is."""
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return " or ".join(f"`{each}`" for each in value["enum"] if each is not None)
    choices = value.get("anyOf") or value.get("oneOf") or value.get("allOf")
    if choices:
        kinds = [kind(each) for each in choices if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    kinds = value.get("type", "value")
    kinds = [each for each in ([kinds] if isinstance(kinds, str) else kinds) if each != "null"]
    names = {"object": "table", "array": "list", "string": "text", "integer": "integer", "number": "number",
             "boolean": "true or false"}
    if kinds == ["array"] and isinstance(value.get("items"), dict):
        return f"list of {kind(value['items'])}"
    if kinds == ["object"] and isinstance(value.get("additionalProperties"), dict):
        return f"table of {kind(value['additionalProperties'])} by name"
    return " or ".join(names.get(each, each) for each in kinds)
