package dev.evenkeel.rocketmq;

import java.util.function.LongSupplier;

/**
 * A clock that runs while the machine sleeps, in seconds from its start.
 *
 * <p>{@code System.nanoTime} stands still then, on Linux for one. The clock of the day runs on, but
 * may be set. So time is counted by {@code nanoTime}, and a jump of the clock of the day forwards
 * is added: whether the machine slept or somebody set the clock, a session rather ends too soon. If
 * somebody sets the clock back while the machine sleeps, the sleep is not seen.
 */
final class AwakeClock {
    private static final double LEAST_JUMP_SECONDS = 0.1;

    private final LongSupplier nanos;
    private final LongSupplier dayMillis;
    private final long begin;
    private double slept;
    private double lead;

    AwakeClock() {
        this(System::nanoTime, System::currentTimeMillis);
    }

    AwakeClock(LongSupplier nanos, LongSupplier dayMillis) {
        this.nanos = nanos;
        this.dayMillis = dayMillis;
        this.begin = nanos.getAsLong();
        this.lead = dayMillis.getAsLong() / 1e3;
    }

    synchronized double now() {
        double counted = (nanos.getAsLong() - begin) / 1e9;
        double jump = dayMillis.getAsLong() / 1e3 - counted - lead;
        if (Math.abs(jump) > LEAST_JUMP_SECONDS) {
            lead += jump;
            slept += Math.max(0, jump);
        }
        return counted + slept;
    }
}
