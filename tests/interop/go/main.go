// Command interop is a producer and a consumer of the Go client. It prints one JSON object for each message that it sent or got.
//
//	interop send NAMESRV TOPIC NUMBER [PREFIX]
//	interop consume NAMESRV TOPIC GROUP TAGS [broadcast]
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var tags = []string{"a", "b", "c"}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(words []string) error {
	switch {
	case len(words) >= 4 && len(words) <= 5 && words[0] == "send":
		number, err := strconv.Atoi(words[3])
		if err != nil {
			return err
		}
		prefix := ""
		if len(words) == 5 {
			prefix = words[4]
		}
		return send(words[1], words[2], prefix, number)
	case len(words) == 5 && words[0] == "consume":
		return consume(words[1], words[2], words[3], words[4], consumer.Clustering)
	case len(words) == 6 && words[0] == "consume" && words[5] == "broadcast":
		return consume(words[1], words[2], words[3], words[4], consumer.BroadCasting)
	}
	return fmt.Errorf("send NAMESRV TOPIC NUMBER [PREFIX], or consume NAMESRV TOPIC GROUP TAGS [broadcast], not %q", words)
}

func message(topic, kind string, number int) *primitive.Message {
	made := primitive.NewMessage(topic, []byte(fmt.Sprintf("%s %d", kind, number)))
	return made.WithTag(tags[number%len(tags)]).WithKeys([]string{fmt.Sprintf("%s-%d", kind, number)})
}

// send sends `number` messages one by one, as many one-way and as many in one batch; bodies and keys begin with `prefix`.
func send(namesrv, topic, prefix string, number int) error {
	sender, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		producer.WithGroupName("go-producers"),
	)
	if err != nil {
		return err
	}
	if err := sender.Start(); err != nil {
		return err
	}
	for i := 0; i < number; i++ {
		result, err := sender.SendSync(context.Background(), message(topic, prefix+"sync", i))
		if err != nil {
			return err
		}
		if err := say("sync", result); err != nil {
			return err
		}
	}
	var batch []*primitive.Message
	for i := 0; i < number; i++ {
		batch = append(batch, message(topic, prefix+"batch", i))
	}
	result, err := sender.SendSync(context.Background(), batch...)
	if err != nil {
		return err
	}
	if err := say("batch", result); err != nil {
		return err
	}
	for i := 0; i < number; i++ {
		if err := sender.SendOneWay(context.Background(), message(topic, prefix+"oneway", i)); err != nil {
			return err
		}
	}
	// One connection, one order: what comes behind the one-way messages is answered, so those are on their way.
	result, err = sender.SendSync(context.Background(), message(topic, prefix+"last", 0))
	if err != nil {
		return err
	}
	if err := say("last", result); err != nil {
		return err
	}
	return sender.Shutdown()
}

func say(kind string, result *primitive.SendResult) error {
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"kind":         kind,
		"status":       int(result.Status),
		"msg_id":       result.MsgID,
		"queue_id":     result.MessageQueue.QueueId,
		"queue_offset": result.QueueOffset,
	})
}

// consume prints messages of these tags until its standard input ends, and says goodbye.
func consume(namesrv, topic, group, tags string, model consumer.MessageModel) error {
	getter, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerModel(model),
	)
	if err != nil {
		return err
	}
	var mutex sync.Mutex
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: tags}
	err = getter.Subscribe(topic, selector, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		mutex.Lock()
		defer mutex.Unlock()
		for _, got := range messages {
			err := json.NewEncoder(os.Stdout).Encode(map[string]any{
				"body":            string(got.Body),
				"tags":            got.GetTags(),
				"keys":            got.GetKeys(),
				"queue_id":        got.Queue.QueueId,
				"queue_offset":    got.QueueOffset,
				"reconsume_times": got.ReconsumeTimes,
			})
			if err != nil {
				return consumer.ConsumeRetryLater, err
			}
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return err
	}
	if err := getter.Start(); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return getter.Shutdown()
}
