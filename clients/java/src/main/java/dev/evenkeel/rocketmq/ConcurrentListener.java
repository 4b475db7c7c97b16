package dev.evenkeel.rocketmq;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Calls the user's listener for messages of held queues, and notes which ones it has handled.
 *
 * <p>Once a queue must be released, the client ignores the results of its calls. So this class
 * sends back the messages that fail after that.
 */
final class ConcurrentListener implements MessageListenerConcurrently {
    private static final Logger log = Logger.getLogger("dev.evenkeel.rocketmq");

    private final MessageListenerConcurrently listener;
    private final DefaultMQPushConsumer consumer;
    private final Member member;
    private final AwakeClock clock;

    ConcurrentListener(MessageListenerConcurrently listener, DefaultMQPushConsumer consumer,
            Member member, AwakeClock clock) {
        this.listener = listener;
        this.consumer = consumer;
        this.member = member;
        this.clock = clock;
    }

    @Override
    public ConsumeConcurrentlyStatus consumeMessage(
            List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        Holding holding =
                member.begin(context.getMessageQueue(), messages.get(0), clock.now());
        if (holding == null) {
            return ConsumeConcurrentlyStatus.RECONSUME_LATER; // dropped: the client ignores it
        }
        return handle(holding, messages, context);
    }

    /** Handles a skipped message, whose call {@link Member#beginGap} has begun. */
    void fillGap(Holding holding, List<MessageExt> gap) {
        consumer.getDefaultMQPushConsumerImpl()
                .resetRetryAndNamespace(gap, consumer.getConsumerGroup());
        try {
            handle(holding, gap, new ConsumeConcurrentlyContext(holding.queue));
        } catch (RuntimeException error) {
            log.log(Level.WARNING, "the listener failed", error);
        }
    }

    private ConsumeConcurrentlyStatus handle(
            Holding holding, List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        List<MessageExt> handled = Collections.emptyList();
        try {
            ConsumeConcurrentlyStatus status = null;
            try {
                status = listener.consumeMessage(messages, context);
            } finally {
                int count = status == ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                        ? Math.min(context.getAckIndex(), messages.size() - 1) + 1 : 0;
                handled = new ArrayList<>(messages.subList(0, count));
                if (member.isLeaving(holding, clock.now())) {
                    handled.addAll(sendBack(messages.subList(count, messages.size()), context));
                }
            }
            return status;
        } finally {
            member.end(holding, handled);
        }
    }

    /** Sends messages to the retry topic; returns those that were sent. */
    private List<MessageExt> sendBack(
            List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        List<MessageExt> sent = new ArrayList<>();
        for (MessageExt each : messages) {
            try {
                consumer.sendMessageBack(each, context.getDelayLevelWhenNextConsume(),
                        context.getMessageQueue().getBrokerName());
                sent.add(each);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                return sent;
            } catch (Exception error) {
                return sent; // the next holder of the queue gets this message again
            }
        }
        return sent;
    }
}
