package dev.evenkeel.rocketmq;

import java.lang.management.ManagementFactory;
import java.net.URI;
import java.nio.file.Path;
import java.util.Objects;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;

/**
 * Lets RocketMQ's push consumer read what Evenkeel's coordinator grants it, and nothing else.
 *
 * <pre>{@code
 * EvenkeelFollower.of(URI.create("http://127.0.0.1:9410"), "shop/billing", Paths.get("token"))
 *         .follow(consumer);
 * consumer.start();
 * }</pre>
 *
 * <p>When the consumer is shut down, it releases its queues and ends its session.
 */
public final class EvenkeelFollower {
    private final URI coordinator;
    private final String group;
    private final Path tokenFile;
    private final String member;
    private final Path authorities;

    private EvenkeelFollower(
            URI coordinator, String group, Path tokenFile, String member, Path authorities) {
        this.coordinator = Objects.requireNonNull(coordinator, "coordinator");
        this.group = Objects.requireNonNull(group, "group");
        this.tokenFile = tokenFile;
        this.member = Objects.requireNonNull(member, "member");
        this.authorities = authorities;
    }

    /**
     * Names a coordinator and one of its groups.
     *
     * @param group as {@code namespace/name}
     * @param tokenFile a file with the token, which is read for each request; null for none
     */
    public static EvenkeelFollower of(URI coordinator, String group, Path tokenFile) {
        return new EvenkeelFollower(coordinator, group, tokenFile, nameProcess(), null);
    }

    /**
     * Gives this member a name, which no other member of the group may have.
     *
     * <p>The default is {@code POD_NAME} from the environment, or host and process id.
     */
    public EvenkeelFollower named(String name) {
        return new EvenkeelFollower(coordinator, group, tokenFile, name, authorities);
    }

    /** Trusts the certificates in this PEM file, and no others, if the URL is {@code https}. */
    public EvenkeelFollower trusting(Path certificates) {
        return new EvenkeelFollower(coordinator, group, tokenFile, member, certificates);
    }

    /**
     * Makes a consumer follow. Register its listener before this call, and start it afterwards.
     *
     * @throws IllegalArgumentException if this consumer cannot follow
     */
    public void follow(DefaultMQPushConsumer consumer) {
        if (consumer.getMessageListener() == null) {
            throw new IllegalArgumentException("register the consumer's listener first");
        }
        if (consumer.getOffsetStore() != null) {
            throw new IllegalArgumentException(
                    "the consumer has an offset store: it is started, or it follows already, or "
                            + "it keeps its offsets elsewhere");
        }
        if (ask(consumer, "getMessageModel").equals("BROADCASTING")) {
            throw new IllegalArgumentException(
                    "a consumer in broadcasting mode cannot follow: it reads every queue");
        }
        if (ask(consumer, "isClientRebalance").equals("false")) {
            throw new IllegalArgumentException(
                    "a POP consumer cannot follow: it shares queues with others");
        }
        new Following(consumer,
                new Coordinator(coordinator, group, member, tokenFile, authorities), member);
    }

    /** Calls a method whose return type differs between 4.9 and 5; "" if 4.9 lacks the method. */
    private static String ask(DefaultMQPushConsumer consumer, String question) {
        try {
            return DefaultMQPushConsumer.class.getMethod(question).invoke(consumer).toString();
        } catch (ReflectiveOperationException error) {
            return "";
        }
    }

    private static String nameProcess() {
        String pod = System.getenv("POD_NAME");
        if (pod != null && !pod.isEmpty()) {
            return pod;
        }
        String[] process = ManagementFactory.getRuntimeMXBean().getName().split("@", 2);
        return process[process.length - 1] + "-" + process[0];
    }
}
