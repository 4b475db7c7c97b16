import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import com.alibaba.fastjson2.JSONWriter;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * RocketMQ's own client: reads one command per line, as JSON, and prints one answer per line.
 *
 * The first argument is the name server. The field "do" of a command says what to do; bodies are
 * base64. An answer has "done", or "failed" with Java's error message.
 */
public class Interop {

    private static final long PATIENCE_MS = 30_000;
    private static final long POLL_MS = 500;

    private final String nameServer;
    private static final int LONG = 60_000;
    private final Map<String, DefaultMQProducer> producers = new HashMap<>();
    private TransactionMQProducer transactions;
    private int readers;

    private Interop(String nameServer) {
        this.nameServer = nameServer;
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // whatever the libraries print stays out of the answers
        Interop interop = new Interop(args[0]);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject answer = new JSONObject();
            try {
                answer.put("done", interop.run(JSON.parseObject(line)));
            } catch (Exception error) {
                error.printStackTrace();
                answer.put("failed", error.toString());
            }
            out.println(answer.toString(
                JSONWriter.Feature.WriteNulls, JSONWriter.Feature.EscapeNoneAscii));
            out.flush();
        }
        Runtime.getRuntime().halt(0); // do not wait until its threads end
    }

    private Object run(JSONObject command) throws Exception {
        switch (command.getString("do")) {
            case "send":
                return send(command);
            case "transact":
                return transact(command);
            case "read":
                return read(command);
            case "admin":
                return admin(command.getJSONArray("words").toArray(new String[0]));
            default:
                throw new IllegalArgumentException(command.getString("do"));
        }
    }

    /** Sends one message, or several as one batch, to a queue. Returns the two kinds of ids. */
    private JSONObject send(JSONObject command) throws Exception {
        DefaultMQProducer producer = producer(command.getString("codec"));
        MessageQueue queue = queue(command);
        List<Message> messages = new ArrayList<>();
        JSONArray given = command.getJSONArray("messages");
        for (int i = 0; i < given.size(); i++) {
            messages.add(message(queue.getTopic(), given.getJSONObject(i)));
        }
        return shown(messages.size() == 1
            ? producer.send(messages.get(0), queue) : producer.send(messages, queue));
    }

    private DefaultMQProducer producer(String codec) throws Exception {
        DefaultMQProducer producer = producers.get(codec);
        if (producer == null) {
            producer = new DefaultMQProducer("interop-" + codec);
            producer.setNamesrvAddr(nameServer);
            producer.setInstanceName(producer.getProducerGroup());
            producer.setCompressType(CompressionType.valueOf(codec));
            waitLong(producer);
            producer.start();
            producers.put(codec, producer);
        }
        return producer;
    }

    /** Wait so long for answers that no test fails on a busy machine. */
    private static void waitLong(DefaultMQProducer producer) {
        producer.setSendMsgTimeout(LONG);
        producer.setMqClientApiTimeout(LONG);
    }

    /** Sends a message in a transaction, and commits it if the argument says so. */
    private JSONObject transact(JSONObject command) throws Exception {
        if (transactions == null) {
            transactions = new TransactionMQProducer("interop-transactions");
            transactions.setNamesrvAddr(nameServer);
            transactions.setInstanceName(transactions.getProducerGroup());
            transactions.setTransactionListener(new AsTold());
            waitLong(transactions);
            transactions.start();
        }
        Message message =
            message(command.getString("topic"), command.getJSONObject("message"));
        return shown(transactions.sendMessageInTransaction(
            message, command.getBoolean("commits")));
    }

    private static class AsTold implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object commits) {
            return (Boolean) commits ? LocalTransactionState.COMMIT_MESSAGE
                : LocalTransactionState.ROLLBACK_MESSAGE;
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            throw new IllegalStateException("every transaction has ended at once");
        }
    }

    /**
     * Reads this many messages of a queue from its beginning, with a new group.
     *
     * It does not use seek(): a task that assign() has started may take the new offset just before
     * seek() cancels it, and the next task would then read from the end of the queue.
     */
    private JSONArray read(JSONObject command) throws Exception {
        MessageQueue queue = queue(command);
        DefaultLitePullConsumer consumer =
            new DefaultLitePullConsumer("interop-reader-" + readers++);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(consumer.getConsumerGroup());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        consumer.setMqClientApiTimeout(LONG);
        consumer.start();
        try {
            consumer.assign(List.of(queue));
            JSONArray found = new JSONArray();
            long deadline = System.currentTimeMillis() + PATIENCE_MS;
            while (found.size() < command.getIntValue("count")) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("only " + found.size() + " messages came");
                }
                for (MessageExt message : consumer.poll(POLL_MS)) {
                    found.add(shown(message));
                }
            }
            return found;
        } finally {
            consumer.shutdown();
        }
    }

    /** Runs RocketMQ's command line tool; returns what it prints. */
    private String admin(String[] words) {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream before = System.out;
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            MQAdminStartup.main0(words, null);
        } finally {
            System.setOut(before);
        }
        return printed.toString(StandardCharsets.UTF_8);
    }

    private static MessageQueue queue(JSONObject command) {
        return new MessageQueue(command.getString("topic"), command.getString("broker"),
            command.getIntValue("queue"));
    }

    private static Message message(String topic, JSONObject given) {
        Message message =
            new Message(topic, Base64.getDecoder().decode(given.getString("body")));
        message.setFlag(given.getIntValue("flag"));
        if (given.containsKey("tags")) {
            message.setTags(given.getString("tags"));
        }
        if (given.containsKey("keys")) {
            message.setKeys(given.getJSONArray("keys").toJavaList(String.class));
        }
        if (given.containsKey("delayLevel")) {
            message.setDelayTimeLevel(given.getIntValue("delayLevel"));
        }
        if (given.containsKey("properties")) {
            given.getJSONObject("properties").forEach(
                (name, value) -> message.putUserProperty(name, (String) value));
        }
        return message;
    }

    private static JSONObject shown(SendResult result) {
        JSONObject shown = new JSONObject();
        shown.put("msg_id", result.getMsgId());
        shown.put("offset_msg_id", result.getOffsetMsgId());
        shown.put("queue_offset", result.getQueueOffset());
        shown.put("broker", result.getMessageQueue().getBrokerName());
        shown.put("queue_id", result.getMessageQueue().getQueueId());
        return shown;
    }

    /** Shows all fields. The consumer adds two properties that no producer has sent. */
    private static JSONObject shown(MessageExt message) {
        Map<String, String> properties = new TreeMap<>(message.getProperties());
        properties.remove(MessageConst.PROPERTY_MIN_OFFSET);
        properties.remove(MessageConst.PROPERTY_MAX_OFFSET);
        JSONObject shown = new JSONObject();
        shown.put("topic", message.getTopic());
        shown.put("broker", message.getBrokerName());
        shown.put("queue_id", message.getQueueId());
        shown.put("queue_offset", message.getQueueOffset());
        shown.put("body", Base64.getEncoder().encodeToString(message.getBody()));
        shown.put("tags", message.getTags());
        shown.put("keys", message.getKeys());
        shown.put("properties", properties);
        shown.put("msg_id", message.getMsgId());
        shown.put("offset_msg_id", ((MessageClientExt) message).getOffsetMsgId());
        shown.put("flag", message.getFlag());
        shown.put("sys_flag", message.getSysFlag());
        shown.put("born_timestamp_ms", message.getBornTimestamp());
        shown.put("born_host", shown(message.getBornHost()));
        shown.put("store_timestamp_ms", message.getStoreTimestamp());
        shown.put("store_host", shown(message.getStoreHost()));
        shown.put("reconsume_times", message.getReconsumeTimes());
        shown.put("prepared_transaction_offset", message.getPreparedTransactionOffset());
        shown.put("commit_log_offset", message.getCommitLogOffset());
        return shown;
    }

    private static String shown(SocketAddress address) {
        InetSocketAddress host = (InetSocketAddress) address;
        return host.getAddress().getHostAddress() + ":" + host.getPort();
    }
}
