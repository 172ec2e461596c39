package nexthop

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// data sends the text, and takes the answer. A short text goes with its dot in one write, after Committed.
func (t *transaction) data(ctx context.Context, text io.Reader) *trouble {
	s := stuffer{w: t.out}
	err := t.copy(&s, text)
	switch {
	case err == nil && ctx.Err() != nil:
		return t.lost("sending the text", ctx.Err())
	case err == nil:
	case s.failed != nil:
		return t.cutOff(err)
	case errors.Is(err, errBareLine):
		t.broken = true
		t.fail(t.accepted, statusBadText, err.Error())
		return nil
	default:
		t.broken = true
		t.ours(t.accepted, fmt.Errorf("the text cannot be read: %w", err))
		return nil
	}
	if t.job.Committed != nil {
		if err := t.job.Committed(); err != nil {
			t.broken = true
			t.ours(t.accepted, err)
			return nil
		}
	}
	t.dot()
	t.out.WriteString(".\r\n")
	if err := t.out.Flush(); err != nil {
		return t.cutOff(err) // a write that fails has not given everything away: the dot, its last line, is not out
	}
	return t.final()
}

func (t *transaction) copy(s *stuffer, text io.Reader) error {
	if _, whole := text.(io.WriterTo); !whole && t.copyBuf == nil {
		t.copyBuf = make([]byte, outBuffer)
	}
	if _, err := io.CopyBuffer(s, text, t.copyBuf); err != nil {
		return err
	}
	return s.end()
}

// cutOff tells that the server did not take all of the text. It may have said why.
func (t *transaction) cutOff(err error) *trouble {
	t.broken = true
	r, silent := t.read(lastWords, nil)
	if silent != nil || r.class() < 4 {
		return t.lost("sending the text", err)
	}
	if r.code == 421 {
		return t.declined("the server closes the connection", r)
	}
	t.fill(t.accepted, r.result(t.server.address))
	return nil
}

// final takes the answer to the final dot; by LMTP, one for each recipient that was accepted.
func (t *transaction) final() *trouble {
	answers := 1
	if t.server.lmtp {
		answers = len(t.accepted)
	}
	for n := range answers {
		r, err := t.read(t.limits.Data.Std(), nil)
		if err == nil && r.class() == 3 {
			err = fmt.Errorf("%w: %d %.64q", errReply, r.code, r.text)
		}
		if err != nil {
			t.ambiguous(t.accepted[n:], err)
			return nil
		}
		if r.code == 421 {
			t.broken = true
			if !t.server.lmtp {
				return t.declined("the server closes the connection", r)
			}
		}
		res := r.result(t.server.address)
		res.Relayed = res.Outcome == Done && !t.ext.dsn
		who := t.accepted
		if t.server.lmtp {
			who = t.accepted[n : n+1]
		}
		t.fill(who, res)
	}
	t.dirty = false
	// A server that says more than it was asked would be misunderstood from now on.
	t.broken = t.broken || t.in.Buffered() > 0
	return nil
}

// ambiguous tells that only the server knows what became of the mail.
func (t *transaction) ambiguous(who []int, err error) {
	t.broken = true
	t.fill(who, Result{Outcome: Ambiguous, Status: statusConnection, Server: t.server.address,
		Text: clip("no answer after the end of the text: " + plainly(err))})
}
