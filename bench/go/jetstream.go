// A NATS server with JetStream, and a load for it.
//
//	jetstream serve FOLDER PORT
//	jetstream load PORT CONNECTIONS WINDOW SECONDS BODY
//
// Each connection publishes to one stream of files and has at most WINDOW messages that are not acknowledged. A message that is not
// stored ends the load with exit code 1.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const subject = "bench"

func main() {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "serve":
		err = serve(os.Args[2], os.Args[3])
	case len(os.Args) == 7 && os.Args[1] == "load":
		err = load(os.Args[2:])
	default:
		err = fmt.Errorf("serve FOLDER PORT, or load PORT CONNECTIONS WINDOW SECONDS BODY")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(folder, portText string) error {
	port, err := strconv.Atoi(portText)
	if err != nil {
		return err
	}
	options := &server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: folder, NoSigs: true}
	running, err := server.NewServer(options)
	if err != nil {
		return err
	}
	running.Start()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
	running.Shutdown()
	running.WaitForShutdown()
	return nil
}

func load(words []string) error {
	numbers := make([]int, 0, 3)
	for _, word := range []string{words[1], words[2], words[4]} {
		number, err := strconv.Atoi(word)
		if err != nil || number < 1 {
			return fmt.Errorf("%q is no number above 0", word)
		}
		numbers = append(numbers, number)
	}
	seconds, err := strconv.ParseFloat(words[3], 64)
	if err != nil {
		return err
	}
	connections, window, body := numbers[0], numbers[1], bytes.Repeat([]byte("x"), numbers[2])
	streams := make([]nats.JetStreamContext, connections)
	for i := range streams {
		connection, err := nats.Connect("nats://127.0.0.1:" + words[0])
		if err != nil {
			return err
		}
		defer connection.Close()
		if streams[i], err = connection.JetStream(nats.PublishAsyncMaxPending(window)); err != nil {
			return err
		}
	}
	stream := &nats.StreamConfig{Name: "BENCH", Subjects: []string{subject}, Storage: nats.FileStorage}
	if _, err := streams[0].AddStream(stream); err != nil {
		return err
	}
	begin := time.Now()
	stop := begin.Add(time.Duration(seconds * float64(time.Second)))
	took := make([][]time.Duration, connections)
	failures := make(chan error, connections)
	var publishers sync.WaitGroup
	for i := range streams {
		publishers.Add(1)
		go func() {
			defer publishers.Done()
			var err error
			if took[i], err = publish(streams[i], body, window, stop); err != nil {
				failures <- err
			}
		}()
	}
	publishers.Wait()
	passed := time.Since(begin).Seconds()
	close(failures)
	if err := <-failures; err != nil {
		return err
	}
	var all []time.Duration
	for _, some := range took {
		all = append(all, some...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	micro := func(at int) float64 { return float64(all[at].Nanoseconds()) / 1e3 }
	fmt.Printf("{\"messages\": %d, \"seconds\": %.6f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"worst_us\": %.1f}\n",
		len(all), passed, micro(len(all)/2), micro(len(all)*99/100), micro(len(all)-1))
	return nil
}

// publish gives how long each message took until it was acknowledged.
func publish(stream nats.JetStreamContext, body []byte, window int, stop time.Time) ([]time.Duration, error) {
	var took []time.Duration
	if window == 1 {
		for before := time.Now(); before.Before(stop); {
			if _, err := stream.Publish(subject, body); err != nil {
				return nil, err
			}
			after := time.Now()
			took = append(took, after.Sub(before))
			before = after
		}
		return took, nil
	}
	type sent struct {
		future nats.PubAckFuture
		at     time.Time
	}
	waiting := make([]sent, 0, window)
	for {
		now := time.Now()
		if now.Before(stop) && len(waiting) < window {
			future, err := stream.PublishAsync(subject, body)
			if err != nil {
				return nil, err
			}
			waiting = append(waiting, sent{future, now})
			continue
		}
		if len(waiting) == 0 {
			return took, nil
		}
		oldest := waiting[0]
		select {
		case <-oldest.future.Ok():
		case err := <-oldest.future.Err():
			return nil, err
		case <-time.After(20 * time.Second):
			return nil, fmt.Errorf("no acknowledgement for 20 s")
		}
		took = append(took, time.Since(oldest.at))
		waiting = append(waiting[:0], waiting[1:]...)
	}
}
