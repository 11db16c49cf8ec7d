// A lock of a fencelock service in Go, with the standard library only.
//
//	FENCELOCK_SERVICE=https://locks.internal FENCELOCK_TOKEN=… go run lock.go NAME
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"
)

const ttl = 30.0 // seconds

type answer struct {
	Fence, Waited float64 // of a lease; fences are below 2**53
	Detail        string  // of a problem
	Retry         bool
	Leases        []struct{ Held bool } // of a renewal
}

func call(verb string, body map[string]any, limit time.Duration) (got answer, ok bool) {
	data, _ := json.Marshal(body)
	request, _ := http.NewRequest("POST", os.Getenv("FENCELOCK_SERVICE")+"/v1/"+verb, bytes.NewReader(data))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+os.Getenv("FENCELOCK_TOKEN"))
	response, err := (&http.Client{Timeout: limit}).Do(request)
	if err != nil {
		return answer{Detail: err.Error(), Retry: true}, false
	}
	defer response.Body.Close()
	err = json.NewDecoder(response.Body).Decode(&got)
	return got, err == nil && response.StatusCode == 200
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Locked runs work while the lock is held; its context ends in time if the lock is lost.
func Locked(name string, work func(ctx context.Context, fence int64) error) error {
	one := map[string]any{"name": name, "id": rand.Text(), "ttl": ttl, "wait": 50} // 128 random bits
	sent := time.Now()
	lease, ok := call("acquire", one, time.Minute)
	for ; !ok; lease, ok = call("acquire", one, time.Minute) { // the same id is the same attempt
		if !lease.Retry {
			return fmt.Errorf("%s was not acquired: %s", name, lease.Detail)
		}
		time.Sleep(time.Second / 2)
		sent = time.Now()
	}
	delete(one, "wait")
	one["fence"] = int64(lease.Fence)
	held := map[string]any{"leases": []any{one}}
	ctx, lose := context.WithCancelCause(context.Background())
	lost := func() { lose(fmt.Errorf("the lock %s is lost", name)) }
	// Believed until then, on our own clock, from before the call was sent.
	expiry := time.AfterFunc(time.Until(sent.Add(seconds(lease.Waited+ttl*0.99))), lost)
	ticker := time.NewTicker(seconds(ttl / 3))
	go func() {
		for asked := range ticker.C {
			if got, ok := call("renew", held, seconds(ttl/3)); ok && got.Leases[0].Held {
				expiry.Reset(time.Until(asked.Add(seconds(ttl * 0.99))))
			} else if ok {
				lost()
			}
		}
	}()
	defer call("release", held, seconds(10)) // else it ends with its ttl
	defer expiry.Stop()
	defer ticker.Stop()
	return work(ctx, int64(lease.Fence))
}

func main() {
	err := Locked(os.Args[1], func(ctx context.Context, fence int64) error {
		fmt.Println(fence) // hand it to whatever is written to: it refuses a smaller one
		pause, _ := time.ParseDuration(os.Getenv("WORK"))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
			return nil
		}
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
