// node-redis over streams, as an application would use it. Prints "done" when every answer was as it should be.
import assert from "node:assert/strict";
import { createClient } from "redis";

const [, , port, protocol] = process.argv;
const client = createClient({ socket: { port: Number(port) }, RESP: Number(protocol), unstableResp3: true });
client.on("error", (error) => { throw error; });
await client.connect();

assert.equal(await client.xAdd("s", "1-0", { f: "v" }), "1-0");
assert.equal(await client.xAdd("s", "2-0", { f: "w", g: "x" }), "2-0");
assert.equal(await client.xLen("s"), 2);
const range = await client.xRange("s", "-", "+");
assert.deepEqual(range.map(({ id, message }) => [id, { ...message }]), [["1-0", { f: "v" }], ["2-0", { f: "w", g: "x" }]]);

await client.xGroupCreate("s", "g", "0");
const read = await client.xReadGroup("g", "alice", { key: "s", id: ">" }, { COUNT: 1 });
assert.match(JSON.stringify(read), /"1-0"/);
const pending = await client.xPending("s", "g");
assert.equal(pending.pending, 1);
assert.equal(pending.firstId, "1-0");
const [record] = await client.xPendingRange("s", "g", "-", "+", 10);
assert.equal(record.consumer, "alice");
const claimed = await client.xAutoClaim("s", "g", "bob", 0, "0-0");
assert.equal(claimed.messages[0].id, "1-0");
assert.equal(await client.xAck("s", "g", "1-0"), 1);
const info = await client.xInfoStream("s");
assert.equal(info.length, 2);
assert.equal((await client.xInfoGroups("s"))[0].name, "g");
assert.equal((await client.xInfoConsumers("s", "g")).length, 2);

const replies = await client.multi().xAdd("s", "3-0", { f: "v" }).xTrim("s", "MAXLEN", 1).exec();
assert.deepEqual(replies, ["3-0", 2]);

const reader = client.duplicate();
await reader.connect();
const waiting = reader.xRead({ key: "s", id: "$" }, { BLOCK: 10000 });
while (!/blocked_clients:1/.test(await client.info("clients"))) { /* until it waits */ }
await client.xAdd("s", "4-0", { f: "v" });
assert.match(JSON.stringify(await waiting), /"4-0"/);

await assert.rejects(client.xAdd("s", "1-0", { f: "v" }), /equal or smaller/);
await Promise.all([reader.close(), client.close()]);
console.log("done");
