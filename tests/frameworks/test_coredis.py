"""A service on coredis: orders over streams, scripts, locks, transactions, a cache; the same on redis-server."""

import asyncio
from collections import Counter
from typing import Any

import anyio
import redis
from coredis import PureToken, Redis
from coredis.patterns.cache import LRUCache
from coredis.patterns.pipeline import Pipeline

from support.patience import PATIENCE_S
from support.server_process import ServerProcess

ORDERS = 24
STOCK = 16  # of one article: the other orders are refused
CRASHED = 5  # orders that a worker takes and never acknowledges

RESERVE = """
local left = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')
if left == 0 then return 0 end
redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
return left
"""
LIBRARY = """#!lua name=shop
local function book(keys, args)
    redis.call('ZINCRBY', keys[1], args[2], args[1])
    return redis.call('ZSCORE', keys[1], args[1])
end
redis.register_function('book', book)
"""


class Shop:
    """Customers, workers and a window that shows the stock."""

    def __init__(self, client: Redis[str]) -> None:
        self.client = client
        self.reserve = client.register_script(RESERVE)
        self.handled: Counter[str] = Counter()
        self.shown: list[str] = []

    async def open(self) -> None:
        await self.client.hset("stock", {"book": STOCK})
        await self.client.register_library("shop", LIBRARY, replace=True)
        await self.client.xgroup_create("orders", "workers", identifier="0", mkstream=True)

    async def order(self) -> None:
        for number in range(ORDERS):
            await self.client.xadd("orders", {"number": number, "customer": f"c{number % 3}"})

    async def crash(self) -> None:
        """Take some orders, and leave."""
        taken = await self.client.xreadgroup("workers", "crashed", streams={"orders": ">"}, count=CRASHED)
        assert taken is not None
        assert [len(entries) for entries in taken.values()] == [CRASHED]

    async def take_over(self, name: str) -> None:
        """Do the orders of a worker that has left."""
        claimed: Any = await self.client.xautoclaim("orders", "workers", name, 0, "0-0", count=ORDERS)
        for entry in claimed[1]:
            await self.handle(entry.identifier, dict(entry.field_values))

    async def work(self, name: str) -> None:
        """Do orders until all are done."""
        consumer = self.client.xconsumer(["orders"], group="workers", consumer=name, buffer_size=5, timeout=200)
        async with consumer:
            while self.handled.total() < ORDERS:
                entry: Any = (await consumer.get_entry())[1]
                if entry is not None:
                    await self.handle(entry.identifier, dict(entry.field_values))

    async def handle(self, identifier: str, fields: dict[str, str]) -> None:
        self.handled[fields["number"]] += 1
        reserved: Any = await self.reserve(["stock"], ["book"])
        async with self.client.pipeline(transaction=True) as pipe:
            pipe.xack("orders", "workers", [identifier])
            pipe.rpush("sold" if reserved else "refused", [fields["number"]])
            pipe.expire("refused", 3600)
        if reserved:
            await self.client.fcall("book", ["customers"], [fields["customer"], 1])
        async with self.client.lock("lock:till", timeout=PATIENCE_S, sleep=0.005):
            await self.client.set("till", int(await self.client.get("till") or 0) + bool(reserved))
        await self.client.publish("shown", fields["number"])

    async def show(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Hear of every order."""
        async with self.client.pubsub(channels=["shown"], ignore_subscribe_messages=True) as messages:
            task_status.started()
            async for message in messages:
                self.shown.append(str(message["data"]))
                if len(self.shown) == ORDERS:
                    return

    async def count_again(self) -> int:
        """Add to a number that another client changes meanwhile: the transaction is tried again."""
        attempts = 0

        async def add(pipe: Pipeline[str]) -> None:
            nonlocal attempts
            attempts += 1
            value = int(await self.client.get("counted") or 0)
            if attempts == 1:
                await self.client.set("counted", 10)
            pipe.set("counted", value + 1)

        await self.client.transaction(add, "counted")
        return attempts


async def run_shop(port: int) -> dict[str, object]:
    """Run the shop, and tell all that is left of it."""
    async with Redis(port=port, decode_responses=True) as client:
        shop = Shop(client)
        await shop.open()
        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                await group.start(shop.show)
                await shop.order()
                await shop.crash()
                await shop.take_over("one")
                group.start_soon(shop.work, "one")
                group.start_soon(shop.work, "two")
        assert shop.handled == Counter(str(number) for number in range(ORDERS))
        assert Counter(shop.shown) == shop.handled
        assert sorted([*await client.lrange("sold", 0, -1), *await client.lrange("refused", 0, -1)], key=int) == [
            str(number) for number in range(ORDERS)
        ]
        pending: Any = await client.xpending("orders", "workers")
        info: Any = await client.xinfo_stream("orders", full=True)
        return {
            "attempts": await shop.count_again(),
            "counted": await client.get("counted"),
            "keys": sorted([key async for key in client.scan_iter(match="*", count=2)]),
            "lengths": (await client.llen("sold"), await client.llen("refused"), await client.xlen("orders")),
            "booked": sum(each.score for each in await client.zrange("customers", 0, -1, withscores=True)),
            "till": await client.get("till"),
            "pending": pending.pending,
            "groups": [(each["name"], each["entries-read"], each["lag"]) for each in info["groups"]],
            "trimmed": await client.xtrim("orders", PureToken.MAXLEN, 10, trim_operator=PureToken.EQUAL),
            "expires": 0 < await client.ttl("refused") <= 3600,
        }


async def cached_reads(port: int) -> list[str | None]:
    """Read through a cache on the client's side, which the server tells of changes."""
    seen: list[str | None] = []
    async with Redis(port=port, decode_responses=True) as writer:
        await writer.set("price", "1")
        async with Redis(port=port, decode_responses=True, cache=LRUCache()) as reader:
            seen += [await reader.get("price"), await reader.get("price")]
            await writer.set("price", "2")
            with anyio.fail_after(PATIENCE_S):
                while (price := await reader.get("price")) == "1":
                    await anyio.sleep(0.01)
            seen.append(price)
    return seen


def test_a_shop_works_as_on_redis(server: ServerProcess, redis_server: redis.Redis) -> None:
    ports = (server.port, int(redis_server.connection_pool.connection_kwargs["port"]))
    here, there = (asyncio.run(run_shop(port)) for port in ports)
    assert here == there
    assert here["lengths"] == (STOCK, ORDERS - STOCK, ORDERS)
    assert [asyncio.run(cached_reads(port)) for port in ports] == [["1", "1", "2"]] * 2
