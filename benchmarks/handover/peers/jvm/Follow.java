import dev.evenkeel.rocketmq.EvenkeelFollower;
import java.net.URI;
import java.nio.file.Path;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;

/**
 * The consumer of {@link Push}, as a member of a ConsumerGroup.
 *
 * <p>After the arguments of Push come the coordinator, the group there, the file of the token, and
 * that of the coordinator's authorities if its URL is https.
 */
final class Follow {
    private Follow() {}

    public static void main(String[] args) throws Exception {
        DefaultMQPushConsumer consumer = Push.make(args);
        EvenkeelFollower follower =
                EvenkeelFollower.of(URI.create(args[3]), args[4], Path.of(args[5]));
        if (args.length > 6) {
            follower = follower.trusting(Path.of(args[6]));
        }
        follower.follow(consumer);
        Push.run(consumer);
    }
}
