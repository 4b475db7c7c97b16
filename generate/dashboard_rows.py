"""
The rows of the Grafana dashboard: all groups, one group and its members, topics, the operator.

Every replica of the operator exposes all groups and topics, so `max` combines the replicas' series.
Only the leader exposes how many queues members have. The series of a leader and its predecessor may
overlap for a moment, and `max` also combines these.
"""

from collections.abc import Iterable, Mapping, Sequence

from generate import grafana
from generate.grafana import GREEN, RED, YELLOW, Json, Panel, Query, color, make_column

UID = "evenkeel"
ALL = 'namespace=~"$namespace"'
ONE = f'{ALL},name="$group"'
RATE, RANGE = "[$__rate_interval]", "[$__range]"


def list_rows() -> Mapping[str, Iterable[Panel]]:
    """List the rows by title."""
    return {
        "Groups": _glance(),
        "Group $group": [*_make_group_row(), *_make_moves_row(), *_job()],
        "Members of $group": [*_make_members_row(), *_make_followers_row(), *_make_messages_row()],
        "Topics": _make_topics_row(),
        "Operator": [*_operator(), *_process()],
    }


def _aggregate(labels: str, series: str, how: str = "max") -> str:
    return f"{how} by ({labels}) ({series})"


def _query(name: str, where: str = ALL) -> str:
    """Query a metric of all selected groups or topics, by object."""
    return _aggregate("namespace, name", f"evenkeel_{name}{{{where}}}")


def _one(name: str) -> str:
    """Query a metric of the selected group."""
    return _query(f"group_{name}", ONE)


def _job_rate(name: str, by: str = "namespace, name") -> str:
    return _aggregate(by, f"rate(evenkeel_job_{name}{{{ONE}}}{RATE})", "sum")


def _glance() -> Iterable[Panel]:
    unowned, lag = _query("group_unowned_queues"), _query("group_lag_messages")
    moved = _aggregate(
        "namespace, name", f"increase(evenkeel_group_moved_queues_total{{{ALL}}}{RANGE})"
    )
    behind = f"{_query('group_epoch')} - {_query('group_adopted_epoch')}"
    yield grafana.make_number(
        "Groups", "Number of ConsumerGroups.", f"count({_query('group_ready')})"
    )
    yield grafana.make_number(
        "Not ready",
        "Groups that are not ready.",
        f"count({_query('group_ready')}) - sum({_query('group_ready')})",
        red_from=1,
    )
    yield grafana.make_number(
        "Unowned queues", "Queues without an owner.", f"sum({unowned})", red_from=1
    )
    yield grafana.make_number(
        "Lag", "Messages not consumed yet, approximately.", f"sum({lag})", unit="short"
    )
    yield grafana.make_number(
        "Moves",
        "Queues that changed their owner in the selected time range.",
        f"sum({moved})",
        unit="short",
    )
    yield grafana.make_number(
        "Not adopted",
        "Groups whose job has not adopted the newest assignment yet.",
        f"sum(({behind}) > bool 0)",
        red_from=1,
    )
    labels = {
        "namespace": "Namespace", "name": "Group", "reason": "Reason", "mode": "Mode",
        "strategy": "Strategy",
    }  # fmt: skip
    reasons = _aggregate("namespace, name, reason", f"evenkeel_group_ready_reason{{{ALL}}}")
    modes = _aggregate("namespace, name, mode, strategy", f"evenkeel_group_info{{{ALL}}}")
    yield grafana.make_table(
        "All groups",
        "One line per group. Click a name to show the group below.",
        [
            Query(_query("group_ready"), "Ready"),
            Query(_query("group_queues"), "Queues"),
            Query(_query("group_consumers"), "Consumers"),
            Query(_query("group_idle_consumers"), "Idle"),
            Query(unowned, "Unowned"),
            Query(lag, "Lag"),
            Query(_query("group_imbalance"), "Imbalance"),
            Query(_query("group_best_imbalance"), "Best imbalance"),
            Query(moved, "Moved"),
            Query(behind, "Epochs behind"),
            Query(reasons),
            Query(modes),
        ],
        labels,
        overrides=[
            make_column("Group", links=[_link()]),
            make_column("Ready", mappings=[_map_yes_or_no()], custom__cellOptions=_color_text(),
                   thresholds=color((None, RED), (1, GREEN))),
            make_column("Unowned", custom__cellOptions=_color_text(),
                   thresholds=color((None, GREEN), (1, RED))),
            make_column("Epochs behind", custom__cellOptions=_color_text(),
                   thresholds=color((None, GREEN), (1, YELLOW))),
            make_column("Lag", unit="short"),
            make_column("Imbalance", decimals=2),
            make_column("Best imbalance", decimals=2),
            make_column("Moved", decimals=0),
        ],
    )  # fmt: skip


