import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import com.alibaba.fastjson2.JSONWriter;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Asks RocketMQ's own classes: reads a line of JSON per group, prints a line of JSON with the answers.
 *
 * A request has strategy, queues [[topic, broker, id, zone?]], consumers, config and callers; a pop
 * request also has popShareQueueNum, and needs the broker's jar on the class path. The answer is a
 * list with [error name, message] or {"queues": [[topic, broker, id]] or null} for each caller.
 */
public class RocketMqOracle {

    private interface Answer {
        List<MessageQueue> of(String caller) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // whatever the libraries print stays out of the answers
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.toJSONString(answers(JSON.parseObject(line)),
                JSONWriter.Feature.WriteNulls, JSONWriter.Feature.EscapeNoneAscii));
        }
        out.flush();
    }

    private static JSONArray answers(JSONObject request) {
        Map<MessageQueue, String> zones = new IdentityHashMap<>();
        List<MessageQueue> all = queues(request.getJSONArray("queues"), zones);
        List<String> consumers = texts(request.getJSONArray("consumers"));
        JSONArray answers = new JSONArray();
        for (Object caller : request.getJSONArray("callers")) {
            answers.add(shown((String) caller, id -> {
                JSONObject config = request.getJSONObject("config");
                AllocateMessageQueueStrategy strategy =
                    strategy(request.getString("strategy"), id, config, zones);
                return request.containsKey("popShareQueueNum")
                    ? pop(strategy, id, all, consumers, request.getIntValue("popShareQueueNum"))
                    : strategy.allocate("group", id, all, consumers);
            }));
        }
        return answers;
    }

    private static AllocateMessageQueueStrategy strategy(
        String name, String caller, JSONObject config, Map<MessageQueue, String> zones) {
        switch (name) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH":
                return config.get("virtualNodes") == null
                    ? new AllocateMessageQueueConsistentHash()
                    : new AllocateMessageQueueConsistentHash(config.getIntValue("virtualNodes"));
            case "MACHINE_ROOM":
                AllocateMessageQueueByMachineRoom rooms = new AllocateMessageQueueByMachineRoom();
                List<String> names = texts(config.getJSONArray("rooms"));
                rooms.setConsumeridcs(names == null ? null : new HashSet<>(names));
                return rooms;
            case "MACHINE_ROOM_NEARBY":
                String inner = config.getString("inner");
                return new AllocateMachineRoomNearby(
                    inner == null ? null : strategy(inner, caller, config, zones),
                    resolver(config, zones));
            case "CONFIG":
                AllocateMessageQueueByConfig fixed = new AllocateMessageQueueByConfig();
                Object lists = config.get("queues"); // a list, or one for each client
                fixed.setMessageQueueList(queues(lists instanceof JSONObject
                    ? ((JSONObject) lists).getJSONArray(caller) : (JSONArray) lists, zones));
                return fixed;
            default:
                throw new AssertionError(name);
        }
    }

    /** The product's rule: the zone, if one is given, or else the text before the first dash. */
    private static AllocateMachineRoomNearby.MachineRoomResolver resolver(
        JSONObject config, Map<MessageQueue, String> zones) {
        JSONObject consumerZones = config.getJSONObject("consumerZones");
        return new AllocateMachineRoomNearby.MachineRoomResolver() {
            @Override
            public String brokerDeployIn(MessageQueue queue) {
                String zone = zones.get(queue);
                return zone != null ? zone : beforeDash(queue.getBrokerName());
            }

            @Override
            public String consumerDeployIn(String consumer) {
                String zone = consumerZones == null ? null : consumerZones.getString(consumer);
                return zone != null ? zone : beforeDash(consumer);
            }
        };
    }

    private static String beforeDash(String text) {
        int dash = text.indexOf('-');
        return dash < 0 ? null : text.substring(0, dash);
    }

    /** The broker's rule. It uses no field of the processor, so no field is set. */
    @SuppressWarnings("unchecked")
    private static List<MessageQueue> pop(AllocateMessageQueueStrategy inner, String caller,
        List<MessageQueue> queues, List<String> consumers, int share) throws Exception {
        Class<?> type =
            Class.forName("org.apache.rocketmq.broker.processor.QueryAssignmentProcessor");
        Class<?> unsafe = Class.forName("sun.misc.Unsafe");
        Field field = unsafe.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Object processor =
            unsafe.getMethod("allocateInstance", Class.class).invoke(field.get(null), type);
        Method rule = type.getMethod("allocate4Pop", AllocateMessageQueueStrategy.class,
            String.class, String.class, List.class, List.class, int.class);
        return (List<MessageQueue>)
            rule.invoke(processor, inner, "group", caller, queues, consumers, share);
    }

    private static Object shown(String caller, Answer answer) {
        try {
            List<MessageQueue> queues = answer.of(caller);
            JSONArray rows = queues == null ? null : new JSONArray();
            for (MessageQueue queue : queues == null ? List.<MessageQueue>of() : queues) {
                rows.add(JSONArray.of(queue.getTopic(), queue.getBrokerName(), queue.getQueueId()));
            }
            JSONObject shown = new JSONObject();
            shown.put("queues", rows);
            return shown;
        } catch (Throwable thrown) {
            Throwable cause =
                thrown instanceof InvocationTargetException ? thrown.getCause() : thrown;
            return JSONArray.of(cause.getClass().getSimpleName(), cause.getMessage());
        }
    }

    private static List<MessageQueue> queues(JSONArray rows, Map<MessageQueue, String> zones) {
        if (rows == null) {
            return null;
        }
        List<MessageQueue> queues = new ArrayList<>();
        for (int i = 0; i < rows.size(); i++) {
            JSONArray row = rows.getJSONArray(i);
            MessageQueue queue =
                new MessageQueue(row.getString(0), row.getString(1), row.getIntValue(2));
            if (row.size() > 3) {
                zones.put(queue, row.getString(3));
            }
            queues.add(queue);
        }
        return queues;
    }

    private static List<String> texts(JSONArray values) {
        return values == null ? null : values.toJavaList(String.class);
    }
}
