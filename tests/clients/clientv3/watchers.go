package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// The load of tests/bench/watchers.py, which fills in the keys: as many below each prefix.
const (
	streams      = 10 // that carry the watches
	underWayMost = 200
	lastEvents   = 10 * time.Second // after the last put
	nextKey      = 7919             // a prime: each put goes to another prefix
)

// times taken, in any order.
type times struct {
	lock  sync.Mutex
	taken []time.Duration
}

func (t *times) add(one time.Duration) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.taken = append(t.taken, one)
}

func (t *times) count() int {
	t.lock.Lock()
	defer t.lock.Unlock()
	return len(t.taken)
}

// told names p50 and p99 of them, in milliseconds.
func (t *times) told(name string, into map[string]any) {
	t.lock.Lock()
	defer t.lock.Unlock()
	slices.Sort(t.taken)
	for _, share := range []int{50, 99} {
		if len(t.taken) > 0 {
			at := t.taken[len(t.taken)*share/100]
			into[fmt.Sprintf("%s_p%d_ms", name, share)] = float64(at.Round(10*time.Microsecond)) / float64(time.Millisecond)
		}
	}
}

// numbers of the load, as the command line has them: keys, watches, puts a second.
func numbers(told []string) (keysInAll, watches, perSecond int, err error) {
	_, err = fmt.Sscan(strings.Join(told, " "), &keysInAll, &watches, &perSecond)
	return
}

// watchers: each watch on a prefix of its own, and puts below them at a steady pace until it is over. A value is the
// moment of its put, so that whoever is told of it knows how late that is.
func watchers(ctx context.Context, client *clientv3.Client, prefix string) error {
	keysInAll, watches, perSecond, err := numbers(os.Args[4:])
	if err != nil {
		return fmt.Errorf("KEYS WATCHES PUTS_PER_SECOND: %w", err)
	}
	var late, took times
	broken := make(chan error, 1)
	fail := func(err error) {
		select {
		case broken <- err:
		default:
		}
	}
	follow := func(changes clientv3.WatchChan) {
		for answer := range changes {
			if err := answer.Err(); err != nil {
				fail(err)
				return
			}
			now := time.Now().UnixNano()
			for _, event := range answer.Events {
				put, _ := strconv.ParseInt(string(event.Kv.Value), 10, 64)
				late.add(time.Duration(now - put))
			}
		}
	}
	for number := range watches {
		// Watches of one context's metadata share a stream.
		of := metadata.AppendToOutgoingContext(ctx, "stream", strconv.Itoa(number%streams))
		changes := client.Watch(of, fmt.Sprintf("%s%04d/", prefix, number), clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		if first := <-changes; !first.Created {
			return fmt.Errorf("no watch was created: %w", first.Err())
		}
		go follow(changes)
	}
	say("watching", nil)

	room, began, puts := make(chan struct{}, underWayMost), time.Now(), 0
	put := func(key string) {
		defer func() { <-room }()
		sent := time.Now()
		if _, err := client.Put(ctx, key, strconv.FormatInt(sent.UnixNano(), 10)); err != nil {
			fail(err)
			return
		}
		took.add(time.Since(sent))
	}
	for going := true; going; {
		select {
		case err := <-broken:
			return err
		case <-over:
			going = false
		case <-time.After(time.Until(began.Add(time.Duration(puts) * time.Second / time.Duration(perSecond)))):
			puts++
			number := puts * nextKey % keysInAll
			room <- struct{}{}
			go put(fmt.Sprintf("%s%04d/%06d", prefix, number%watches, number))
		}
	}
	seconds := time.Since(began).Seconds()
	for last := time.Now().Add(lastEvents); late.count() < puts && time.Now().Before(last); {
		time.Sleep(10 * time.Millisecond)
	}
	figures := map[string]any{
		"per_second":     int(float64(took.count()) / seconds),
		"events_missing": puts - late.count(),
	}
	late.told("watch", figures)
	took.told("put", figures)
	say("watched", figures)
	select {
	case err := <-broken:
		return err
	default:
		return nil
	}
}
