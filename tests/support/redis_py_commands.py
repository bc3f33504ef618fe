"""What redis-py can send, from its source: names of commands, and the words behind each that stand for themselves."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import redis.commands

_WORD = re.compile(r"[A-Z][A-Z0-9_-]*\Z")
_COMMAND = re.compile(r"[A-Z][A-Z0-9_.-]*( [A-Z][A-Z-]*)?\Z")
_SENDING = {"execute_command", "create_iter"}


def sent_by_redis_py() -> dict[str, set[str]]:
    """Return the options of each command, by its name as the table of commands has it (`client|kill`)."""
    root = Path(redis.commands.__file__).parent
    found: dict[str, set[str]] = {}
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text())
        names = _imported_constants(tree, root.parent) | _constants(tree)
        for method in ast.walk(tree):
            if isinstance(method, ast.FunctionDef):
                for command in set(_commands(method, names)):
                    parts = command.lower().split(" ")
                    options = {word for word in _words(method) if word not in command.split(" ")}
                    found.setdefault("|".join(parts), set()).update(options)
    return found


def _constants(tree: ast.Module) -> dict[str, str]:
    """Return the module's names for texts, as VADD_CMD."""
    return {
        statement.targets[0].id: statement.value.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    }


def _imported_constants(tree: ast.Module, package: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("redis."):
            path = package.joinpath(*str(statement.module).split(".")[1:]).with_suffix(".py")
            if path.is_file():
                found |= _constants(ast.parse(path.read_text()))
    return found


def _commands(method: ast.FunctionDef, names: dict[str, str]) -> Iterator[str]:
    """Yield the names that a method sends: the first argument of what sends, or the first text of the list for it."""
    for call in ast.walk(method):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _SENDING):
            continue
        first = call.args[0] if call.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield first.value.upper()
        elif isinstance(first, ast.Name) and first.id in names:
            yield names[first.id].upper()
        elif isinstance(first, ast.Name | ast.Starred):
            plain = method.name.replace("_", "")
            for command in _first_texts(method, names):
                word = command.split(" ")[0].lower().replace("_", "")
                if "." in word or plain.startswith(word):
                    yield command


def _first_texts(method: ast.FunctionDef, names: dict[str, str]) -> Iterator[str]:
    """Yield the text that the first list or tuple of a method begins with."""
    made = [node for node in ast.walk(method) if isinstance(node, ast.List | ast.Tuple) and node.elts]
    for node in sorted(made, key=lambda node: (node.lineno, node.col_offset)):
        first = node.elts[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str) and _COMMAND.match(first.value):
            yield first.value
            return
        if isinstance(first, ast.Name) and first.id in names:
            yield names[first.id].upper()
            return


def _words(method: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(method):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _WORD.match(node.value):
            yield node.value
