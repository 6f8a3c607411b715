// franz-go reading the log: one offset a line, for ever.
//
// Usage: franz BOOTSTRAP TOPIC RACK [GROUP]   (RACK may be empty)
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	start := kgo.NewOffset().At(0)
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.ClientID("franz-go"),
		kgo.Rack(os.Args[3]),
		kgo.ConsumeResetOffset(start),
	}
	next := int64(0)
	// A member that cannot reach any node gives its session up and joins again, from what it had committed by then; so
	// it says where it is, as whoever must not read twice does.
	resume := func(_ context.Context, at map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
		if seen := atomic.LoadInt64(&next); seen > 0 && at[os.Args[2]] != nil {
			at[os.Args[2]][0] = kgo.NewOffset().At(seen)
		}
		return at, nil
	}
	if len(os.Args) > 4 {
		options = append(options, kgo.ConsumerGroup(os.Args[4]), kgo.ConsumeTopics(os.Args[2]), kgo.AdjustFetchOffsetsFn(resume))
	} else {
		options = append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{os.Args[2]: {0: start}}))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	out := bufio.NewWriter(os.Stdout)
	for {
		fetches := client.PollFetches(context.Background())
		fetches.EachError(func(_ string, _ int32, err error) {
			// A member that lost its coordinator is told so, and joins again by itself.
			var session *kgo.ErrGroupSession
			if !errors.As(err, &session) {
				fmt.Fprintln(out, "error", err)
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Fprintln(out, record.Offset)
			atomic.StoreInt64(&next, record.Offset+1)
		})
		out.Flush()
	}
}
