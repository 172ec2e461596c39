package nats

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"weir/farm"
	"weir/internal/readfile"
)

// Bounds of the client.
const (
	maxAnswers    = 64      // questions that are answered at once
	maxAsks       = 1024    // questions that wait for an answer at once
	maxUnread     = 8 << 20 // bytes that came and wait to be heard, for each topic
	maxUnreadMsgs = 1 << 16
	reconnectBuf  = 1 << 20 // bytes that wait for a server that is away
	reconnectWait = 250 * time.Millisecond
	dialFor       = time.Second
	pingEvery     = time.Second
	pingsOut      = 2                     // that are not answered: then the connection is made anew
	maxAddress    = farm.MaxNode + 1 + 20 // name.boot
)

// Subjects. All are below weir, so that a server can allow a farm just that.
const (
	toAll   = "weir.all."
	toNode  = "weir.node."
	toAsker = "weir.reply."
)

// connect makes the client.
func (b *Bus) connect() error {
	o := nats.GetDefaultOptions()
	o.Name = "weir " + b.node.Address()
	o.NoEcho = true
	o.AllowReconnect = true
	o.MaxReconnect = -1
	o.ReconnectWait = reconnectWait
	o.ReconnectBufSize = reconnectBuf
	o.RetryOnFailedConnect = true
	o.Timeout = dialFor
	o.FlusherTimeout = writeDeadline
	o.PingInterval = pingEvery
	o.MaxPingsOut = pingsOut
	o.SubChanLen = maxUnreadMsgs
	o.AsyncErrorCB = func(_ *nats.Conn, sub *nats.Subscription, err error) {
		if sub != nil {
			b.log.Debug("farm: the bus: "+err.Error(), "subject", sub.Subject)
			return
		}
		b.log.Warn("farm: the bus: " + err.Error())
	}
	if b.server != nil {
		o.InProcessServer = b.server
	} else if err := b.external(&o); err != nil {
		return err
	}
	conn, err := o.Connect()
	if err != nil {
		return fmt.Errorf("farm: the bus: %w", b.redact(err))
	}
	b.conn = conn
	if b.server == nil && !conn.IsConnected() {
		b.log.Warn(fmt.Sprintf("farm: no NATS server answers at %s; weir goes on and connects when one does (farm.nats)",
			hosts(o.Servers)))
	}
	b.asks.prefix = toAsker + nats.NewInbox()[len(nats.InboxPrefix):] + "."
	_, err = b.subscribe(b.asks.prefix+"*", b.asks.take)
	return err
}

// external sets the options for a server that the operator runs.
func (b *Bus) external(o *nats.Options) error {
	for _, text := range strings.Split(b.options.NATS, ",") {
		text = strings.TrimSpace(text)
		// the error of Parse has the whole text in it, and the text may have a password
		if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls" {
			return errors.New("farm: an address of a NATS server cannot be read: write nats://host:4222 or tls://host:4222 " +
				"(farm.nats)")
		}
		o.Servers = append(o.Servers, text)
	}
	if files := b.options.TLS; files != (farm.TLS{}) {
		// read again at every connect, so that new certificates need no restart
		o.Secure = true
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS13}
		o.TLSCertCB = func() (tls.Certificate, error) { return readfile.Pair(files.Cert, files.Key) }
		o.RootCAsCB = func() (*x509.CertPool, error) { return readRoots(files.CA) }
		if _, err := o.TLSCertCB(); err != nil {
			return fmt.Errorf("farm: the node's certificate: %w (farm.tls.cert, farm.tls.key)", err)
		}
		if _, err := o.RootCAsCB(); err != nil {
			return err
		}
	}
	o.ConnectedCB = func(c *nats.Conn) { b.log.Info("farm: connected to the NATS server at " + c.ConnectedAddr()) }
	o.ReconnectedCB = func(c *nats.Conn) { b.log.Info("farm: connected again to the NATS server at " + c.ConnectedAddr()) }
	o.DisconnectedErrCB = func(_ *nats.Conn, err error) {
		if err != nil {
			b.log.Warn(fmt.Sprintf("farm: the NATS server is away: %v; weir goes on and connects when it is back",
				b.redact(err)))
		}
	}
	return nil
}

