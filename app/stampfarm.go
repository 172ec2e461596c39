package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"

	"weir/farm"
	"weir/throttle/stamp"
)

// A stampBus is what stamps need of a farm.
type stampBus interface {
	Tagged(tag [stamp.TagBytes]byte) (farm.Node, bool)
	Ask(ctx context.Context, to farm.Node, topic string, msg []byte) ([]byte, error)
	Answer(topic string, answer func(from farm.Node, msg []byte) ([]byte, error)) (stop func(), err error)
}

// maxRefunds is how many refunds are on their way to other nodes at once. What is above it is lost, and with it one use
// of a stamp.
const maxRefunds = 64

// stampNodes are the other nodes of the farm, to the stamps of one throttle.
type stampNodes struct {
	bus   stampBus
	self  [stamp.TagBytes]byte
	topic string
	ctx   context.Context // ends when the throttle leaves the farm
	tells chan struct{}

	mu   sync.Mutex
	left bool
	told sync.WaitGroup
}

var _ stamp.Nodes = (*stampNodes)(nil)

// joinStamps makes the stamps of a throttle those of a farm, in which this run has a tag. leave ends that, and waits
// for what is under way. Join before the throttle serves; in a reload, before it gets the farm's secret: until it has
// joined it would accept what others issued without asking them.
func (a *App) joinStamps(bus stampBus, self [stamp.TagBytes]byte, name string, t *stamp.Throttle) (leave func(),
	err error) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &stampNodes{bus: bus, self: self, topic: topicOf("stamps", name), ctx: ctx, tells: make(chan struct{}, maxRefunds)}
	stop, err := bus.Answer(c.topic, func(_ farm.Node, question []byte) ([]byte, error) {
		if answer := t.Answer(a.clock.Now(), question); answer != nil {
			return answer, nil
		}
		return nil, errNoQuestion
	})
	if err != nil {
		cancel()
		return nil, err
	}
	t.Join(c, a.clock.Now())
	return func() {
		t.Join(nil, a.clock.Now())
		stop()
		c.mu.Lock()
		c.left = true
		c.mu.Unlock()
		cancel()
		c.told.Wait()
	}, nil
}

var errNoQuestion = errors.New("the node does not understand this question about stamps: bring all nodes to one version")

// topicOf is where nodes speak about one thing of a throttle. Names may be longer than topics.
func topicOf(what, name string) string {
	prefix := what + "."
	if len(prefix)+len(name) <= farm.MaxTopic {
		return prefix + name
	}
	sum := sha256.Sum256([]byte(name))
	return prefix + hex.EncodeToString(sum[:])
}

func (c *stampNodes) Self() [stamp.TagBytes]byte { return c.self }

func (c *stampNodes) Ask(ctx context.Context, issuer [stamp.TagBytes]byte, question []byte) ([]byte, error) {
	node, ok := c.bus.Tagged(issuer)
	if !ok {
		return nil, farm.ErrGone
	}
	return c.bus.Ask(ctx, node, c.topic, question)
}

func (c *stampNodes) Tell(issuer [stamp.TagBytes]byte, question []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return
	}
	select {
	case c.tells <- struct{}{}:
	default:
		return
	}
	c.told.Go(func() {
		defer func() { <-c.tells }()
		ctx, cancel := context.WithTimeout(c.ctx, stamp.AskTimeout)
		defer cancel()
		_, _ = c.Ask(ctx, issuer, question) // if it is lost, so is one use
	})
}
