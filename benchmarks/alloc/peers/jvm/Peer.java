/**
 * One way to plan a group.
 *
 * @param <I> its own ordinary input, its last result included
 * @param <R> its own result
 */
interface Peer<I, R> {
    /** Build the input, outside the timing. {@code previous} is null when there is no last result. */
    I input(Group group, R previous);

    /** The only part that is timed. Throws {@link TooSlow} when it sees that the time is over. */
    R plan(I input, long deadlineNanos) throws TooSlow;

    /** Whatever further rounds the protocol needs until the result stands, outside the timing. */
    default R settled(Group group, R result) throws TooSlow {
        return result;
    }

    /** Who owns each queue: one row a topic, null where nobody does. */
    String[][] owners(Group group, R result);

    /** One run took longer than it may. */
    final class TooSlow extends Exception {
        private static final long serialVersionUID = 1;
    }
}
