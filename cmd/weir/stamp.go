package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir"
	"weir/throttle/stamp"
	"weir/throttle/stamp/payer"
)

type stampCommand struct {
	Solve stampSolveCommand `cmd:"" help:"Solve a challenge, or fetch a URL and pay for it." example:"weir stamp solve --url https://example.org/search"`
	Mail  stampMailCommand  `cmd:"" help:"Put stamps into a message, one for each recipient. Reads standard input, writes standard output." example:"weir stamp mail --params https://example.org/.well-known/weir-mail-stamp bob@example.org"`
}

type stampSolveCommand struct {
	Challenge string        `arg:"" optional:"" help:"The value of the header Stamp-Challenge. Default: a line of standard input."`
	URL       string        `name:"url" placeholder:"URL" help:"Instead of a challenge: fetch this URL, pay what is asked, and print the response."`
	Output    string        `short:"o" placeholder:"FILE" help:"With --url: write the response to a file."`
	Header    []string      `short:"H" sep:"none" placeholder:"LINE" help:"With --url: a header to send, as in 'Accept: text/html'. May be repeated."`
	Timeout   time.Duration `default:"2m" placeholder:"TIME" help:"With --url: how long everything may take, including the work. Default: 2m."`
	MaxTime   time.Duration `default:"30s" placeholder:"TIME" help:"The longest time to work on a stamp. Default: 30s."`
	JSON      bool          `name:"json" help:"Print what was paid as JSON. With --url, the response must go to a file."`
}

func (c *stampSolveCommand) Validate() error {
	if c.MaxTime <= 0 {
		return errors.New("--max-time: it must be longer than zero")
	}
	if c.URL == "" {
		if c.Output != "" || len(c.Header) > 0 {
			return errors.New("--output and --header are for --url")
		}
		return nil
	}
	if _, err := c.headers(); err != nil {
		return err
	}
	switch u, err := url.Parse(c.URL); {
	case c.Challenge != "":
		return errors.New("either a challenge or --url")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("--url: %q is not a URL; write https://example.com/", c.URL)
	case c.Timeout <= 0:
		return errors.New("--timeout: it must be longer than zero")
	case c.JSON && c.Output == "":
		return errors.New("--json prints what was paid, so what comes has to go into a file: --output FILE")
	}
	return nil
}

func (c *stampSolveCommand) headers() (http.Header, error) {
	all := http.Header{"User-Agent": {"weir/" + versionOf().Version}}
	given := map[string]bool{}
	for _, line := range c.Header {
		name, value, found := strings.Cut(line, ":")
		if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); !found || name == "" ||
			strings.ContainsAny(line, "\r\n") {
			return nil, fmt.Errorf("--header: %q is not a header; write 'Name: value'", line)
		}
		if !given[name] {
			all.Del(name)
		}
		given[name] = true
		all.Add(name, strings.TrimSpace(value))
	}
	return all, nil
}

// A paidReport is what --json prints about a stamp.
type paidReport struct {
	Stamp      string  `json:"stamp"`
	Algorithm  string  `json:"algorithm"`
	Work       uint64  `json:"work"`
	Seconds    float64 `json:"seconds"`
	Operations float64 `json:"operations_per_second"`
}

func reportOf(p payer.Payment) paidReport {
	return paidReport{p.Stamp, p.Algorithm.String(), uint64(p.Work), inSeconds(p.Took), perSecond(p.Operations, p.Took)}
}

func inSeconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e6 }

func perSecond(n stamp.Work, d time.Duration) float64 {
	return math.Round(float64(n) / max(d.Seconds(), 1e-9))
}

func (c *stampSolveCommand) Run(t *terminal) error {
	if c.URL != "" {
		return c.fetch(t)
	}
	text := c.Challenge
	if text == "" {
		// No challenge is longer than that.
		line, err := bufio.NewReader(io.LimitReader(os.Stdin, 4096)).ReadString('\n')
		if err != nil && err != io.EOF {
			return err
		}
		text = line
	}
	ctx, release := interruptible()
	defer release()
	text = strings.TrimSpace(text)
	if name := payer.ChallengeHeader + ":"; len(text) > len(name) && strings.EqualFold(text[:len(name)], name) {
		text = strings.TrimSpace(text[len(name):]) // the whole line of the header
	}
	challenge, err := stamp.ParseChallenge(text)
	if err != nil {
		return errors.New("this is not a challenge: use the value of the header Stamp-Challenge of a response")
	}
	if late := time.Since(challenge.Expires); late >= 0 {
		return fmt.Errorf("the challenge expired %s ago: ask for another one",
			weir.Duration(late.Round(time.Second)))
	}
	bar := t.bar("paying")
	p, err := payer.Pay(ctx, text, payer.Options{MaxTime: c.MaxTime, Progress: bar.show})
	bar.clear()
	if err != nil {
		return notPaid(err)
	}
	if c.JSON {
		return t.json(reportOf(p))
	}
	_, err = fmt.Fprintln(t.out, p.Stamp)
	return err
}

// interruptible returns a context that ends with Ctrl-C.
func interruptible() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

func notPaid(err error) error {
	dear, ok := errors.AsType[*payer.TooDearError](err)
	switch {
	case ok && dear.Stamps > 1:
		return fmt.Errorf("too expensive: %d stamps of %s (%s) take longer than %s here; allow more with --max-time",
			dear.Stamps, dear.Work, dear.Algorithm, weir.Duration(dear.MaxTime))
	case ok:
		return fmt.Errorf("too expensive: a stamp of %s (%s) takes longer than %s here; allow more with --max-time",
			dear.Work, dear.Algorithm, weir.Duration(dear.MaxTime))
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case errors.Is(err, stamp.ErrMalformed):
		return errors.New("the challenge has no solution")
	}
	return errors.New(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "payer: "), "stamp: "))
}