def _link() -> Json:
    chosen = "var-namespace=${__data.fields.Namespace}&var-group=${__value.raw}"
    url = f"/d/{UID}?${{datasource:queryparam}}&{chosen}&${{__url_time_range}}"
    return {"title": "Show this group", "url": url}


def _map_yes_or_no() -> Json:
    return {"type": "value", "options": {"0": {"text": "no"}, "1": {"text": "yes"}}}


def _color_text() -> Json:
    return {"type": "color-text"}


def _make_group_row() -> Iterable[Panel]:
    reasons = _aggregate("reason", f"evenkeel_group_ready_reason{{{ONE}}}")
    yield grafana.make_words(
        "State", "The reason of the condition Ready.", Query(reasons, "{{reason}}")
    )
    yield grafana.make_number("Queues", "Queues of all topics of the group.", _one("queues"))
    yield grafana.make_number("Consumers", "Consumers that may own queues.", _one("consumers"))
    yield grafana.make_number(
        "Unowned", "Queues without an owner.", _one("unowned_queues"), red_from=1
    )
    yield grafana.make_number(
        "Lag", "Messages not consumed yet, approximately.", _one("lag_messages"), unit="short"
    )
    yield grafana.make_number("Paused", "1 while no queue may move for balance.", _one("paused"))
    labels = "consumer, topic, broker, ids"
    owned = _aggregate(labels, f"evenkeel_group_owned_queues{{{ONE}}}")
    yield grafana.make_table(
        "Who reads what",
        "Queues of each consumer, by topic and broker.",
        [Query(owned, "Queues")],
        {"consumer": "Consumer", "topic": "Topic", "broker": "Broker", "ids": "Queue ids"},
        width=12, height=8,
    )  # fmt: skip
    yield grafana.graph(
        "Queues by consumer", "How many queues each consumer owns.",
        Query(f"sum by (consumer) ({owned})", "{{consumer}}"), unit="none", width=12, stacked=True,
    )  # fmt: skip
    lag = f"evenkeel_job_lag_messages{{{ONE}}}"
    yield grafana.graph(
        "Lag by queue",
        "The 20 queues with the highest lag, as measured by the job's driver.",
        Query(
            f"topk(20, {_aggregate('topic, broker, queue', lag)})", "{{topic}}@{{broker}} {{queue}}"
        ),
    )
    yield grafana.graph(
        "Lag", "Lag of the group, as measured by the job and by the brokers.",
        Query(f"sum({_aggregate('topic, broker, queue', lag)})", "job"),
        Query(_one("lag_messages"), "brokers"),
    )  # fmt: skip
    yield grafana.graph(
        "Rows by slot", "Rows per second that the executor of each slot reads.",
        Query(_job_rate("rows_total", "slot"), "{{slot}}"), unit="cps", stacked=True,
    )  # fmt: skip


def _make_moves_row() -> Iterable[Panel]:
    moved = f"increase(evenkeel_group_moved_queues_total{{{ONE}}}{RATE})"
    yield grafana.graph(
        "Moves", "Queues that changed their owner.",
        Query(_aggregate("namespace, name", moved), "moved"), unit="none", width=6,
    )  # fmt: skip
    last = f"evenkeel_group_last_rebalance_timestamp_seconds{{{ONE}}}"
    yield grafana.make_table(
        "Last rebalance", "When queues moved last, and what triggered it.",
        [Query(f"1000 * {_aggregate('trigger', last)}", "When")], {"trigger": "Trigger"},
        width=6, height=8, overrides=[make_column("When", unit="dateTimeAsIso")],
    )  # fmt: skip
    yield grafana.graph(
        "Balance", "The highest load divided by the mean, and the best possible value.",
        Query(_one("imbalance"), "imbalance"), Query(_one("best_imbalance"), "best possible"),
        unit="none", width=6,
    )  # fmt: skip
    yield grafana.graph(
        "Epochs", "If the lines differ, the job has not adopted the newest assignment yet.",
        Query(_one("epoch"), "published"), Query(_one("adopted_epoch"), "adopted"),
        unit="none", width=6,
    )  # fmt: skip