// redact takes out of an error what may stand in an address.
func (b *Bus) redact(err error) error {
	text := err.Error()
	for _, addr := range strings.Split(b.options.NATS, ",") {
		if u, parseErr := url.Parse(strings.TrimSpace(addr)); parseErr == nil && u.User != nil {
			text = strings.ReplaceAll(text, u.User.String(), "…")
			if password, ok := u.User.Password(); ok && password != "" {
				text = strings.ReplaceAll(text, password, "…")
			}
		}
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// hosts are addresses without credentials.
func hosts(servers []string) string {
	var all []string
	for _, s := range servers {
		if u, err := url.Parse(s); err == nil {
			all = append(all, u.Host)
		}
	}
	return strings.Join(all, ", ")
}

// subscribe calls f with messages, one after the other.
func (b *Bus) subscribe(subject string, f func(m *nats.Msg)) (stop func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, farm.ErrClosed
	}
	var stopped atomic.Bool
	sub, err := b.conn.Subscribe(subject, func(m *nats.Msg) {
		if stopped.Load() {
			return
		}
		b.received.Add(1)
		defer b.recovered(subject)
		f(m)
	})
	if err == nil {
		err = sub.SetPendingLimits(maxUnreadMsgs, maxUnread)
	}
	if err != nil {
		return nil, fmt.Errorf("farm: the bus: %w", err)
	}
	b.hearing[sub] = struct{}{}
	return sync.OnceFunc(func() {
		stopped.Store(true)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.dropped.Add(droppedBy(sub))
		delete(b.hearing, sub)
		_ = sub.Unsubscribe() // of a closed connection: it is gone anyway
	}), nil
}

// droppedBy is how many messages came faster than they were heard.
func droppedBy(sub *nats.Subscription) uint64 {
	n, err := sub.Dropped()
	if err != nil {
		return 0
	}
	return uint64(max(n, 0))
}

// recovered keeps a panic of a callback from everybody else.
func (b *Bus) recovered(subject string) {
	if r := recover(); r != nil {
		b.log.Error("farm: a panic while a message was heard", "subject", subject, "panic", r, "stack", string(debug.Stack()))
	}
}

// send puts a message into the outbox.
func (b *Bus) send(l letter) error {
	if most := b.conn.MaxPayload(); len(l.msg) > farm.MaxMessage || most > 0 && int64(len(l.msg)) > most {
		b.dropped.Add(1)
		return farm.ErrTooLarge
	}
	l.msg = bytes.Clone(l.msg)
	err := b.outbox.put(l)
	if errors.Is(err, farm.ErrOutbox) {
		b.dropped.Add(1)
	}
	return err
}

// sendAll empties the outbox until it is closed.
func (b *Bus) sendAll() {
	defer close(b.outbox.empty)
	var batch []letter
	for {
		if batch = b.outbox.take(batch); batch == nil {
			return
		}
		for i := range batch {
			l := &batch[i]
			err := b.publish(l)
			b.outbox.sent(l)
			if err != nil {
				b.dropped.Add(1)
				continue
			}
			b.sent.Add(1)
		}
	}
}

func (b *Bus) publish(l *letter) error {
	if l.reply == "" {
		return b.conn.Publish(l.subject, l.msg)
	}
	return b.conn.PublishRequest(l.subject, l.reply, l.msg)
}

// Send hands a message to all other nodes.
func (b *Bus) Send(topic string, msg []byte) error {
	if err := speakable(topic, farm.MaxTopic); err != nil {
		return err
	}
	return b.send(letter{subject: toAll + topic, msg: msg})
}

// Hear calls f with the messages of a topic. A call that has begun may still run when stop returns; none begins after.
func (b *Bus) Hear(topic string, f func(msg []byte)) (stop func(), err error) {
	if err := speakable(topic, farm.MaxTopic); err != nil {
		return nil, err
	}
	return b.subscribe(toAll+topic, func(m *nats.Msg) { f(m.Data) })
}

// Answer calls f with questions to a node, 64 at once. More are dropped, and counted.
func (b *Bus) Answer(node, topic string, f func(msg []byte) []byte) (stop func(), err error) {
	if err := errors.Join(speakable(node, maxAddress), speakable(topic, farm.MaxTopic)); err != nil {
		return nil, err
	}
	return b.subscribe(toNode+node+"."+topic, func(m *nats.Msg) {
		select {
		case b.answers <- struct{}{}:
		default:
			b.dropped.Add(1)
			return
		}
		go func() {
			defer func() { <-b.answers }()
			defer b.recovered(m.Subject)
			reply := f(m.Data)
			if reply == nil || m.Reply == "" {
				return
			}
			if err := b.send(letter{subject: m.Reply, msg: reply}); err != nil && !errors.Is(err, farm.ErrClosed) {
				b.log.Warn("farm: an answer was not sent: "+err.Error(), "topic", topic, "bytes", len(reply))
			}
		}()
	})
}

// Ask asks another node, by its address as in Answer. A node does not hear what it asks itself.
func (b *Bus) Ask(ctx context.Context, to, topic string, msg []byte) ([]byte, error) {
	if err := errors.Join(speakable(to, maxAddress), speakable(topic, farm.MaxTopic)); err != nil {
		return nil, err
	}
	token, reply, err := b.asks.begin()
	if err != nil {
		return nil, err
	}
	defer b.asks.end(token)
	err = b.send(letter{subject: toNode + to + "." + topic, reply: b.asks.prefix + token, msg: msg})
	if err != nil {
		return nil, err
	}
	select {
	case a, open := <-reply:
		if !open {
			return nil, farm.ErrClosed
		}
		return a.msg, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// An answer is what came back.
type answer struct {
	msg []byte
	err error
}

// asks are questions that wait.
type asks struct {
	prefix string // of the subjects to which answers go

	mu      sync.Mutex
	next    uint64
	waiting map[string]chan answer // nil when closed
}

func (a *asks) begin() (token string, reply chan answer, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.waiting == nil:
		return "", nil, farm.ErrClosed
	case len(a.waiting) >= maxAsks:
		return "", nil, farm.ErrOutbox
	}
	a.next++
	token = strconv.FormatUint(a.next, 36)
	reply = make(chan answer, 1)
	a.waiting[token] = reply
	return token, reply, nil
}

func (a *asks) end(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, token)
}

// take hands an answer to whoever waits for it. The first one counts.
func (a *asks) take(m *nats.Msg) {
	got := answer{msg: m.Data}
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" { // no responders
		got = answer{err: farm.ErrGone}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	token := m.Subject[len(a.prefix):]
	if reply, ok := a.waiting[token]; ok {
		delete(a.waiting, token)
		reply <- got
	}
}

func (a *asks) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, reply := range a.waiting {
		close(reply)
	}
	a.waiting = nil
}