// A fetchReport is what --json prints about an answer that was fetched.
type fetchReport struct {
	URL    string       `json:"url"`
	Status int          `json:"status"`
	File   string       `json:"file"`
	Bytes  int64        `json:"bytes"`
	Paid   []paidReport `json:"paid"`
}

// fetch gets a URL, pays if it is challenged, and writes the response.
func (c *stampSolveCommand) fetch(t *terminal) error {
	ctx, release := interruptible()
	defer release()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, nil)
	if err != nil {
		return err
	}
	if r.Header, err = c.headers(); err != nil {
		return err
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
		r.Header.Del("Host")
	}
	report := fetchReport{URL: c.URL, File: c.Output, Paid: []paidReport{}}
	var fault error
	bar := t.bar("paying")
	jar, _ := cookiejar.New(nil) // never fails
	client := &http.Client{Jar: jar, Transport: &payer.Transport{
		Base: plainTransport(), MaxTime: c.MaxTime,
		Progress: func(_ string, done, expected stamp.Work) { bar.show(done, expected) },
		Paid: func(_ string, p payer.Payment) {
			bar.clear()
			report.Paid = append(report.Paid, reportOf(p))
		},
		Fault: func(_ *http.Request, err error) { fault = err },
	}}
	resp, err := client.Do(r)
	bar.clear()
	if err != nil {
		return c.notFetched(err)
	}
	defer resp.Body.Close()
	report.Status = resp.StatusCode
	if report.Bytes, err = c.save(t.out, resp.Body); err != nil {
		return fmt.Errorf("cut off after %d bytes: %w", report.Bytes, c.notFetched(err))
	}
	if c.JSON {
		if err := t.json(report); err != nil {
			return err
		}
	}
	switch {
	case resp.StatusCode < 400:
		return nil
	case errors.Is(fault, stamp.ErrMalformed):
		return fmt.Errorf("%s answered %s and asks for a stamp in a way that this weir does not know", c.URL,
			resp.Status)
	case resp.Header.Get(payer.ChallengeHeader) != "":
		return fmt.Errorf("%s answered %s: it did not take %s", c.URL, resp.Status, count(len(report.Paid), "stamp"))
	}
	return fmt.Errorf("%s answered %s", c.URL, resp.Status)
}

func (c *stampSolveCommand) notFetched(err error) error {
	switch {
	case errors.Is(err, payer.ErrTooDear):
		return notPaid(err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s has not answered within %s; allow more with --timeout", c.URL, weir.Duration(c.Timeout))
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	}
	return err
}

// save writes the response. The file is created only when there is a response.
func (c *stampSolveCommand) save(out io.Writer, body io.Reader) (n int64, err error) {
	if c.Output == "" {
		return io.Copy(out, body)
	}
	f, err := os.Create(c.Output)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(f, body)
	return n, errors.Join(err, f.Close())
}

// plainTransport has timeouts for every step, so that a command always ends.
func plainTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  time.Minute,
		MaxResponseHeaderBytes: 1 << 20,
		ForceAttemptHTTP2:      true,
	}
}

// A bar shows on a terminal how far work has come. A nil bar, for a pipe, shows nothing.
type bar struct {
	t     *terminal
	what  string
	width int

	mu    sync.Mutex
	began time.Time
	last  time.Time
}

// bar returns a bar, or nil if standard error is not a terminal.
func (t *terminal) bar(what string) *bar {
	if !t.errTTY || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &bar{t: t, what: what, width: cmp.Or(widthOf(t.err), 80)}
}

// How often a bar is drawn, and how long work takes before it is shown at all.
const (
	barEvery = 100 * time.Millisecond
	barAfter = 300 * time.Millisecond
)

func (b *bar) show(done, expected stamp.Work) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.began.IsZero() {
		b.began = now
	}
	if now.Sub(b.began) < barAfter || now.Sub(b.last) < barEvery {
		return
	}
	b.last = now
	fmt.Fprintf(b.t.err, "\r\x1b[K%s", b.line(float64(done)/max(float64(expected), 1), now.Sub(b.began)))
}

// bytes is show for bytes.
func (b *bar) bytes(done, total int64) { b.show(stamp.Work(max(done, 0)), stamp.Work(max(total, 0))) }

// line is the bar as text. How much work there is depends on luck: beyond the expected amount it may end any moment.
func (b *bar) line(share float64, passed time.Duration) string {
	left := "any moment now"
	if rest := passed.Seconds() * (1 - share) / max(share, 1e-9); rest > 24*3600 {
		left = "more than a day left"
	} else if share < 1 {
		left = fmt.Sprintf("about %s left", weir.Duration(rest)*weir.Duration(time.Second))
	}
	share = min(share, 0.99)
	text := fmt.Sprintf(" %3.0f%%  %s", 100*share, left)
	width := min(b.width-len(b.what)-len(text)-4, 40)
	if width < 5 {
		return fmt.Sprintf("%s%.*s", b.what, max(b.width-len(b.what)-1, 0), text)
	}
	full := int(share * float64(width))
	return fmt.Sprintf("%s [%s%s]%s", b.what, strings.Repeat("=", full), strings.Repeat(" ", width-full), text)
}

func (b *bar) clear() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.last.IsZero() {
		fmt.Fprint(b.t.err, "\r\x1b[K")
	}
	b.began, b.last = time.Time{}, time.Time{}
}

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
