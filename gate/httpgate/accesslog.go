package httpgate

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"weir"
	"weir/identify"
)

// log writes the line of the access log. The path is logged without the query, which may hold secrets, and the account only as
// a fingerprint. The id is the one that the client was shown.
func (x *exchange) log(now time.Time) {
	g, a := x.gate, &x.pass.Answer
	switch *g.access.Load() {
	case AccessOff:
		return
	case AccessRefused:
		if a.Verdict == weir.Admit && !x.waited && !x.answered && x.status < 500 {
			return
		}
	}
	ctx := context.WithoutCancel(x.ctx)
	if !g.env.Log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	by, rule, reason := a.By, a.Rule, a.Reason
	if a.Verdict == weir.Admit && x.waited { // of interest is what it waited for
		by, rule, reason = x.waitedBy, x.waitedFor, weir.OverLimit
	}
	path := maskSegments(x.r.URL.Path, x.event.Account)
	attrs := make([]slog.Attr, 0, 20)
	attrs = append(attrs,
		slog.String("id", x.event.ID),
		slog.String("source", x.event.Source.String()))
	if x.event.Account != "" {
		attrs = append(attrs, slog.String("account", identify.Mask(x.event.Account)))
	}
	attrs = append(attrs,
		slog.String("method", x.r.Method),
		slog.String("host", x.event.Route.Host),
		slog.String("path", path),
		slog.Int("status", x.status),
		slog.Int64("in", x.in.Load()),
		slog.Int64("out", x.out),
		slog.String("verdict", a.Verdict.String()))
	if by != "" {
		attrs = append(attrs, slog.String("by", by), slog.String("rule", rule))
	}
	if reason != weir.NoReason {
		attrs = append(attrs, slog.String("reason", reason.String()))
	}
	waited := time.Duration(0)
	if x.waited {
		waited = x.onward.Sub(x.event.Time)
	}
	attrs = append(attrs,
		slog.Float64("waited_ms", milliseconds(waited)),
		slog.Float64("total_ms", milliseconds(now.Sub(x.event.Time))))
	g.env.Log.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
}

// maskSegments hides an account that is a segment of the path.
func maskSegments(path, account string) string {
	if account == "" || !strings.Contains(path, account) {
		return path
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if s == account {
			segments[i] = identify.Mask(account)
		}
	}
	return strings.Join(segments, "/")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
