// ioredis over streams, as an application would use it. Prints "done" when every answer was as it should be.
import assert from "node:assert/strict";
import Redis from "ioredis";

const [, , port] = process.argv;
const client = new Redis({ port: Number(port), host: "127.0.0.1" });

assert.equal(await client.xadd("s", "1-0", "f", "v"), "1-0");
assert.equal(await client.xadd("s", "MAXLEN", "~", 100, "2-0", "f", "w"), "2-0");
assert.equal(await client.xlen("s"), 2);
assert.deepEqual(await client.xrange("s", "-", "+", "COUNT", 1), [["1-0", ["f", "v"]]]);
assert.equal(await client.xgroup("CREATE", "s", "g", "0"), "OK");
assert.deepEqual(await client.xreadgroup("GROUP", "g", "alice", "COUNT", 1, "STREAMS", "s", ">"), [["s", [["1-0", ["f", "v"]]]]]);
assert.deepEqual(await client.xpending("s", "g"), [1, "1-0", "1-0", [["alice", "1"]]]);
assert.deepEqual(await client.xclaim("s", "g", "bob", 0, "1-0", "JUSTID"), ["1-0"]);
assert.equal(await client.xack("s", "g", "1-0"), 1);
assert.equal((await client.xinfo("STREAM", "s"))[1], 2);

const batch = await client.pipeline().xadd("s", "3-0", "f", "v").xtrim("s", "MAXLEN", 1).exec();
assert.deepEqual(batch, [[null, "3-0"], [null, 2]]);
assert.deepEqual(await client.multi().xlen("s").exec(), [[null, 1]]);

const reader = client.duplicate();
const waiting = reader.xread("BLOCK", 10000, "STREAMS", "s", "$");
while (!/blocked_clients:1/.test(await client.info("clients"))) { /* until it waits */ }
await client.xadd("s", "4-0", "f", "v");
assert.deepEqual(await waiting, [["s", [["4-0", ["f", "v"]]]]]);

await assert.rejects(client.xadd("s", "1-0", "f", "v"), /equal or smaller/);
assert.equal(await client.call("XADD", "s", "IDMP", "p", "1", "*", "f", "v"), await client.call("XADD", "s", "IDMP", "p", "1", "*", "f", "v"));
await Promise.all([reader.quit(), client.quit()]);
console.log("done");
