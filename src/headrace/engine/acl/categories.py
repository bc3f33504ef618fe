"""The ACL categories of a command: from its flags and its group, and a few by name."""

from typing import Final

from headrace.engine.command import Command, Flag

# In the order in which Redis lists them.
CATEGORIES: Final = (
    "keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo", "stream",
    "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting",
)  # fmt: skip
_FLAG_CATEGORY: Final = (
    (Flag.READ, "read"),
    (Flag.WRITE, "write"),
    (Flag.BLOCKING, "blocking"),
    (Flag.PUBSUB, "pubsub"),
)
_GROUP_CATEGORY: Final = {
    "bitmap": "bitmap",
    "connection": "connection",
    "geo": "geo",
    "generic": "keyspace",
    "hash": "hash",
    "headrace": "stream",
    "hyperloglog": "hyperloglog",
    "list": "list",
    "scripting": "scripting",
    "set": "set",
    "sorted-set": "sortedset",
    "stream": "stream",
    "string": "string",
    "transactions": "transaction",
}
# Of the groups "server" and "generic", but about connections, keys or collections.
_OTHER_CATEGORY: Final = {
    b"command": "connection",
    b"copy": "keyspace",
    b"dbsize": "keyspace",
    b"flushall": "keyspace",
    b"flushdb": "keyspace",
    b"readonly": "connection",
    b"readwrite": "connection",
    b"sort": "list",
    b"sort_ro": "list",
    b"swapdb": "keyspace",
    b"wait": "connection",
}
_MORE_CATEGORIES: Final = {
    b"flushall": {"dangerous"},
    b"flushdb": {"dangerous"},
    b"info": {"dangerous"},
    b"keys": {"dangerous"},
    b"lastsave": {"admin", "dangerous"},
    b"restore": {"dangerous"},
    b"role": {"admin", "dangerous"},
    b"sort": {"set", "sortedset", "dangerous"},
    b"sort_ro": {"set", "sortedset", "dangerous"},
    b"swapdb": {"dangerous"},
}


def categories_of(command: Command) -> set[str]:
    """Name the categories of a command."""
    outer = command.name.partition(b"|")[0]
    categories = {"fast" if command.flags & Flag.FAST else "slow"}
    categories |= {name for flag, name in _FLAG_CATEGORY if command.flags & flag}
    if command.flags & Flag.ADMIN:
        categories |= {"admin", "dangerous"}
    of_group = _OTHER_CATEGORY.get(outer, _GROUP_CATEGORY.get(command.group))
    if of_group is not None and command.handler is not None:
        categories.add(of_group)
    if of_group == "scripting":
        categories.discard("read")  # a script that may not write is still more than a look
    return categories | _MORE_CATEGORIES.get(command.name, set())


def in_category(commands: dict[bytes, Command], category: str) -> list[Command]:
    """List the commands and subcommands of a category."""
    found: list[Command] = []
    for each in commands.values():
        if category in categories_of(each):
            found.append(each)
        found += in_category(each.subcommands, category)
    return found
