package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"strconv"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// session: a lease that is kept alive until the program ends.
func session(ctx context.Context, client *clientv3.Client, ttl int) (made *concurrency.Session, err error) {
	err = again(ctx, "session", func(one context.Context) (err error) {
		grant, err := client.Grant(one, int64(ttl))
		if err != nil {
			return err
		}
		made, err = concurrency.NewSession(client, concurrency.WithLease(grant.ID), concurrency.WithTTL(ttl))
		return err
	})
	return made, err
}

const holders = 3

// mutex: sessions that take one lock in turn. Two are never inside, and what the owner writes by its own revision (its
// fence) is refused to everybody else, the last owner included.
func mutex(ctx context.Context, client *clientv3.Client, prefix string) error {
	var inside atomic.Int64
	work := rounds{half: 12}
	return together(holders, func(number int) error {
		mine, err := session(ctx, client, 30)
		if err != nil {
			return err
		}
		for work.next() {
			lock := concurrency.NewMutex(mine, prefix+"/lock")
			if err := again(ctx, "lock", func(context.Context) error { return lock.Lock(ctx) }); err != nil {
				return err
			}
			if now := inside.Add(1); now != 1 {
				return fmt.Errorf("%d are inside", now)
			}
			owner := lock.IsOwner()
			if err := fenced(ctx, client, prefix+"/fenced", owner, strconv.Itoa(number), true); err != nil {
				return err
			}
			say("locked", map[string]any{"holder": number, "revision": lock.Header().Revision})
			inside.Add(-1)
			if err := again(ctx, "unlock", lock.Unlock); err != nil {
				return err
			}
			if err := fenced(ctx, client, prefix+"/fenced", owner, "late", false); err != nil {
				return err
			}
		}
		return mine.Close()
	})
}

// fenced writes if “owner“ holds; whether it does is “expected“.
func fenced(ctx context.Context, client *clientv3.Client, key string, owner clientv3.Cmp, value string, expected bool) error {
	return again(ctx, "fenced", func(ctx context.Context) error {
		answer, err := client.Txn(ctx).If(owner).Then(clientv3.OpPut(key, value)).Commit()
		if err == nil && answer.Succeeded != expected {
			return fmt.Errorf("a fenced write of %s: %v", value, answer.Succeeded)
		}
		return err
	})
}

// election: candidates that lead one after the other. They resign, but for one, which falls silent and leaves it
// to its lease; an observer hears of each, in that order.
func election(ctx context.Context, client *clientv3.Client, prefix string) error {
	var led []string
	winners := make(chan string, 100)
	watcher, err := session(ctx, client, 30)
	if err != nil {
		return err
	}
	observing := concurrency.NewElection(watcher, prefix)
	go func() {
		for ctx.Err() == nil { // The channel closes when its watch breaks; an observer observes again.
			for answer := range observing.Observe(ctx) {
				winners <- string(answer.Kvs[0].Value)
			}
		}
	}()
	work := rounds{half: 2}
	for number := int64(0); work.next(); number++ {
		name := fmt.Sprintf("candidate-%d", number)
		dies := number == work.half
		ttl := 30
		if dies {
			ttl = 2
		}
		mine, err := session(ctx, client, ttl)
		if err != nil {
			return err
		}
		campaign := concurrency.NewElection(mine, prefix)
		if err := again(ctx, "campaign", func(context.Context) error { return campaign.Campaign(ctx, name) }); err != nil {
			return err
		}
		led = append(led, name)
		say("leads", map[string]any{"name": name, "revision": campaign.Rev()})
		if err := heard(ctx, winners, led); err != nil {
			return err
		}
		if dies {
			mine.Orphan() // Nothing is said: its lease ends, with its key.
		} else if err := again(ctx, "resign", resigning(client, campaign)); err != nil {
			return err
		}
	}
	return nil
}

