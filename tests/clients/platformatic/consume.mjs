// @platformatic/kafka reading the log as a group: one offset a line, so many; it speaks the newest versions only.
// Usage: consume.mjs PACKAGE BOOTSTRAP TOPIC GROUP COUNT
const [place, bootstrap, topic, groupId, count] = process.argv.slice(2);
const { Consumer } = await import(place);

const consumer = new Consumer({ groupId, clientId: "platformatic", bootstrapBrokers: [bootstrap] });
const stream = await consumer.consume({ topics: [topic], mode: "committed", fallbackMode: "earliest", maxWaitTime: 500, autocommit: false });
let seen = 0;
for await (const message of stream) {
  process.stdout.write(message.offset + "\n");
  if (++seen < Number(count)) continue;
  await message.commit();
  break;
}
await stream.close();
await consumer.close(true);
