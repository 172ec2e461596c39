package farm

import (
	"context"
	"errors"
	"fmt"
)

// How an answer begins.
const (
	answered byte = iota
	failed        // the text of an error follows
	unknown       // whoever asks is no member there
)

const maxErrorText = 1024

// Ask asks one node. It fails at once with ErrGone when that run of the node is not up.
func (f *Farm) Ask(ctx context.Context, to Node, topic string, msg []byte) ([]byte, error) {
	if len(msg) > MaxPlain {
		return nil, fmt.Errorf("%w: %d bytes, and a question has at most %d", ErrTooLarge, len(msg), MaxPlain)
	}
	seq, err := f.mayAsk(to)
	if err != nil {
		return nil, err
	}
	sealed, err := f.sealer.Seal(Purpose{Topic: topic, To: to.Address()}, f.self, seq, msg)
	if err != nil {
		return nil, err
	}
	reply, err := f.bus.Ask(ctx, to.Address(), topic, sealed)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			f.silence(to)
		}
		return nil, err
	}
	opened, err := f.sealer.Open(Purpose{Topic: topic, To: f.self.Address(), Reply: questionID(sealed)}, reply)
	if err == nil && (opened.From != to || len(opened.Payload) == 0) {
		err = ErrMalformed
	}
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.reject(err)
		return nil, fmt.Errorf("the answer of %s: %w", to.Name, err)
	}
	switch text := opened.Payload[1:]; opened.Payload[0] {
	case answered:
		return text, nil
	case unknown:
		return nil, ErrGone
	default:
		return nil, fmt.Errorf("%s answers: %s", to.Name, text)
	}
}

// mayAsk returns the number of a question to a node, or why there can be none.
func (f *Farm) mayAsk(to Node) (seq uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[to.Name]
	switch {
	case f.closed:
		return 0, ErrClosed
	case f.why != "":
		return 0, ErrRefused
	case m == nil || m.Node != to || m.State != Up || m.mute:
		return 0, ErrGone
	}
	f.asks++
	return f.asks, nil
}

// silence notes that a node did not answer in time: until it is heard again, nobody waits for it.
func (f *Farm) silence(to Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members[to.Name]; m != nil && m.Node == to {
		m.mute = true
	}
}

// Answer answers what members ask, each on a goroutine of its own. The text of an error is told to whoever asks.
func (f *Farm) Answer(topic string, answer func(from Node, msg []byte) ([]byte, error)) (stop func(), err error) {
	if err := validTopic(topic); err != nil {
		return nil, err
	}
	f.mu.Lock()
	switch {
	case f.closed:
		err = ErrClosed
	case f.answers[topic]:
		err = fmt.Errorf("questions about %q are answered already: stop that first", topic)
	case len(f.answers) >= MaxTopics:
		err = fmt.Errorf("a farm answers questions about at most %d topics: use one of them for several things", MaxTopics)
	default:
		f.answers[topic] = true
	}
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	unanswer, err := f.bus.Answer(f.self.Address(), topic, func(msg []byte) []byte {
		return f.reply(topic, msg, answer)
	})
	end := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.answers, topic)
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("the bus does not take questions about %s: %w", topic, err)
	}
	return func() { unanswer(); end() }, nil
}

// reply answers one question. It returns nil for what nobody of this farm has asked.
func (f *Farm) reply(topic string, msg []byte, answer func(from Node, msg []byte) ([]byte, error)) []byte {
	question, err := f.sealer.Open(Purpose{Topic: topic, To: f.self.Address()}, msg)
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.reject(err)
		return nil
	}
	known, fresh := f.knows(question)
	if known && !fresh {
		return nil // asked twice, by somebody who repeats what others said
	}
	payload := []byte{unknown}
	if known {
		var text []byte
		err := safely(func() (err error) { text, err = answer(question.From, question.Payload); return err })
		if err == nil && len(text) >= MaxPlain {
			err = fmt.Errorf("%w: %d bytes, and an answer has fewer than %d", ErrTooLarge, len(text), MaxPlain)
		}
		if err != nil {
			payload = append([]byte{failed}, err.Error()[:min(len(err.Error()), maxErrorText)]...)
		} else {
			payload = append([]byte{answered}, text...)
		}
	}
	purpose := Purpose{Topic: topic, To: question.From.Address(), Reply: question.ID}
	sealed, err := f.sealer.Seal(purpose, f.self, 0, payload)
	if err != nil {
		f.log.Error("an answer cannot be sealed", "topic", topic, "error", err)
		return nil
	}
	return sealed
}

// knows reports whether a question comes from a member, and whether it is no repetition.
func (f *Farm) knows(question Sealed) (known, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[question.From.Name]
	if f.closed || f.why != "" || m == nil || m.Node != question.From || m.State == Left {
		return false, false
	}
	return true, m.fresh("", question.Seq)
}

// Leave says goodbye and lets go of the bus. It may be called again. A node that hears nobody keeps its part, and says
// nothing.
func (f *Farm) Leave(ctx context.Context) error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	f.inbox = inbox{}
	part, heard := f.part, f.up() > 1
	f.part, f.agreed = false, false
	gives := f.roll()
	bye, silent := f.goodbye(), f.why != "" || part && !heard
	for _, m := range f.members {
		if m.State == Up {
			m.State = Lost // it is not heard any more
		}
	}
	f.mu.Unlock()
	for _, stop := range f.stops {
		stop()
	}
	if part && heard {
		if err := f.giveUp(ctx, gives); err != nil {
			f.log.Error("this node leaves without a goodbye: it cannot keep on its disk that others take over its part",
				"err", err)
			silent = true
		}
	}
	if !silent {
		f.post(bye) // if the bus does not take it, the others notice the silence
	}
	return f.bus.Close(ctx)
}
