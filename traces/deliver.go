package traces

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"weir"
	"weir/internal/readfile"
)

// deliver sends a batch, and again if the collector asks for that or cannot be reached.
func (t *Tracer) deliver(body []byte, spans int64) {
	end := time.Now().Add(giveUpAfter)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		rejected, again, err := t.post(body)
		if err == nil {
			rejected = min(max(rejected, 0), spans)
			t.env.Count(Sent, spans-rejected)
			if rejected > 0 {
				t.env.Count(Rejected, rejected)
				t.warn("the collector of traces rejected spans", "spans", rejected)
			}
			return
		}
		// At random, so that many weirs do not come back together.
		wait := max(pause/2+rand.N(pause), again)
		if again < 0 || time.Now().Add(wait).After(end) || !t.rest(wait) {
			t.env.Count(Failed, spans)
			t.warn("the collector of traces did not take spans", "spans", spans, "err", err)
			return
		}
	}
}

// rest waits. It reports false when nothing is tried twice any more.
func (t *Tracer) rest(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.closing:
		return false
	}
}

func (t *Tracer) warn(message string, args ...any) {
	if more, ok := t.line.Now(time.Since(t.began)); ok {
		t.env.Log.Warn(message, append(args, slog.Int64("unlogged_before", more))...)
	}
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 64 << 10

// post sends a batch once. It returns how many spans the collector did not want. With an error, again is how long to
// wait at least before the next attempt; below zero there should be none.
func (t *Tracer) post(body []byte) (rejected int64, again time.Duration, err error) {
	ctx, cancel := context.WithTimeout(t.ctx, t.opts.Timeout.Std())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return 0, -1, err
	}
	for name, value := range t.opts.Headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("User-Agent", "weir/"+t.env.Version)
	res, err := t.client.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		if err != nil {
			return 0, 0, nil // it has taken them, whatever else it had to say
		}
		return rejectedIn(answer), 0, nil
	case res.StatusCode == 429 || res.StatusCode == 502 || res.StatusCode == 503 || res.StatusCode == 504:
		// Those that may be tried again (OTLP, "Failures").
		return 0, retryAfter(res.Header.Get("Retry-After")), fmt.Errorf("status %d", res.StatusCode)
	}
	return 0, -1, fmt.Errorf("status %d", res.StatusCode)
}

// retryAfter reads how many seconds to wait. A date is not worth the trouble: there is a pause without it.
func retryAfter(value string) time.Duration {
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// rejectedIn reads from an ExportTraceServiceResponse how many spans were not accepted.
func rejectedIn(answer []byte) int64 {
	const partialSuccess, rejectedSpans = 1, 1 // the fields
	var rejected int64
	eachField(answer, partialSuccess, protowire.BytesType, func(b []byte) {
		inner, _ := protowire.ConsumeBytes(b)
		eachField(inner, rejectedSpans, protowire.VarintType, func(b []byte) {
			n, _ := protowire.ConsumeVarint(b)
			rejected = int64(n)
		})
	})
	return rejected
}

// eachField calls f with what follows each tag of a field. It stops at what is not a message.
func eachField(b []byte, field protowire.Number, kind protowire.Type, f func(b []byte)) {
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		size := protowire.ConsumeFieldValue(number, typ, b[n:])
		if size < 0 {
			return
		}
		if number == field && typ == kind {
			f(b[n:])
		}
		b = b[n+size:]
	}
}

// config reads the files of certificates.
func (t *TLS) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		text, err := readfile.Read(t.CA, readfile.MaxPEM)
		if err != nil {
			return nil, &weir.FieldError{Path: "tls.ca", Msg: err.Error()}
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, &weir.FieldError{Path: "tls.ca", Msg: t.CA + " has no certificate",
				Hint: "a file in PEM begins with -----BEGIN CERTIFICATE-----"}
		}
	}
	if t.Cert != "" {
		pair, err := readfile.Pair(t.Cert, t.Key)
		if err != nil {
			return nil, &weir.FieldError{Path: "tls.cert", Msg: err.Error()}
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
