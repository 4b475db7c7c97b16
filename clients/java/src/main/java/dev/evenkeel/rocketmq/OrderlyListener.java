package dev.evenkeel.rocketmq;

import java.util.Collections;
import java.util.List;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;

/** Calls the user's listener for messages of held queues, and notes which it has handled. */
final class OrderlyListener implements MessageListenerOrderly {
    private final MessageListenerOrderly listener;
    private final Member member;
    private final AwakeClock clock;

    OrderlyListener(MessageListenerOrderly listener, Member member, AwakeClock clock) {
        this.listener = listener;
        this.member = member;
        this.clock = clock;
    }

    @Override
    public ConsumeOrderlyStatus consumeMessage(
            List<MessageExt> messages, ConsumeOrderlyContext context) {
        Holding holding =
                member.begin(context.getMessageQueue(), messages.get(0), clock.now());
        if (holding == null) {
            return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
        }
        List<MessageExt> handled = Collections.emptyList();
        try {
            ConsumeOrderlyStatus status = listener.consumeMessage(messages, context);
            if (isDone(status, context.isAutoCommit())) {
                handled = messages;
            }
            return status;
        } finally {
            member.end(holding, handled);
        }
    }

    /** Without automatic commits, a commit marks all messages before it as done, too. */
    @SuppressWarnings("deprecation")
    private static boolean isDone(ConsumeOrderlyStatus status, boolean isAutoCommit) {
        return status == ConsumeOrderlyStatus.COMMIT
                || (isAutoCommit && (status == ConsumeOrderlyStatus.SUCCESS
                        || status == ConsumeOrderlyStatus.ROLLBACK));
    }
}
