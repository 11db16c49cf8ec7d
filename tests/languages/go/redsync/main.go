// Command redsync locks with redsync, a Redlock client, on one Redis server or on several.
//
//	redsync hold ADDRESSES NAME                        hold the lock until the input ends
//	redsync turns ADDRESSES NAME FOLDER WORKERS TURNS  take turns, each noted in FOLDER
//
// ADDRESSES is host:port/database of each server, with commas between them.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"

	"fencelock/languages/register"
)

const (
	expiry = 60 * time.Second
	tries  = 100_000 // of some milliseconds each: the test itself ends what never comes
	rest   = 2 * time.Millisecond
)

func main() {
	pools, err := connect(strings.Split(os.Args[2], ","))
	if err != nil {
		register.Fail(err)
	}
	locks, name := redsync.New(pools...), os.Args[3]
	if os.Args[1] == "hold" {
		err = hold(locks, name)
	} else {
		err = turns(locks, name, os.Args[4], register.Number(os.Args[5]), register.Number(os.Args[6]))
	}
	if err != nil {
		register.Fail(err)
	}
}

func connect(addresses []string) ([]redis.Pool, error) {
	var pools []redis.Pool
	for _, address := range addresses {
		options, err := goredislib.ParseURL("redis://" + address)
		if err != nil {
			return nil, err
		}
		options.MaxRetries = -1
		client := goredislib.NewClient(options)
		if err := client.Ping(context.Background()).Err(); err != nil {
			return nil, err
		}
		pools = append(pools, goredis.NewPool(client))
	}
	return pools, nil
}

func newMutex(locks *redsync.Redsync, name string) *redsync.Mutex {
	return locks.NewMutex(name, redsync.WithExpiry(expiry), redsync.WithTries(tries),
		redsync.WithRetryDelayFunc(func(int) time.Duration { return rest }))
}

func hold(locks *redsync.Redsync, name string) error {
	mutex := newMutex(locks, name)
	if err := mutex.Lock(); err != nil {
		return err
	}
	register.Wait("held 0")
	return unlock(mutex)
}

func turns(locks *redsync.Redsync, name, folder string, workers, count int) error {
	register.Wait("ready")
	return register.Together(workers, func(number int) error {
		for range count {
			mutex := newMutex(locks, name)
			if err := mutex.Lock(); err != nil {
				return err
			}
			if err := register.Record(folder, fmt.Sprintf("go-%d", number), 0); err != nil {
				return err
			}
			if err := unlock(mutex); err != nil {
				return err
			}
			time.Sleep(rest) // whoever polls without a break keeps everybody else out
		}
		return nil
	})
}

func unlock(mutex *redsync.Mutex) error {
	released, err := mutex.Unlock()
	if err == nil && !released {
		err = fmt.Errorf("the lock %s was not ours any more", mutex.Name())
	}
	return err
}
