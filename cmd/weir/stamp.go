package main

import (
	"bufio"
	"context"
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
