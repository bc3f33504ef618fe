// A service on BullMQ: mail that is sent, retried, delayed, ordered, limited and repeated, and a flow of jobs.
// Prints "done" when every job was worked on exactly as often as it should be.
import assert from "node:assert/strict";
import { FlowProducer, Queue, QueueEvents, Worker } from "bullmq";

const [, , port] = process.argv;
const connection = { port: Number(port), host: "127.0.0.1", maxRetriesPerRequest: null };
const opened = [];
const open = (it) => (opened.push(it), it);
const queueOf = (name) => open(new Queue(name, { connection }));
const workerOf = (name, work, options = {}) => open(new Worker(name, work, { connection, ...options }));
const eventsOf = async (name) => {
  const events = open(new QueueEvents(name, { connection }));
  await events.waitUntilReady();
  return events;
};
const until = async (condition) => {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 20));
};

// Jobs come back with what their worker returned, each once, whoever of two workers had it.
{
  const queue = queueOf("mail");
  const events = await eventsOf("mail");
  const sent = [];
  queue.setMaxListeners(100); // each job that is waited for listens to its end
  for (let i = 0; i < 2; i++) workerOf("mail", async (job) => { sent.push(job.data.to); return job.data.to.length; }, { concurrency: 5 });
  const jobs = await queue.addBulk([...Array(50).keys()].map((i) => ({ name: "send", data: { to: `user${i}` } })));
  const lengths = await Promise.all(jobs.map((job) => job.waitUntilFinished(events)));
  assert.equal(lengths.reduce((sum, each) => sum + each), 10 * 5 + 40 * 6);
  assert.equal(new Set(sent).size, 50);
  assert.equal(sent.length, 50);
  assert.equal(await queue.getCompletedCount(), 50);
  assert.equal((await queue.clean(0, 1000, "completed")).length, 50);
}

// A job that fails is tried again, later each time; one that never succeeds is kept with its reason, and can be retried.
{
  const queue = queueOf("flaky");
  const events = await eventsOf("flaky");
  let broken = true;
  const worker = workerOf("flaky", async (job) => {
    await job.updateProgress(50);
    await job.log(`attempt ${job.attemptsMade}`);
    if (job.name === "never" ? broken : job.attemptsMade < 2) throw new Error("not yet");
    return job.attemptsMade;
  });
  const backoff = { type: "exponential", delay: 20 };
  const twice = await queue.add("twice", {}, { attempts: 3, backoff });
  assert.equal(await twice.waitUntilFinished(events), 2);
  assert.deepEqual((await queue.getJobLogs(twice.id)).count, 3);
  const never = await queue.add("never", {}, { attempts: 2, backoff });
  await assert.rejects(never.waitUntilFinished(events), /not yet/);
  assert.equal((await queue.getFailed())[0].failedReason, "not yet");
  broken = false;
  await (await queue.getJob(never.id)).retry();
  await until(async () => (await queue.getFailedCount()) === 0);
  await until(async () => (await queue.getCompletedCount()) === 2);
  await worker.pause();
}

// Jobs wait for their time, go by priority, and one with the ID of another is the other.
{
  const queue = queueOf("ordered");
  await queue.add("low", {}, { priority: 10 });
  await queue.add("high", {}, { priority: 1 });
  await queue.add("middle", {}, { priority: 5 });
  await queue.add("first", {});
  await queue.add("later", {}, { delay: 100, priority: 1 });
  await queue.add("same", { n: 1 }, { jobId: "one", priority: 20 });
  await queue.add("same", { n: 2 }, { jobId: "one", priority: 20 });
  assert.deepEqual(await queue.getJobCounts("wait", "prioritized", "delayed"), { wait: 1, prioritized: 4, delayed: 1 });
  const order = [];
  workerOf("ordered", async (job) => { order.push(job.name); });
  await until(() => order.length === 6);
  assert.deepEqual(order.filter((name) => name !== "later"), ["first", "high", "middle", "low", "same"]);
}

// A parent waits for its children, and sees what they returned.
{
  const flows = open(new FlowProducer({ connection }));
  const events = await eventsOf("report");
  workerOf("count", async (job) => job.data.n);
  workerOf("report", async (job) => Object.values(await job.getChildrenValues()).reduce((sum, each) => sum + each, 0));
  const children = [1, 2, 3].map((n) => ({ name: "count", queueName: "count", data: { n } }));
  const { job } = await flows.add({ name: "sum", queueName: "report", children });
  assert.equal(await job.waitUntilFinished(events), 6);
}

// A limited worker does no more than it may in a time.
{
  const queue = queueOf("limited");
  const starts = [];
  workerOf("limited", async () => { starts.push(Date.now()); }, { limiter: { max: 2, duration: 150 } });
  await queue.addBulk([...Array(6).keys()].map((i) => ({ name: "call", data: { i } })));
  await until(() => starts.length === 6);
  assert.ok(starts[5] - starts[0] >= 290, `six calls in ${starts[5] - starts[0]} ms`);
}

// A schedule makes job after job, until it is removed.
{
  const queue = queueOf("ticks");
  const ticks = [];
  workerOf("ticks", async (job) => { ticks.push(job.data.every); });
  await queue.upsertJobScheduler("clock", { every: 60 }, { name: "tick", data: { every: 60 } });
  await queue.upsertJobScheduler("nightly", { pattern: "0 0 3 * * *" }, { name: "night", data: {} });
  await until(() => ticks.length >= 3);
  assert.deepEqual((await queue.getJobSchedulers()).map((each) => each.key).sort(), ["clock", "nightly"]);
  assert.equal(await queue.removeJobScheduler("clock"), true);
  assert.equal(await queue.removeJobScheduler("nightly"), true);
  assert.equal((await queue.getJobSchedulers()).length, 0);
}

// A queue can be stopped and drained, and nothing is left of one that is obliterated.
{
  const queue = queueOf("stopped");
  await queue.pause();
  await queue.addBulk([...Array(300).keys()].map((i) => ({ name: "wait", data: { i } })));
  assert.equal(await queue.isPaused(), true);
  assert.equal((await queue.getJobs(["paused"], 0, 9)).length, 10);
  await queue.drain();
  assert.equal(await queue.count(), 0);
  await queue.obliterate({ force: true });
  assert.deepEqual(await (await queue.client).keys("bull:stopped:*"), []);
}

await Promise.all(opened.map((each) => each.close()));
console.log("done");
