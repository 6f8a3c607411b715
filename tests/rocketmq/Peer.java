import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * One long-lived JVM that lends a test the stock Java client and the stock mqadmin. A command a line on standard input;
 * what it says ends with a line holding a single dot.
 *   send TOPIC FIRST COUNT SECONDS   each number is sent until acknowledged or the seconds are over: "acked N", "failed N why"
 *   read TOPIC IDLE_SECONDS          every message of the topic from its beginning: "got BODY"
 *   subscribe TOPIC                  a push consumer listens from now on
 *   received                         what it has been given so far: "got BODY"
 *   admin ARGUMENTS                  mqadmin ARGUMENTS, its output
 */
public class Peer {
    private static final PrintStream OUT = System.out;
    private static DefaultMQProducer producer;
    private static final Set<String> RECEIVED = ConcurrentHashMap.newKeySet();
    private static String names;

    public static void main(String[] arguments) throws Exception {
        names = arguments[0];
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.trim().split(" ");
            try {
                switch (words[0]) {
                    case "send":
                        send(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]), Integer.parseInt(words[4]));
                        break;
                    case "read":
                        read(words[1], Integer.parseInt(words[2]));
                        break;
                    case "subscribe":
                        subscribe(words[1]);
                        break;
                    case "received":
                        for (String body : RECEIVED) {
                            OUT.println("got " + body);
                        }
                        break;
                    case "admin":
                        admin(java.util.Arrays.copyOfRange(words, 1, words.length));
                        break;
                    default:
                        OUT.println("unknown command " + words[0]);
                }
            } catch (Throwable error) {
                OUT.println("error " + error.toString().replace('\n', ' '));
            }
            OUT.println(".");
            OUT.flush();
        }
        System.exit(0);
    }

    private static void send(String topic, int first, int count, int seconds) throws Exception {
        if (producer == null) {
            producer = new DefaultMQProducer("quorate-tests");
            producer.setNamesrvAddr(names);
            producer.setRetryTimesWhenSendFailed(0);
            producer.setSendMsgTimeout(2000);
            producer.setPollNameServerInterval(500);
            producer.setHeartbeatBrokerInterval(1000);
            producer.start();
        }
        for (int number = first; number < first + count; number++) {
            long end = System.nanoTime() + seconds * 1_000_000_000L;
            String why = "";
            boolean acked = false;
            while (!acked && System.nanoTime() < end) {
                try {
                    byte[] body = Integer.toString(number).getBytes(StandardCharsets.UTF_8);
                    SendResult result = producer.send(new Message(topic, body));
                    acked = result.getSendStatus() == SendStatus.SEND_OK;
                    why = result.getSendStatus().name();
                } catch (Exception error) {
                    why = error.toString().replace('\n', ' ');
                }
                if (!acked) {
                    Thread.sleep(100);
                }
            }
            OUT.println(acked ? "acked " + number : "failed " + number + " " + why);
        }
    }

    private static void read(String topic, int idleSeconds) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("quorate-tests-read");
        consumer.setNamesrvAddr(names);
        consumer.setAutoCommit(false);
        consumer.start();
        try {
            Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
            consumer.assign(queues);
            for (MessageQueue queue : queues) {
                consumer.seekToBegin(queue);
            }
            long end = System.nanoTime() + idleSeconds * 1_000_000_000L;
            while (System.nanoTime() < end) {
                List<MessageExt> messages = consumer.poll(500);
                for (MessageExt message : messages) {
                    OUT.println("got " + new String(message.getBody(), StandardCharsets.UTF_8));
                    end = System.nanoTime() + idleSeconds * 1_000_000_000L;
                }
            }
        } finally {
            consumer.shutdown();
        }
    }

    private static void subscribe(String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("quorate-tests-push");
        consumer.setNamesrvAddr(names);
        consumer.setPollNameServerInterval(500);
        consumer.setHeartbeatBrokerInterval(1000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                RECEIVED.add(new String(message.getBody(), StandardCharsets.UTF_8));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    private static void admin(String[] arguments) throws Exception {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream out = new PrintStream(said, true, "UTF-8");
        PrintStream before = System.out;
        PrintStream errors = System.err;
        System.setOut(out);
        System.setErr(out);
        try {
            MQAdminStartup.main0(arguments, null);
        } finally {
            System.setOut(before);
            System.setErr(errors);
        }
        for (String line : said.toString("UTF-8").split("\n")) {
            if (!line.contains("|-")) {
                OUT.println("> " + line);
            }
        }
    }
}
