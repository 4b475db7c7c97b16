package dev.evenkeel.rocketmq;

import java.util.function.LongSupplier;

/**
 * A clock that runs while the machine sleeps, in seconds from its start.
 *
 * <p>{@code System.nanoTime} stops during sleep, for example on Linux. The wall clock continues,
 * but somebody may set it. So this clock counts with {@code nanoTime}, and adds each jump of the
 * wall clock forwards. A jump means that the machine slept or that somebody set the wall clock; in
 * the latter case a session ends too soon. If somebody sets the wall clock back while the machine
 * sleeps, the sleep is not noticed.
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
