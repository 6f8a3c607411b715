// etcd's own Go client, clientv3, and its concurrency recipes, at a cluster whose leader may be killed meanwhile.
//
// Usage: clientv3 RECIPE ENDPOINT,… PREFIX   (RECIPE: keys, mutex, election, stm)
// or:    clientv3 watchers ENDPOINT,… PREFIX KEYS WATCHES PUTS_PER_SECOND   (a load for the bench)
//
// What it did comes as lines of JSON: {"at": …, …}. "half" says that half of the work is done: trouble may begin, and work
// goes on until standard input ends, which says that it is over; then comes the other half, and "done". Whatever a recipe
// promises and does not keep ends the program with status 1.
//
// A write whose outcome nobody knows (UNAVAILABLE, as etcd has it) is no broken promise: a careful user looks what
// became of it. The recipes below do that where it matters, and repeat what does no harm twice.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	patience = 90 * time.Second // for a whole recipe
	oneCall  = 5 * time.Second
)

var recipes = map[string]func(context.Context, *clientv3.Client, string) error{
	"keys":     keys,
	"mutex":    mutex,
	"election": election,
	"stm":      transfers,
	"watchers": watchers,
}

var printing sync.Mutex

func say(at string, more map[string]any) {
	line := map[string]any{"at": at}
	for name, value := range more {
		line[name] = value
	}
	text, _ := json.Marshal(line)
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(text))
}

// rounds of work: a half, as many as come while there is trouble, and another half.
type rounds struct {
	half        int64
	done, after atomic.Int64
}

var over = make(chan struct{})

func (r *rounds) next() bool {
	done := r.done.Add(1)
	if done == r.half+1 {
		say("half", nil)
	}
	select {
	case <-over:
		return done <= r.half || r.after.Add(1) <= r.half
	default:
		return true
	}
}

// unknown: nobody knows whether it was done, or nothing was, and it may be asked again.
func unknown(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var said rpctypes.EtcdError
	if errors.As(err, &said) {
		return said.Code() == codes.Unavailable
	}
	return status.Code(err) == codes.Unavailable || status.Code(err) == codes.DeadlineExceeded
}

// again asks until there is an answer, for calls that do no harm when they are done twice.
func again(ctx context.Context, what string, call func(context.Context) error) error {
	for {
		one, cancel := context.WithTimeout(ctx, oneCall)
		err := call(one)
		cancel()
		if err == nil || ctx.Err() != nil || !unknown(err) {
			return err
		}
		say("unknown", map[string]any{"of": what, "error": err.Error()})
		time.Sleep(50 * time.Millisecond)
	}
}

// together runs so many of them at once; the first error of any.
func together(count int, run func(int) error) error {
	results := make(chan error, count)
	for number := range count {
		go func() { results <- run(number) }()
	}
	var first error
	for range count {
		if err := <-results; err != nil && first == nil {
			first = err
		}
	}
	return first
}

func main() {
	if len(os.Args) < 4 || recipes[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: clientv3 keys|mutex|election|stm|watchers ENDPOINT,… PREFIX [KEYS WATCHES PUTS_PER_SECOND]")
		os.Exit(2)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            strings.Split(os.Args[2], ","),
		DialTimeout:          oneCall,
		DialKeepAliveTime:    5 * time.Second,
		DialKeepAliveTimeout: 2 * time.Second,
		Logger:               zap.NewNop(),
	})
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err = recipes[os.Args[1]](ctx, client, os.Args[3])
		cancel()
		client.Close()
	}
	if err != nil {
		say("broken", map[string]any{"error": err.Error()})
		os.Exit(1)
	}
	say("done", nil)
}