def _job() -> Iterable[Panel]:
    yield grafana.graph(
        "Batch duration",
        "How long a batch takes, including planning. In a flow: from a commit's first rows until "
        "the commit counts, and how late messages reach the function.",
        *(
            Query(f"histogram_quantile({share}, {_job_rate(f'{name}_seconds_bucket', 'le')})",
                  f"{name}, {label}")
            for name in ("batch", "planning", "delay")
            for share, label in (("0.5", "p50"), ("0.99", "p99"))
        ),
        unit="s", width=6,
    )  # fmt: skip
    mean = f"{_job_rate('handover_seconds_sum')} / {_job_rate('handover_seconds_count')}"
    yield grafana.graph(
        "Handover", "Mean time from receiving an assignment to adopting it.",
        Query(mean, "handover"), unit="s", width=6,
    )  # fmt: skip
    filled = _aggregate("namespace, name", f"evenkeel_job_slots_filled{{{ONE}}}")
    yield grafana.graph(
        "Slots", "All slots, and slots with an executor.",
        Query(_one("job_slots"), "all"), Query(filled, "filled"), unit="none", width=6,
    )  # fmt: skip
    pinned = _aggregate("namespace, name", f"evenkeel_job_pinned{{{ONE}}}")
    yield grafana.graph(
        "Problems",
        "Failures of batches and of their planning, and tasks that ran on an executor other than "
        "planned. Batches that were cancelled because a broker or an executor did not answer. In "
        "a flow: tasks that were given up, and their refused commits.",
        Query(_job_rate("failures_total"), "failures"),
        Query(_job_rate("cancelled_batches_total"), "cancelled batches"),
        Query(_job_rate("given_up_tasks_total"), "given up"),
        Query(_job_rate("refused_commits_total"), "refused commits"),
        Query(_job_rate("misplaced_tasks_total"), "misplaced tasks"),
        Query(f"1 - {pinned}", "not pinned"),
        unit="none", width=6,
    )  # fmt: skip
    lanes = _aggregate("namespace, name, lane", f"evenkeel_job_lane_batch_seconds{{{ONE}}}")
    yield grafana.graph(
        "Lanes", "For how long the batch of each lane has been running; 0 if none runs.",
        Query(lanes, "lane {{lane}}"), unit="s", width=12,
    )  # fmt: skip
    left_out = _aggregate("namespace, name, lane, broker", f"evenkeel_job_lane_left_out{{{ONE}}}")
    yield grafana.graph(
        "Left out of batches",
        "Brokers that did not answer, and from which the lane has read nothing since.",
        Query(left_out, "{{broker}}, lane {{lane}}"), unit="none", width=12,
    )  # fmt: skip


def _members(name: str) -> str:
    """Query a metric about the members of the selected group, which only the leader exposes."""
    return _query(f"members_{name}", ONE)


def _count(name: str, by: str, span: str) -> str:
    """Query by how much a counter of the selected group has grown."""
    return _aggregate(by, f"increase(evenkeel_{name}_total{{{ONE}}}{span})", "sum")


def _make_members_row() -> Iterable[Panel]:
    yield grafana.make_number("Sessions", "Members that have a session.", _members("sessions"))
    yield grafana.make_number(
        "Not read", "Queues that no member may read now.", _members("waiting_queues"), red_from=1
    )
    yield grafana.make_number(
        "Lent",
        "Queues that other members read, because their owner has no session.",
        _members("lent_queues"),
    )
    yield grafana.make_number(
        "Silent", "Sessions that ended in the time range because the member sent no more requests.",
        _count("members_silent_sessions", "namespace, name", RANGE), unit="short",
    )  # fmt: skip
    stopped = f"evenkeel_follower_stopped_queues{{{ONE}}}"
    yield grafana.make_number(
        "Stopped", "Queues that followers in Python no longer read because a message failed.",
        _aggregate("namespace, name", stopped, "sum"), red_from=1,
    )  # fmt: skip
    lost = _count("follower_lost_messages", "namespace, name", RANGE)
    yield grafana.make_number(
        "Lost messages",
        "Messages in the time range that brokers deleted before followers in Python read them.",
        lost,
        unit="short",
        red_from=1,
    )
    granted, lent = _members("granted_queues"), _members("lent_queues")
    yield grafana.graph(
        "Queues of members", "Who may read the queues now.",
        Query(f"{granted} - {lent}", "owner"), Query(lent, "another member"),
        Query(_members("leaving_queues"), "nobody, until they are released"),
        Query(_members("waiting_queues"), "nobody"),
        unit="none", stacked=True,
    )  # fmt: skip
    released = f"sum by (le) (rate(evenkeel_members_release_seconds_bucket{RATE}))"
    yield grafana.graph(
        "Release",
        "Time until a member releases a queue that is taken from it, for all groups.",
        *(
            Query(f"histogram_quantile({share}, {released})", label)
            for share, label in (("0.5", "p50"), ("0.99", "p99"))
        ),
        unit="s",
    )
    yield grafana.graph(
        "Refused requests", "Refused requests of members by reason. The reason Stale is normal.",
        Query(_count("members_refused_requests", "reason", RATE), "{{reason}}"), unit="none",
    )  # fmt: skip