// resigning resigns, as often as it is asked to. A campaign that did not hear the answer forgets that it led, and
// resigns no more; its key may be there still, and would be for as long as its session is.
func resigning(client *clientv3.Client, campaign *concurrency.Election) func(context.Context) error {
	key, led := campaign.Key(), campaign.Rev()
	return func(ctx context.Context) error {
		if campaign.Key() != "" {
			return campaign.Resign(ctx)
		}
		mine := clientv3.Compare(clientv3.CreateRevision(key), "=", led)
		_, err := client.Txn(ctx).If(mine).Then(clientv3.OpDelete(key)).Commit()
		return err
	}
}

// heard waits until the observer names the newest of those who led.
func heard(ctx context.Context, winners <-chan string, led []string) error {
	for {
		select {
		case name := <-winners:
			if name == led[len(led)-1] {
				return nil
			}
			if len(led) < 2 || name != led[len(led)-2] {
				return fmt.Errorf("observed %s after %v led", name, led)
			}
		case <-ctx.Done():
			return fmt.Errorf("the observer did not hear of %v: %w", led, ctx.Err())
		}
	}
}

const (
	accounts = 5
	movers   = 4
	deposit  = 100
)

// transfers: software transactional memory. Money moves between accounts, by several at once; the sum that a
// transaction reads is always the same, also while others write and where an outcome is unknown.
func transfers(ctx context.Context, client *clientv3.Client, prefix string) error {
	account := func(number int) string { return fmt.Sprintf("%s/account-%d", prefix, number) }
	for number := range accounts {
		if err := again(ctx, "open", func(ctx context.Context) error {
			_, err := client.Put(ctx, account(number), strconv.Itoa(deposit))
			return err
		}); err != nil {
			return err
		}
	}
	work := rounds{half: 24}
	err := together(movers, func(number int) error {
		chance := rand.New(rand.NewSource(int64(number)))
		for done := 0; work.next(); done++ {
			level := []concurrency.Isolation{concurrency.SerializableSnapshot, concurrency.Serializable}[done%2]
			from := chance.Intn(accounts)
			to := (from + 1 + chance.Intn(accounts-1)) % accounts
			amount := 1 + chance.Intn(20)
			err := again(ctx, "transfer", func(one context.Context) error {
				return transfer(one, client, level, account(from), account(to), amount)
			})
			if err != nil {
				return err
			}
			if err := again(ctx, "sum", func(one context.Context) error { return sum(one, client, account) }); err != nil {
				return err
			}
		}
		return nil
	})
	say("moved", map[string]any{"transfers": work.done.Load() - movers})
	return errors.Join(err, again(ctx, "sum", func(one context.Context) error { return sum(one, client, account) }))
}

func transfer(ctx context.Context, client *clientv3.Client, level concurrency.Isolation, from, to string, amount int) error {
	_, err := concurrency.NewSTM(client, func(stm concurrency.STM) error {
		source, err := strconv.Atoi(stm.Get(from))
		target, other := strconv.Atoi(stm.Get(to))
		if err := errors.Join(err, other); err != nil {
			return err
		}
		stm.Put(from, strconv.Itoa(source-amount))
		stm.Put(to, strconv.Itoa(target+amount))
		return nil
	}, concurrency.WithAbortContext(ctx), concurrency.WithIsolation(level))
	return err
}

func sum(ctx context.Context, client *clientv3.Client, account func(int) string) error {
	total := 0
	_, err := concurrency.NewSTM(client, func(stm concurrency.STM) error {
		total = 0
		for number := range accounts {
			value, err := strconv.Atoi(stm.Get(account(number)))
			if err != nil {
				return err
			}
			total += value
			time.Sleep(time.Millisecond) // Others write between two reads.
		}
		return nil
	}, concurrency.WithAbortContext(ctx))
	if err == nil && total != accounts*deposit {
		err = fmt.Errorf("the accounts hold %d, not %d", total, accounts*deposit)
	}
	return err
}
