package dev.evenkeel.rocketmq;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.message.MessageQueue;

/** Selects the client's queues that are granted to this member. */
final class GrantedQueues implements AllocateMessageQueueStrategy {
    private final AllocateMessageQueueStrategy retries = new AllocateMessageQueueAveragely();
    private final Member member;
    private final AwakeClock clock;

    GrantedQueues(Member member, AwakeClock clock) {
        this.member = member;
        this.clock = clock;
    }

    @Override
    public List<MessageQueue> allocate(
            String group, String client, List<MessageQueue> queues, List<String> clients) {
        List<MessageQueue> found = new ArrayList<>();
        if (queues.isEmpty()) {
            return found;
        }
        if (Member.isRetry(queues.get(0))) {
            return member.holdRetries(queues.get(0).getTopic(),
                    retries.allocate(group, client, queues, clients), clock.now());
        }
        for (MessageQueue each : queues) {
            if (member.mayRead(each, clock.now())) {
                found.add(each);
            }
        }
        return found;
    }

    @Override
    public String getName() {
        return "EVENKEEL";
    }
}