// speakable returns what is wrong with a topic, or with the address of a node.
func speakable(name string, most int) error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	if len(name) > most || strings.Trim(name, allowed) != "" || strings.Contains("."+name+".", "..") {
		return fmt.Errorf("%.120q cannot be a topic or a node: up to %d letters, digits, '-', '_', and '.' between them", name, most)
	}
	return nil
}

// Bounds of the outbox.
const (
	maxOutbox         = 1 << 20 // bytes
	maxOutboxMessages = 8192
)

// A letter is a message on its way out.
type letter struct {
	subject, reply string
	msg            []byte
}

func (l *letter) size() int { return len(l.subject) + len(l.reply) + len(l.msg) }

// An outbox holds what waits to be sent, so that nobody who sends waits for a connection. One goroutine takes from it.
type outbox struct {
	empty chan struct{} // closed when all is sent after close, or given up

	mu     sync.Mutex
	ready  sync.Cond
	queue  []letter
	bytes  int
	closed bool
}

func newOutbox() *outbox {
	o := &outbox{empty: make(chan struct{})}
	o.ready.L = &o.mu
	return o
}

// put adds a letter, and takes over its bytes.
func (o *outbox) put(l letter) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return farm.ErrClosed
	case len(o.queue) >= maxOutboxMessages || o.bytes+l.size() > maxOutbox:
		return farm.ErrOutbox
	}
	o.queue = append(o.queue, l)
	o.bytes += l.size()
	o.ready.Signal()
	return nil
}

// take waits for letters and returns all that there are. There will be none when it returns nil. Give the slice back
// with the next call.
func (o *outbox) take(used []letter) []letter {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) == 0 && !o.closed {
		o.ready.Wait()
	}
	if len(o.queue) == 0 {
		return nil
	}
	batch := o.queue
	clear(used)
	o.queue = used[:0]
	return batch
}

// sent says that a letter is gone. It counts as waiting until then.
func (o *outbox) sent(l *letter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes -= l.size()
}

func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.ready.Signal()
}

// abandon throws away what still waits, and returns how many letters that were.
func (o *outbox) abandon() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.queue)
	for i := range o.queue {
		o.bytes -= o.queue[i].size()
	}
	o.queue = nil
	return n
}

func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}
