"""Report words that terms.toml bans, as file:line, in docs, docstrings, messages and public names.

ROOT is a checkout; PATHs restrict the report. The exit status is 1 if there are more than --max hits, so that a test
can hold the number and lower it. Quotations, code, link targets and variables such as NCCL_ALGO are not looked at.
"""

import argparse
import ast
import json
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

SURFACES = ("docs", "docstring", "message", "name", "fragment")
NOT_PROSE = re.compile(
    r"``.*?``|`[^`\n]*`|https?://\S+|\]\([^)]*\)|<!--.*?-->|\b[A-Z][A-Z0-9]*_[A-Z0-9_*]+\b"  # code, links, variables
    r"|“[^”]*”|\"[^\"\n]*\"|\{[^{}]*\}|--[a-z-]+"  # quotations, format fields, options
    r"|^\s*\*{0,2}\w+(?:, \*{0,2}\w+)* : "  # names of parameters in docstrings
)
IDENTIFIER = re.compile(r"[A-Za-z][\w-]*")  # a JSON key or the name of an option


def doc_lines(path):
    """Yield (line number, text) of a Markdown page, without code blocks and block quotations."""
    fenced = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and not line.startswith((">", "    ")):
            yield number, line


def record_lines(path):
    """Yield (1, text) of every line of prose in a record, of which a page of tables is made."""
    left = [json.loads(path.read_text())]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield from (
                (1, line) for line in value.splitlines() if not line.startswith("    ") and " " in line
            )
        elif isinstance(value, dict | list):
            left.extend(value.values() if isinstance(value, dict) else value)


def text_of(node):
    """Return the literal text of a string or f-string, with {} for its fields; None for other nodes."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def python_texts(path):
    """Yield (surface, line number, text) of the docstrings, messages and public names of a module."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    if path.stem != "__init__":
        yield "name", 1, path.stem
    seen = set()  # strings that are docstrings or parts of f-strings
    for node in nodes:
        if isinstance(node, ast.Expr) and (text := text_of(node.value)):
            seen.add(id(node.value))
            in_example = False
            for offset, line in enumerate(text.splitlines()):
                in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
                if not in_example:
                    yield ("docstring" if offset else "first"), node.lineno + offset, line
        elif isinstance(node, ast.JoinedStr):
            seen.update(map(id, node.values))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name[0] != "_":
            yield "name", node.lineno, node.name
    for node in nodes:
        called = node.exc if isinstance(node, ast.Raise) else node
        is_error = isinstance(called, ast.Call) and (
            called is not node or getattr(called.func, "id", "") in ("Refusal", "Unsupported")
        )
        for item in [node] if "cli" in path.parts else called.args if is_error else []:
            if id(item) not in seen and (text := text_of(item)) and not IDENTIFIER.fullmatch(text):
                yield "message", item.lineno, text


def hits(root, rules, only, paths):
    """Yield (surface, place, word, what to say) of every banned word."""
    terms = rules["term"]
    prose = [(re.compile(rf"\b(?:{'|'.join(t['prose'])})\b", re.I), t) for t in terms if "prose" in t]
    names = [(re.compile(rf"(?:^|_)(?:{'|'.join(t['names'])})(?=_|$)"), t) for t in terms if "names" in t]
    any_prose = re.compile(rf"\b(?:{'|'.join(p for t in terms for p in t.get('prose', []))})\b", re.I)
    fragment = re.compile(rf"\s*({'|'.join(rules['style']['fragments'])})\b(?!.*\?)")
    texts = [(path, "docs", *line) for path in sorted(root.glob("docs/**/*.md")) for line in doc_lines(path)]
    for path in sorted(set(root.glob("docs/records/*.json")) - set(root.glob("docs/records/*.data.json"))):
        texts += [(path, "docs", *line) for line in record_lines(path)]
    for path in sorted(root.glob("src/treadle/**/*.py")):
        texts += [(path, *item) for item in python_texts(path)]
    for path, surface, number, text in texts:
        place = f"{path.relative_to(root)}:{number}"
        if place.startswith(tuple(rules["skip"]["files"])) or (paths and not place.startswith(tuple(paths))):
            continue
        if surface == "first" and "fragment" in only and (match := fragment.match(text)):
            yield "fragment", place, match[1], "begin with a verb or a noun (rule 3)"
        surface = "docstring" if surface == "first" else surface
        if surface not in only:
            continue
        is_name = surface == "name"
        cleaned = (
            re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower() if is_name else NOT_PROSE.sub(" ", text)
        )
        for pattern, term in names if is_name else prose if any_prose.search(cleaned) else []:
            if any(re.search(allowed, f"{place}: {text}") for allowed in term.get("allow", [])):
                continue
            for match in pattern.finditer(cleaned):
                yield surface, place, text if is_name else match[0], term["say"]


def main():
    """Print the hits, or with --counts a table of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("paths", nargs="*", metavar="PATH")
    parser.add_argument("--terms", type=Path, default=Path(__file__).with_name("terms.toml"))
    parser.add_argument("--only", default=",".join(SURFACES), help=f"some of {','.join(SURFACES)}")
    parser.add_argument("--counts", action="store_true", help="count hits by term and surface")
    parser.add_argument("--max", type=int, default=0, help="hits that are allowed (default 0)")
    given = parser.parse_args()
    found = list(hits(given.root, tomllib.loads(given.terms.read_text()), given.only.split(","), given.paths))
    if given.counts:
        table = Counter((say, surface) for surface, *_, say in found)
        totals = Counter(say for *_, say in found)
        for say, total in [*totals.most_common(), ("TOTAL", len(found))]:
            row = [table[say, s] if say != "TOTAL" else sum(f[0] == s for f in found) for s in SURFACES]
            print(f"{total:6}", *(f"{surface} {n:<5}" for surface, n in zip(SURFACES, row)), say)
    for surface, place, word, say in [] if given.counts else found:
        print(f"{place}: {surface}: {word!r} -> {say}")
    print(f"{len(found)} banned words", file=sys.stderr)
    return int(len(found) > given.max)


if __name__ == "__main__":
    sys.exit(main())
