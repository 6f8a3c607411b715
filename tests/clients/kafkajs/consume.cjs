// kafkajs reading the log: one offset a line, for ever.
// Usage: consume.cjs BOOTSTRAP TOPIC GROUP   (NODE_PATH must lead to kafkajs)
//
// kafkajs has no assign(): it always reads as a member of a group. So it keeps its own place the way its documentation
// offers: each time it has joined, it seeks to the offset after the last one it has seen.
const { Kafka, logLevel } = require("kafkajs");

const [bootstrap, topic, groupId] = process.argv.slice(2);
const kafka = new Kafka({
  clientId: "kafkajs",
  brokers: bootstrap.split(","),
  logLevel: logLevel.ERROR,
  logCreator: () => ({ log }) => process.stderr.write(log.message + " " + (log.error || "") + "\n"),
  retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 60 },
});
const consumer = kafka.consumer({ groupId, sessionTimeout: 30000, maxWaitTimeInMs: 500 });
let next = 0;

consumer.on(consumer.events.GROUP_JOIN, () => {
  consumer.seek({ topic, partition: 0, offset: String(next) });
});
consumer.on(consumer.events.CRASH, ({ payload }) => {
  if (!payload.restart) {
    process.stdout.write("error " + payload.error + "\n");
    process.exit(1);
  }
});

async function main() {
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommitInterval: 1000,
    eachMessage: async ({ message }) => {
      next = Number(message.offset) + 1;
      process.stdout.write(message.offset + "\n");
    },
  });
}

main().catch((error) => {
  process.stdout.write("error " + error + "\n");
  process.exit(1);
});
