package httpgate

import (
	"context"
	"encoding/hex"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"weir"
	"weir/gate/httpgate/accesslog"
	"weir/identify"
)

// log writes the line of the access log. The query is left out, as it may hold secrets, unless a template asks for it,
// and the account is a fingerprint. The id is the one that the client was shown.
func (x *exchange) log(now time.Time) {
	g, a, l := x.gate, &x.pass.Answer, x.gate.access.Load()
	switch l.Requests {
	case accesslog.Off:
		return
	case accesslog.Refused:
		if a.Verdict == weir.Admit && !x.waited && !x.answered && x.status < 500 {
			return
		}
	}
	if l.Format == nil && !g.env.Log.Enabled(x.ctx, slog.LevelInfo) || !l.Every && !g.mayLog(x.lineName(), now) {
		return
	}
	if l.Format == nil {
		x.logAttrs(now)
		return
	}
	line := lines.Get().(*[]byte)
	var r accesslog.Record
	x.record(&r, now, l.Format)
	*line = l.Format.Append((*line)[:0], &r)
	_, _ = l.To.Write(*line) // it neither waits nor fails
	lines.Put(line)
}

// lines are buffers for one line each.
var lines = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// logAttrs writes the line as one of the log.
func (x *exchange) logAttrs(now time.Time) {
	g, a := x.gate, &x.pass.Answer
	ctx := context.WithoutCancel(x.ctx)
	by, rule, reason := x.cause()
	attrs := append(make([]slog.Attr, 0, 20), slog.String("id", x.event.ID))
	if x.trace != nil {
		attrs = append(attrs, slog.String("trace_id", hex.EncodeToString(x.trace.context.Trace[:])))
	}
	attrs = append(attrs, slog.String("source", x.event.Source.String()))
	if x.event.Account != "" {
		attrs = append(attrs, slog.String("account", identify.Mask(x.event.Account)))
	}
	attrs = append(attrs,
		slog.String("method", x.r.Method),
		slog.String("host", x.event.Route.Host),
		slog.String("path", maskSegments(x.r.URL.Path, x.event.Account)))
	if to := x.setup.route; to != nil {
		attrs = append(attrs, slog.String("route", to.name))
	}
	attrs = append(attrs,
		slog.Int("status", x.status),
		slog.Int64("in", x.in.Load()),
		slog.Int64("out", x.out.Load()),
		slog.String("verdict", a.Verdict.String()))
	if by != "" {
		attrs = append(attrs, slog.String("by", by), slog.String("rule", rule))
	}
	if reason != weir.NoReason {
		attrs = append(attrs, slog.String("reason", reason.String()))
	}
	attrs = append(attrs, slog.Float64("waited_ms", milliseconds(x.waitedTime())),
		slog.Float64("total_ms", milliseconds(now.Sub(x.event.Time))))
	g.env.Log.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
}

// record fills in what a line tells.
func (x *exchange) record(r *accesslog.Record, now time.Time, f *accesslog.Format) {
	r.Time, r.Gate, r.ID, r.Source = now, x.setup.opts.Listen, x.event.ID, x.event.Source
	if to := x.setup.route; to != nil {
		r.Route = to.name
	}
	if x.trace != nil {
		r.Trace = x.trace.context.Trace
	}
	r.Method, r.Host, r.Protocol = x.r.Method, x.event.Route.Host, x.r.Proto
	r.Path = maskSegments(identify.Escaped(x.r.URL), x.event.Account)
	if x.event.Account != "" {
		r.Account = identify.Mask(x.event.Account)
	}
	if f.HasQuery() {
		r.Query = maskQuery(x.r.URL.RawQuery, x.event.Account)
	}
	r.UserAgent = x.fields.Get("User-Agent")
	r.Referer = x.fields.Get("Referer")
	if end := strings.IndexAny(r.Referer, "?#"); end >= 0 {
		r.Referer = r.Referer[:end]
	}
	r.Status, r.In, r.Out = x.status, x.in.Load(), x.out.Load()
	r.Verdict = x.pass.Answer.Verdict
	r.By, r.Rule, r.Reason = x.cause()
	r.Waited, r.Took = x.waitedTime(), now.Sub(x.event.Time)
}

// cause is what refused a request, or what it waited for.
func (x *exchange) cause() (by, rule string, reason weir.Reason) {
	a := &x.pass.Answer
	if a.Verdict == weir.Admit && x.waited {
		return x.waitedBy, x.waitedFor, weir.OverLimit
	}
	return a.By, a.Rule, a.Reason
}

// waitedTime is how long the request was held.
func (x *exchange) waitedTime() time.Duration {
	if !x.waited {
		return 0
	}
	return x.onward.Sub(x.event.Time)
}

// Lines of the access log that are written in full, in a second: of each rule that turns requests away, and of all that
// pass.
const (
	maxRefused = 10
	maxPassed  = 1000
	passed     = "passed"
)

// lineName is what the request's line has in common with others.
func (x *exchange) lineName() string {
	switch a := &x.pass.Answer; {
	case x.judged && a.Verdict != weir.Admit:
		return strings.Trim(a.By+"/"+a.Rule, "/")
	case x.answered:
		return "answered by the gate"
	}
	return passed
}

// mayLog reports whether a line with such a name may be written. Others are counted, and reported once a second.
func (g *Gate) mayLog(name string, now time.Time) bool {
	most := maxRefused
	if name == passed {
		most = maxPassed
	}
	if g.lines.Pass(name, most, now.Unix()) {
		return true
	}
	if g.summing.CompareAndSwap(false, true) {
		g.env.Clock.AfterFunc(time.Second, g.sumUp)
	}
	return false
}

// sumUp reports the lines that were left out.
func (g *Gate) sumUp() {
	g.summing.Store(false)
	hidden := g.lines.Hidden()
	for _, name := range slices.Sorted(maps.Keys(hidden)) {
		g.env.Log.LogAttrs(g.Base, slog.LevelInfo, "more requests", slog.String("of", name),
			slog.Int64("requests", hidden[name]))
	}
}

// maskSegments replaces an account that is a segment of the path, escaped or not, by its fingerprint.
func maskSegments(path, account string) string {
	if account == "" || !strings.Contains(path, account) && strings.IndexByte(path, '%') < 0 {
		return path
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if s == account || isEscaped(s, account, url.PathUnescape) {
			segments[i] = identify.Mask(account)
		}
	}
	return strings.Join(segments, "/")
}

// maskQuery replaces an account that is a value of the query by its fingerprint.
func maskQuery(query, account string) string {
	if account == "" || query == "" {
		return query
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		if value == account || isEscaped(value, account, url.QueryUnescape) {
			pairs[i] = key + "=" + identify.Mask(account)
		}
	}
	return strings.Join(pairs, "&")
}

// isEscaped reports whether a text is an account in another form.
func isEscaped(text, account string, unescape func(string) (string, error)) bool {
	if !strings.ContainsAny(text, "%+") {
		return false
	}
	plain, err := unescape(text)
	return err == nil && plain == account
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
