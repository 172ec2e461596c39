package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"weir/throttle/stamp"
	"weir/throttle/stamp/payer"
)

type stampMailCommand struct {
	Params   string        `required:"" placeholder:"URL|FILE" help:"The parameters that the mail server publishes."`
	To       []string      `sep:"none" placeholder:"ADDRESS" help:"A recipient of the message. May be repeated. Default: To, Cc and Bcc of the message."`
	Also     []string      `arg:"" optional:"" name:"address" help:"The same as --to, for scripts that replace sendmail."`
	StripBcc bool          `help:"Remove Bcc from the message. By default that is left to sendmail, which may need to read it first."`
	MaxTime  time.Duration `default:"5m" placeholder:"TIME" help:"The longest time to work on all stamps of the message. Default: 5m."`
	JSON     bool          `name:"json" help:"Print what was paid as JSON, on standard error. Standard output has the message."`
}

// A mailReport is what --json tells.
type mailReport struct {
	Recipients []string `json:"recipients"`
	Replaced   int      `json:"replaced"`
	Algorithm  string   `json:"algorithm"`
	Work       uint64   `json:"work"`
	Seconds    float64  `json:"seconds"`
	Operations float64  `json:"operations_per_second"`
}

func (c *stampMailCommand) Validate() error {
	if c.MaxTime <= 0 {
		return errors.New("--max-time: it must be longer than zero")
	}
	return nil
}

// Run stamps a message. It is written when everything has gone well, and not before.
func (c *stampMailCommand) Run(t *terminal) error {
	m, err := payer.ReadMail(os.Stdin)
	if err != nil {
		return notPaid(err)
	}
	ctx, release := interruptible()
	defer release()
	params, err := c.params(ctx)
	if err != nil {
		return fmt.Errorf("the parameters %s: %w", c.Params, err)
	}
	bar := t.bar("stamping")
	p, err := m.Stamp(ctx, time.Now(), params, append(c.To, c.Also...),
		payer.Options{MaxTime: c.MaxTime, Progress: bar.show})
	bar.clear()
	if err != nil {
		return notPaid(err)
	}
	if c.StripBcc {
		m.StripBcc()
	}
	if _, err := m.WriteTo(t.out); err != nil {
		return err
	}
	if c.JSON {
		told := &terminal{out: t.err}
		return told.json(mailReport{p.Recipients, p.Replaced, p.Algorithm.String(), uint64(p.Work), inSeconds(p.Took),
			perSecond(p.Operations, p.Took)})
	}
	return nil
}

func (c *stampMailCommand) params(ctx context.Context) (stamp.MailParams, error) {
	if !strings.HasPrefix(c.Params, "http://") && !strings.HasPrefix(c.Params, "https://") {
		f, err := os.Open(c.Params)
		if err != nil {
			return stamp.MailParams{}, errors.Unwrap(err)
		}
		defer f.Close()
		return readParams(f)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Params, nil)
	if err != nil {
		return stamp.MailParams{}, err
	}
	r.Header.Set("User-Agent", "weir/"+versionOf().Version)
	resp, err := (&http.Client{Transport: plainTransport()}).Do(r)
	switch {
	case errors.Is(err, context.Canceled):
		return stamp.MailParams{}, errors.New("interrupted")
	case errors.Is(err, context.DeadlineExceeded):
		return stamp.MailParams{}, errors.New("no answer within 20s")
	case err != nil:
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // the URL is named already
		}
		return stamp.MailParams{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return stamp.MailParams{}, fmt.Errorf("the answer is %s", resp.Status)
	}
	return readParams(resp.Body)
}

func readParams(r io.Reader) (stamp.MailParams, error) {
	p, err := stamp.ReadMailParams(r)
	if errors.Is(err, stamp.ErrAlgorithm) {
		return p, errors.New("they are for an algorithm that mail cannot be stamped with")
	}
	if _, syntax := errors.AsType[*json.SyntaxError](err); syntax || errors.Is(err, stamp.ErrMalformed) {
		return p, errors.New("not what a weir publishes, or of a later version")
	}
	return p, err
}
