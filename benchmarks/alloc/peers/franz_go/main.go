// Plays a script from standard input on franz-go's cooperative sticky balancer, and prints one JSON
// line per measurement. benchmarks/alloc/scenarios.py explains the commands.
package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	noGeneration = -1
	generation   = 7
)

// owned is what one member holds: partitions by topic.
type owned map[string][]int32

// result is what every member holds, by member id.
type result map[string]owned

type queue struct {
	topic string
	id    int32
}

type bench struct {
	balancer kgo.GroupBalancer
	topics   map[string]int32
	names    []string
	members  []string // in order
	previous result   // nil: none
	measured result   // of the last timing

	warmUp   time.Duration
	runs     int
	deadline time.Duration
}

func main() {
	b := &bench{balancer: kgo.CooperativeStickyBalancer()}
	script := bufio.NewScanner(os.Stdin)
	script.Buffer(nil, 16<<20)
	for script.Scan() {
		command, rest, _ := strings.Cut(script.Text(), " ")
		if !b.obey(command, rest) {
			// All further commands need the result that did not come in time.
			fmt.Println(`{"stopped": true}`)
			return
		}
	}
	check(script.Err())
}

// obey returns false when a run took too long.
func (b *bench) obey(command, rest string) bool {
	switch command {
	case "limits":
		words := strings.Fields(rest)
		b.warmUp, b.runs, b.deadline = seconds(words[0]), number(words[1]), seconds(words[2])
	case "topics":
		b.topics, b.names = map[string]int32{}, nil
		for i, count := range strings.Split(rest, ",") {
			b.names = append(b.names, fmt.Sprintf("topic-%03d", i))
			b.topics[b.names[i]] = int32(number(count))
		}
	case "members":
		b.members = strings.Split(rest, ",")
		slices.Sort(b.members)
	case "join":
		at, _ := slices.BinarySearch(b.members, rest)
		b.members = slices.Insert(b.members, at, rest)
	case "leave":
		at, _ := slices.BinarySearch(b.members, rest)
		b.members = slices.Delete(b.members, at, at+1)
	case "forget":
		b.previous = nil
	case "plan":
		b.previous = b.settled(b.round(b.input(b.previous)))
	case "keep":
		b.previous = b.measured
	case "time":
		return b.measure(rest)
	default:
		panic("unknown command " + command)
	}
	return true
}

// input makes what the group's leader gets: one encoded subscription per member. Not timed.
func (b *bench) input(previous result) []kmsg.JoinGroupResponseMember {
	members := make([]kmsg.JoinGroupResponseMember, 0, len(b.members))
	for _, id := range b.members {
		known, epoch := previous[id], int32(generation)
		if known == nil {
			epoch = noGeneration
		}
		member := kmsg.NewJoinGroupResponseMember()
		member.MemberID = id
		member.ProtocolMetadata = b.balancer.JoinGroupMetadata(b.names, known, epoch)
		members = append(members, member)
	}
	return members
}

// round is the only part that is timed: from the subscriptions to the plan, one round.
func (b *bench) round(members []kmsg.JoinGroupResponseMember) kgo.IntoSyncAssignment {
	balancer, _, err := b.balancer.MemberBalancer(members)
	check(err)
	plan, err := balancer.(kgo.GroupMemberBalancerOrError).BalanceOrError(b.topics)
	check(err)
	return plan
}

// settled adds the second round, in which queues that move reach their new owners. Not timed.
// Without previous owners no queue moves.
func (b *bench) settled(plan kgo.IntoSyncAssignment) result {
	if b.previous == nil {
		return decoded(plan)
	}
	return decoded(b.round(b.input(decoded(plan))))
}

func (b *bench) measure(label string) bool {
	took, plan := b.repeat(b.input(b.previous))
	if took[0] > b.deadline {
		fmt.Printf("{\"event\": %q, \"over\": %d}\n", label, b.deadline.Milliseconds())
		return false
	}
	b.measured = b.settled(plan)
	low, high := loads(b.measured)
	fmt.Printf(
		"{\"event\": %q, \"ms\": %.3f, \"runs\": %d, \"moved\": %d, \"low\": %d, \"high\": %d}\n",
		label, median(took), len(took), moved(owners(b.previous), owners(b.measured)), low, high)
	return true
}

// repeat warms up, then times as many of the requested runs as fit into the deadline.
func (b *bench) repeat(members []kmsg.JoinGroupResponseMember) ([]time.Duration, kgo.IntoSyncAssignment) {
	begun := time.Now()
	plan := b.round(members)
	last := time.Since(begun)
	took := []time.Duration{last}
	if last < b.warmUp {
		for time.Since(begun) < b.warmUp {
			plan = b.round(members)
		}
		last, took, begun = 0, nil, time.Now()
	}
	for len(took) < b.runs && time.Since(begun)+last < b.deadline {
		started := time.Now()
		plan = b.round(members)
		last = time.Since(started)
		took = append(took, last)
	}
	return took, plan
}

func decoded(plan kgo.IntoSyncAssignment) result {
	members := result{}
	for _, member := range plan.IntoSyncAssignment() {
		assignment := kmsg.NewConsumerMemberAssignment()
		check(assignment.ReadFrom(member.MemberAssignment))
		members[member.MemberID] = owned{}
		for _, topic := range assignment.Topics {
			members[member.MemberID][topic.Topic] = topic.Partitions
		}
	}
	return members
}

func owners(members result) map[queue]string {
	owners := map[queue]string{}
	for member, topics := range members {
		for topic, ids := range topics {
			for _, id := range ids {
				owners[queue{topic, id}] = member
			}
		}
	}
	return owners
}

// moved counts the queues that had an owner and now have another, or none.
func moved(before, after map[queue]string) int {
	count := 0
	for queue, owner := range before {
		if after[queue] != owner {
			count++
		}
	}
	return count
}

// loads returns the lowest and the highest load; members that own nothing count too.
func loads(members result) (int, int) {
	var loads []int
	for _, topics := range members {
		load := 0
		for _, ids := range topics {
			load += len(ids)
		}
		loads = append(loads, load)
	}
	return slices.Min(loads), slices.Max(loads)
}

func median(took []time.Duration) float64 {
	slices.Sort(took)
	middle := len(took) / 2
	value := took[middle]
	if len(took)%2 == 0 {
		value = (value + took[middle-1]) / 2
	}
	return float64(value.Nanoseconds()) / 1e6
}

func seconds(text string) time.Duration {
	value, err := strconv.ParseFloat(text, 64)
	check(err)
	return time.Duration(value * float64(time.Second))
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
