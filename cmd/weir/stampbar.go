package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"weir"
	"weir/throttle/stamp"
)

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
