// Command etcd locks with etcd's own package for Go, concurrency.Mutex.
//
//	etcd hold ADDRESS NAME                        hold the lock until the input ends
//	etcd turns ADDRESS NAME FOLDER WORKERS TURNS  take turns, each noted in FOLDER
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"fencelock/languages/register"
)

const ttl = 60 // seconds

func main() {
	address, name := os.Args[2], os.Args[3]
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{address}, DialTimeout: 30 * time.Second,
	})
	if err != nil {
		register.Fail(err)
	}
	defer client.Close()
	if os.Args[1] == "hold" {
		err = hold(client, name)
	} else {
		err = turns(client, name, os.Args[4], register.Number(os.Args[5]), register.Number(os.Args[6]))
	}
	if err != nil {
		register.Fail(err)
	}
}

func hold(client *clientv3.Client, name string) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	if err != nil {
		return err
	}
	defer session.Close()
	mutex := concurrency.NewMutex(session, name)
	if err := mutex.Lock(context.Background()); err != nil {
		return err
	}
	fence, err := createRevision(client, mutex)
	if err != nil {
		return err
	}
	register.Wait(fmt.Sprintf("held %d", fence))
	return mutex.Unlock(context.Background())
}

func turns(client *clientv3.Client, name, folder string, workers, count int) error {
	sessions := make([]*concurrency.Session, workers) // one each: those of one session share a key
	for number := range sessions {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
		if err != nil {
			return err
		}
		defer session.Close()
		sessions[number] = session
	}
	register.Wait("ready")
	return register.Together(workers, func(number int) error {
		mutex := concurrency.NewMutex(sessions[number], name)
		for range count {
			if err := turn(client, mutex, folder, fmt.Sprintf("go-%d", number)); err != nil {
				return err
			}
		}
		return nil
	})
}

func turn(client *clientv3.Client, mutex *concurrency.Mutex, folder, who string) error {
	if err := mutex.Lock(context.Background()); err != nil {
		return err
	}
	fence, err := createRevision(client, mutex)
	if err != nil {
		return err
	}
	if err := register.Record(folder, who, fence); err != nil {
		return err
	}
	return mutex.Unlock(context.Background())
}

// createRevision is what the recipe orders contenders by, and what our engine calls the fence.
func createRevision(client *clientv3.Client, mutex *concurrency.Mutex) (int64, error) {
	found, err := client.Get(context.Background(), mutex.Key())
	if err != nil {
		return 0, err
	}
	if len(found.Kvs) == 0 {
		return 0, fmt.Errorf("the key %s of the holder is gone", mutex.Key())
	}
	return found.Kvs[0].CreateRevision, nil
}