def _make_followers_row() -> Iterable[Panel]:
    held = _aggregate("pod", f"evenkeel_follower_held_queues{{{ONE}}}")
    yield grafana.graph(
        "Queues by follower", "How many queues each follower in Python holds.",
        Query(held, "{{pod}}"), unit="none", stacked=True,
    )  # fmt: skip
    handled = f"rate(evenkeel_follower_handled_messages_total{{{ONE}}}{RATE})"
    yield grafana.graph(
        "Messages by follower", "Messages per second that each follower's handler has finished.",
        Query(_aggregate("pod", handled, "sum"), "{{pod}}"), unit="cps", stacked=True,
    )  # fmt: skip
    yield grafana.graph(
        "Failures of followers",
        "Failed calls of handlers, messages that were given up, and failed operations at brokers.",
        Query(_count("follower_handler_failures", "namespace, name", RATE), "calls"),
        Query(_count("follower_given_up_messages", "to", RATE), "given up: {{to}}"),
        Query(_count("follower_broker_failures", "what", RATE), "broker: {{what}}"),
        unit="none",
    )
    yield grafana.graph(
        "Dead letters",
        "Messages in RocketMQ's topic for the group's dead letters. Brokers delete old ones.",
        Query(_aggregate("namespace, name", f"evenkeel_group_dead_letters{{{ONE}}}"), "{{name}}"),
        unit="none",
    )


def _make_messages_row() -> Iterable[Panel]:
    """Make the panels of a group that is balanced by message."""
    ready, retries, parked = (
        f"sum by (namespace, name) ({_aggregate('namespace, name, broker', each)})"
        for each in (
            f"evenkeel_group_{name}{{{ONE}}}"
            for name in ("ready_messages", "retry_messages", "parked_pops")
        )
    )
    oldest = _aggregate("namespace, name", f"evenkeel_group_oldest_waiting_seconds{{{ONE}}}")
    popped = _aggregate("namespace, name", f"evenkeel_follower_popped_messages{{{ONE}}}", "sum")
    yield grafana.graph(
        "Single messages",
        "Only with balance Messages without an order: ready and retries wait at the brokers, and "
        "followers in Python hold those in flight.",
        Query(ready, "ready"), Query(retries, "retries"), Query(popped, "in flight"),
        stacked=True, width=8,
    )  # fmt: skip
    yield grafana.graph(
        "Waiting pops",
        "Only with balance Messages without an order: pops that wait for a message.",
        Query(parked, "pops"), unit="none", width=8,
    )  # fmt: skip
    yield grafana.graph(
        "Oldest waiting message",
        "Only with balance Messages without an order: since when it has waited at its broker.",
        Query(oldest, "{{name}}"), unit="s", width=8,
    )  # fmt: skip


def _make_topics_row() -> Iterable[Panel]:
    reasons = _aggregate("namespace, name, reason", f"evenkeel_topic_ready_reason{{{ALL}}}")
    yield grafana.make_table(
        "All topics",
        "One line per topic.",
        [
            Query(_query("topic_ready"), "Ready"),
            Query(_query("topic_read_queues"), "Readable queues"),
            Query(_query("topic_write_queues"), "Writable queues"),
            Query(reasons),
        ],
        {"namespace": "Namespace", "name": "Topic", "reason": "Reason"},
        width=12, height=8,
        overrides=[
            make_column("Ready", mappings=[_map_yes_or_no()], custom__cellOptions=_color_text(),
                   thresholds=color((None, RED), (1, GREEN))),
        ],
    )  # fmt: skip
    yield grafana.graph(
        "Readable queues", "Readable queues of each topic, on all its brokers.",
        Query(_query("topic_read_queues"), "{{namespace}}/{{name}}"), unit="none", width=12,
    )  # fmt: skip


