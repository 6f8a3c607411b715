package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// seen is what a watcher was told: every change of the numbered key, once and in order, to its deletion.
func seen(ctx context.Context, changes clientv3.WatchChan) ([]int64, error) {
	var told []int64
	before := int64(0)
	for answer := range changes {
		if err := answer.Err(); err != nil {
			return nil, err
		}
		for _, event := range answer.Events {
			if event.Kv.ModRevision <= before {
				return nil, fmt.Errorf("%v is told after %d", event, before)
			}
			before = event.Kv.ModRevision
			if event.Type == clientv3.EventTypeDelete {
				return told, nil
			}
			value, err := strconv.Atoi(string(event.Kv.Value))
			if err != nil || value != len(told) || event.Kv.Version != int64(value+1) {
				return nil, fmt.Errorf("change %d is %v", len(told), event)
			}
			told = append(told, before)
		}
	}
	return nil, fmt.Errorf("the watch ended after %d changes: %w", len(told), ctx.Err())
}

// count puts the next number by compare-and-set: an unknown outcome is looked up, so each is written exactly once.
func count(ctx context.Context, client *clientv3.Client, key string, number int) error {
	value := strconv.Itoa(number)
	return again(ctx, "txn", func(ctx context.Context) error {
		compare := clientv3.Compare(clientv3.Version(key), "=", number)
		answer, err := client.Txn(ctx).If(compare).Then(clientv3.OpPut(key, value)).Else(clientv3.OpGet(key)).Commit()
		if err != nil || answer.Succeeded {
			return err
		}
		found := answer.Responses[0].GetResponseRange().Kvs
		if len(found) != 1 || string(found[0].Value) != value || found[0].Version != int64(number+1) {
			return fmt.Errorf("put %d, and found %v", number, found)
		}
		return nil
	})
}

// keys: put, get at a revision, txn, watch, delete, and a lease that is kept alive and takes its key along in the end.
func keys(ctx context.Context, client *clientv3.Client, prefix string) error {
	key := prefix + "/number"
	var lease *clientv3.LeaseGrantResponse
	if err := again(ctx, "grant", func(ctx context.Context) (err error) {
		lease, err = client.Grant(ctx, 30)
		return err
	}); err != nil {
		return err
	}
	if err := again(ctx, "put", func(ctx context.Context) error {
		_, err := client.Put(ctx, prefix+"/leased", "x", clientv3.WithLease(lease.ID))
		return err
	}); err != nil {
		return err
	}
	alive, err := client.KeepAlive(ctx, lease.ID)
	if err != nil {
		return err
	}
	var beats atomic.Int64
	go func() {
		for answer := range alive {
			if answer.TTL == 30 {
				beats.Add(1)
			}
		}
	}()
	changes := client.Watch(ctx, key)
	watched := make(chan error, 1)
	var revisions []int64
	go func() {
		told, err := seen(ctx, changes)
		revisions = told
		watched <- err
	}()
	work, number := rounds{half: 20}, 0
	for ; work.next(); number++ {
		if err := count(ctx, client, key, number); err != nil {
			return err
		}
	}
	if err := again(ctx, "delete", func(ctx context.Context) error {
		_, err := client.Delete(ctx, key)
		return err
	}); err != nil {
		return err
	}
	if err := <-watched; err != nil {
		return err
	}
	if len(revisions) != number {
		return fmt.Errorf("%d changes are told of %d", len(revisions), number)
	}
	if err := past(ctx, client, key, revisions); err != nil {
		return err
	}
	if beats.Load() == 0 {
		return errors.New("the lease was not kept alive")
	}
	say("kept", map[string]any{"revisions": revisions})
	say("revoked", map[string]any{"lease": lease.ID})
	found, err := client.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil || len(found.Kvs) != 1 || found.Kvs[0].Lease != int64(lease.ID) {
		return fmt.Errorf("before its lease ends, a key is not there: %v, %w", found, err)
	}
	// Its end takes the key along. Whether a revocation that nobody answered was done is seen by that.
	return again(ctx, "revoke", func(ctx context.Context) error {
		_, _ = client.Revoke(ctx, lease.ID)
		found, err := client.Get(ctx, prefix, clientv3.WithPrefix())
		if err == nil && len(found.Kvs) != 0 {
			return context.DeadlineExceeded
		}
		return err
	})
}

// past: each revision still has the value that was put at it.
func past(ctx context.Context, client *clientv3.Client, key string, revisions []int64) error {
	for number, revision := range revisions {
		found, err := client.Get(ctx, key, clientv3.WithRev(revision))
		if err != nil {
			return err
		}
		if len(found.Kvs) != 1 || string(found.Kvs[0].Value) != strconv.Itoa(number) {
			return fmt.Errorf("at %d: %v", revision, found.Kvs)
		}
	}
	return nil
}
