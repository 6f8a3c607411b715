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
	if len(os.Args) > 4 {
		options = append(options, kgo.ConsumerGroup(os.Args[4]), kgo.ConsumeTopics(os.Args[2]))
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
		})
		out.Flush()
	}
}