def _rate_of(name: str, by: str) -> str:
    return _aggregate(by, f"rate(evenkeel_operator_{name}{RATE})", "sum")


def _operator() -> Sequence[Panel]:
    seconds, done = (
        _rate_of("reconcile_seconds_total", "kind"),
        _rate_of("reconciles_total", "kind"),
    )
    missed, moved = "watch_missed_changes_total", "evenkeel_operator_moved_queues_total"
    return [
        grafana.make_number(
            "Leaders",
            "Operators that lead. There should be one per release.",
            "sum(evenkeel_operator_leader)",
        ),
        grafana.make_number(
            "Operators", "Running operators.", "count(evenkeel_operator_build_info)"
        ),
        grafana.make_words(
            "Version",
            "Versions of the running operators.",
            Query("count by (version) (evenkeel_operator_build_info)", "{{version}}"),
        ),
        grafana.make_number(
            "Oldest wait",
            "Age of the oldest object in the work queue.",
            "max(evenkeel_operator_queue_age_seconds)",
            unit="s",
            red_from=60,
        ),
        grafana.make_number(
            "Last list",
            "Time since the last successful full list. Such lists check the watches.",
            "max(evenkeel_operator_list_age_seconds)",
            unit="s",
            red_from=300,
        ),
        grafana.make_number(
            "Missed changes",
            "Changes in the time range that a watch missed and a later list showed.",
            f"sum(increase(evenkeel_operator_{missed}{RANGE}))",
            red_from=1,
        ),
        grafana.graph(
            "Leader",
            "Which replica leads.",
            Query("evenkeel_operator_leader", "{{instance}}"),
            unit="none",
        ),
        grafana.graph("Reconciles", "Reconciles per second.", Query(done, "{{kind}}"), unit="ops"),
        grafana.graph(
            "Failures",
            "Reconciles that failed and are retried.",
            Query(_rate_of("reconcile_failures_total", "kind"), "{{kind}}"),
            unit="ops",
        ),
        grafana.graph(
            "Reconcile duration",
            "Mean duration.",
            Query(f"{seconds} / {done}", "{{kind}}"),
            unit="s",
        ),
        grafana.graph(
            "Work queue",
            "Objects that wait for a reconcile.",
            Query("max by (kind) (evenkeel_operator_queue_depth)", "{{kind}}"),
            unit="none",
        ),
        grafana.graph(
            "Oldest wait",
            "Age of the oldest object in the work queue, by kind.",
            Query("max by (kind) (evenkeel_operator_queue_age_seconds)", "{{kind}}"),
            unit="s",
            red_from=60,
        ),
        grafana.graph(
            "Writes to the API server",
            "Writes per second, including the Lease.",
            Query(_rate_of("api_writes_total", "instance"), "{{instance}}"),
            unit="ops",
        ),
        grafana.graph(
            "Name server requests",
            "Requests for routes by outcome.",
            Query(_rate_of("name_server_requests_total", "outcome"), "{{outcome}}"),
            unit="ops",
            stacked=True,
        ),
        grafana.graph(
            "Moves by reason",
            "Why queues changed their owner, for all groups.",
            Query(_aggregate("reason", f"increase({moved}{RATE})", "sum"), "{{reason}}"),
            unit="none",
            stacked=True,
        ),
        grafana.graph(
            "Last list",
            "Time since the last full list, by replica.",
            Query("evenkeel_operator_list_age_seconds", "{{instance}}"),
            unit="s",
            red_from=300,
        ),
    ]


def _process() -> Sequence[Panel]:
    ours = "and on (job, instance) evenkeel_operator_build_info"
    used = f"rate(process_cpu_seconds_total{RATE}) {ours}"
    return [
        grafana.graph("Memory", "Resident memory.",
                      Query(f"process_resident_memory_bytes {ours}", "{{instance}}"),
                      unit="bytes"),
        grafana.graph("CPU", "Share of one core.", Query(used, "{{instance}}"),
                      unit="percentunit"),
        grafana.graph("Open files", "Open file descriptors, including connections.",
                      Query(f"process_open_fds {ours}", "{{instance}}"), unit="none"),
    ]  # fmt: skip
